"""The report: one page about a model, with its privacy guarantee and, if real rows are given, its utility."""

from understudy.report.page import ReportError, report

__all__ = ["ReportError", "report"]
