"""A table of children is fitted: what is measured of it, and how its densities learn that.

1. Second moments of the linear functions of the context and of all columns, in one release.
2. Families are drawn, and the densities are fitted on their contexts (learning.py); again, until contexts have settled.
3. Pairs of columns that drawn families have most wrong are chosen, counted and learned, in a few rounds.
4. Families are drawn and densities fitted a few times more.

Contexts are those of drawn families, so that a history that drifts is seen and mended, and nothing is spent on what a
context is like by itself.

The one rule: rows go to `measuring`, and nowhere else.
"""

import dataclasses

import numpy as np
from numpy.typing import NDArray

from understudy.core.processors import one_thread_each
from understudy.core.randomness import Key
from understudy.encoding.bins import make_bins
from understudy.encoding.encoder import Encoder, Levels
from understudy.privacy.ledger import Ledger
from understudy.privacy.plan import PlannedMechanism
from understudy.privacy.rows import PrivateRows
from understudy.synthesizers.base import HistoryNames, Simulation
from understudy.synthesizers.conditional.basis import Bases, bases_of
from understudy.synthesizers.conditional.density import Column, ConditionalDensity, code_of, drawn_codes
from understudy.synthesizers.conditional.landing import Landing, landing_of, landing_shares
from understudy.synthesizers.conditional.learning import CodedPool, Targets, learned
from understudy.synthesizers.conditional.measuring import (
    CHOICE,
    MOMENTS,
    PAIRS,
    Moments,
    PairCount,
    PairRounds,
    measure_moments,
)

Floats = NDArray[np.float64]

BINS = 16
POOL = 6_000
PAIRS_PER_COLUMN = 3
ROUNDS = 3
FIRST_FITS = 2
LAST_FITS = 2
MOMENTS_PART, CHOICE_PART = 0.3, 0.08
CLEARLY = 1.5
"""A function is read if a column depends on it by more than so many deviations of the noise, ..."""
MOST_READ = 48
"""... and is among so many that it depends on most."""
PRIOR, PRIOR_OF_CONTEXT = 1.0, 0.05
"""Squares of weights are expected to be this, of columns of the same row and of its context. Columns of a context say
much the same, so that without it the noise in their differences would make large weights."""
RAKINGS = 8
"""The weights of rows are found in so many rounds, ..."""
WEIGHTS = (0.1, 10.0)
"""... and stay between these multiples of their mean."""
FITTINGS = 3
"""Shares of pairs are fitted to those of columns so often."""
HARDLY = -15.0
"""The constant of a bin that is never drawn."""


def plan_families(columns: int, *, share: float) -> list[PlannedMechanism]:
    """What is measured of a table with so many drawn columns, with this share of its budget."""
    pairs = PAIRS_PER_COLUMN * columns
    return [
        PlannedMechanism(name=MOMENTS, mechanism="discrete gaussian", share=MOMENTS_PART * share),
        PlannedMechanism(name=CHOICE, mechanism="exponential", share=CHOICE_PART * share, times=pairs),
        PlannedMechanism(
            name=PAIRS, mechanism="discrete gaussian", share=(1 - MOMENTS_PART - CHOICE_PART) * share, times=pairs
        ),
    ]


@one_thread_each()
def fit_conditional(
    rows: PrivateRows, encoder: Encoder, *, simulation: Simulation, ledger: Ledger, key: Key
) -> ConditionalDensity:
    """Measures and learns; it measures what `plan_families` lists.

    Privacy:
        Rows are read by `measure_moments` and by `PairRounds`.
    """
    order = encoder.schema.names
    bases = bases_of(encoder, make_bins(encoder, BINS), order, simulation.structural)
    moments = measure_moments(rows, encoder, bases, ledger=ledger, key=key.child("moments"))
    fitting = _Fitting(bases, simulation, moments, encoder, key.child("families"))
    for _ in range(FIRST_FITS):
        fitting.fit()
    pairs = PairRounds(rows, encoder, bases, ledger=ledger, key=key.child("pairs"))
    left = ledger.planned(PAIRS).times
    for number in range(ROUNDS, 0, -1):
        chosen = -(-left // number)
        left -= fitting.measure(pairs, chosen)
        fitting.fit()
    for _ in range(LAST_FITS):
        fitting.fit()
    return fitting.density


class _Fitting:
    """What is known while a table is fitted. All of it is public."""

    def __init__(self, bases: Bases, simulation: Simulation, moments: Moments, encoder: Encoder, key: Key):
        self.bases, self._simulation, self._moments, self._key = bases, simulation, moments, key
        self.drawn = [
            j for j, name in enumerate(bases.names) if name not in simulation.given and name not in simulation.derived
        ]
        self._forced = [j for j in self.drawn if bases.names[j] in simulation.structural]
        self.counted: dict[tuple[int, int], PairCount] = {}
        self._number, self._last = 0, None
        columns: list[Column | None] = [None] * len(bases.names)
        for j, name in enumerate(bases.names):
            if name not in simulation.given:
                columns[j] = self._start(j)
        landing, self._landing_shares = None, None
        if simulation.history is not None:
            landing, self._landing_shares = _landing(bases, encoder, simulation.history)
        self.density = ConditionalDensity(bases, tuple(columns), landing)

    def _start(self, j: int) -> Column:
        own = self.bases.of[j]
        constants = np.log(np.maximum(own.shares, 1e-6))
        if j in self._forced:
            constants[-1] = HARDLY
        return Column(np.zeros(0, np.int64), np.zeros((0, own.table.shape[1])), constants)

    def pool(self) -> CodedPool:
        """Rows of families that the densities draw, and of those that they drew before: contexts change slowly then."""
        self._number += 1
        levels = self._simulation.rows(self.density, POOL, key=self._key.child(f"pool {self._number}"))
        new, old = coded(self.bases, levels, self.density.landing), self._last
        self._last = new
        codes = new.codes.copy() if old is None else np.concatenate([new.codes, old.codes], 1)
        functions = new.functions.copy() if old is None else np.concatenate([new.functions, old.functions])
        landings = new.landings
        if landings is not None and old is not None and old.landings is not None:
            landings = np.concatenate([landings, old.landings])
        return CodedPool(codes, functions, self._raked(codes), landings)

    def _raked(self, codes: NDArray[np.int64]) -> NDArray[np.float32]:
        """Weights of rows under which the columns of their context have the measured shares."""
        given = [j for j, name in enumerate(self.bases.names) if name in self._simulation.raked]
        wanted = [self.bases.of[j].shares / self.bases.of[j].shares.sum() for j in given]
        weights = np.ones(codes.shape[1])
        for _ in range(RAKINGS):
            for j, shares in zip(given, wanted, strict=True):
                held = np.bincount(codes[j], weights, len(shares)) / weights.sum()
                weights *= np.where(held > 0, shares / np.maximum(held, 1e-9), 1.0)[codes[j]]
                weights = np.clip(weights / weights.mean(), *WEIGHTS)
        return (weights / weights.mean()).astype(np.float32)

    def fit(self) -> None:
        """Fits all densities on contexts that they draw."""
        pool = self.pool()
        columns = list(self.density.columns)
        draw = self._key.child(f"redrawn {self._number}").numpy()
        for j in self.drawn:
            rows = np.ones(pool.count, bool)
            if j in self._forced:
                rows = pool.codes[j] < self.bases.bins[j].size - 1
            if not rows.any():
                continue
            columns[j] = found = learned(j, self.bases, self._targets(j, pool), pool, rows, self.density.columns[j])
            if j not in self._forced:
                logits = self.density.logits(j, found, pool.functions, pool.codes)
                pool.codes[j] = drawn_codes(logits, draw)
                pool.functions[:, self.bases.functions_of(j)] = self.bases.of[j].table[pool.codes[j]]
        self.density = dataclasses.replace(self.density, columns=tuple(columns))

    def measure(self, pairs: PairRounds, many: int) -> int:
        """Chooses and counts so many pairs; fewer if no more are open."""
        pool = self.pool()
        pairs.compare(pair_shares(self.bases, pool), pool.count)
        opened = self._open()
        for done in range(many):
            if not opened.any():
                return done
            i, j = pairs.choose(opened)
            self.counted[i, j] = pairs.count(i, j)
            opened[i, j] = opened[j, i] = False
        return many

    def _open(self) -> NDArray[np.bool_]:
        names, columns = self.bases.names, len(self.bases.names)
        drawn = np.isin(np.arange(columns), self.drawn)
        opened = drawn[:, None] | drawn
        np.fill_diagonal(opened, False)
        structural = np.array([name in self._simulation.structural for name in names])
        derived = np.array([name in self._simulation.derived for name in names])
        forced = np.isin(np.arange(columns), self._forced)
        closed = forced[:, None] & (structural | derived)
        opened &= ~(closed | closed.T)
        for i, j in self.counted:
            opened[i, j] = opened[j, i] = False
        return opened

    def _felt(self, j: int) -> NDArray[np.int64]:
        """The linear functions of earlier columns that column j depends on beyond the noise, the most felt first."""
        bases, moments = self.bases, self._moments
        mine = np.flatnonzero(bases.owners[moments.places] == j)
        others = np.flatnonzero(bases.owners[moments.places] < j)
        spread = np.sqrt(np.maximum(bases.squares - bases.means**2, 1e-4))[moments.places]
        strength = np.max(np.abs(moments.covariances[np.ix_(others, mine)]) / spread[mine], axis=1) / spread[others]
        noise = moments.noise / (spread[others] * spread[mine].max())
        order = np.argsort(-strength)
        felt = [o for o in order.tolist() if strength[o] > CLEARLY * noise[o]][:MOST_READ]
        return np.sort(moments.places[others[felt]])

    def _targets(self, j: int, pool: CodedPool) -> Targets:
        """What was released of column j, as covariances over rows with the contexts of the pool."""
        bases, own = self.bases, self.bases.of[j]
        pairs = [each for each in self.counted.values() if max(each.first, each.second) == j]
        earlier = {min(each.first, each.second): each for each in pairs}
        reads = np.union1d(self._felt(j), np.flatnonzero(np.isin(bases.owners, list(earlier))))
        means, noise = np.zeros((len(reads), own.table.shape[1])), np.full((len(reads), own.table.shape[1]), np.inf)
        place = {int(p): i for i, p in enumerate(self._moments.places)}
        mine = np.flatnonzero(own.linear)
        of_moments = np.array([place.get(int(read), -1) for read in reads], np.int64)
        some, columns = of_moments >= 0, [place[int(q)] for q in bases.functions_of(j)[mine]]
        means[np.ix_(some, mine)] = self._moments.covariances[np.ix_(of_moments[some], columns)]
        noise[np.ix_(some, mine)] = self._moments.noise
        stay, before = None, -1
        for i, each in earlier.items():
            shares = each.shares if each.first == i else each.shares.T
            held = np.bincount(pool.codes[i], pool.weights, shares.shape[0]) / pool.count
            apart = shares - np.outer(shares.sum(axis=1), own.shares)
            at, table = np.flatnonzero(bases.owners[reads] == i), bases.of[i].table
            spread = each.noise * np.sqrt(np.outer((table**2).sum(axis=0), (own.table**2).sum(axis=0)))
            precision = spread**-2.0 + noise[at] ** -2.0
            means[at] = (table.T @ apart @ own.table * spread**-2.0 + means[at] * noise[at] ** -2.0) / precision
            noise[at] = precision**-0.5
            if not own.number and bases.names[i] == f"previous.{bases.names[j]}":
                labels = len(bases.bins[j].edges) - 1
                joint = apart + np.outer(held, own.shares)
                stay, before = float(np.trace(joint[:labels, :labels])), i
        shares = own.shares.copy()
        if j in self._forced:
            shares[-1] = 0.0
        landing = self.density.landing
        landings = self._landing_shares if landing is not None and landing.column == j else None
        given = np.array([name in self._simulation.given for name in bases.names])
        prior = np.where(given[bases.owners[reads]], PRIOR_OF_CONTEXT, PRIOR)
        return Targets(reads, means, noise, prior, shares, stay, before, landings)


def _landing(bases: Bases, encoder: Encoder, history: HistoryNames) -> tuple[Landing, Floats]:
    place = {name: j for j, name in enumerate(bases.names)}
    gap, before, order, start = history.gap, history.before, history.order, history.start
    of_order = encoder.columns[order], bases.bins[place[order]]
    made = landing_of(
        place[gap],
        place[before],
        (encoder.columns[gap], bases.bins[place[gap]]),
        encoder.columns[before],
        of_order,
        history.unit,
    )
    return made, landing_shares(made, encoder.columns[start], of_order)


def coded(bases: Bases, levels: Levels, landing: Landing | None = None) -> CodedPool:
    """Rows of levels as bins and functions."""
    codes = np.stack([code_of(levels[name], bins) for name, bins in zip(bases.names, bases.bins, strict=True)])
    functions = np.concatenate(
        [each.table.astype(np.float32)[code] for each, code in zip(bases.of, codes, strict=True)], axis=1
    )
    landings = None if landing is None else landing.codes(levels[bases.names[landing.base]])
    return CodedPool(codes, functions, np.ones(len(functions), np.float32), landings)


def pair_shares(bases: Bases, pool: CodedPool) -> Floats:
    """The shares of rows by the bins of all columns, in pairs: (bins, bins).

    Every pair is fitted to the measured shares of its two columns, so that what differs from counts is how they depend
    on each other, and not what another column has wrong.
    """
    from scipy import sparse

    sizes = [each.size for each in bases.bins]
    starts = np.cumsum([0, *sizes])
    places = (pool.codes + starts[:-1, None]).T.ravel()
    rows = np.arange(pool.count + 1) * len(sizes)
    one_hot = sparse.csr_array((np.ones(len(places), np.float32), places, rows), shape=(pool.count, starts[-1]))
    found = np.asarray((one_hot.T @ one_hot).todense(), np.float64) / pool.count
    wanted = np.concatenate([each.shares / each.shares.sum() for each in bases.of])
    for _ in range(FITTINGS):
        for transposed in (found, found.T):
            held = np.repeat(np.add.reduceat(transposed, starts[:-1], axis=1), sizes, axis=1)
            transposed *= np.where(held > 0, wanted[:, None] / np.maximum(held, 1e-12), 0.0)
    return found
