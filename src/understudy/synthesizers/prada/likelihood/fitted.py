"""The fitted generator of `prada`: calibrated densities as arrays, rows drawn from them, and the density of rows.

The one rule: no private row comes here. JAX is loaded when rows are drawn, not when a model is read.
"""

import dataclasses
from collections.abc import Mapping, Sequence

import numpy as np
from numpy.typing import NDArray

from understudy.core.randomness import Key
from understudy.core.stratified import stratified_levels
from understudy.encoding.encoder import Encoder, Levels
from understudy.encoding.features import category_count
from understudy.synthesizers.prada.fitted import FittedSequential, network_from
from understudy.synthesizers.prada.levels import to_levels


@dataclasses.dataclass(frozen=True, kw_only=True, eq=False)
class FittedDensity(FittedSequential):
    """Calibrated conditional densities (density.py, calibration.py).

    Attributes:
        components: Normals in the mixture of a number.
        limit: Scores lie within ± this, as those of the rows do.
    """

    components: int
    limit: float

    def sample(self, n: int, *, key: Key) -> Levels:
        from understudy.synthesizers.prada.likelihood.drawing import Calibrated, sample

        made = sample(Calibrated.from_arrays(self.params), self.layout, self.components, self.limit, key.jax(), n)
        levels = to_levels(made, self.layout, self.edges)
        numbers = {block.name for block in self.layout.blocks if block.number} - self.edges.keys()
        draw = key.child("even").numpy()
        return {name: stratified_levels(level, draw) if name in numbers else level for name, level in levels.items()}

    def log_density(
        self, encoder: Encoder, columns: Mapping[str, NDArray], labels: Mapping[str, Sequence[str]]
    ) -> NDArray[np.float64]:
        """The log density of the features of a public table's rows, in nats: (rows,)."""
        from understudy.synthesizers.prada.likelihood.drawing import Calibrated, calibrated_log_density

        x = public_features(encoder, self.layout.names, columns, labels).astype(np.float32)
        return calibrated_log_density(Calibrated.from_arrays(self.params), x, self.layout, self.components)

    def arrays(self) -> dict[str, NDArray]:
        return {"components": np.array(self.components), "limit": np.array(self.limit), **super().arrays()}

    @classmethod
    def from_arrays(cls, arrays: Mapping[str, NDArray]) -> "FittedDensity":
        layout, params, edges = network_from(arrays)
        return cls(
            layout=layout,
            params=params,
            edges=edges,
            norms=arrays["norms"],
            pairs=arrays["pairs"],
            components=int(arrays["components"]),
            limit=float(arrays["limit"]),
        )


def public_features(
    encoder: Encoder, order: Sequence[str], columns: Mapping[str, NDArray], labels: Mapping[str, Sequence[str]]
) -> NDArray:
    """The features of a PUBLIC table, (rows, features), without chance: a repeated value has the middle of its levels.

    A category that is not known becomes `other` if the column has it, and else the first. A value that is missing
    although the schema rules that out has the level 1/2.
    """
    from scipy.special import ndtri

    edge, found = encoder.outermost_level, []
    for name in order:
        m, values = encoder.columns[name], columns[name]
        gone = np.isnan(values) if values.dtype.kind == "f" else values < 0
        count = category_count(encoder, name)
        if m.labels is None:
            below, above = m.levels(values)
            level = np.where(gone, 0.5, (below + above) / 2)
            score = level if encoder.columns[name].is_pass_through else ndtri(np.clip(level, edge, 1 - edge))
            found.append(np.where(gone & (count > 0), 0.0, score))
            category = gone.astype(np.int64)
        else:
            place = {label: code for code, label in enumerate(m.labels)}
            other = place.get(m.column.other or "other", 0)
            known = labels.get(name)
            codes = np.where(gone, 0, np.nan_to_num(values)).astype(np.int64)
            if known is not None and len(known):
                codes = np.array([place.get(label, other) for label in known], dtype=np.int64)[codes]
            category = np.where(gone, len(m.labels) if m.column.nullable else other, codes)
        found += [(category == c).astype(np.float64) for c in range(count)]
    return np.stack(found, axis=1) if found else np.zeros((0, 0))
