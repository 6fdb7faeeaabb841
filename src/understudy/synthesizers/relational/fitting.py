"""Fits of all tables of a database, parents first.

The one rule: a table's rows go to its encoder, to the counts of its context and to its method, under its own part of
the plan, and nowhere else. Every table was locked with at most the design's rows of one unit.
"""

import math
from collections.abc import Mapping

from understudy import encoding
from understudy.core.randomness import Key
from understudy.encoding import context
from understudy.encoding.columns import ColumnEncoder
from understudy.encoding.encoder import Encoder
from understudy.privacy.ledger import Ledger
from understudy.privacy.rows import PrivateRows
from understudy.privacy.table_ledger import TableLedger
from understudy.synthesizers.base import FamilyMethod, Method
from understudy.synthesizers.relational.drawing import DrawnTable, draw_children, draw_root
from understudy.synthesizers.relational.fitted import FittedTable
from understudy.synthesizers.relational.planning import Designs
from understudy.synthesizers.relational.simulation import UNITS, FamilySimulation
from understudy.tables.database_design import Design

ENCODING_BOUND = 1.0
"""Of what a unit of m rows adds to a count of the encoder, the norm is at most this times √m: that of rows that all
differ. Units whose rows are alike weigh less; shares of bins are counted again, without that (conditional)."""


def fit_tables(
    locked: Mapping[str, PrivateRows], designs: Designs, method: Method, *, ledger: Ledger, key: Key
) -> dict[str, FittedTable]:
    """The fitted tables, parents first.

    Privacy:
        Reads rows through the mechanisms that `planning.planned_tables` lists.
    """
    found: dict[str, FittedTable] = {}
    drawn: dict[str, DrawnTable] = {}
    for name, design in designs.items():
        names = [each.name for each in design.context]
        own = TableLedger(ledger, name, max_rows_per_unit=design.max_rows, context=names)
        of_method, counted = key.child("method").child(name), not isinstance(method, FamilyMethod)
        encoder = _encoder(
            locked[name], design, found, counted=counted, ledger=own, key=key.child("encoding").child(name)
        )
        if design.ancestors and isinstance(method, FamilyMethod):
            families = FamilySimulation(design, encoder, drawn)
            generator = method.fit_families(locked[name], encoder, simulation=families, ledger=own, key=of_method)
        else:
            generator = method.fit(locked[name], encoder, ledger=own, key=of_method)
        found[name] = FittedTable(encoder, generator)
        if design.counts and isinstance(method, FamilyMethod):
            drawn[name] = _draw(found[name], design, drawn, key=key.child("simulation").child(name))
    return found


def _draw(fitted: FittedTable, design: Design, drawn: Mapping[str, DrawnTable], *, key: Key) -> DrawnTable:
    """Rows of a fitted table, for simulations of those that hang on it."""
    if design.ancestors:
        return draw_children(fitted, design, drawn, key=key)
    return draw_root(fitted, design, UNITS, key=key)


def _encoder(
    rows: PrivateRows,
    design: Design,
    fitted: Mapping[str, FittedTable],
    *,
    counted: bool,
    ledger: Ledger,
    key: Key,
) -> Encoder:
    """The encoder of a table: its own columns measured, those of its context borrowed.

    Args:
        counted: Whether all columns of the context are counted, or those of the row before alone. Then the method says
            what weights of units do to shares, and a unit of m rows adds at most about √m to the counts of a column.
    """
    bound = None if counted or not design.ancestors else ENCODING_BOUND * math.sqrt(design.max_rows)
    drawn = encoding.fit_encoder(rows, design.own, ledger=ledger, key=key, unit_bound=bound)
    columns: dict[str, ColumnEncoder] = {}
    for each in design.context:
        if each.kind == "ancestor":
            known = context.borrowed(fitted[each.table].encoder.columns[each.source], each.column)
        elif each.kind == "previous":
            known = context.borrowed(drawn.columns[each.source], each.column)
        elif each.kind == "mean":
            known = context.of_means(drawn.columns[each.source], each.column)
        elif each.kind == "share":
            known = context.of_shares(each.column)
        else:
            known = context.of_places(each.column)
        if counted or each.kind == "previous":
            known = context.counted(rows, known, unit_bound=bound, ledger=ledger, key=key.child("context"))
        columns[each.name] = known
    return Encoder(design.flat, {**columns, **drawn.columns}, drawn.rows)
