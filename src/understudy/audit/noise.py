"""Noise: the samplers that ship, with the operating system's entropy, against the distributions they are charged as.

The one rule: nothing is seeded here. What is tested is what protects people, and not what tests repeat.

Every test has a probability below `FALSE_ALARM` of failing a sampler that is right, divided by the number of tests. A
sampler whose deviation is off by a tenth fails nearly surely.

- Discrete Gaussian noise: chi-square against the probabilities of the discrete Gaussian, on its lattice.
- Selections: chi-square against the exponential mechanism's probabilities.
- Batches: how often each unit is drawn, and how much the sizes of batches vary, against independent draws.
- The noise in a fit: an unseeded fit whose gradients count as zero, so that the sums of its training are noise alone;
  its other releases have known noise too. Their variance and distribution are compared with those charged, and no two
  releases may share their noise.
- Keys: each is new, and noise drawn twice from one secret key is not the same.
"""

# SciPy has no type stubs.
# pyright: reportMissingTypeStubs=false

import contextlib
import dataclasses
import io
import math
import time
import warnings
from collections.abc import Iterator, Sequence
from typing import Any

import numpy as np
from numpy.typing import NDArray

from understudy import pipeline
from understudy.audit.comparison import noise_of, scale_of
from understudy.audit.finding import Finding
from understudy.audit.replay import tables_for
from understudy.audit.shortened import shortened
from understudy.audit.simulated import Simulated
from understudy.audit.tape import TRAINING, Tape
from understudy.core.randomness import Key
from understudy.privacy import recording
from understudy.privacy.batches import largest_batch, poisson_batches
from understudy.privacy.noise import discrete_gaussian, largest_with_gumbel
from understudy.privacy.plan import lattice
from understudy.synthesizers.base import Method
from understudy.tables.database_schema import DatabaseSchema
from understudy.tables.schema import Schema

Floats = NDArray[np.float64]

FALSE_ALARM = 1e-6
"""The probability that a correct library fails any of these tests."""
DRAWS = 10_000
"""Draws from each discrete Gaussian. A deviation off by 5 % is seen in so many."""
SELECTIONS = 4_000
STEPS = 2_000
"""Batches that are drawn."""
SIGMAS = (0.6, 2.5, 47.0, 1e5)
"""Deviations of the noise that is tested: with a fine lattice, with the coarsest, and far from zero."""
LEAST_SHARED = 6
"""Two releases that have at least so many numbers in common from the start share their noise."""


@dataclasses.dataclass(frozen=True)
class SamplerTest:
    """One test of a sampler.

    Attributes:
        sampler: What was tested.
        draws: How many draws.
        p_value: The probability of such draws, or worse ones, if the sampler is right; 0 for something impossible.
    """

    sampler: str
    draws: int
    p_value: float


@dataclasses.dataclass(frozen=True)
class NoiseTest:
    """What the tests of all samplers showed.

    Attributes:
        tests: One for each sampler and setting.
        findings: What failed.
        false_alarm: The probability that a correct library has any finding.
        seconds: How long it took.
    """

    tests: tuple[SamplerTest, ...]
    findings: tuple[Finding, ...]
    false_alarm: float
    seconds: float

    @property
    def passed(self) -> bool:
        return not self.findings

    def to_json(self) -> dict[str, Any]:
        return {**dataclasses.asdict(self), "passed": self.passed}


def judge_noise(
    schema: Schema | DatabaseSchema,
    method: Method,
    *,
    epsilon: float,
    delta: float,
    simulated: Simulated | None = None,
) -> NoiseTest:
    """Tests the samplers by themselves and in an unseeded fit."""
    started = time.perf_counter()
    tape, error = _unseeded_fit(schema, method, epsilon, delta, simulated)
    tests = [*_of_samplers(), *_of_fit(tape)]
    limit = FALSE_ALARM / len(tests)
    findings = [
        Finding("sampler", test.sampler, f"{test.draws} draws are not as charged (p = {test.p_value:.2g}).")
        for test in tests
        if not test.p_value >= limit
    ]
    if error:
        findings.append(Finding("messages", "an unseeded fit", f"it fails: {error}"))
    return NoiseTest(tuple(tests), tuple(findings), FALSE_ALARM, time.perf_counter() - started)


def _of_samplers() -> Iterator[SamplerTest]:
    for sigma in SIGMAS:
        yield _discrete_gaussian(sigma)
    yield _selections()
    yield from _batches()
    yield _keys()


# The samplers by themselves -----------------------------------------------------------------------------------------


def _chi_square(observed: Floats, expected: Floats) -> float:
    """The p-value of counts, with neighbours pooled so that at least 20 are expected of each."""
    from scipy.stats import chi2

    groups = np.floor(np.cumsum(expected) / 20.0).astype(int)
    groups = np.minimum(groups, groups[-1] - 1) if groups[-1] > 1 else np.zeros_like(groups)
    seen, wanted = np.bincount(groups, observed), np.bincount(groups, expected)
    some = wanted > 0
    if np.any(seen[~some] > 0):
        return 0.0
    return float(chi2.sf(np.sum((seen[some] - wanted[some]) ** 2 / wanted[some]), max(int(some.sum()) - 1, 1)))


def _discrete_gaussian(sigma: float) -> SamplerTest:
    name, steps = f"discrete Gaussian noise, deviation {sigma:g}", lattice(sigma)
    whole = discrete_gaussian(sigma, DRAWS, Key.new()) * steps
    if np.any(whole != np.rint(whole)):
        return SamplerTest(f"{name}: on its lattice", DRAWS, 0.0)
    width = sigma * steps
    far = math.ceil(9 * width)
    bins = min(2 * far + 1, 401)
    edges = np.unique(np.rint(np.linspace(-far, far + 1, bins + 1)))
    places = np.arange(-far, far + 1) if far <= 2**16 else None
    if places is None:  # so many lattice points that their sum is the integral
        from scipy.stats import norm

        shares = np.diff(norm.cdf((edges - 0.5) / width))
    else:
        weights = np.exp(-(places**2) / (2 * width**2))
        shares = np.diff(np.r_[0.0, np.cumsum(weights)][(edges + far).astype(int)]) / weights.sum()
    observed = np.histogram(whole, edges)[0].astype(np.float64)
    if observed.sum() < DRAWS:  # beyond nine deviations
        return SamplerTest(name, DRAWS, 0.0)
    return SamplerTest(name, DRAWS, _chi_square(observed, DRAWS * shares))


def _selections() -> SamplerTest:
    scores, scale = np.array([0.0, 1.0, 2.5, -4.0, 2.5, 3.0]), 1.5
    weights = np.exp(scores / scale)
    key = Key.new()
    drawn = [largest_with_gumbel(scores, scale, key.child(f"{i}")) for i in range(SELECTIONS)]
    observed = np.bincount(drawn, minlength=len(scores)).astype(np.float64)
    return SamplerTest("selections", SELECTIONS, _chi_square(observed, SELECTIONS * weights / weights.sum()))


def _batches() -> Iterator[SamplerTest]:
    """Each unit is drawn with the charged rate, in every batch anew, and independently of all others."""
    from scipy.stats import chi2

    units, rate = 60, 0.3
    places, drawn = poisson_batches(Key.new(), rate, units, STEPS, largest_batch(units, rate))
    member = np.zeros((STEPS, units))
    member[np.nonzero(drawn)[0], places[drawn]] = 1.0
    variance = rate * (1 - rate)
    often = float(np.sum((member.sum(0) - STEPS * rate) ** 2) / (STEPS * variance))
    yield SamplerTest("batches: how often a unit is drawn", STEPS, _two_sided(often, units))
    sizes = float(np.sum((member.sum(1) - units * rate) ** 2) / (units * variance))
    yield SamplerTest("batches: their sizes", STEPS, _two_sided(sizes, STEPS))
    both = (member[1:] - rate) * (member[:-1] - rate)  # of one unit, in two batches
    again = float(np.sum(both) ** 2 / (both.size * variance**2))
    yield SamplerTest("batches: independent of the last", STEPS, float(chi2.sf(again, 1)))


def _two_sided(statistic: float, degrees: int) -> float:
    from scipy.stats import chi2

    return 2 * float(min(chi2.cdf(statistic, degrees), chi2.sf(statistic, degrees)))


def _keys() -> SamplerTest:
    keys = [Key.new() for _ in range(20)]
    words = {key.words(2).tobytes() for key in keys} | {key.child("a").words(2).tobytes() for key in keys}
    one = Key.new()
    twice = {discrete_gaussian(1e6, 16, one).tobytes() for _ in range(2)}
    fresh = all(key.secret for key in keys) and len(words) == 2 * len(keys) and len(twice) == 2
    return SamplerTest("keys", 2 * len(keys), 1.0 if fresh else 0.0)


# The noise in a fit -------------------------------------------------------------------------------------------------


def _unseeded_fit(
    schema: Schema | DatabaseSchema, method: Method, epsilon: float, delta: float, simulated: Simulated | None
) -> tuple[Tape, str]:
    """The tape of a fit that draws its noise as a user's does, with gradients of zero; and its error, if it fails."""
    schema, made = tables_for(schema, simulated)
    table, tape, error = made[0].table, Tape(silent=True), ""
    with (
        contextlib.redirect_stderr(io.StringIO()),
        contextlib.redirect_stdout(io.StringIO()),
        warnings.catch_warnings(),
        recording.watched_by(tape),
    ):
        warnings.simplefilter("ignore")
        try:
            short = shortened(method, schema)
            pipeline.fit(table, schema, short, epsilon=epsilon, delta=delta, progress=False)
        except Exception as failed:
            error = f"{type(failed).__name__}: {failed}"
    return tape, error


def _of_fit(tape: Tape) -> Iterator[SamplerTest]:
    noise: dict[str, list[Floats]] = {}
    for release in tape.releases:
        if release.charge is None or release.charge.mechanism == "exponential":
            continue
        if release.mechanism == TRAINING:
            assert isinstance(release.noisy, np.ndarray)
            noise[TRAINING] = list(release.noisy / scale_of(release.charge))  # one for each step
        else:
            noise.setdefault("counts, sums and moments", []).append(noise_of(release))
    for name, parts in noise.items():
        yield from _normal(f"the noise in a fit, {name}", np.concatenate(parts))
        yield SamplerTest(f"the noise in a fit, {name}: none used twice", len(parts), _unshared(parts))


def _normal(name: str, z: Floats) -> Iterator[SamplerTest]:
    """Numbers that should be standard normal: their variance, and their distribution."""
    from scipy.stats import kstest

    yield SamplerTest(f"{name}: variance", len(z), _two_sided(float(np.sum(z**2)), len(z)))
    # The lattice has 32 steps to a deviation or more; spread over a step, numbers have no ties.
    some = z[:DRAWS]
    spread = some + np.random.default_rng().uniform(-0.5, 0.5, len(some)) / 64
    yield SamplerTest(f"{name}: distribution", len(some), float(kstest(spread, "norm").pvalue))


def _unshared(parts: Sequence[Floats]) -> float:
    """1 if no two releases begin with the same noise, 0 if some do."""
    long = [np.round(part[:LEAST_SHARED], 9) for part in parts if len(part) >= LEAST_SHARED]
    return 1.0 if len({part.tobytes() for part in long}) == len(long) else 0.0
