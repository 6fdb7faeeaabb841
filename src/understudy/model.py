"""What is left after a fit: the encoder, the fitted generator and the receipt. It holds no row.

The one rule: a model file is an allow-list. It is a zip of `model.json` and `arrays.npz`; nothing in it is pickled, and
nothing is read from it that is not named here.
"""

import dataclasses
import json
import os
from collections.abc import Mapping, Sequence
from typing import Any

import numpy as np
from numpy.typing import NDArray

from understudy.core import archive
from understudy.core.files import reason, replacing, sha256
from understudy.core.notebooks import card
from understudy.core.randomness import Key
from understudy.core.version import __version__
from understudy.encoding.encoder import Encoder, EncoderFacts, Levels
from understudy.privacy.receipt import Receipt
from understudy.synthesizers import FITTED, METHODS
from understudy.synthesizers.base import ConditionalSampler, DensityModel, Fitted, Interval, Method, WeightedParents
from understudy.synthesizers.conditioning import draw_given, is_supported
from understudy.tables import rejection
from understudy.tables.constraints import sums
from understudy.tables.differences import Difference, differences, measured, modelled, restored
from understudy.tables.rejection import Acceptance, SamplingError, held_rules
from understudy.tables.rules import Condition, SyntheticRows
from understudy.tables.schema import Schema, with_rules
from understudy.tables.table import read
from understudy.tables.where import read_where
from understudy.tables.writing import as_shown, to_frame

# A model file says which format it has; only this one is read. Version 0.1.0 wrote format 1.
FORMAT = 2
# The arrays of the fitted generator have this before their names in the file.
GENERATOR = "generator/"


class ModelError(ValueError):
    """A model file cannot be read or written."""


@dataclasses.dataclass(frozen=True, eq=False)
class Model:
    """A fitted synthesizer. Sampling from it is free, for ever: nothing more is learned about anyone.

    Attributes:
        encoder: The columns' distributions: values to levels and back.
        generator: Draws the levels of whole rows.
        receipt: What was charged, for what.
        method: The configuration it was fitted with.
        kind: The kind of frame that was fitted and that `sample` gives: "polars", "pandas" or "pyarrow".
        stated: The schema as its owner wrote it; None if it is the encoder's. The encoder's has differences in place of
            columns that an inequality ties to another (tables/differences.py).
        acceptance: Of the last `sample`: how many rows were drawn, and how many kept the constraints and conditions.
            None before the first.
    """

    encoder: Encoder
    generator: Fitted
    receipt: Receipt
    method: Method
    kind: str = "polars"
    stated: Schema | None = None
    acceptance: Acceptance | None = dataclasses.field(default=None, init=False, repr=False)

    @property
    def schema(self) -> Schema:
        return self.encoder.schema if self.stated is None else self.stated

    @property
    def differences(self) -> tuple[Difference, ...]:
        """The columns that are modelled by how far they lie from another one."""
        found = differences(self.schema)
        return found if all(self.encoder.columns[each.column].column == each.gap for each in found) else ()

    @property
    def parents(self) -> dict[str, list[str]]:
        """The Bayes network: for every column, the earlier ones it is made from."""
        flags = {each.flag: each.column for each in self.differences}
        found: dict[str, list[str]] = {}
        for name, earlier in self.generator.parents(self.encoder.schema).items():
            found.setdefault(flags.get(name, name), []).extend(flags.get(each, each) for each in earlier)
        return {name: [each for each in dict.fromkeys(own) if each != name] for name, own in found.items()}

    @property
    def strengths(self) -> dict[str, dict[str, float]]:
        """How much every column takes from each earlier one, if the method measures it; else empty.

        For the sequential generators it is the norm of the earlier column's weights: in deviations, how far the column
        moves at most when the earlier one moves by one, up to a factor of two.
        """
        found = self.generator.strengths() if isinstance(self.generator, WeightedParents) else {}
        flags = {each.flag for each in self.differences}
        return {
            name: {each: weight for each, weight in own.items() if each not in flags}
            for name, own in found.items()
            if name not in flags
        }

    def sample(
        self,
        n: int,
        seed: int | None = None,
        *,
        where: Mapping[str, Any] | None = None,
        rules: Sequence[Any] = (),
    ) -> Any:
        """`n` synthetic rows, in the kind of frame that was fitted. Each keeps the constraints of the schema.

        The number is always given: the true number of rows is private.

        Args:
            seed: The same one gives the same rows.
            where: Conditions on the rows, by column: a value; a pair (low, high) of numbers or dates, both included,
                None for no bound; several categories; or None for a missing cell.
            rules: Further constraints that these rows keep, in the forms that a schema has, such as "a >= b".

        Privacy:
            Costs nothing: constraints and conditions are public, and so is the model.

        Raises:
            ConstraintError: A rule or a condition does not fit the schema.
            SamplingError: Fewer than one drawn row in a hundred keeps the constraints, or so few meet the conditions
                that some 20 million rows would have to be drawn.
        """
        if isinstance(n, bool) or not isinstance(n, int | np.integer) or n < 0:
            raise ValueError(f"n: expected a whole number >= 0, got {n!r}.")
        key, conditions = Key.new(seed), read_where(where, self.schema, self.encoder.labels)
        schema = with_rules(self.schema, rules)
        columns, acceptance = self._kept(schema, conditions, int(n), key)
        object.__setattr__(self, "acceptance", acceptance)
        return to_frame(columns, self.schema, self.encoder.labels, self.kind)

    def _kept(
        self, schema: Schema, conditions: Sequence[Condition], n: int, key: Key
    ) -> tuple[dict[str, NDArray], Acceptance]:
        """Rows that keep all rules: by rejection or, if they are rare and the model has densities, by importance."""
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
        """The columns that are not drawn but computed: totals, and columns with a difference."""
        return {each.total for each in sums(self.schema.constraints)} | {each.column for each in self.differences}

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
        columns = restored(decoded, self.schema, self.differences, key=key)
        if schema.constraints or conditioned:
            numeric = [column for column in schema if column.is_numeric]
            columns |= {column.name: as_shown(columns[column.name], column) for column in numeric}
        if not schema.constraints:
            return SyntheticRows(columns, self.encoder.labels)
        rows = SyntheticRows(columns, self.encoder.labels)
        totals = [each.total for each in sums(schema.constraints)]
        drawn = {name: columns[name] for name in totals}
        for each in sums(schema.constraints):
            columns[each.total] = as_shown(each.enforced(rows), schema[each.total])
        strata = self.encoder.strata(decoded | {name: columns[name] for name in totals})
        changed = {
            name: cells for name, cells in drawn.items() if not np.array_equal(cells, columns[name], equal_nan=True)
        }
        return SyntheticRows(columns, self.encoder.labels, strata, {} if conditioned else self.encoder.strata(changed))

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

    def log_density(self, frame: Any) -> NDArray[np.float64]:
        """The log density of every row of a table under the model, in nats: higher is more typical.

        It is the density of the row's features: the normal scores of its numbers, within the columns' own
        distributions, and the probabilities of its categories and missing cells. It leaves out what belongs to the
        columns' own distributions, the density of a value relative to that of its score, which is the same for every
        model with this encoder. So differences between rows say how columns depend on each other and how far out scores
        lie. A repeated value counts at the middle of its interval of levels. Values out of bounds are clamped, and a
        value that is missing against the schema counts as the median.

        Privacy:
            None. What it says about a table that is not public is not covered by the budget.

        Raises:
            TypeError: The method has no densities.
            TableError: The table's structure is not the schema's.
        """
        if not isinstance(self.generator, DensityModel):
            having = ", ".join(name for name, fitted in FITTED.items() if issubclass(fitted, DensityModel))
            raise TypeError(f"log_density: {self.method.name} has no densities. Fit one of {having}.")
        given = read(frame, self.schema)
        columns = measured(given.columns, self.differences)
        return self.generator.log_density(self.encoder, columns, self.encoder.as_labelled(given.labels))

    def to_bytes(self) -> bytes:
        """The content of a model file. The same model gives the same bytes, whenever it is saved."""
        document = {
            "format": FORMAT,
            "understudy": __version__,
            "schema": self.schema.to_toml(),
            "method": {"name": self.method.name, **dataclasses.asdict(self.method)},
            "kind": self.kind,
            "differences": bool(self.differences),
            **self.encoder.facts(),
            "receipt": json.loads(self.receipt.to_json()),
        }
        own = {f"{GENERATOR}{name}": array for name, array in self.generator.arrays().items()}
        return archive.pack(document, {**self.encoder.arrays(), **own})

    @property
    def sha256(self) -> str:
        """The SHA-256 of the file that `save` writes, in hexadecimal."""
        return sha256(self.to_bytes())

    def save(self, path: str | os.PathLike[str]) -> None:
        """Writes the model to one file, whole or not at all."""
        try:
            with replacing(path) as temporary:
                temporary.write_bytes(self.to_bytes())
        except OSError as error:
            raise ModelError(f"{os.fspath(path)} cannot be written: {reason(error)}.") from None

    def __repr__(self) -> str:
        spent = f"epsilon={self.receipt.budget.epsilon:g}, delta={self.receipt.budget.delta:g}"
        return f"Model({self.schema.name!r}, {self.method.name}, {spent}, {len(self.schema)} columns)"

    def _repr_html_(self) -> str:
        spent = f"epsilon = {self.receipt.budget.epsilon:g}, delta = {self.receipt.budget.delta:g}"
        parents = {name: ", ".join(earlier) or "nothing" for name, earlier in self.parents.items()}
        rows = [(column.name, column.kind, parents.get(column.name, "")) for column in self.schema]
        notes = [f"In every row: {each}." for each in self.schema.constraints]
        notes += [
            f"About {100 * share:.2g} % of the rows became other in {name!r}."
            for name, share in self.encoder.other_shares.items()
        ]
        title = f"{self.schema.name}: {self.method.name} with {spent}"
        return card(title, ("column", "kind", "is made from"), rows, notes)


def load(path: str | os.PathLike[str]) -> Model:
    """Reads a model that `Model.save` wrote.

    Raises:
        ModelError: It is not one, or not all of one.
    """
    name = os.fspath(path)
    try:
        document, arrays = archive.unpack(path)
        return _rebuild(name, document, arrays)
    except OSError as error:
        raise ModelError(f"{name} cannot be read: {reason(error)}.") from None
    except (ModelError, MemoryError):
        raise
    except archive.Oversized:
        raise ModelError(f"{name} unpacks to more than a model can be; it was not read.") from None
    except archive.Changed:
        raise ModelError(f"{name} was changed after it was written. Take another copy, or fit again.") from None
    except Exception:
        raise ModelError(
            f"{name} is not a whole understudy model. Was it cut short, or made by another program?"
        ) from None


def _rebuild(name: str, document: Mapping[str, Any], arrays: Mapping[str, NDArray]) -> Model:
    if document["format"] != FORMAT:
        raise ModelError(f"{name} has format {int(document['format'])}, and this version reads format {FORMAT}.")
    archive.check(document, arrays)
    schema = Schema.parse(document["schema"], "the model's schema")
    method = document["method"]["name"]
    settings = {key: value for key, value in document["method"].items() if key != "name"}
    settings = {key: tuple(value) if isinstance(value, list) else value for key, value in settings.items()}
    generator = {key.removeprefix(GENERATOR): array for key, array in arrays.items() if key.startswith(GENERATOR)}
    fitted = modelled(schema) if document.get("differences") else schema
    return Model(
        Encoder.from_arrays(fitted, EncoderFacts(rows=document["rows"], columns=document["columns"]), arrays),
        FITTED[method].from_arrays(generator),
        Receipt.from_json(json.dumps(document["receipt"])),
        METHODS[method](**settings),
        document["kind"],
        schema,
    )
