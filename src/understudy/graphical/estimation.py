"""Estimation: from noisy marginals to one distribution of whole rows.

`estimate` makes the measured marginals consistent, lays a junction tree through their cliques and minimises the dual
of `objective` by L-BFGS.

The one rule: public mathematics. Nothing here sees a row, and nothing is drawn: the same marginals give the same model.

Sources: as of `objective`; Nocedal and Wright (2006), "Numerical optimization", algorithm 7.4, for L-BFGS.

Departures:
- The dual by L-BFGS rather than the primal by mirror descent.
"""

from collections.abc import Mapping, Sequence

import numpy as np
from numpy.typing import NDArray

from understudy.core.minimisation import minimise
from understudy.graphical.junction_tree import Node, junction_tree
from understudy.graphical.marginals import Clique, Domain, Measured, product
from understudy.graphical.markov import MarkovModel
from understudy.graphical.objective import Dual, Potentials
from understudy.graphical.pooling import Pool, Pooled

Floats = NDArray[np.float64]

# What is being done, for a progress bar.
ESTIMATING = "estimate the graphical model"
# What the whole model starts from need not be exact.
START_ITERATIONS = 25
NEW_ITERATIONS = 12
START_TOLERANCE = 1e-6
# No cell of a model holds less than this share of the rows, where its logarithm is taken.
SMALLEST_CELL = 1e-15


def estimate(
    domain: Domain,
    measured: Sequence[Measured] | Pool,
    *,
    rows: float,
    iterations: int = 300,
    start: MarkovModel | None = None,
    new: Mapping[Clique, Floats] | None = None,
    shrinkage: float = 0.3,
    ordered: Mapping[str, int] | None = None,
    tolerance: float = 1e-10,
) -> MarkovModel:
    """The graphical model that fits the measured marginals.

    Args:
        measured: Noisy marginals; several of one clique are pooled. A column in none of them comes out uniform. A
            marginal that was counted in blocks (`Measured.starts`) has its columns in the domain's order and is not
            pooled. Who estimates again and again hands over a `Pool` and adds to it.
        rows: How many rows there are.
        iterations: The most steps of L-BFGS.
        start: A model to start from, with some of the same cliques.
        new: Cliques that were measured since then, with the counts that `start` expects in them. Their potentials are
            fitted first, all others held.
        shrinkage: c of `objective`. 0 fits as nearly as possible.
        ordered: For each column whose neighbouring cells are alike, how many cells, from the first, are ordered.
        tolerance: A step that gains less than this part of the dual is the last.
    """
    rows, ordered = max(float(rows), 1.0), ordered or {}
    pool = measured if isinstance(measured, Pool) else Pool(domain, measured)
    pooled = pool.consistent(rows)
    nodes = junction_tree(domain, [*pooled, *(each.clique for each in pool.in_blocks)])
    dual = Dual(domain, nodes, pooled, pool.in_blocks, ordered=ordered, rows=rows, shrinkage=shrinkage)
    if start is not None:
        ahead = _potentials_of_new(domain, pooled, start, new or {}, rows, shrinkage, ordered)
        x = dual.vector({**start.potentials, **ahead})
    else:
        x = dual.vector(_starting_potentials(domain, pooled, nodes, rows, iterations, shrinkage, ordered))
    if dual.size:
        x = minimise(dual, x, iterations=iterations, tolerance=tolerance)
    return MarkovModel(domain, rows, nodes, *dual.distributions(x), dual.potentials(x))


def _potentials_of_new(
    domain: Domain,
    pooled: Pooled,
    start: MarkovModel,
    new: Mapping[Clique, Floats],
    rows: float,
    shrinkage: float,
    ordered: Mapping[str, int],
) -> Potentials:
    """The potentials that are best for some cliques if all others stay as they are in a model.

    With p the model and λ one clique's potentials by now, log Z of others is log Σ p · exp(other - λ) over the cells of
    the clique alone. Cliques that share no column are fitted together, as if they were independent of each other; of
    those that share one, the first.
    """
    base, taken = dict[Clique, Floats](), set[str]()
    for given, expected in new.items():
        clique = domain.ordered(given)
        if clique in pooled and taken.isdisjoint(clique):
            shares = np.transpose(expected, [given.index(name) for name in clique]) / start.rows
            base[clique] = np.log(np.maximum(shares, SMALLEST_CELL))
            taken.update(clique)
    if not base:
        return {}
    small = Domain({name: domain.sizes[name] for clique in base for name in clique})
    nodes = [Node(clique, -1 if i == 0 else 0, ()) for i, clique in enumerate(base)]
    own = {clique: pooled[clique] for clique in base}
    dual = Dual(small, nodes, own, ordered=ordered, rows=rows, shrinkage=shrinkage, base=list(base.values()))
    x = dual.vector(start.potentials)
    dual.take_out(x)
    return dual.potentials(minimise(dual, x, iterations=NEW_ITERATIONS, tolerance=START_TOLERANCE))


def _starting_potentials(
    domain: Domain,
    pooled: Pooled,
    nodes: Sequence[Node],
    rows: float,
    iterations: int,
    shrinkage: float,
    ordered: Mapping[str, int],
) -> Potentials:
    """If the measured cliques form a tree, the potentials of every clique's own small model; else none.

    If the small models p_e agree on the single columns p_i they share, and those are q's, the whole has the closed form
    p = q · Π_e p_e / Π_{i in e} p_i, so potentials of cliques stay and those of single columns add up. A small model
    starts from the logarithm of how far its counts are from independence, as far as they stand out of the noise.
    """
    wide = [clique for clique in pooled if len(clique) > 1]
    if len(wide) == 1:
        (clique,) = wide
        counts, sigma = pooled[clique]
        guess = product([Measured((c,), *pooled.get((c,), (np.ones(domain.sizes[c]), 1.0))) for c in clique], rows)
        return {(clique, 1): np.log((np.maximum(counts, 0.0) + 2 * sigma) / (guess + 2 * sigma)).ravel()}
    if any(node.clique not in pooled or len(node.separator) > 1 for node in nodes if len(node.clique) > 1):
        return {}
    found: dict[tuple[Clique, int], Floats] = {}
    for clique in wide:
        singles = [(name,) for name in clique if (name,) in pooled]
        own = [Measured(each, *pooled[each]) for each in (*singles, clique)]
        small = Domain({name: domain.sizes[name] for name in clique})
        fitted = estimate(
            small,
            own,
            rows=rows,
            iterations=min(iterations, START_ITERATIONS),
            shrinkage=shrinkage,
            ordered=ordered,
            tolerance=START_TOLERANCE,
        )
        for term, potential in fitted.potentials.items():
            found[term] = found[term] + potential if term in found else potential
    return found
