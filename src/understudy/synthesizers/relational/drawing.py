"""Synthetic families: children drawn given their parents, one after the other, to any depth.

The number of children is a hidden column of the parent. First children are drawn of all parents that have one, then
second ones given the first, and so on. Of a history the order is drawn first, and the rest given it. Rows that break a
rule are drawn again, given the same; a value that breaks a transition again and again is replaced (keeping.py). The one
rule: all of it is public. Nothing here sees a private row.
"""

import dataclasses
from collections.abc import Mapping, Sequence
from typing import Any

import numpy as np
from numpy.typing import NDArray

from understudy.core.randomness import Key
from understudy.encoding.columns import ColumnEncoder
from understudy.encoding.encoder import Levels
from understudy.synthesizers.base import GivenSampler
from understudy.synthesizers.relational.fitted import FittedTable
from understudy.synthesizers.relational.keeping import following
from understudy.tables.constraints import sums
from understudy.tables.database_context import PLACES, Arrays, Whole, place_of
from understudy.tables.database_design import Design
from understudy.tables.differences import measured, restored
from understudy.tables.joint_columns import labels_of, split
from understudy.tables.rejection import SamplingError, held_rules
from understudy.tables.rules import SyntheticRows
from understudy.tables.writing import as_shown

TRIES = 40
"""Rows that break a rule are drawn so often; what then still does takes the values of another row.

With transitions, rows are drawn as often again with values that keep these, so that only other rules can be broken.
"""


@dataclasses.dataclass(frozen=True, eq=False)
class DrawnTable:
    """Synthetic rows of one table, sorted by parent and rank.

    Attributes:
        values: As the schema has them.
        own: As the design has them.
        parent: The place of each row's parent; of the root, its own.
        rank: Its place among its siblings, from 1 on.
    """

    values: dict[str, NDArray[Any]]
    own: dict[str, NDArray[Any]]
    parent: Whole
    rank: Whole

    def first(self, rows: int) -> "DrawnTable":
        """The first of its rows."""
        values, own = ({name: cells[:rows] for name, cells in each.items()} for each in (self.values, self.own))
        return DrawnTable(values, own, self.parent[:rows], self.rank[:rows])


@dataclasses.dataclass(frozen=True, eq=False)
class Parents:
    """The rows that children are drawn for.

    Attributes:
        values: Of the parents' rows.
        ancestors: The columns of the designs of all ancestors, by table, one row for each parent.
        children: How many children each has.
    """

    values: Arrays
    ancestors: Mapping[str, Arrays]
    children: Whole

    def some(self, places: Whole) -> "Parents":
        return Parents(
            _taken(self.values, places),
            {name: _taken(columns, places) for name, columns in self.ancestors.items()},
            self.children[places],
        )


def draw_root(fitted: FittedTable, design: Design, n: int, *, key: Key) -> DrawnTable:
    """So many rows of the root, as its generator draws them: rules that need rejection are left to sampling."""
    levels = fitted.generator.sample(n, key=key)
    drawn = {name: fitted.encoder.columns[name].values(levels[name]) for name in design.own.names}
    values, own = _restored(fitted, design, drawn, {}, None, key=key.child("restored"))
    own = with_starts(own, design, key.child("starts"))
    return DrawnTable(values, own, np.arange(n), np.ones(n, np.int64))


def draw_children(fitted: FittedTable, design: Design, drawn: Mapping[str, DrawnTable], *, key: Key) -> DrawnTable:
    """The rows of a table that hang on the drawn rows of its parent.

    Raises:
        SamplingError: No drawn row keeps the table's constraints.
    """
    parents = parents_of(design, drawn)
    most = int(design.table.max_per_parent or 1)
    rounds: list[tuple[Whole, dict[str, NDArray[Any]], dict[str, NDArray[Any]]]] = []
    for rank in range(1, most + 1):
        here = np.flatnonzero(parents.children >= rank)
        if not len(here):
            break
        some = parents.some(here)
        earlier = [(_taken(v, np.searchsorted(p, here)), _taken(o, np.searchsorted(p, here))) for p, v, o in rounds]
        values, own = _draw_rank(fitted, design, some, rank, earlier, key=key.child(f"rank {rank}"))
        rounds.append((here, values, own))
    if not rounds:
        nothing = {each.name: np.zeros(0) for each in (*(design.values or ()), *design.own)}
        return DrawnTable(nothing, nothing, np.zeros(0, np.int64), np.zeros(0, np.int64))
    place = np.concatenate([here for here, _, _ in rounds])
    rank = np.repeat(np.arange(1, len(rounds) + 1), [len(here) for here, _, _ in rounds])
    order = np.lexsort([rank, place])
    values = _joined([values for _, values, _ in rounds], order)
    own = with_starts(_joined([own for _, _, own in rounds], order), design, key.child("starts"))
    return DrawnTable(values, own, place[order], rank[order])


def _joined(rounds: Sequence[Arrays], order: Whole) -> dict[str, NDArray[Any]]:
    return {name: np.concatenate([each[name] for each in rounds])[order] for name in rounds[0]}


def parents_of(design: Design, drawn: Mapping[str, DrawnTable]) -> Parents:
    """The drawn rows that a table's children hang on."""
    parent = drawn[design.ancestors[-1]]
    places = np.arange(len(parent.rank))
    ancestors: dict[str, Arrays] = {}
    for name in reversed(design.ancestors):
        ancestors[name] = _taken(drawn[name].own, places)
        places = drawn[name].parent[places]
    return Parents(parent.values, ancestors, _counts_of(parent.own, design))


def with_starts(own: dict[str, NDArray[Any]], design: Design, key: Key) -> dict[str, NDArray[Any]]:
    """The columns of drawn rows; one with children whose first has no order takes that of another row."""
    found = dict(own)
    for child, name in design.starts.items():
        gone = np.isnan(found[name])
        lost, known = np.flatnonzero(gone & (found[design.counts[child]] > 0)), np.flatnonzero(~gone)
        cells = np.array(found[name])
        low, high = design.own[name].bounds
        middle = (float(low or 0.0) + float(high if high is not None else low or 0.0)) / 2  # if no row has one
        draw = key.child(name).numpy()
        cells[lost] = cells[known][draw.integers(0, len(known), len(lost))] if len(known) else middle
        found[name] = cells
    return found


def _counts_of(own: Arrays, design: Design) -> Whole:
    """How many children every parent has."""
    cells = np.nan_to_num(own[f"number of {design.table.name}"])
    return np.clip(np.rint(cells), 0, int(design.table.max_per_parent or 1)).astype(np.int64)


def _draw_rank(
    fitted: FittedTable, design: Design, parents: Parents, rank: int, earlier: Sequence[tuple[Any, Any]], *, key: Key
) -> tuple[dict[str, NDArray[Any]], dict[str, NDArray[Any]]]:
    """The children of one rank: their values, and their columns as the design has them."""
    given = _context_levels(fitted, design, parents, rank, earlier, key.child("context"))
    before = earlier[-1][0] if earlier else None
    allowed = following(fitted, design, before, parents.children, rank)
    values: dict[str, NDArray[Any]] = {}
    own: dict[str, NDArray[Any]] = {}
    waiting = np.arange(len(parents.children))
    kept = np.zeros(len(waiting), bool)
    tries = TRIES if allowed is None else 2 * TRIES
    for attempt in range(tries):
        some, past = parents.some(waiting), None if before is None else _taken(before, waiting)
        levels = {name: level[waiting] for name, level in given.items()}
        again = key.child(f"attempt {attempt}")
        new, hidden = _draw_rows(fitted, design, levels, some, past, key=again)
        now = None if allowed is None else allowed.some(waiting)
        if now is not None and attempt >= TRIES:
            _put(now.mended(new, staying=attempt == TRIES, key=again.child("mended")), (new, hidden))
        if not attempt:
            values, own = new, hidden
        else:
            _put(new, (values,), waiting)
            _put(hidden, (own,), waiting)
        kept[waiting] = _keeps_rules(fitted, design, new) & (True if now is None else now.keeps(new))
        waiting = np.flatnonzero(~kept)
        if not len(waiting):
            return values, own
    if not kept.any():
        raise SamplingError(
            f"table {design.table.name!r}: no row of {len(kept)} keeps the constraints, drawn {tries} times. Check "
            "them against each other, the transitions and the bounds."
        )
    instead = key.child("instead").numpy().choice(np.flatnonzero(kept), len(waiting))
    for columns in (values, own):
        _put(_taken(columns, instead), (columns,), waiting)
    if allowed is not None:
        mended = allowed.some(waiting).mended(_taken(values, waiting), staying=True, key=key.child("mended"))
        _put(mended, (values, own), waiting)
    return values, own


def _put(cells: Arrays, into: Sequence[dict[str, NDArray[Any]]], places: Whole | slice = slice(None)) -> None:
    for name in cells:
        for columns in into:
            columns[name][places] = cells[name]


def _context_levels(
    fitted: FittedTable, design: Design, parents: Parents, rank: int, earlier: Sequence[tuple[Any, Any]], key: Key
) -> Levels:
    """The levels of the context; a value that owns an interval of levels has a random one of it."""
    n, found = len(parents.children), {}
    for each in design.context:
        known = fitted.encoder.columns[each.name]
        if each.kind == "ancestor":
            cells = parents.ancestors[each.table][each.source]
        elif each.kind in PLACES:
            cells = place_of(each.kind, np.full(n, rank), parents.children)
        elif not earlier:
            cells = np.full(n, np.nan)
        elif each.kind == "previous":
            cells = earlier[-1][1][each.source]
        else:
            cells = _mean([each.summed(own[each.source]) for _, own in earlier])
        found[each.name] = levels_of(known, cells, key.child(each.name))
    return found


def levels_of(known: ColumnEncoder, cells: NDArray[Any], key: Key) -> NDArray[np.float64]:
    """The levels of drawn cells; a value that owns an interval of levels has a random one of it."""
    below, above = known.levels(cells)
    level = below + key.numpy().random(len(cells)) * (above - below)
    return level if known.column.nullable else np.where(np.isnan(level), 0.5, level)


def _mean(columns: Sequence[NDArray[Any]]) -> NDArray[np.float64]:
    known = [~np.isnan(column) for column in columns]
    total = np.sum([np.where(there, column, 0.0) for there, column in zip(known, columns, strict=True)], axis=0)
    many = np.sum(known, axis=0)
    return np.where(many > 0, total / np.maximum(many, 1), np.nan)


def _draw_rows(
    fitted: FittedTable, design: Design, given: Levels, parents: Parents, before: Arrays | None, *, key: Key
) -> tuple[dict[str, NDArray[Any]], dict[str, NDArray[Any]]]:
    generator, columns = fitted.generator, fitted.encoder.columns
    assert isinstance(generator, GivenSampler)  # planning.check_method
    n = len(parents.children)
    known: dict[str, NDArray[Any]] = {}
    levels = dict(given)
    if design.history is not None:
        start, gap = design.history.start.name, design.history.gap.name
        if before is None:
            levels[gap] = np.full(n, np.nan)
        else:
            levels[gap] = generator.sample_given(levels, key=key.child("order"), present=(gap,))[gap]
        known = {gap: columns[gap].values(levels[gap])}
        begun = {start: parents.ancestors[design.ancestors[-1]][start]}
        known |= design.moment({**known, **begun}, before, parents.values)
        for name in design.early:
            below, above = columns[name].levels(known[name])
            levels[name] = (below + above) / 2 if name not in levels else levels[name]
            levels[name] = levels[name] if columns[name].column.nullable else np.nan_to_num(levels[name], nan=0.5)
    own = key.child("row")
    made = generator.sample_given(levels, key=own) if levels else generator.sample(n, key=own)
    drawn = {name: known[name] if name in known else columns[name].values(made[name]) for name in design.own.names}
    return _restored(fitted, design, drawn, parents.values, before, key=key)


def _restored(
    fitted: FittedTable, design: Design, drawn: Arrays, parent: Arrays, before: Arrays | None, *, key: Key
) -> tuple[dict[str, NDArray[Any]], dict[str, NDArray[Any]]]:
    """Values as a frame will show them, within the rules with other rows; and the columns of the design for them."""
    schema = design.values
    if schema is None:
        return {}, dict(drawn)
    values = split(restored(drawn, schema, design.differences, key=key), design.joints)
    values = {name: values[name] for name in schema.names}
    for column in (each for each in schema if each.is_numeric):
        values[column.name] = as_shown(values[column.name], column)
    for each in sums(schema.constraints):
        rows = SyntheticRows(values, {**fitted.encoder.labels, **labels_of(design.joints)})
        values[each.total] = as_shown(each.enforced(rows), schema[each.total])
    for name in {rule.column for rule in design.rules}:
        values[name] = design.within_rules(schema[name], values[name], before, parent)
    values |= design.ages_at(values, parent)
    own = {**drawn, **measured(values, design.differences)}
    return values, {name: np.array(own[name]) for name in design.own.names}


def _keeps_rules(fitted: FittedTable, design: Design, values: Arrays) -> NDArray[np.bool_]:
    rows = len(next(iter(values.values()))) if values else 0
    rules = [] if design.values is None else held_rules(design.values)
    if not rules:
        return np.ones(rows, bool) if values else np.ones(1, bool)
    synthetic = SyntheticRows(values, {**fitted.encoder.labels, **labels_of(design.joints)})
    return np.logical_and.reduce([rule.holds(synthetic) for rule in rules])


def _taken(columns: Arrays, places: Whole) -> dict[str, NDArray[Any]]:
    return {name: column[places] for name, column in columns.items()}
