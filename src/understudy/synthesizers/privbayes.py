"""PrivBayes: a Bayes network whose parents are chosen privately, and one noisy table for each column.

Columns are placed one after another. In each round the exponential mechanism chooses the next column together with its
parents among those already placed, and with the cells in which both are counted; afterwards the counts of every chosen
column with its parents are bought at once, with equal noise.

Sources: Zhang, Cormode, Procopiuc, Srivastava, Xiao (2017), "PrivBayes: private data release via Bayesian networks",
ACM TODS 42(4); Efron and Morris (1973) for shrinkage by the measured spread.

Departures:
- Neighbours differ by a row added or removed and the number of rows is private, so the score is the paper's R counted
  in rows, which has a bounded sensitivity then (`dependence`); mutual information has not.
- From the score is taken what a table of that size is expected to owe to chance: the noise that will be added, and the
  sampling of rows. A larger table must earn its cells, so that parents which say nothing are left out.
- Theta-usefulness is measured against Gaussian noise, and noise below one row counts as one: with fewer than theta rows
  a cell a table says more of chance than of the columns, however little noise is added. A fixed `most_cells` bounds
  tables of very many rows.
- A parent is seen in as many coarse cells as the bound leaves for it, and the column is counted in coarse cells itself
  where that scores better: the paper's hierarchies of attributes, made of runs of like cells for numbers and of
  "the most frequent, and the rest" for categories. The encoder's distribution fills the coarse cells in.
- In the score a cell counts the more, the farther its values are from the means (`accents`): a few rows far out can be
  most of what one column says of another.
- At most about `most_candidates` a round are scored: all single parents if they fit, and of larger sets as many as fit,
  drawn at random without a look at the rows. The paper scores all, which explodes.
- Choices get less than half of the budget: they are about sums over all rows and need far less than the tables.
- A parent that the bought table does not bear out is left out again (`borne_out`), which costs nothing.
- A conditional distribution is shrunk towards the one with a parent less, as far as noise explains the difference.
  Taken as it is, a row of a table that holds hardly anything but noise would be a random distribution.
- The first column is the first of the schema's order, and is taken from the encoder.
"""

import dataclasses
import itertools
import math
from collections.abc import Iterator, Mapping, Sequence

import numpy as np
from numpy.typing import NDArray

from understudy.core.randomness import Key
from understudy.encoding.encoder import LIGHTEST, Bins, Encoder, best_cut, bin_rows, make_bins, places
from understudy.graphical.bayes_net import BayesNet, Table, to_simplices
from understudy.graphical.marginals import deviations
from understudy.privacy.accounting import PlannedMechanism
from understudy.privacy.ledger import Ledger
from understudy.privacy.mechanisms import noisy_counts, private_choice
from understudy.privacy.rows import PrivateRows
from understudy.tables.schema import Schema

Floats = NDArray[np.float64]
Whole = NDArray[np.int64]

FittedPrivBayes = BayesNet

SENSITIVITY = 2.0  # of `dependence`
SIZES = (2, 3, 4, 6, 8, 12, 16, 24, 32, 48, 64, 96, 128)  # how coarse a column can be seen, below its own cells
ABSOLUTE = math.sqrt(2 / math.pi)  # E|z| of a standard normal


@dataclasses.dataclass(frozen=True, kw_only=True)
class PrivBayes:
    """A Bayes network with parents chosen by the exponential mechanism.

    Attributes:
        encoding_share: Part of the budget for the margins; between 0.15 and 0.3 it hardly matters.
        choice_share: Of the rest, the part that chooses parents; what remains counts tables.
        theta: A table has at most rows / (theta · noise) cells, the noise at least one row; 4 is the paper's.
        caution: How much of what chance is expected to add to a score is taken off.
        degree: Most parents of a column.
        most: Bins of a number column at its finest.
        most_cells: Most cells of one table, whatever the budget.
        most_candidates: Most candidates of one choice.
    """

    encoding_share: float = 0.3
    choice_share: float = 0.25
    theta: float = 4.0
    caution: float = 0.5
    degree: int = 4
    most: int = 32
    most_cells: int = 30_000
    most_candidates: int = 3000

    name = "privbayes"

    def __post_init__(self):
        for field in ("encoding_share", "choice_share"):
            if not 0.01 <= getattr(self, field) <= 0.99:
                raise ValueError(f"PrivBayes.{field}: expected 0.01 to 0.99, got {getattr(self, field)}.")
        for field, least in (("theta", 0.01), ("caution", 0.0)):
            if not least <= getattr(self, field) < math.inf:
                raise ValueError(f"PrivBayes.{field}: expected a finite number >= {least}, got {getattr(self, field)}.")
        for field, least in (("degree", 1), ("most", 2), ("most_cells", 4), ("most_candidates", 1)):
            value = getattr(self, field)
            if isinstance(value, bool) or not isinstance(value, int) or value < least:
                raise ValueError(f"PrivBayes.{field}: expected a whole number >= {least}, got {value!r}.")

    def plan(self, schema: Schema) -> list[PlannedMechanism]:
        """A choice and a table for every column but the first; one table for a single column."""
        share, rounds = 1.0 - self.encoding_share, len(schema) - 1
        if rounds == 0:
            return [PlannedMechanism(name="tables", mechanism="discrete gaussian", share=share)]
        choices = share * self.choice_share
        return [
            PlannedMechanism(name="parents", mechanism="exponential", share=choices, times=rounds),
            PlannedMechanism(name="tables", mechanism="discrete gaussian", share=share - choices, times=rounds),
        ]

    def fit(self, rows: PrivateRows, encoder: Encoder, *, ledger: Ledger, key: Key) -> BayesNet:
        """Chooses all parents, then buys all tables.

        Privacy:
            Rows are read by `private_choice`, with `dependence` as the score, and by `noisy_counts`.
        """
        cut = make_bins(encoder, self.most)
        far = deviations(encoder, cut)
        views = {name: View.of(cut[name], encoder, name, far[name]) for name in cut}
        coded = bin_rows(rows, encoder, cut, key=key.child("codes"))
        noise = ledger.noise("tables") * rows.max_rows_per_unit
        first, *waiting = encoder.schema.generation_order
        room = self.room(noise, encoder.rows)
        alone = not waiting
        chosen = [Candidate(first, _finest(views[first].sizes, room), (), ())]
        while waiting:
            placed = [candidate.column for candidate in chosen]
            offered = self.candidates(views, waiting, placed, room=room, draw=key.child(f"offer {len(placed)}").numpy())
            taken = self._choose(coded, views, offered, noise, encoder.rows, ledger, key.child(f"choose {len(placed)}"))
            waiting.remove(taken.column)
            chosen.append(taken)
        tables = [] if alone else [Table(first, (), views[first].masses)]
        for candidate in chosen[len(tables) :]:
            tables.append(_table(rows, encoder, cut, views, candidate, ledger=ledger, key=key, noise=noise))
        return BayesNet(tuple(tables), cut)

    def room(self, noise: float, rows: float) -> float:
        """The most cells of a table that is theta-useful: rows / cells >= theta · max(noise, 1)."""
        return float(np.clip(max(rows, 1.0) / (self.theta * max(noise, 1.0)), 4.0, self.most_cells))

    def chance(self, cells: Floats, noise: float, rows: float) -> Floats:
        """What chance adds to the distance of a table from independence: 1/2 Σ E|z| √(noise² + rows / cells)."""
        return 0.5 * ABSOLUTE * cells * np.sqrt(noise**2 + max(rows, 1.0) / cells)

    def candidates(
        self,
        views: Mapping[str, "View"],
        waiting: Sequence[str],
        placed: Sequence[str],
        *,
        room: float,
        draw: np.random.Generator,
    ) -> list["Candidate"]:
        """What may come next, from public facts alone: every column without parents, and with them."""
        found = [Candidate(column, _finest(views[column].sizes, room), (), ()) for column in waiting]
        most = min(self.degree, len(placed), int(math.log2(room)))
        for count in range(1, most + 1):
            left = (self.most_candidates - len(found)) // (most - count + 1 if count > 1 else 1)
            sets = list(_sets(waiting, placed, count, most=left, draw=draw))
            offered = []
            for column, parents in sets:
                for size in views[column].child_sizes(room, most=max(1, left // len(sets))):
                    sizes = even_sizes([views[name].sizes for name in parents], room / size)
                    if sizes is not None:
                        offered.append(Candidate(column, size, parents, sizes))
            found += offered
        return found

    def _choose(self, coded, views, offered, noise, rows, ledger, key) -> "Candidate":
        """One candidate, by its dependence less what chance adds.

        Privacy:
            One row changes a score by at most `SENSITIVITY` times its largest accent: accents, and what is taken off,
            are public.
        """
        names = list(views)
        weighing = [accents(views, candidate) for candidate in offered]
        largest = max(float(across.max() * along.max()) for across, along in weighing)
        typical = np.array([across.mean() * along.mean() for across, along in weighing])
        sizes = np.array([math.prod((candidate.size, *candidate.sizes)) for candidate in offered], np.float64)
        joint = np.array([bool(candidate.parents) for candidate in offered])
        off = self.caution * np.where(joint, typical * self.chance(sizes, noise, rows), 0.0)
        index = private_choice(
            coded,
            names,
            lambda *columns: scores(dict(zip(names, columns, strict=True)), views, offered, weighing) - off,
            sensitivity=SENSITIVITY * max(largest, 1e-300),
            what="the next column and its parents",
            planned="parents",
            ledger=ledger,
            key=key,
        )
        return offered[index]


# Bins, fine and coarse ---------------------------------------------------------------------------------------------


@dataclasses.dataclass(frozen=True)
class Candidate:
    """A column and its parents, and in how many cells each is counted."""

    column: str
    size: int
    parents: tuple[str, ...]
    sizes: tuple[int, ...]


@dataclasses.dataclass(frozen=True)
class View:
    """One column in cells of every coarseness.

    Attributes:
        masses: What the encoder says of its finest cells.
        groups: For each number of coarse cells, the coarse cell of every finest one.
        far: How many deviations the values of the finest cells lie from their mean, as of `marginals.deviations`.
    """

    masses: Floats
    groups: Mapping[int, Whole]
    far: Floats

    @classmethod
    def of(cls, cut: Bins, encoder: Encoder, name: str, far: Floats) -> "View":
        column_map = encoder.maps[name]
        present = np.diff(cut.edges) * (1.0 - column_map.missing)
        where = None
        if column_map.labels is None:
            where = places(column_map.distribution, cut.edges, 0.5 * LIGHTEST / len(present))
        groups = {}
        for size in SIZES:
            if size < cut.size:
                found = np.zeros(len(present), np.int64)
                if size > cut.nullable:
                    parts = size - cut.nullable
                    found = _by_size(present, parts) if where is None else _by_place(present, where, parts)
                found = np.append(found, found.max() + 1) if cut.nullable else found
                groups[int(found.max()) + 1] = found
        groups.pop(1, None)
        groups[cut.size] = np.arange(cut.size)
        masses = np.append(present, column_map.missing) if cut.nullable else present
        masses = np.maximum(masses, 0.0) + 1e-12
        return cls(masses / masses.sum(), groups, far)

    def deviations(self, size: int) -> Floats:
        """How far coarse cells lie out: the root mean square over what they hold."""
        group = self.groups[size]
        squares = np.bincount(group, self.masses * self.far**2, size) / np.bincount(group, self.masses, size)
        return np.sqrt(squares)

    @property
    def sizes(self) -> list[int]:
        return sorted(self.groups)

    def child_sizes(self, room: float, *, most: int) -> list[int]:
        """How finely the column itself may be counted, beside at least one parent in two cells: a few ways."""
        fit = [size for size in self.sizes if size <= room / 2] or self.sizes[:1]
        return fit[-1:-8:-2][-most:]

    def filled_in(self, probabilities: Floats, size: int) -> Floats:
        """Coarse probabilities along the last axis, spread over the finest cells as the encoder has them."""
        group = self.groups[size]
        within = self.masses / np.bincount(group, self.masses, size)[group]
        return probabilities[..., group] * within


def _by_place(masses: Floats, where: Floats, size: int) -> Whole:
    """Neighbouring cells that are alike together, as the finest ones are made."""
    starts = best_cut(np.maximum(masses, 1e-12), where, most=size, least=LIGHTEST / size * float(masses.sum()))
    return np.repeat(np.arange(len(starts) - 1), np.diff(starts))


def _by_size(masses: Floats, size: int) -> Whole:
    """The heaviest cells each alone, the rest together."""
    rank = np.empty(len(masses), np.int64)
    rank[np.argsort(-masses, kind="stable")] = np.arange(len(masses))
    return np.minimum(rank, size - 1)


def _finest(sizes: Sequence[int], room: float) -> int:
    return max((size for size in sizes if size <= room), default=min(sizes))


def even_sizes(choices: Sequence[Sequence[int]], room: float) -> tuple[int, ...] | None:
    """A size for every parent, as even as their cells allow, whose product fits into `room`; None if there is none."""
    sizes = [0] * len(choices)
    order = sorted(range(len(choices)), key=lambda i: choices[i][-1])
    for left, i in zip(range(len(choices), 0, -1), order, strict=True):
        sizes[i] = _finest(choices[i], room ** (1 / left) + 1e-9)
        room /= sizes[i]
    return tuple(sizes) if room >= 1 - 1e-9 else None


def _sets(
    waiting: Sequence[str], placed: Sequence[str], count: int, *, most: int, draw: np.random.Generator
) -> Iterator[tuple[str, tuple[str, ...]]]:
    """Columns with parent sets of `count`: all of them if they are few, else about `most` at random."""
    if len(waiting) * math.comb(len(placed), count) <= most:
        for column in waiting:
            for parents in itertools.combinations(placed, count):
                yield column, parents
        return
    drawn = {
        (int(draw.integers(len(waiting))), *np.sort(draw.choice(len(placed), count, replace=False)).tolist())
        for _ in range(max(most, 0))
    }
    for column, *parents in sorted(drawn):
        yield waiting[column], tuple(placed[int(i)] for i in parents)


# Scores -------------------------------------------------------------------------------------------------------------


def dependence(counts: Floats, across: Floats | float = 1.0, along: Floats | float = 1.0) -> float:
    """How far counts are from independence of rows and columns, in rows: n·R = 1/2 Σ a_x b_y |n_xy - n_x n_y / n|.

    Args:
        across: Accents a_x >= 0 of the table's rows; public.
        along: Accents b_y >= 0 of its columns; public.

    Privacy:
        Let a table hold n rows with shares p along x and q along y, and one row (a, b) be added. Entry by entry
        D = n_xy - n_x n_y / n changes by

            e_a e_b - (n p + e_a)(n q + e_b) / (n + 1) + n p q  =  n / (n + 1) · (e_a - p) ⊗ (e_b - q),

        an outer product, whose entries sum in absolute value to n / (n + 1) · 2 (1 - p_a) · 2 (1 - q_b) < 4. Half of
        that, times the largest a_x b_y, bounds the change of the score: less than 2 max a max b for a row added, so
        also for one removed. Without accents it comes near: n rows all alike score 0, and with one more that differs in
        both places 2 n / (n + 1). An empty table scores 0, and so does one row.
    """
    total = max(float(counts.sum()), 1.0)
    apart = np.abs(counts - np.outer(counts.sum(1), counts.sum(0)) / total)
    return 0.5 * float(np.sum(np.reshape(across, (-1, 1)) * apart * along))


def accents(views: Mapping[str, View], candidate: Candidate) -> tuple[Floats, Floats]:
    """How much the cells of all parents together, and those of the column, count: deviations from the mean.

    Of several parents the one that is farthest out: with a further parent no cell counts less.
    """
    farthest = np.zeros(1)
    for name, size in zip(candidate.parents, candidate.sizes, strict=True):
        farthest = np.maximum.outer(farthest, views[name].deviations(size)).ravel()
    return farthest, views[candidate.column].deviations(candidate.size)


def scores(
    columns: Mapping[str, Whole],
    views: Mapping[str, View],
    offered: Sequence[Candidate],
    weighing: Sequence[tuple[Floats, Floats]],
) -> Floats:
    """The accented dependence of every candidate's column on its parents together; 0 without parents."""
    seen: dict[tuple[str, int], Whole] = {}

    def coarse(name: str, size: int) -> Whole:
        if (name, size) not in seen:
            seen[name, size] = views[name].groups[size][columns[name]]
        return seen[name, size]

    found = np.zeros(len(offered))
    for i, (candidate, (across, along)) in enumerate(zip(offered, weighing, strict=True)):
        if candidate.parents:
            flat = coarse(candidate.parents[0], candidate.sizes[0])
            for name, size in zip(candidate.parents[1:], candidate.sizes[1:], strict=True):
                flat = flat * size + coarse(name, size)
            flat = flat * candidate.size + coarse(candidate.column, candidate.size)
            shape = math.prod(candidate.sizes), candidate.size
            counts = np.bincount(flat, minlength=shape[0] * shape[1]).reshape(shape).astype(np.float64)
            found[i] = dependence(counts, across, along)
    return found


# Tables -------------------------------------------------------------------------------------------------------------


@dataclasses.dataclass(frozen=True)
class Coarse(Bins):
    """Bins that are counted in groups."""

    group: Whole

    @property
    def size(self) -> int:
        return int(self.group.max()) + 1

    def code(self, below: Floats, above: Floats) -> Whole:
        fine = Bins(self.edges, self.nullable).code(below, above)
        return np.where(fine < 0, -1, self.group[fine])


def _table(
    rows: PrivateRows,
    encoder: Encoder,
    cut: Mapping[str, Bins],
    views: Mapping[str, View],
    candidate: Candidate,
    *,
    ledger: Ledger,
    key: Key,
    noise: float,
) -> Table:
    """The table of a column with its parents, bought and made into conditional distributions."""
    names, sizes = (*candidate.parents, candidate.column), (*candidate.sizes, candidate.size)
    view = views[candidate.column]
    groups = [views[name].groups[size] for name, size in zip(names, sizes, strict=True)]
    coarse = {
        name: Coarse(cut[name].edges, cut[name].nullable, group) for name, group in zip(names, groups, strict=True)
    }
    some = Schema(columns=tuple(encoder.schema[name] for name in names))
    part = dataclasses.replace(encoder, schema=some, maps={name: encoder.maps[name] for name in names})
    counts = noisy_counts(
        bin_rows(rows, part, coarse, key=key.child("codes")),
        names,
        sizes,
        what=f"the table of '{candidate.column}'",
        planned="tables",
        ledger=ledger,
        key=key.child(f"table {candidate.column}"),
    )
    marginal = np.asarray(np.bincount(groups[-1], view.masses, candidate.size), np.float64)
    order = sorted(range(len(candidate.parents)), key=lambda axis: -_pair_dependence(counts, axis, noise))
    counts, order, noise = borne_out(counts.transpose(*order, counts.ndim - 1), order, marginal, noise)
    return Table(
        candidate.column,
        tuple(candidate.parents[axis] for axis in order),
        view.filled_in(shrunk(counts, marginal, noise), candidate.size),
        tuple(groups[axis] for axis in order),
    )


def _pair_dependence(counts: Floats, axis: int, noise: float) -> float:
    """How much of a noisy table's dependence one parent shows alone, less what the noise shows."""
    others = tuple(i for i in range(counts.ndim - 1) if i != axis)
    pair = counts.sum(axis=others)
    return dependence(pair) - 0.5 * ABSOLUTE * noise * math.sqrt(counts.size * pair.size)


def borne_out(
    counts: Floats, parents: Sequence[int], marginal: Floats, noise: float
) -> tuple[Floats, list[int], float]:
    """The table without the parents that it does not bear out, the parents that are left, and the noise of a cell.

    From the last to the first, a parent is left out if the distributions given all parents lie no farther from those
    without it than chance explains, by three deviations. Costs nothing: the table was bought.
    """
    kept = list(parents)
    for axis in reversed(range(counts.ndim - 1)):
        size = counts.shape[axis]
        without = counts.sum(axis=axis)
        prior = np.expand_dims(shrunk(without, marginal, noise * math.sqrt(size)), axis)
        totals, distance, chance = _distance(counts, prior, noise)
        ratio = distance / chance
        spread = noise**2 + totals * prior
        variance = 2 * np.sum(spread**2, -1) / np.sum(spread, -1).clip(1e-150) ** 2
        if np.sum(ratio - 1) <= 3 * math.sqrt(np.sum(variance)):
            counts, noise = without, noise * math.sqrt(size)
            del kept[axis]
    return counts, kept, noise


def shrunk(counts: Floats, marginal: Floats, noise: float) -> Floats:
    """Conditional distributions of the last axis from noisy counts, parent by parent.

    Given the first j parents, a row of counts c with the sum t is expected at t·p, p being the distribution given j - 1
    of them. Noise of variance v in each of m cells and the sampling of t rows move it by

        s = (m - 2 + m Σ p²) v + t (1 - Σ p²)

    in squared distance. If the true distribution lies τ away from p, then |c - t p|² is about t² τ² + s, which gives
    τ² (no more than 1), and with it the best linear guess:

        c' = t p + w (c - t p),    w = t² τ² / (t² τ² + s).

    For τ² stands the mean of what the row itself says and of what all rows together say: the one is uncertain, the
    other blind to the few rows that are unlike all others.
    """
    parents = counts.ndim - 1
    found = marginal / marginal.sum()
    if parents == 0:
        return _towards(counts, found, noise)
    for j in range(1, parents + 1):
        rest = tuple(range(j, parents))
        more = math.sqrt(math.prod(counts.shape[axis] for axis in rest))
        found = _towards(counts.sum(axis=rest), found[..., None, :], noise * more)
    return found


def _distance(counts: Floats, prior: Floats, noise: float) -> tuple[Floats, Floats, Floats]:
    """The sum t of every row, its squared distance |c - t p|² from a prior p, and how much of it is chance (s)."""
    size = counts.shape[-1]
    totals = np.maximum(counts.sum(-1, keepdims=True), 1e-9)
    squares = np.sum(prior**2, -1)
    chance = (size - 2 + size * squares) * noise**2 + totals[..., 0] * (1.0 - squares)
    return totals, np.sum((counts - totals * prior) ** 2, -1), np.maximum(chance, 1e-12)


def _towards(counts: Floats, prior: Floats, noise: float) -> Floats:
    """One step of `shrunk`."""
    totals, distance, chance = _distance(counts, prior, noise)
    t = totals[..., 0]
    farther = (distance - chance) / t**2
    trust = (t**2 / chance) ** 2
    together = np.sum(trust * farther) / np.sum(trust)
    signal = t**2 * (np.clip(farther, 0.0, 1.0) + np.clip(together, 0.0, 1.0)) / 2
    weight = (signal / (signal + chance))[..., None]
    found = to_simplices(totals * prior + weight * (counts - totals * prior), t)
    return found / found.sum(-1, keepdims=True)
