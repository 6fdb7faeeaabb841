"""Trainings cut short for an audit: every step is the same mechanism, so a few show what all of them do.

Batches are half of the rows on average, so that a unit is drawn every other step.
"""

import dataclasses
from typing import Any

from understudy.synthesizers.base import Method
from understudy.synthesizers.prada.settings import ROWS
from understudy.tables.database_schema import DatabaseSchema
from understudy.tables.schema import Schema

AFTER_RELEASES_OF_PRADA: dict[str, Any] = {
    "pool_rows": 1024,
    "distillation_steps": 10,
    "correction_rows": 1024,
    "hidden": 4,
    "components": 2,
}
"""What `prada` makes of its releases, in small."""
_MOST: dict[str, dict[str, Any]] = {
    "aim": {"rounds_per_column": 1.0, "least_rounds": 0.5, "iterations": 10},
    "gem": {"steps": 4, "last_steps": 40, "components": 64, "width": 16},
    "mst": {"iterations": 20},
    "privmrf": {"iterations": 20},
    "prada": {"steps": 10, **AFTER_RELEASES_OF_PRADA},
    "prada-gan": {"critic_steps": 20, "fakes": 24, "critic_widths": (16, 8)},
    "dpgan": {"critic_steps": 20, "fakes": 24, "widths": (16,)},
    "dp-merf": {"features": 200, "steps": 40, "fakes": 100, "widths": (16,)},
}
"""The most of each setting, by method: steps, sizes of networks and what is drawn from public distributions."""


def shortened(method: Method, schema: Schema | DatabaseSchema) -> Method:
    """The method with small networks and few steps; all other settings stay."""
    settings: dict[str, Any] = {}
    for name, limit in _MOST.get(method.name, {}).items():
        given = getattr(method, name)
        settings[name] = limit if given is None or isinstance(limit, tuple) else min(given, limit)
    if hasattr(method, "batch_size"):
        settings["batch_size"] = (schema.rows or ROWS) // 2
    return dataclasses.replace(method, **settings)  # pyright: ignore[reportArgumentType]
