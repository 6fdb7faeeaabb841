"""Rows from a fitted generator: drawn, decoded, and held to the constraints of a schema and to conditions.

The one rule: nothing here is private. Constraints and conditions are public, and so are generator and encoder.
"""

import dataclasses
from collections.abc import Sequence

import numpy as np
from numpy.typing import NDArray

from understudy.core.memory import keep_freed_memory
from understudy.core.randomness import Key
from understudy.encoding.encoder import Encoder, Levels
from understudy.synthesizers.base import ConditionalSampler, DensityModel, Fitted, Interval
from understudy.synthesizers.conditioning import draw_given, is_supported
from understudy.tables import rejection
from understudy.tables.constraints import sums
from understudy.tables.differences import Difference, restored
from understudy.tables.joint_columns import JointColumn, labels_of, split
from understudy.tables.rejection import Acceptance, SamplingError, held_rules
from understudy.tables.rules import Condition, SyntheticRows
from understudy.tables.schema import Schema
from understudy.tables.writing import as_shown


@dataclasses.dataclass(frozen=True, eq=False)
class Sampler:
    """What draws the rows of a model.

    Attributes:
        schema: As the owner wrote it. The encoder's has differences in place of some columns.
        differences: These columns.
        joints: Columns that the encoder has in the place of several.
    """

    encoder: Encoder
    generator: Fitted
    schema: Schema
    differences: tuple[Difference, ...]
    joints: tuple[JointColumn, ...] = ()

    @property
    def labels(self) -> dict[str, Sequence[str]]:
        """What codes stand for, of every column of categories."""
        return {**self.encoder.labels, **labels_of(self.joints)}

    def kept(
        self, schema: Schema, conditions: Sequence[Condition], n: int, key: Key
    ) -> tuple[dict[str, NDArray], Acceptance]:
        """Rows that keep all rules: by rejection or, if they are rare and the model has densities, by importance.

        Args:
            schema: With all rules that the rows keep.
            conditions: On the rows.

        Raises:
            SamplingError: Rows that keep the rules are too rare.
        """
        keep_freed_memory()
        weighted, held = self._conditions_by_importance(conditions), held_rules(schema)
        try:
            return rejection.keep(
                lambda m, key: self._draw(m, key, conditions, schema),
                held,
                n,
                conditions=conditions,
                key=key,
                patient=bool(conditions) and not weighted,
            )
        except SamplingError:
            if not weighted:
                raise
        worth: list[float] = []

        def draw(m: int, key: Key) -> SyntheticRows:
            assert isinstance(self.generator, DensityModel)  # else nothing is weighted
            levels, effective = draw_given(self.generator, self.encoder, weighted, m, key=key)
            worth.append(effective)
            return self._decoded(levels, schema, key=key, conditioned=True)

        columns, acceptance = rejection.keep(draw, held, n, conditions=conditions, key=key.child("importance"))
        return columns, dataclasses.replace(acceptance, effective=min(sum(worth), n))

    def _conditions_by_importance(self, conditions: Sequence[Condition]) -> dict[Condition, Interval]:
        """The conditions with their levels, if importance can meet all of them; else none."""
        if not isinstance(self.generator, DensityModel) or isinstance(self.generator, ConditionalSampler):
            return {}
        if any(each.column in self._computed or not is_supported(self.encoder, each) for each in conditions):
            return {}
        return {each: self._interval(each) for each in conditions}

    @property
    def _computed(self) -> set[str]:
        """The columns that are not drawn but computed: totals, columns with a difference, and parts of joint ones."""
        totals = {each.total for each in sums(self.schema.constraints)}
        return totals | {each.column for each in self.differences} | {*labels_of(self.joints)}

    def _draw(self, n: int, key: Key, conditions: Sequence[Condition], schema: Schema) -> SyntheticRows:
        """SyntheticRows of the generator with totals computed, as a frame will show them; not yet held to any rule."""
        within = self._levels_within(conditions) if isinstance(self.generator, ConditionalSampler) else {}
        if isinstance(self.generator, ConditionalSampler) and within:
            levels = self.generator.sample_within(n, within, key=key)
        else:
            levels = self.generator.sample(n, key=key)
        return self._decoded(levels, schema, key=key, conditioned=bool(conditions))

    def _decoded(self, levels: Levels, schema: Schema, *, key: Key, conditioned: bool) -> SyntheticRows:
        """The values at these levels as a frame will show them, with totals computed."""
        decoded = self.encoder.decode(levels)
        columns = split(restored(decoded, self.schema, self.differences, key=key), self.joints)
        if schema.constraints or conditioned:
            numeric = [column for column in schema if column.is_numeric]
            columns |= {column.name: as_shown(columns[column.name], column) for column in numeric}
        if not schema.constraints:
            return SyntheticRows(columns, self.labels)
        rows = SyntheticRows(columns, self.labels)
        totals = [each.total for each in sums(schema.constraints)]
        drawn = {name: columns[name] for name in totals}
        for each in sums(schema.constraints):
            columns[each.total] = as_shown(each.enforced(rows), schema[each.total])
        strata = self.encoder.strata(decoded | {name: columns[name] for name in totals})
        changed = {
            name: cells for name, cells in drawn.items() if not np.array_equal(cells, columns[name], equal_nan=True)
        }
        return SyntheticRows(columns, self.labels, strata, {} if conditioned else self.encoder.strata(changed))

    def _levels_within(self, conditions: Sequence[Condition]) -> dict[str, Interval]:
        """The levels at which conditions hold, by column, if they are one interval.

        A total or a column with a difference is not drawn but computed, so a condition on it is left to rejection.
        """
        found = {each.column: self._interval(each) for each in conditions if each.column not in self._computed}
        return {name: (low, high) for name, (low, high) in found.items() if low < high}

    def _interval(self, condition: Condition) -> Interval:
        """The levels of a column at which a condition holds, if they are one interval; else an empty one."""
        if condition.missing or len(condition.values) > 1:
            return 1.0, 0.0
        known, rows = self.encoder.columns[condition.column], SyntheticRows({}, self.encoder.labels)
        bounds = [condition.values[0]] * 2 if condition.values else [condition.low, condition.high]
        numbers = [None if bound is None else rows.number(condition.column, bound) for bound in bounds]
        low, high = (None if x is None else known.levels(np.array([x])) for x in numbers)
        return 0.0 if low is None else float(low[0][0]), 1.0 if high is None else float(high[1][0])
