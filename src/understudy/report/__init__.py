"""The report: one page about a model, with its privacy guarantee and, if real rows are given, its utility."""
