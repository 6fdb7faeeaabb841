"""Synthetic tables under differential privacy, with one stated (epsilon, delta) that covers everything.

The front door. It is lazy: a name is imported when it is first used, so that `import understudy` costs milliseconds.
"""

import importlib
import sys
import types
from typing import TYPE_CHECKING

from understudy.core.version import __version__ as __version__

if TYPE_CHECKING:
    from understudy.evaluation.evaluate import evaluate
    from understudy.model import Model, ModelError, load
    from understudy.pipeline import Plan, fit, fit_many, order_from, plan
    from understudy.privacy.accounting import Budget, BudgetExceeded
    from understudy.privacy.ledger import Receipt
    from understudy.privacy.ledger_file import LedgerError, LedgerFile
    from understudy.report import ReportError, report
    from understudy.synthesizers import METHODS
    from understudy.synthesizers.aim import AIM
    from understudy.synthesizers.copula import Copula
    from understudy.synthesizers.gem.method import GEM
    from understudy.synthesizers.independent import Independent
    from understudy.synthesizers.merf.method import MERF
    from understudy.synthesizers.mst import MST
    from understudy.synthesizers.prada.adversarial import PradaGAN
    from understudy.synthesizers.prada.dpgan import DPGAN
    from understudy.synthesizers.prada.likelihood import Prada
    from understudy.synthesizers.privbayes import PrivBayes
    from understudy.synthesizers.privmrf import PrivMRF
    from understudy.tables.constraints import ConstraintError
    from understudy.tables.rejection import SamplingError
    from understudy.tables.schema import Column, Schema, SchemaError
    from understudy.tables.sources import TableError

_HOMES = {
    "AIM": "synthesizers.aim",
    "Budget": "privacy.ledger",
    "BudgetExceeded": "privacy.ledger",
    "Column": "tables.schema",
    "ConstraintError": "tables.constraints",
    "Copula": "synthesizers.copula",
    "DPGAN": "synthesizers.prada.dpgan",
    "GEM": "synthesizers.gem.method",
    "Independent": "synthesizers.independent",
    "LedgerError": "privacy.ledger_file",
    "LedgerFile": "privacy.ledger_file",
    "MERF": "synthesizers.merf.method",
    "METHODS": "synthesizers",
    "MST": "synthesizers.mst",
    "Model": "model",
    "ModelError": "model",
    "Plan": "pipeline",
    "Prada": "synthesizers.prada.likelihood",
    "PradaGAN": "synthesizers.prada.adversarial",
    "PrivBayes": "synthesizers.privbayes",
    "PrivMRF": "synthesizers.privmrf",
    "Receipt": "privacy.ledger",
    "ReportError": "report",
    "SamplingError": "tables.rejection",
    "Schema": "tables.schema",
    "SchemaError": "tables.schema",
    "TableError": "tables.table",
    "evaluate": "evaluation.evaluate",
    "fit": "pipeline",
    "fit_many": "pipeline",
    "load": "model",
    "order_from": "pipeline",
    "plan": "pipeline",
    "report": "report",
}

__all__ = [
    "AIM",
    "DPGAN",
    "GEM",
    "MERF",
    "METHODS",
    "MST",
    "Budget",
    "BudgetExceeded",
    "Column",
    "ConstraintError",
    "Copula",
    "Independent",
    "LedgerError",
    "LedgerFile",
    "Model",
    "ModelError",
    "Plan",
    "Prada",
    "PradaGAN",
    "PrivBayes",
    "PrivMRF",
    "Receipt",
    "ReportError",
    "SamplingError",
    "Schema",
    "SchemaError",
    "TableError",
    "evaluate",
    "fit",
    "fit_many",
    "load",
    "order_from",
    "plan",
    "report",
]


def __getattr__(name: str):
    if name not in _HOMES:
        raise AttributeError(f"module 'understudy' has no attribute {name!r}")
    return getattr(importlib.import_module(f"understudy.{_HOMES[name]}"), name)


def __dir__():
    return sorted(__all__)


class _FrontDoor(types.ModuleType):
    """Keeps `understudy.evaluate` the function: the import of a room puts the module under its name."""

    def __setattr__(self, name: str, value: object) -> None:
        if not (name in _HOMES and isinstance(value, types.ModuleType)):
            super().__setattr__(name, value)


sys.modules[__name__].__class__ = _FrontDoor
