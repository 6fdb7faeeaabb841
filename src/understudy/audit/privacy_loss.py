"""The privacy loss of every fit, release by release: how much more likely what was released is with the canaries.

Inside `watched`, fits run as always: the same code, the same noise. Beside every table of locked rows that a fit
derives, the same rows are kept for both of two known tables, without and with the canaries. When a mechanism has
released something, it is asked for its exact answer on both, without noise, and

    loss = log P(what was released | with the canaries) - log P(what was released | without),

all earlier releases given. Summed over a fit this is the likelihood ratio, and no test tells the tables apart better.
It is a function of what was released and of two tables that the attacker knows, which is what the promise allows an
attacker to see; exact answers of the table that was fitted do not enter it.

The sums that training steps release never leave the compiled program; a loop inside it computes their loss there
(`attacked_loop`).

The one rule: nothing that is watched changes. Mechanisms are wrapped where modules refer to them, and put back.

Sources: Dwork and Rothblum (2016), arXiv:1603.01887, for the privacy loss; Neyman and Pearson (1933).
"""

# pyright: reportPrivateUsage=false, reportMissingTypeStubs=false

import contextlib
import dataclasses
import functools
import sys
import types
from collections.abc import Callable, Generator, Sequence
from typing import Any

import numpy as np
from numpy.typing import NDArray

from understudy import pipeline
from understudy.privacy import counts, embedding, fused_counts, moments, row_draws, selection, sums, unit_sums
from understudy.privacy.ledger import Ledger
from understudy.privacy.pair_selection import PairSelection
from understudy.privacy.rows import PrivateRows

Floats = NDArray[np.float64]

GAUSSIAN: tuple[tuple[types.ModuleType, str], ...] = (
    (counts, "noisy_row_count"),
    (counts, "noisy_counts"),
    (moments, "noisy_second_moments"),
    (unit_sums, "noisy_unit_counts"),
    (unit_sums, "noisy_unit_margins"),
    (unit_sums, "noisy_unit_moments"),
    (embedding, "noisy_embedding_sum"),
    (selection, "noisy_marginal_errors"),
)
"""Mechanisms that release numbers with Gaussian noise of the deviation that was charged.

In the noise of second moments the products have half the variance of the squares. Both orders of a product are in the
matrix, so that sums over all its entries weigh them rightly.
"""
SELECTIONS: tuple[tuple[types.ModuleType, str], ...] = (
    (selection, "select_marginal"),
    (selection, "select_dependence"),
)
"""Mechanisms that release the number of a candidate, by the exponential mechanism."""
NEXT_TO_NOTHING = 1e-9
"""With noise of this deviation, a selection shows every category that more than one unit has."""
LARGEST = 50.0
"""The loss of a release that is impossible without the canaries: less than infinite, so that losses can be added."""


class FitLoss:
    """The losses of one fit by planned mechanism, and what was expected of them beforehand.

    Attributes:
        losses: The sum over a planned mechanism's releases.
        information: The expectation of that sum with the canaries, each release given the earlier ones; half of mu²
            if all releases are Gaussian.
    """

    def __init__(self) -> None:
        self.losses: dict[str, float] = {}
        self.information: dict[str, float] = {}

    def add(self, name: str, loss: float, information: float) -> None:
        self.losses[name] = self.losses.get(name, 0.0) + float(np.clip(loss, -LARGEST, LARGEST))
        self.information[name] = self.information.get(name, 0.0) + information


class _Paid:
    """In the place of a ledger that was charged: it answers with the same scale, and enters nothing."""

    def __init__(self, ledger: Ledger, scale: float):
        self._ledger, self._scale = ledger, scale

    def charge(self, *_: object, **__: object) -> float:
        return self._scale

    def planned(self, name: str) -> Any:
        return self._ledger.planned(name)

    def kept(self) -> None:
        """Nothing that was kept stands for an answer on a known table."""

    def keep(self, value: Any) -> Any:
        return value


class Watch:
    """Follows fits. `of_fits` has the losses of every fit since the start, in the order of the fits."""

    def __init__(self, tables: Sequence[Any], fitted: Sequence[int] | None, units: int):
        self._tables, self._fitted, self._units = tuple(tables), fitted, units
        self.of_fits: list[FitLoss] = []
        self._by_ledger: dict[int, tuple[Ledger, FitLoss]] = {}
        self._both: dict[int, tuple[PrivateRows, tuple[PrivateRows, PrivateRows]]] = {}
        self._silent = False
        self._ordinary = 0
        self._scores = np.zeros(0)

    # What is wrapped ------------------------------------------------------------------------------------------------

    def lock_table(self, original: Callable[..., Any], table: Any, schema: Any, fits: Any, **options: Any) -> Any:
        """Locks the table, or for each fit the one that it is to be given; and both known tables beside it."""
        locked, kind = original(table, schema, fits, **options)
        if self._fitted is not None:
            both = [original(known, schema, fits, **options)[0] for known in self._tables]
            locked = [both[world][i] for i, world in enumerate(self._fitted)]
        without, with_units = (original(known, schema, fits, **options)[0] for known in self._tables)
        self._both.clear()
        self._by_ledger.clear()
        for fit, rows, *both in zip(fits, locked, without, with_units, strict=True):
            self._keep(rows, both)
            self.of_fits.append(FitLoss())
            self._by_ledger[id(fit.ledger)] = fit.ledger, self.of_fits[-1]
        return locked, kind

    def derived(self, original: Callable[..., PrivateRows], rows: PrivateRows, *args: Any, **named: Any) -> PrivateRows:
        """Derives rows, and the same of both known tables."""
        made = original(rows, *args, **named)
        if id(rows) in self._both:
            with self._silence():
                self._ordinary = _length(self._both[id(rows)][1][0])
                self._keep(made, [original(each, *args, **named) for each in self._both[id(rows)][1]])
        return made

    def gaussian(self, original: Callable[..., Any], rows: PrivateRows, *args: Any, **named: Any) -> Any:
        released = original(rows, *args, **named)
        if id(rows) in self._both:
            scale, found = self._paid_for(named["ledger"])
            answers = [self._silently(original, each, args, named, scale) for each in self._both[id(rows)][1]]
            found(*_of_gaussian(answers[0], answers[1], released, scale))
        return released

    def counted(self, original: Callable[..., Any], rows: PrivateRows, asked: Sequence[Any], *, ledger: Ledger) -> Any:
        """Counts of several columns, each with a charge of its own."""
        released = original(rows, asked, ledger=ledger)
        if id(rows) in self._both and asked:
            both, told = self._both[id(rows)][1], self._by_ledger[id(ledger)][1]
            self._ordinary = _length(both[0])
            answers = [self._silently(original, each, (asked,), {"ledger": ledger}, 1.0) for each in both]
            for charge, noisy, *exact in zip(ledger._charges[-len(asked) :], released, *answers, strict=True):
                told.add(charge.name, *_of_gaussian(exact[0], exact[1], noisy, charge.sigma))
        return released

    def selected(self, original: Callable[..., int], rows: PrivateRows, *args: Any, **named: Any) -> int:
        chosen = original(rows, *args, **named)
        if id(rows) in self._both:
            scale, found = self._paid_for(named["ledger"])
            scores = []
            for each in self._both[id(rows)][1]:
                self._silently(original, each, args, named, scale)
                scores.append(self._scores / scale)
            found(*_of_choice(scores[0], scores[1], chosen))
        return chosen

    def pair_chosen(self, original: Callable[..., Any], pairs: PairSelection, opened: Any, **named: Any) -> Any:
        i, j = original(pairs, opened, **named)
        if id(pairs._rows) in self._both and pairs._errors is not None:
            scale, found = self._paid_for(named["ledger"])
            candidates = np.triu(np.array(opened, np.bool_) | np.array(opened, np.bool_).T)
            scores = []
            for each in self._both[id(pairs._rows)][1]:
                scores.append(PairSelection(each, pairs._columns, pairs._sizes)._score(pairs._errors) / scale)
            place = int(candidates[:i].sum() + candidates[i, :j].sum())
            found(*_of_choice(scores[0][candidates], scores[1][candidates], place))
        return i, j

    def categories(self, original: Callable[..., Any], rows: PrivateRows, column: str, **named: Any) -> Any:
        labels, released = original(rows, column, **named)
        if id(rows) in self._both:
            sigma, found = self._paid_for(named["ledger"])
            public = tuple(named.get("public", ()))
            clear, limit = counts.clear_of_noise(sigma, len(public)), _limit(rows, named)
            shown = dict(zip(labels, np.asarray(released).tolist(), strict=True))
            known: list[dict[str, float]] = []
            for each in self._both[id(rows)][1]:
                own, exact = self._silently(original, each, (column,), named, NEXT_TO_NOTHING)
                known.append(dict(zip(own, np.asarray(exact).tolist(), strict=True)))
            for label in known[0].keys() | known[1].keys():
                pair = known[0].get(label, 0.0), known[1].get(label, 0.0)
                least = clear if label in public else limit
                found(*_of_label(pair, shown.get(label), least, sigma, known=label in public))
        return labels, released

    def trained(self, original: Callable[..., Any], jobs: Sequence[Any], *, planned: str, **named: Any) -> Any:
        """Trains with loops that hold every step's sums against both tables."""
        from understudy.audit.attacked_loop import attack_part, loss_of_steps

        attacked, rates = list[Any](), list[float]()
        for job in jobs:
            entry, both = job.ledger.planned(planned), self._both[id(job.rows)][1]
            rates.append(min(entry.sampling_rate, job.rate))
            facts = {"canaries": self._units, "rate": rates[-1], "sigma": job.ledger.noise(planned) * job.clip_norm}
            parts = [attack_part(part, entry.times, both, **facts) for part in job.parts]
            attacked.append(dataclasses.replace(job, parts=parts))
        states = original(attacked, planned=planned, **named)
        for job, rate, own in zip(jobs, rates, states, strict=True):
            told = loss_of_steps([state.told for state in own], canaries=self._units, rate=rate)
            self._by_ledger[id(job.ledger)][1].add(planned, *told)
        return [[state.inner for state in own] for own in states]

    def drawn(self, original: Callable[..., Floats], sigma: float, size: int, key: Any) -> Floats:
        """Noise; none while an exact answer on a known table is asked for."""
        return np.zeros(size) if self._silent else original(sigma, size, key)

    def uniforms(self, original: Callable[..., Floats], row_map: Any, first: int, rows: int) -> Floats:
        """The random levels of rows. Known rows have those of the fit, which the attacker is told, canaries others.

        They are drawn independently of each other and of all values, and the promise holds whatever they are.
        """
        found = original(row_map, first, rows)
        canaries = max(first + rows - max(self._ordinary, first), 0) if self._silent else 0
        if canaries and len(found):
            others = np.random.default_rng(0).random((first + rows - self._ordinary, len(found))).T
            found[:, rows - canaries :] = others[:, -canaries:]
        return found

    def largest(self, original: Callable[..., int], scores: Floats, scale: float, key: Any) -> int:
        if not self._silent:
            return original(scores, scale, key)
        self._scores = np.array(scores, np.float64)
        return 0

    # ------------------------------------------------------------------------------------------------------------------

    def _keep(self, rows: PrivateRows, both: Sequence[PrivateRows]) -> None:
        self._both[id(rows)] = rows, (both[0], both[1])  # the rows are kept, so that no other gets their id

    def _paid_for(self, ledger: Ledger) -> tuple[float, Callable[[float, float], None]]:
        """The scale of the noise of the last charge, and where its loss goes."""
        charge = ledger._charges[-1]
        return charge.sigma, functools.partial(self._by_ledger[id(ledger)][1].add, charge.name)

    def _silently(
        self, original: Callable[..., Any], rows: PrivateRows, args: Any, named: dict[str, Any], scale: float
    ) -> Any:
        with self._silence():
            return original(rows, *args, **{**named, "ledger": _Paid(named["ledger"], scale)})

    @contextlib.contextmanager
    def _silence(self) -> Generator[None, None, None]:
        """Nothing inside the block draws from the fit's own randomness."""
        self._silent = True
        try:
            yield
        finally:
            self._silent = False


def _length(rows: PrivateRows) -> int:
    return sums.exact_row_count(rows)


def _of_gaussian(without: Any, with_units: Any, released: Any, scale: float) -> tuple[float, float]:
    """The loss of a release with normal noise, and its expectation."""
    without, with_units = np.asarray(without, np.float64), np.asarray(with_units, np.float64)
    shift = (with_units - without) / scale
    middle = (np.asarray(released) - (with_units + without) / 2) / scale
    return float(np.sum(shift * middle)), float(np.sum(shift**2)) / 2


def _of_choice(without: Floats, with_units: Floats, chosen: int) -> tuple[float, float]:
    """The loss of a choice by the exponential mechanism, and its expectation."""
    from scipy.special import log_softmax

    before, after = log_softmax(without), log_softmax(with_units)
    return float(after[chosen] - before[chosen]), float(np.sum(np.exp(after) * (after - before)))


def _of_label(
    counted: tuple[float, float], shown: float | None, limit: float, sigma: float, *, known: bool
) -> tuple[float, float]:
    """The loss of showing a category with a count, or of not showing it; a category that nobody has is never shown."""
    from scipy.special import log_ndtr, ndtr

    before, after = counted
    if before == after:
        return 0.0, 0.0
    information = (after - before) ** 2 / sigma**2 / 2 * float(ndtr((after - limit) / sigma))
    if shown is not None:
        if known or (before and after):
            return (after - before) * (shown - (before + after) / 2) / sigma**2, information
        return LARGEST if after else -LARGEST, information
    hidden = [float(log_ndtr((limit - n) / sigma)) if known or n else 0.0 for n in counted]
    return hidden[1] - hidden[0], information


def _limit(rows: PrivateRows, named: dict[str, Any]) -> float:
    """The count above which `popular_categories` shows a category that the schema does not name."""
    ledger, most = named["ledger"], rows.max_rows_per_unit
    charge = ledger._charges[-1]
    alone = most if charge.sensitivity == most else 1
    return alone + counts.threshold(charge.sigma, ledger.planned(named["planned"]).threshold_delta / most)


@contextlib.contextmanager
def watched(
    without: Any, with_units: Any, *, fitted: Sequence[int] | None = None, units: int = 1, training: bool = False
) -> Generator[Watch, None, None]:
    """Follows all fits inside the block; one call of `fit_many` at a time, and none in another thread.

    Args:
        without, with_units: The two known tables. What is fitted is one of them.
        fitted: Which of the two each fit is given, 0 or 1, so that one call fits both; None: what it is called with.
        units: By how many units the two differ.
        training: Whether the steps of trainings are watched, for which JAX is loaded.
    """
    watch = Watch((without, with_units), fitted, units)
    around = [
        (pipeline.lock_table, watch.lock_table),
        (counts.popular_categories, watch.categories),
        (fused_counts.noisy_column_counts, watch.counted),
        (row_draws.uniforms, watch.uniforms),
        *((getattr(module, name), watch.gaussian) for module, name in GAUSSIAN),
        *((getattr(module, name), watch.selected) for module, name in SELECTIONS),
        # Each module's own, in case that one of them draws another noise than the others.
        *((function, watch.drawn) for function in _all_named("discrete_gaussian")),
        *((function, watch.largest) for function in _all_named("largest_with_gumbel")),
    ]
    methods: list[tuple[type, str, Callable[..., Any]]] = [
        (PairSelection, "choose", watch.pair_chosen),
        *((PrivateRows, name, watch.derived) for name in ("derive", "relabel", "coarsen")),
    ]
    if training:
        from understudy.privacy import gradients

        around.append((gradients.train, watch.trained))
    replaced = [(function, functools.wraps(function)(functools.partial(seen, function))) for function, seen in around]
    before = [(owner, name, getattr(owner, name)) for owner, name, _ in methods]
    for function, wrapper in replaced:
        _replace(function, wrapper)
    for owner, name, seen in methods:
        setattr(owner, name, _method(seen, getattr(owner, name)))
    try:
        yield watch
    finally:
        for owner, name, original in before:
            setattr(owner, name, original)
        for function, wrapper in replaced:
            _replace(wrapper, function)


def _method(seen: Callable[..., Any], original: Callable[..., Any]) -> Callable[..., Any]:
    @functools.wraps(original)
    def method(self: Any, *args: Any, **named: Any) -> Any:
        return seen(original, self, *args, **named)

    return method


def _modules() -> list[types.ModuleType]:
    return [module for name, module in list(sys.modules.items()) if name.split(".")[0] == "understudy"]


def _all_named(name: str) -> list[Callable[..., Any]]:
    """The distinct functions that modules of the package call by this name."""
    found = [getattr(module, name, None) for module in _modules()]
    return list({id(function): function for function in found if function is not None}.values())


def _replace(old: Any, new: Any) -> None:
    """Lets every module of the package that refers to `old` refer to `new`."""
    for module in _modules():
        for attribute, value in list(vars(module).items()):
            if value is old:
                setattr(module, attribute, new)
