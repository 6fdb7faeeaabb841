"""What is held against one recorded fit, and against a pair of fits whose tables differ by one unit.

The one rule: nothing here is taken from the code under audit. Norms, thresholds and scales are computed anew, from the
charges and from what the mechanisms showed.

Of one fit: every charge has one release and every release a charge; the noise in a release is the noise that was drawn,
at the scale that was charged; no stream of noise is used twice; a label is named only above its limit.

Of a pair: the exact answers differ by at most the charged sensitivity, in L2 norm, and for a selection in every score;
a label that only one of the tables has lies so far below its limit that noise names it with at most the charged
probability.
"""

# SciPy has no type stubs.
# pyright: reportMissingTypeStubs=false

import collections
from collections.abc import Iterator, Mapping

import numpy as np
from numpy.typing import NDArray

from understudy.audit.finding import Finding
from understudy.audit.tape import TRAINING, Release, Tape
from understudy.privacy.plan import Charge

Floats = NDArray[np.float64]

DRAWS = {"second moments": 2, "unit moments": 2, "selected pair": 2}
"""How often noise is drawn for a release; once for all others. A pair is drawn in two steps, row and place."""
ROUNDING = 1e-9
"""Exact answers may differ by this part more than the sensitivity, through rounding of the numbers compared."""
SAME_NOISE = 1e-6
"""Noise, in deviations, counts as the noise that was drawn if it is as near as this."""


def scale_of(charge: Charge) -> float:
    """The scale of the noise that a charge stands for, in the units of the answer."""
    return charge.noise_multiplier * charge.sensitivity


# One fit -------------------------------------------------------------------------------------------------------------


def judge(tape: Tape) -> Iterator[Finding]:
    """What is wrong with one fit by itself."""
    for charge in tape.unreleased:
        yield Finding("charges", charge.name, "charged, and nothing was released for it.")
    for name, times in collections.Counter(tape.streams).items():
        if times > 1:
            yield Finding("streams", "noise", f"one stream was used {times} times (its last word is {name[-1]}).")
    for release in tape.releases:
        if release.charge is None:
            yield Finding("charges", release.mechanism, "released without a charge of its own.")
        elif release.mechanism != TRAINING:
            yield from _judge_noise(release)
            yield from _judge_labels(release)


def _judge_noise(release: Release) -> Iterator[Finding]:
    charge, draws = release.charge, release.draws
    assert charge is not None
    expected = DRAWS.get(release.mechanism, 1)
    if len(draws) != expected:
        what = f"noise was drawn {len(draws)} times for one charge; expected {expected}."
        yield Finding("charges", release.mechanism, what)
        return
    if charge.mechanism == "exponential":
        if any(abs(draw.scale / scale_of(charge) - 1) > ROUNDING for draw in draws):
            used = min(draw.scale / scale_of(charge) for draw in draws)
            yield Finding("noise", release.mechanism, f"the noise has {used:.4g} of the scale that was charged.")
        return
    drawn = np.sort(np.concatenate([np.ravel(draw.drawn) / draw.scale for draw in draws]))
    added = np.sort(noise_of(release))
    if added.shape != drawn.shape:
        yield Finding("noise", release.mechanism, f"{len(added)} numbers have {len(drawn)} draws of noise.")
    elif len(added) and (worst := float(np.max(np.abs(added - drawn)))) > SAME_NOISE:
        what = f"the noise in the release is not the one drawn at the charged scale; {worst:.3g} deviations apart."
        yield Finding("noise", release.mechanism, what)


def noise_of(release: Release) -> Floats:
    """The noise of a release, in charged deviations."""
    assert release.charge is not None and release.exact is not None and release.noisy is not None
    exact, noisy = release.exact, release.noisy
    if isinstance(exact, Mapping) or isinstance(noisy, Mapping):
        assert isinstance(exact, Mapping) and isinstance(noisy, Mapping)
        gaps = np.array([noisy[label] - exact[label] for label in exact], np.float64)
    else:
        gaps = np.ravel(noisy) - np.ravel(exact)
    return gaps / scale_of(release.charge)


def _judge_labels(release: Release) -> Iterator[Finding]:
    """A label of the rows is named only if its noisy count reaches its limit."""
    if not isinstance(release.noisy, Mapping):
        return
    for label in release.value[0]:
        if label not in release.noisy or release.noisy[label] < release.limits.get(label, -np.inf):
            yield Finding("labels", release.mechanism, f"{label!r} is named below its limit.")
            return


# A pair of fits ------------------------------------------------------------------------------------------------------


def changes(base: Tape, other: Tape) -> Iterator[tuple[Release, float]]:
    """By how much of its charged sensitivity each release changed; infinite if the answers have another shape."""
    for mine, theirs in zip(base.releases, other.releases, strict=False):
        if mine.charge is None:
            continue
        if mine.mechanism == TRAINING:
            assert isinstance(mine.noisy, np.ndarray) and isinstance(theirs.noisy, np.ndarray)
            yield mine, _change_of_sums(mine.noisy, theirs.noisy) / mine.charge.sensitivity
            continue
        gaps = _gaps(mine, theirs)
        if gaps is None:
            yield mine, np.inf
        elif mine.charge.mechanism == "exponential":
            yield mine, float(np.max(np.abs(gaps), initial=0.0)) / mine.charge.sensitivity
        else:
            yield mine, float(np.linalg.norm(gaps)) / mine.charge.sensitivity


def _gaps(mine: Release, theirs: Release) -> Floats | None:
    a, b = mine.exact, theirs.exact
    if isinstance(a, Mapping) and isinstance(b, Mapping):
        return np.array([a.get(label, 0.0) - b.get(label, 0.0) for label in {**a, **b}], np.float64)
    a, b = np.asarray(a, np.float64), np.asarray(b, np.float64)
    return np.ravel(a - b) if a.shape == b.shape else None


def _change_of_sums(mine: Floats, theirs: Floats) -> float:
    """The largest change of a step's sum. Both have the same noise; its rounding in float32 is no change."""
    if mine.shape != theirs.shape:
        return np.inf
    rounding = 2.0**-24 * (np.abs(mine) + np.abs(theirs))
    gaps = np.maximum(np.abs(mine - theirs) - rounding, 0.0)
    return float(np.max(np.linalg.norm(gaps, axis=1), initial=0.0))


def judge_pair(base: Tape, other: Tape, what: str) -> Iterator[Finding]:
    """What is wrong with two fits of neighbouring tables that had the same releases."""
    if [each.mechanism for each in base.releases] != [each.mechanism for each in other.releases]:
        yield Finding("charges", "the fit", f"with {what} it has other releases.")
    for release, change in changes(base, other):
        if change == np.inf:
            yield Finding("identical", release.mechanism, f"{what} gives the answer another shape.")
        elif change > 1 + ROUNDING:
            words = f"{what} changes the answer by {change:.6g} of the charged sensitivity."
            yield Finding("sensitivity", release.mechanism, words)
    for mine, theirs in zip(base.releases, other.releases, strict=False):
        if isinstance(mine.exact, Mapping):
            yield from _judge_new_labels(mine, theirs, what)


def _judge_new_labels(mine: Release, theirs: Release, what: str) -> Iterator[Finding]:
    """Labels that one table alone has are named with at most the charged probability, all of them together."""
    from scipy.special import ndtr

    assert isinstance(mine.exact, Mapping) and isinstance(theirs.exact, Mapping) and mine.charge is not None
    charge, chance = mine.charge, 0.0
    for release, own, foreign in ((mine, mine.exact, theirs.exact), (theirs, theirs.exact, mine.exact)):
        alone = {label: count for label, count in own.items() if label not in foreign and count > 0}
        gaps = [(release.limits.get(label, np.inf) - count) / scale_of(charge) for label, count in alone.items()]
        chance = max(chance, float(sum(ndtr(-gap) for gap in gaps)))
    if chance > charge.threshold_delta:
        words = (
            f"{what} has a label that is named with probability {chance:.3g}; charged: {charge.threshold_delta:.3g}."
        )
        yield Finding("labels", mine.mechanism, words)
