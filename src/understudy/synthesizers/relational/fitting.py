"""Fits of all tables of a database, parents first.

The one rule: a table's rows go to its encoder, to the counts of its context and to its method, under its own part of
the plan, and nowhere else. Every table was locked with at most the design's rows of one unit.
"""

import dataclasses
from collections.abc import Mapping

from understudy import encoding
from understudy.core.randomness import Key
from understudy.encoding import context
from understudy.encoding.columns import ColumnEncoder
from understudy.encoding.encoder import Encoder
from understudy.privacy.ledger import Ledger
from understudy.privacy.rows import PrivateRows
from understudy.privacy.table_ledger import TableLedger
from understudy.synthesizers.base import Fitted, Method
from understudy.synthesizers.relational.planning import Designs, method_for
from understudy.tables.database_design import Design


@dataclasses.dataclass(frozen=True, eq=False)
class FittedTable:
    """One table of a fitted database: the encoder of its context and its own columns, and what draws their levels."""

    encoder: Encoder
    generator: Fitted


def fit_tables(
    locked: Mapping[str, PrivateRows], designs: Designs, method: Method, *, ledger: Ledger, key: Key
) -> dict[str, FittedTable]:
    """The fitted tables, parents first.

    Privacy:
        Reads rows through the mechanisms that `planning.planned_tables` lists.
    """
    found: dict[str, FittedTable] = {}
    for name, design in designs.items():
        names = [each.name for each in design.context]
        own = TableLedger(ledger, name, max_rows_per_unit=design.max_rows, context=names)
        encoder = _encoder(locked[name], design, found, ledger=own, key=key.child("encoding").child(name))
        generator = method_for(design, method).fit(
            locked[name], encoder, ledger=own, key=key.child("method").child(name)
        )
        found[name] = FittedTable(encoder, generator)
    return found


def _encoder(
    rows: PrivateRows, design: Design, fitted: Mapping[str, FittedTable], *, ledger: Ledger, key: Key
) -> Encoder:
    drawn = encoding.fit_encoder(rows, design.own, ledger=ledger, key=key)
    columns: dict[str, ColumnEncoder] = {}
    for each in design.context:
        if each.kind == "ancestor":
            known = context.borrowed(fitted[each.table].encoder.columns[each.source], each.column)
        elif each.kind == "previous":
            known = context.borrowed(drawn.columns[each.source], each.column)
        elif each.kind == "mean":
            known = context.of_means(drawn.columns[each.source], each.column)
        else:
            known = context.of_places(each.column)
        columns[each.name] = context.counted(rows, known, ledger=ledger, key=key.child("context"))
    return Encoder(design.flat, {**columns, **drawn.columns}, drawn.rows)
