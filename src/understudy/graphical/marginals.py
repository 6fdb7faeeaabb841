"""Marginals: how many rows there are in every cell of a few columns, measured, and chosen by how wrong a guess is.

The one rule: a marginal of rows that has no noise stays inside its hatch. What comes out of this room is a `Measured`
marginal, with its sigma, or the number of a clique that was chosen.

Columns enter as codes of `encoding.Bins`. A *clique* is a tuple of columns; its marginal is an array with one axis for
each, in the clique's order.

Sources: McKenna, Sheldon, Miklau (2019), arXiv:1901.09136; McKenna, Miklau, Sheldon (2021), arXiv:2108.04978;
McKenna et al. (2022), arXiv:2201.12677, for the weighted and penalised score of a clique.
"""

import dataclasses
import functools
import itertools
import math
from collections.abc import Mapping, Sequence

import numpy as np
from numpy.typing import NDArray

from understudy.core.randomness import Key
from understudy.encoding import encoder as encoding
from understudy.encoding.encoder import Bins, Encoder
from understudy.privacy.ledger import FilterShare, Ledger
from understudy.privacy.mechanisms import noisy_counts, private_choice
from understudy.privacy.rows import PrivateRows

Floats = NDArray[np.float64]
Clique = tuple[str, ...]

FARTHEST = 4.0  # deviations from the mean: beyond it a cell matters no more, and the price of a choice is its square
RARE = 0.002  # what lies farther out in levels is not looked at for deviations
WITHIN = 32  # places in a cell that its values are read at
MOST_CATEGORIES = 512  # cells of a category column; rarer ones than this allows share a cell


# Domains ------------------------------------------------------------------------------------------------------------


@dataclasses.dataclass(frozen=True)
class Domain:
    """The columns, in order, and how many cells each has. Public."""

    sizes: Mapping[str, int]

    @classmethod
    def of(cls, cells: Mapping[str, Bins]) -> "Domain":
        return cls({name: cut.size for name, cut in cells.items()})

    @property
    def names(self) -> Clique:
        return tuple(self.sizes)

    def shape(self, clique: Clique) -> tuple[int, ...]:
        return tuple(self.sizes[name] for name in clique)

    def size(self, clique: Clique) -> int:
        """How many cells the clique's marginal has."""
        return math.prod(self.shape(clique))

    def ordered(self, columns: Sequence[str] | set[str]) -> Clique:
        """The columns as a clique, in the order of the domain."""
        wanted = set(columns)
        return tuple(name for name in self.sizes if name in wanted)


def all_pairs(domain: Domain) -> list[Clique]:
    return list(itertools.combinations(domain.names, 2))


def cut(encoder: Encoder, *, most: int, least: float = 0.0) -> dict[str, Bins]:
    """Bins for counting: numbers in about `most` cells, categories one by one unless they are rare.

    Neighbouring categories that hold less than `least` of the rows share a cell, out of which they come in the
    proportions that the encoder bought.
    """
    cells = encoding.make_bins(encoder, most)
    for name, column_map in encoder.maps.items():
        if column_map.labels is not None:
            rare = max(least, 1 / MOST_CATEGORIES if cells[name].size > MOST_CATEGORIES else 0.0)
            cells[name] = dataclasses.replace(cells[name], edges=_without_rare(cells[name].edges, rare))
    return cells


def _without_rare(ends: Floats, least: float) -> Floats:
    """The ends without those between rare neighbours: cells are joined until they hold `least`, common ones never."""
    masses = np.diff(ends)
    kept, held = [0], 0.0
    for i, mass in enumerate(masses):
        if i and (mass >= least or held >= least):
            kept.append(i)
            held = 0.0
        held += mass
    return np.append(ends[kept], ends[-1])


# What was measured --------------------------------------------------------------------------------------------------


@dataclasses.dataclass(frozen=True)
class Measured:
    """A noisy marginal.

    Attributes:
        clique: Its columns.
        counts: Noisy counts, one axis for each column.
        sigma: The deviation of the noise of one cell.
        starts: Where it was counted in blocks of neighbouring cells: for each column, the cell that every block begins
            with. Empty where it was counted cell by cell.
    """

    clique: Clique
    counts: Floats
    sigma: float
    starts: tuple[NDArray[np.int64], ...] = ()


def measure(
    rows: PrivateRows,
    clique: Clique,
    domain: Domain,
    *,
    planned: str | FilterShare,
    what: str,
    ledger: Ledger,
    key: Key,
) -> Measured:
    """Buys one marginal.

    Privacy:
        Through `noisy_counts`: one row is in one cell, so the L2 sensitivity is 1 per row.

    Raises:
        BudgetExceeded: The ledger cannot pay. Nothing has been read.
    """
    sigma = ledger.noise(planned, "discrete gaussian") * rows.max_rows_per_unit
    counts = noisy_counts(rows, clique, domain.shape(clique), what=what, planned=planned, ledger=ledger, key=key)
    return Measured(clique, counts, sigma)


BETWEEN_ENDS = 0.002
# What the encoder's counts of a column are called in its plan.
BOUGHT_AS = {"numeric": ("find", "resolve", "refine"), "listed": ("count",), "unlisted": ("count selected",)}


def from_encoder(encoder: Encoder, cells: Mapping[str, Bins], *, ledger: Ledger) -> list[Measured]:
    """The marginals of single columns that the encoder's purchase already holds: nothing is bought.

    A cell between two ends of levels holds (end - start) · (1 - missing) · rows. Its noise is that of a cell that was
    counted in every round. For numbers it is √2 times that, since both ends of a cell lie between ends that were
    counted, and `BETWEEN_ENDS` of the rows, since what is between them is only guessed, however little noise there is.
    """
    found = []
    for name, column_map in encoder.maps.items():
        present = np.diff(cells[name].edges) * (1.0 - column_map.missing)
        shares = np.append(present, column_map.missing) if cells[name].nullable else present
        kind = "numeric" if column_map.labels is None else "unlisted" if _is_unlisted(column_map) else "listed"
        precision = sum(ledger.noise(item) ** -2 for item in BOUGHT_AS[kind])
        sigma = ledger.max_rows_per_unit * precision**-0.5
        if kind == "numeric":
            sigma = math.hypot(math.sqrt(2) * sigma, BETWEEN_ENDS * encoder.rows)
        found.append(Measured((name,), shares * encoder.rows, sigma))
    return found


def _is_unlisted(column_map: encoding.ColumnMap) -> bool:
    return column_map.column.kind == "categorical" and column_map.column.values is None


def product(singles: Sequence[Measured], rows: float) -> Floats:
    """The marginal that columns would have if they were independent of each other."""
    found = np.array(rows)
    for single in singles:
        shares = np.maximum(single.counts, 0.0)
        found = np.multiply.outer(found, shares / max(float(shares.sum()), 1e-300))
    return found


def expected_sampling_error(estimate: Floats, accents: Floats | float = 1.0) -> float:
    """The L1 distance that rows have from an estimate that is right: Σ E|Poisson(e) - e|, about √(2e/π) and never > 2e.

    Public, and so fit to be a penalty: without it, whatever has more cells looks more wrong. Weighted by
    `accents`, as in `choose`.
    """
    expected = np.maximum(estimate, 0.0)
    return float((accents * np.minimum(np.sqrt(expected * 2 / np.pi), 2 * expected)).sum())


def deviations(encoder: Encoder, cells: Mapping[str, Bins]) -> dict[str, Floats]:
    """How many deviations |z| the values of every cell lie from their column's mean, at most `FARTHEST`. Public.

    Of the distribution that the encoder bought; the root mean square over the cell, so that over a column z² is 1.
    Where cells are no numbers, |z| is 1.
    """
    return {name: _deviations(encoder.maps[name], cut) for name, cut in cells.items()}


def _deviations(column_map: encoding.ColumnMap, cut: Bins) -> Floats:
    if column_map.labels is not None:
        return np.ones(cut.size)
    masses, within = np.diff(cut.edges), (np.arange(WITHIN) + 0.5) / WITHIN
    levels = cut.edges[:-1, None] + masses[:, None] * within  # (cells, within)
    values = column_map.distribution.quantile(np.clip(levels, RARE, 1.0 - RARE))
    centred = values - masses @ values.mean(axis=1)
    squares = np.mean((centred / max(float(np.abs(centred).max()), 1e-300)) ** 2, axis=1)
    z = np.minimum(np.sqrt(squares / max(float(masses @ squares), 1e-30)), FARTHEST)
    return np.append(z, 1.0) if cut.nullable else z


def accent(far: Mapping[str, Floats], clique: Clique) -> Floats:
    """How much it matters that a clique's counts are right, cell by cell: Π |z|, with |z| as of `deviations`.

    A distance of counts takes all rows alike, but errors in squares do not: a few rows far out in two columns can be
    most of what the one says of the other. Public.
    """
    return functools.reduce(np.multiply.outer, [far[name] for name in clique])


def soften(far: Mapping[str, Floats], width: int, most: float) -> dict[str, Floats]:
    """The deviations to the power p, the largest p <= 1 with which no accent of `width` columns is beyond `most`.

    The price of a choice is its largest accent. Where that would drown the scores in noise, p takes rows more
    alike; p = 0 takes all alike. Public, if `most` is.
    """
    farthest = max(float(each.max()) for each in far.values()) ** width
    power = math.log(max(most, 1.0)) / math.log(farthest) if farthest > max(most, 1.0) else 1.0
    return {name: each**power for name, each in far.items()}


# Choosing -----------------------------------------------------------------------------------------------------------


def choose(
    rows: PrivateRows,
    candidates: Sequence[Clique],
    estimates: Sequence[Floats],
    penalties: Sequence[float] | Floats,
    domain: Domain,
    weights: Sequence[float] | Floats,
    *,
    planned: str | FilterShare,
    what: str,
    ledger: Ledger,
    key: Key,
    accents: Sequence[Floats] | None = None,
) -> int:
    """The number of the candidate whose estimate is (nearly) the most wrong, by the exponential mechanism.

    The score of clique c with weight w, penalty b and estimated marginal e is

        score_c = w_c · (‖ exact_c - e_c ‖₁ - b_c),

    where the norm may be weighted cell by cell, by a_c >= 0: Σ a_c |exact_c - e_c|.

    Args:
        estimates: One array for each candidate, made from what was released alone.
        penalties: Subtracted from the distances; public.
        weights: At least 0; public.
        accents: a_c, one array for each candidate; public. 1 unless given.

    Privacy:
        Candidates, estimates, penalties, weights and accents are fixed before this hatch opens, so a neighbour has the
        same. One row is in one cell of each marginal, and moves its count by 1, so by the triangle inequality it moves
        the distance by at most the accent of that cell. So the sensitivity of any score is max w_c · max a_c per row.

    Raises:
        BudgetExceeded: The ledger cannot pay. Nothing has been read.
    """
    weights, penalties = np.asarray(weights, dtype=np.float64), np.asarray(penalties, dtype=np.float64)
    place = {name: i for i, name in enumerate(domain.names)}
    shapes = [domain.shape(clique) for clique in candidates]
    if not len(candidates) == len(estimates) == len(weights) == len(penalties) > 0 or not (weights >= 0).all():
        raise ValueError(
            "choose: expected an estimate, a penalty and a weight >= 0 for each of at least one candidate."
        )
    for estimate, shape in zip(estimates, shapes, strict=True):
        if estimate.shape != shape:
            raise ValueError(f"choose: expected an estimate of shape {shape}, got {estimate.shape}.")

    accented = [np.ones(shape) for shape in shapes] if accents is None else accents
    for each, shape in zip(accented, shapes, strict=True):
        if each.shape != shape or not (each >= 0).all():
            raise ValueError(f"choose: expected accents >= 0 of shape {shape}, got shape {each.shape}.")
    sensitivity = max(weight * float(each.max()) for weight, each in zip(weights, accented, strict=True))

    def scores(*columns: NDArray[np.int64]) -> Floats:
        exact_distances = [
            (each * np.abs(exact_marginal([columns[place[name]] for name in clique], shape) - estimate)).sum()
            for clique, shape, estimate, each in zip(candidates, shapes, estimates, accented, strict=True)
        ]
        return weights * (np.array(exact_distances) - penalties)

    return private_choice(
        rows,
        domain.names,
        scores,
        sensitivity=max(sensitivity, 1e-300),
        what=what,
        planned=planned,
        ledger=ledger,
        key=key,
    )


def exact_marginal(columns: Sequence[NDArray[np.int64]], shape: tuple[int, ...]) -> Floats:
    """Counts without noise, for use inside a hatch. A row with a code outside its column's cells is counted nowhere."""
    flat, inside = np.zeros(len(columns[0]), dtype=np.int64) if columns else np.zeros(0, np.int64), None
    for codes, size in zip(columns, shape, strict=True):
        flat = flat * size + codes
        if len(codes) and (codes.min() < 0 or codes.max() >= size):
            within = (codes >= 0) & (codes < size)
            inside = within if inside is None else inside & within
    flat = flat if inside is None else flat[inside]
    return np.bincount(flat, minlength=math.prod(shape)).astype(np.float64).reshape(shape)
