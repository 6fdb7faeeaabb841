"""A table of children is fitted: what is measured of it, and how its densities learn that.

1. All columns by themselves are measured in one release, and products of functions of the context and of all columns,
   of as high degrees as the noise allows, in another. What weights of units do to these, and to counts, drawn families
   say (correcting.py).
2. Families are drawn, and the densities are fitted on their contexts (learning.py), to products of the lowest degree;
   again, until contexts have settled.
3. Pairs of columns that drawn families have most wrong are chosen, counted and learned, in a few rounds.
4. The densities settle: each time new families are drawn, and densities move a smaller part towards a fit to all that
   was measured. What their numbers then still have wrong is mended in how levels are shown (level_maps.py).

Contexts are those of drawn families, so that a history that drifts is seen and mended, and nothing is spent on what a
context is like by itself.

The one rule: rows go to `measuring`, and nowhere else.
"""

import dataclasses

import numpy as np
from numpy.typing import NDArray

from understudy.core.processors import one_thread_each
from understudy.core.randomness import Key
from understudy.encoding.bins import bin_rows, make_bins
from understudy.encoding.encoder import Encoder, Levels
from understudy.privacy.ledger import Ledger
from understudy.privacy.plan import PlannedMechanism
from understudy.privacy.rows import PrivateRows
from understudy.synthesizers.base import HistoryNames, Simulation
from understudy.synthesizers.conditional.basis import Bases
from understudy.synthesizers.conditional.correcting import corrected_margins, corrected_moments, corrected_pair
from understudy.synthesizers.conditional.density import Column, ConditionalDensity, drawn_codes
from understudy.synthesizers.conditional.landing import Landing, landing_of, landing_shares
from understudy.synthesizers.conditional.learning import ITERATIONS, learned, mixed
from understudy.synthesizers.conditional.level_maps import LevelMap, level_map
from understudy.synthesizers.conditional.measuring import (
    BINS,
    CHOICE,
    MARGINS,
    MOMENTS,
    PAIRS,
    Margins,
    PairCount,
    PairRounds,
    Sums,
    measurable_bases,
    measure_margins,
    measure_moments,
)
from understudy.synthesizers.conditional.pools import CodedPool, coded, pair_shares, raked
from understudy.synthesizers.conditional.shares import Counted, Measured, encoder_noise, fine_shares, with_counted
from understudy.synthesizers.conditional.targets import Released, targets_of

Floats = NDArray[np.float64]
Whole = NDArray[np.int64]
Flags = NDArray[np.bool_]

PAIRS_PER_COLUMN = 3
"""So many pairs are counted for each column that is drawn."""
FIRST_FITS, ROUNDS = 6, 3
"""Fits before the first pairs are chosen, and rounds of pairs with a fit each."""
SETTLING = tuple(0.5 * 0.2 ** (i / 15) for i in range(16))
"""In the last fits densities read all functions, and move so far towards each fit. Contexts are those of new families
alone, as they are drawn: at the end families have what was measured as they will be drawn."""
SETTLING_ITERATIONS = 10
"""Of L-BFGS in each of them; it starts where the last one ended."""
STAGES = 1, 2
"""In so many fits columns do not read the row before, and not the means and shares of earlier rows: those of the first
families are not yet like those of private rows."""
PRIOR, PRIOR_OF_CONTEXT, FEW_NUMBERS = 1.0, 0.05, 9
"""Squares of weights are expected to be this, of columns of the same row and of its context. Columns of a context say
much the same, so that without it the noise in their differences would make large weights: if more than `FEW_NUMBERS`
numbers are of earlier rows, weights are expected to be the smaller, the more there are."""
WARMING = (0.02, 0.02, 0.05, 0.15, 0.4, 1.0)
"""Of rows before, this part of it in the first fits. What they say grows slowly then, and histories do not explode."""
STEP = 0.5
"""After these, densities move so far towards the next fit. A fit is made for the contexts of the last families, and
changes them: whole steps overshoot where many columns hang on the row before."""
MAPPINGS, MAPPED_POOL = 2, 2
"""So often levels are mapped, on families of so many times the rows of a fit. Means of earlier rows change with it, and
so does what is drawn given them."""
FINE = 0.03
"""Levels are mapped by fine bins, unless noise alone would put their shares so far off."""
MARGINS_PART, MOMENTS_PART, CHOICE_PART = 0.08, 0.3, 0.08
"""Parts of what is left beside the encoder; the rest counts pairs."""
MOST_RAKED = 40
"""Columns of the row before with more bins are not raked: the noise in their counts would be learned."""
HARDLY = -15.0
"""The constant of a bin that is never drawn."""


def plan_families(columns: int, *, share: float) -> list[PlannedMechanism]:
    """What is measured of a table with so many drawn columns, with this share of its budget."""
    pairs, rest = PAIRS_PER_COLUMN * columns, 1 - MARGINS_PART - MOMENTS_PART - CHOICE_PART
    return [
        PlannedMechanism(name=MARGINS, mechanism="discrete gaussian", share=MARGINS_PART * share),
        PlannedMechanism(name=MOMENTS, mechanism="discrete gaussian", share=MOMENTS_PART * share),
        PlannedMechanism(name=CHOICE, mechanism="exponential", share=CHOICE_PART * share, times=pairs),
        PlannedMechanism(name=PAIRS, mechanism="discrete gaussian", share=rest * share, times=pairs),
    ]


@one_thread_each()
def fit_conditional(
    rows: PrivateRows, encoder: Encoder, *, simulation: Simulation, pool_rows: int, ledger: Ledger, key: Key
) -> ConditionalDensity:
    """Measures and learns; it measures what `plan_families` lists.

    Args:
        pool_rows: About so many rows are drawn for a fit, beside those of the fit before.

    Privacy:
        Rows are read by `measure_margins`, by `measure_moments` and by `PairRounds`.
    """
    bins, names = make_bins(encoder, BINS), encoder.schema.names
    total = max(encoder.rows, 1.0)
    bases = measurable_bases(encoder, bins, simulation, most=rows.max_rows_per_unit, total=total, ledger=ledger)
    coded_rows = bin_rows(rows, encoder, dict(zip(bases.names, bases.bins, strict=True)), key=key.child("codes"))
    own = [j for j, name in enumerate(names) if name not in simulation.given]
    margins = measure_margins(rows, encoder, bases, own, total=total, ledger=ledger, key=key.child("margins"))
    moments = measure_moments(coded_rows, bases, simulation.given, total=total, ledger=ledger, key=key.child("moments"))
    fitting = _Fitting(bases, simulation, margins, moments, encoder, ledger, pool_rows, key.child("families"))
    for _ in range(FIRST_FITS):
        fitting.fit()
    pairs = PairRounds(coded_rows, bases, total=total, ledger=ledger, key=key.child("pairs"))
    left = ledger.planned(PAIRS).times
    for rounds in range(ROUNDS, 0, -1):
        left -= fitting.measure(pairs, -(-left // rounds))
        fitting.fit()
    for step in SETTLING:
        fitting.settle(step)
    for _ in range(MAPPINGS):
        fitting.show_as_measured()
    return fitting.density


class _Fitting:
    """What is known while a table is fitted. All of it is public.

    Attributes:
        density: The densities as far as they are fitted.
    """

    def __init__(
        self,
        bases: Bases,
        simulation: Simulation,
        margins: Margins,
        sums: Sums,
        encoder: Encoder,
        ledger: Ledger,
        pool_rows: int,
        key: Key,
    ):
        self._bases, self._simulation, self._key = bases, simulation, key
        self._encoded, self._margins, self._sums, self._counted = (
            bases,
            margins,
            sums,
            dict[tuple[int, int], PairCount](),
        )
        self._pool_rows = pool_rows
        given, derived, structural, self._smooth = (
            np.array([name in some for name in bases.names])
            for some in (simulation.given, simulation.derived, simulation.structural, simulation.smooth)
        )
        self._given, self._drawn = given, ~given & ~derived
        self._forced, self._earlier = self._drawn & structural, given & structural
        shares = np.array([name in simulation.shares for name in bases.names])
        numbers = int(np.sum(self._earlier & ~shares & [each.number for each in bases.of]))
        self._prior_of_context = PRIOR_OF_CONTEXT * min(1.0, FEW_NUMBERS / max(numbers, 1))
        self._askable = _askable(self._drawn, self._forced, structural | derived, self._smooth)
        columns = [None if each else self._start(j) for j, each in enumerate(given.tolist())]
        history = simulation.history
        landing = None if history is None else _landing(bases, encoder, history)
        self._starts = None if history is None else encoder.columns[history.start]
        self.density = ConditionalDensity(bases, tuple(columns), landing)
        self._number, self._last = 0, None
        place = {name: j for j, name in enumerate(bases.names)}
        categories = [j for j in np.flatnonzero(self._drawn).tolist() if not bases.of[j].number]
        before = [place.get(f"previous.{bases.names[j]}", j) for j in categories]
        self._stays = [(i, j) for i, j in zip(before, categories, strict=True) if i != j]
        shared = np.flatnonzero(~given | (self._earlier & ~self._smooth))
        self._noise = encoder_noise(encoder, [bases.names[j] for j in shared], ledger)
        self._known, self._measured = margins, dict[str, Measured]()

    def _start(self, j: int) -> Column:
        """A column that depends on nothing."""
        own = self._bases.of[j]
        constants = np.log(np.maximum(own.shares, 1e-6))
        constants[-1] = HARDLY if self._forced[j] else constants[-1]
        return Column(np.zeros(0, np.int64), np.zeros((0, own.table.shape[1])), constants)

    def _drawn_pool(self) -> CodedPool:
        """Rows of families that the densities draw."""
        return coded(self._bases, *self._drawn_levels(self._pool_rows), self.density.landing, self._margins.bins)

    def _drawn_levels(self, rows: int) -> tuple[Levels, Whole]:
        """Levels of about so many rows of families that the densities draw, new ones each time, and their units."""
        self._number += 1
        return self._simulation.rows(self.density, rows, key=self._key.child(f"pool {self._number}"))

    def _pool(self) -> CodedPool:
        """Rows of families that the densities draw, and of those that they drew before: contexts change slowly then."""
        new, old = self._drawn_pool(), self._last
        self._last = new
        found = new.joined(old)
        known = np.flatnonzero(self._earlier & ~self._smooth).tolist()
        return raked(found, self._bases, [j for j in known if self._bases.bins[j].size <= MOST_RAKED])

    def fit(self) -> None:
        """Fits all densities on contexts that they draw.

        A column that was fitted is drawn again in the pool, so that the next one reads what it will be drawn given.
        """
        pool = self._pool()
        released = self._corrected(pool)
        released = Released(released.moments.up_to(1, self._bases), released.pairs)
        waiting = (self._earlier & (self._number <= STAGES[0])) | (self._smooth & (self._number <= STAGES[1]))
        part = WARMING[min(self._number, len(WARMING)) - 1]
        prior = np.where(self._given, self._prior_of_context * np.where(self._earlier, part, 1.0), PRIOR)
        self._learn(pool, released, ~waiting, prior, STEP if self._number > len(WARMING) else 1.0)

    def settle(self, step: float) -> None:
        """Moves all densities a part `step` towards a fit on the contexts of new families, as they are drawn."""
        pool = self._drawn_pool()
        prior = np.where(self._given, self._prior_of_context, PRIOR)
        self._learn(pool, self._corrected(pool), np.ones(len(prior), bool), prior, step, SETTLING_ITERATIONS)

    def _learn(
        self,
        pool: CodedPool,
        released: Released,
        readable: Flags,
        prior: Floats,
        step: float,
        iterations: int = ITERATIONS,
    ) -> None:
        columns, draw = list(self.density.columns), self._key.child(f"redrawn {self._number}").numpy()
        for j in np.flatnonzero(self._drawn).tolist():
            rows = pool.codes[j] < self._bases.bins[j].size - 1 if self._forced[j] else np.ones(pool.count, bool)
            if not rows.any():
                continue
            targets = targets_of(j, self._bases, released, pool, rows, readable=readable, prior=prior)
            if self._forced[j]:
                targets.shares[-1] = 0.0
            if self.density.landing is not None and self.density.landing.column == j:
                targets = dataclasses.replace(targets, landings=self._landed())
            found = learned(j, self._bases, targets, pool, rows, columns[j], iterations=iterations)
            columns[j] = found = mixed(columns[j], found, step)
            if not self._forced[j]:
                logits = self.density.logits(j, found, pool.functions, pool.codes)
                pool.codes[j] = drawn_codes(logits, draw)
                pool.functions[:, self._bases.functions_of(j)] = self._bases.of[j].table[pool.codes[j]]
        self.density = dataclasses.replace(self.density, columns=tuple(columns))

    def _landed(self) -> Floats:
        """The measured shares of the orders that gaps lead to."""
        landing, history = self.density.landing, self._simulation.history
        assert landing is not None and history is not None and self._starts is not None
        order = self._bases.of[self._bases.names.index(history.order)]
        return landing_shares(landing, self._starts, self._bases.of[landing.column].shares, order.shares)

    def show_as_measured(self) -> None:
        """Maps the levels of drawn numbers, and of contexts that are made of them, to the measured distributions."""
        levels, _ = self._drawn_levels(MAPPED_POOL * self._pool_rows)
        maps, place = dict[int, LevelMap](), {name: j for j, name in enumerate(self._bases.names)}
        for j in np.flatnonzero(self._drawn & ~self._forced).tolist():
            if not self._bases.of[j].number:
                continue
            name, bins, measured = self._bases.names[j], self._margins.bins[j], fine_shares(j, self._bases, self._known)
            if measured.distance > FINE:
                bins, measured = self._bases.bins[j], self._measured[name]
            made = level_map(self.density.as_drawn(j, levels[name]), bins, measured)
            if made is not None:
                maps |= {place[each]: made for each in (name, f"previous.{name}", f"mean.{name}") if each in place}
        self.density = dataclasses.replace(self.density, maps=maps)

    def _corrected(self, pool: CodedPool) -> Released:
        """What was released, as a pool says that it is without weights; shares of columns follow from it."""
        pairs = {at: corrected_pair(each, self._bases, pool) for at, each in self._counted.items()}
        self._known = corrected_margins(self._margins, pool)
        self._bases, self._measured = with_counted(self._encoded, self._noise, Counted(self._known, pairs.values()))
        self.density = dataclasses.replace(self.density, bases=self._bases)
        return Released(corrected_moments(self._sums, pool), pairs)

    def measure(self, pairs: PairRounds, many: int) -> int:
        """Chooses and counts so many pairs; fewer if no more are open."""
        pool = self._pool()
        pairs.compare(pair_shares(self._bases, pool, self._drawn), pool.count)
        opened = self._askable.copy()
        for i, j in self._counted:
            opened[i, j] = opened[j, i] = False
        for done in range(many):
            if not opened.any():
                return done
            i, j = self._stays.pop() if self._stays else pairs.choose(opened)
            self._counted[i, j] = pairs.count(i, j)
            opened[i, j] = opened[j, i] = False
        return many


def _askable(drawn: Flags, forced: Flags, known: Flags, smooth: Flags) -> Flags:
    """The pairs of columns that may be counted: one of them is drawn, and what they share is not known anyway."""
    found = drawn[:, None] | drawn
    closed = (forced[:, None] & known) | smooth
    found &= ~(closed | closed.T)
    np.fill_diagonal(found, False)
    return found


def _landing(bases: Bases, encoder: Encoder, history: HistoryNames) -> Landing:
    place = {name: j for j, name in enumerate(bases.names)}
    return landing_of(
        place[history.gap],
        place[history.before],
        (encoder.columns[history.gap], bases.bins[place[history.gap]]),
        encoder.columns[history.before],
        (encoder.columns[history.order], bases.bins[place[history.order]]),
        history.unit,
    )
