"""Marginals of any width that AIM may count, worked out one by one. pair_candidates.py has pairs, all at once.

The one rule: no row comes here. Which marginals are allowed follows from what was measured.
"""

import dataclasses
import itertools
from collections.abc import Iterable, Mapping
from types import MappingProxyType

import numpy as np

from understudy.graphical.junction_tree import megabytes, model_size
from understudy.graphical.marginals import Clique, Domain, Measured

MOST_CANDIDATES = 300
"""A round looks at this many candidates at most."""


@dataclasses.dataclass(frozen=True)
class Candidates:
    """The marginals that may be counted: every one of the workload, and what lies below it.

    Attributes:
        domain: The columns.
        weights: Of each clique r, Σ |r ∩ s| over the workload's s, over the largest: how much of it r bears on; and
            more for columns that are emphasised.
    """

    domain: Domain
    weights: dict[Clique, float]

    @classmethod
    def of(cls, domain: Domain, degree: int, emphasis: Mapping[str, float] = MappingProxyType({})) -> "Candidates":
        """Cliques of up to `degree` columns. Each column is in equally many of the workload, so |r| is the weight.

        Args:
            emphasis: How much more cliques of several columns weigh that have a column; 1 for others.
        """
        widest = min(degree, len(domain.names))
        cliques = [clique for width in range(1, widest + 1) for clique in itertools.combinations(domain.names, width)]

        def weight(clique: Clique) -> float:
            more = max(emphasis.get(name, 1.0) for name in clique) if len(clique) > 1 else 1.0
            return more * len(clique) / widest

        return cls(domain, {clique: weight(clique) for clique in cliques})

    def allowed(self, measured: list[Measured], max_mb: float, used: float, draw: np.random.Generator) -> list[Clique]:
        """The cliques with which the model stays small enough; if there are very many, those of a random sample.

        Args:
            max_mb: The cap for cliques that join unconnected parts of the graph, as the edges of a tree do.
            used: The part of the cap that others may fill by now: as much as is used of the budget.
        """
        cliques = list(self.weights)
        if len(cliques) > MOST_CANDIDATES:
            cliques = [cliques[i] for i in np.sort(draw.choice(len(cliques), MOST_CANDIDATES, replace=False))]
        held = {self.domain.ordered(each.clique) for each in measured}
        part = _connected_parts(self.domain, held)
        now = model_size(self.domain, held)

        def fits(clique: Clique) -> bool:
            if clique in held:
                return True
            if len({part[name] for name in clique}) == len(clique):  # no new cliques but itself
                return megabytes(now + self.domain.size(clique)) <= max_mb
            return megabytes(model_size(self.domain, [*held, clique])) <= max_mb * used

        return [clique for clique in cliques if fits(clique)] or [(self.domain.names[0],)]


def _connected_parts(domain: Domain, cliques: Iterable[Clique]) -> dict[str, str]:
    """For every column, a column that stands for its connected part of the cliques' graph."""
    parts = {name: name for name in domain.names}
    for clique in cliques:
        joined = {parts[name] for name in clique}
        if len(joined) > 1:
            parts = {name: clique[0] if part in joined else part for name, part in parts.items()}
    return parts
