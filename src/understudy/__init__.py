"""Synthetic tables under differential privacy, with one stated (epsilon, delta) that covers everything.

The front door. It is lazy: a name is imported when it is first used, so that `import understudy` takes milliseconds.
"""

import importlib
import sys
import types
from typing import TYPE_CHECKING

from understudy.core.version import __version__ as __version__

if TYPE_CHECKING:
    from understudy.audit.audit import audit
    from understudy.databases.model import DatabaseModel, load
    from understudy.evaluation.evaluate import evaluate
    from understudy.model import Model, ModelError
    from understudy.pipeline import fit, fit_many, order_from, plan
    from understudy.privacy.checkpoints import CheckpointError
    from understudy.privacy.ledger_file import LedgerError, LedgerFile
    from understudy.privacy.plan import Budget, BudgetExceeded
    from understudy.privacy.receipt import Receipt
    from understudy.report.page import ReportError, report
    from understudy.synthesizers import METHODS
    from understudy.synthesizers.aim import AIM
    from understudy.synthesizers.copula import Copula
    from understudy.synthesizers.gem.method import GEM
    from understudy.synthesizers.independent import Independent
    from understudy.synthesizers.merf.method import MERF
    from understudy.synthesizers.mst import MST
    from understudy.synthesizers.planning import Plan
    from understudy.synthesizers.prada.adversarial.dpgan import DPGAN
    from understudy.synthesizers.prada.adversarial.method import PradaGAN
    from understudy.synthesizers.prada.likelihood.method import Prada
    from understudy.synthesizers.privbayes.method import PrivBayes
    from understudy.synthesizers.privmrf.method import PrivMRF
    from understudy.synthesizers.red_flags import RedFlagError
    from understudy.tables.column import Column
    from understudy.tables.constraints import ConstraintError
    from understudy.tables.database_schema import DatabaseSchema
    from understudy.tables.dialect import Dialect
    from understudy.tables.rejection import SamplingError
    from understudy.tables.schema import Schema
    from understudy.tables.structure import TableError
    from understudy.tables.table_schema import TableSchema
    from understudy.tables.values import SchemaError

# The module that defines each public name. Type checkers read the imports above, which must say the same.
_DEFINED_IN = {
    "AIM": "synthesizers.aim",
    "Budget": "privacy.plan",
    "BudgetExceeded": "privacy.plan",
    "CheckpointError": "privacy.checkpoints",
    "Column": "tables.column",
    "ConstraintError": "tables.constraints",
    "Copula": "synthesizers.copula",
    "DatabaseModel": "databases.model",
    "DatabaseSchema": "tables.database_schema",
    "Dialect": "tables.dialect",
    "DPGAN": "synthesizers.prada.adversarial.dpgan",
    "GEM": "synthesizers.gem.method",
    "Independent": "synthesizers.independent",
    "LedgerError": "privacy.ledger_file",
    "LedgerFile": "privacy.ledger_file",
    "MERF": "synthesizers.merf.method",
    "METHODS": "synthesizers",
    "MST": "synthesizers.mst",
    "Model": "model",
    "ModelError": "model",
    "Plan": "synthesizers.planning",
    "Prada": "synthesizers.prada.likelihood.method",
    "PradaGAN": "synthesizers.prada.adversarial.method",
    "PrivBayes": "synthesizers.privbayes.method",
    "PrivMRF": "synthesizers.privmrf.method",
    "Receipt": "privacy.receipt",
    "RedFlagError": "synthesizers.red_flags",
    "ReportError": "report.page",
    "SamplingError": "tables.rejection",
    "Schema": "tables.schema",
    "SchemaError": "tables.values",
    "TableError": "tables.structure",
    "TableSchema": "tables.table_schema",
    "audit": "audit.audit",
    "evaluate": "evaluation.evaluate",
    "fit": "pipeline",
    "fit_many": "pipeline",
    "load": "databases.model",
    "order_from": "pipeline",
    "plan": "pipeline",
    "report": "report.page",
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
    "CheckpointError",
    "Column",
    "ConstraintError",
    "Copula",
    "DatabaseModel",
    "DatabaseSchema",
    "Dialect",
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
    "RedFlagError",
    "ReportError",
    "SamplingError",
    "Schema",
    "SchemaError",
    "TableError",
    "TableSchema",
    "audit",
    "evaluate",
    "fit",
    "fit_many",
    "load",
    "order_from",
    "plan",
    "report",
]


def __getattr__(name: str) -> object:
    if name not in _DEFINED_IN:
        raise AttributeError(f"module 'understudy' has no attribute {name!r}")
    return getattr(importlib.import_module(f"understudy.{_DEFINED_IN[name]}"), name)


def __dir__() -> list[str]:
    return sorted(__all__)


class _FrontDoor(types.ModuleType):
    """Keeps `understudy.report` and `understudy.audit` functions: importing their packages would put these there."""

    def __setattr__(self, name: str, value: object) -> None:
        if not (name in _DEFINED_IN and isinstance(value, types.ModuleType)):
            super().__setattr__(name, value)


sys.modules[__name__].__class__ = _FrontDoor
