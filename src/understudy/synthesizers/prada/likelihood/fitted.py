"""The fitted generator of `prada`: calibrated densities as arrays, rows drawn from them, and the density of rows.

The one rule: no private row comes here.
"""

import dataclasses
from collections.abc import Collection, Mapping, Sequence

import numpy as np
from numpy.typing import NDArray

from understudy.core.randomness import Key
from understudy.core.stratified import evenly
from understudy.encoding.encoder import Encoder, Levels
from understudy.synthesizers.prada.likelihood.columns import Column
from understudy.synthesizers.prada.likelihood.correction import Correction
from understudy.synthesizers.prada.likelihood.drawing import Densities
from understudy.synthesizers.prada.likelihood.given import draw_given
from understudy.synthesizers.prada.likelihood.pool import Pool
from understudy.synthesizers.prada.likelihood.ragged import flat, ragged
from understudy.synthesizers.prada.likelihood.reading import Reading
from understudy.synthesizers.prada.likelihood.variables import Variable
from understudy.tables.schema import Schema

RAGGED_OF_VARIABLE = ("shares", "levels", "edges", "bins")
RAGGED_OF_COLUMN = tuple(name for name in Column._fields if name != "unit")


@dataclasses.dataclass(frozen=True, kw_only=True, eq=False)
class FittedDensity:
    """Calibrated conditional densities (drawing.py), and who is whose parent.

    Attributes:
        norms: How far an earlier column moves a later one, (columns, columns), in generation order.
        pairs: Which of them count as parents.
        correction: Says which of the drawn rows are kept; None for all.
    """

    densities: Densities
    norms: NDArray
    pairs: NDArray
    correction: Correction | None = None

    @property
    def names(self) -> tuple[str, ...]:
        return tuple(variable.name for variable in self.densities.variables)

    def sample(self, n: int, *, key: Key) -> Levels:
        even = [v.name for v in self.densities.variables if v.number and not v.pass_through]
        levels = self.densities.sample(n, key=key, ordered=even, correction=self.correction)
        return evenly(levels, key.child("even"), even)

    def sample_given(self, given: Levels, *, key: Key, present: Collection[str] = ()) -> Levels:
        """Rows that have the given levels; what is given should come first in the order of generation."""
        return draw_given(self.densities, given, frozenset(present), key=key, correction=self.correction)

    def log_density(
        self, encoder: Encoder, columns: Mapping[str, NDArray], labels: Mapping[str, Sequence[str]]
    ) -> NDArray[np.float64]:
        """The log density of the rows of a public table, in nats: (rows,)."""
        levels = {name: public_levels(encoder, name, columns[name], labels.get(name)) for name in self.names}
        reading = self.densities.reading
        found = self.densities.total_log_density(Pool(levels, reading.variables).read(reading))
        return found if self.correction is None else found + self.correction.log_density(levels)

    def parents(self, schema: Schema) -> dict[str, list[str]]:
        names = self.names
        return {
            name: [p for p, joined in zip(names, self.pairs[j], strict=True) if joined] for j, name in enumerate(names)
        }

    def strengths(self) -> dict[str, dict[str, float]]:
        names = self.names
        return {name: {names[k]: float(self.norms[j, k]) for k in range(j)} for j, name in enumerate(names)}

    def arrays(self) -> dict[str, NDArray]:
        made, variables = self.densities, self.densities.variables
        found = {
            "names": np.array(self.names),
            "numbers": np.array([v.number for v in variables]),
            "nullable": np.array([v.nullable for v in variables]),
            "pass_through": np.array([v.pass_through for v in variables]),
            "edge": np.array([v.edge for v in variables]),
            "components": np.array(made.components),
            "limit": np.array(made.limit),
            "knots": made.knots,
            "unit": np.array([column.unit for column in made.columns]),
            "norms": self.norms,
            "pairs": self.pairs,
            **flat("tables", made.reading.tables),
            **({} if self.correction is None else self.correction.arrays()),
        }
        for name in RAGGED_OF_VARIABLE:
            found.update(flat(f"variable {name}", [getattr(v, name) for v in variables]))
        for name in RAGGED_OF_COLUMN:
            found.update(flat(f"column {name}", [getattr(column, name) for column in made.columns]))
        return found

    @classmethod
    def from_arrays(cls, arrays: Mapping[str, NDArray]) -> "FittedDensity":
        of_variables = [ragged(f"variable {name}", arrays) for name in RAGGED_OF_VARIABLE]
        variables = tuple(
            Variable(
                name=str(name),
                number=bool(number),
                nullable=bool(nullable),
                pass_through=bool(through),
                edge=float(edge),
                **dict(zip(RAGGED_OF_VARIABLE, own, strict=True)),
            )
            for name, number, nullable, through, edge, *own in zip(
                *(arrays[key] for key in ("names", "numbers", "nullable", "pass_through", "edge")),
                *of_variables,
                strict=True,
            )
        )
        columns = tuple(
            Column(unit=unit, **dict(zip(RAGGED_OF_COLUMN, own, strict=True)))
            for unit, *own in zip(
                arrays["unit"], *(ragged(f"column {name}", arrays) for name in RAGGED_OF_COLUMN), strict=True
            )
        )
        densities = Densities(
            reading=Reading(variables, tuple(ragged("tables", arrays))),
            columns=columns,
            knots=arrays["knots"],
            components=int(arrays["components"]),
            limit=float(arrays["limit"]),
        )
        correction = Correction.from_arrays([v.name for v in variables], arrays)
        return cls(densities=densities, norms=arrays["norms"], pairs=arrays["pairs"], correction=correction)


def public_levels(encoder: Encoder, name: str, values: NDArray, labels: Sequence[str] | None) -> NDArray[np.float64]:
    """The levels of a column of a PUBLIC table, without chance: a repeated value has the middle of its levels.

    A category that is not known becomes `other` if the column has it, and else the first. A value that is missing
    although the schema rules that out has the level 1/2.
    """
    known = encoder.columns[name]
    gone = np.isnan(values) if values.dtype.kind == "f" else values < 0
    if known.labels is not None:
        place = {label: code for code, label in enumerate(known.labels)}
        other = place.get(known.column.other or "other", 0)
        codes = np.where(gone, 0, np.nan_to_num(values)).astype(np.int64)
        if labels is not None and len(labels):
            codes = np.array([place.get(label, other) for label in labels], dtype=np.int64)[codes]
        values = np.where(gone, -1 if known.column.nullable else other, codes)
        gone = gone & known.column.nullable
    below, above = known.levels(values)
    return np.where(gone, np.nan if known.column.nullable else 0.5, (below + above) / 2)
