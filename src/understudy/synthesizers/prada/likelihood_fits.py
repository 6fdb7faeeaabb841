"""Fits by likelihood on their way: a start from second moments, the loop, and the fitted generator; many at a time.

The one rule: rows go to `noisy_second_moments`, `dpsgd.train` and `tables.bought`, and nowhere else. What comes back is
public.

Sources: Ledoit and Wolf (2004), "A well-conditioned estimator for large-dimensional covariance matrices", for why a
noisy matrix is shrunk before it is inverted; Kingma and Ba (2015), arXiv:1412.6980, for Adam; Zou (2006), "The adaptive
lasso and its oracle properties", for weights of the penalty from a first estimate.
"""

import dataclasses
import math
from collections.abc import Mapping, Sequence
from typing import Any

import jax
import jax.numpy as jnp
import numpy as np
from numpy.typing import NDArray

from understudy.core.randomness import Key
from understudy.encoding.encoder import Encoder, feature_rows, features, target_weightings
from understudy.privacy.gradients import Job, Layer, capacity_for
from understudy.privacy.ledger import Ledger
from understudy.privacy.mechanisms import noisy_second_moments
from understudy.privacy.rows import PrivateRows
from understudy.synthesizers.prada import density, structure, tables
from understudy.synthesizers.prada.fits import Request, block_of, run_together
from understudy.synthesizers.prada.fitted import FittedDensity, category_edges
from understudy.synthesizers.prada.likelihood import STEPS_PER_ROUND
from understudy.synthesizers.prada.networks import Layout
from understudy.synthesizers.prada.settings import drawn_rate
from understudy.synthesizers.prada.tables import Tables
from understudy.tables.schema import Schema

Floats = NDArray[np.float64]

DECAYS = (0.9, 0.999)
"""Adam's memories."""
CLIP_RANGE = (1.0, 3.0)
"""Least and most of the squared norm that rows are clipped to for their moments, as a multiple of its expectation."""
NOISE_TARGET = 0.04
"""Rows are clipped as loosely as keeps the noise of a second moment at this deviation."""
SMALLEST = 1e-3
"""Eigenvalue of a correlation matrix that is inverted; or this part of the radius of its noise, if that is more."""
SMALLEST_OF_NOISE = 0.5
LEAST_UNIT = 0.05
"""Deviation of a number about its prediction, at least: a score is never known better at the start."""
STRAIGHT_ROWS = 2**14
"""Rows that columns are set straight on."""
ENOUGH_NOISE = 0.6
"""Of `total_noise`: above it, columns get smaller networks."""
MOST_PENALTY = 40.0
"""Of the group lasso, however little noise there is."""
USUAL_NOISE = 0.05
"""Of `total_noise`: at it the rate is the one that was set (docs/design-notes.md)."""
FEW_NATS = 0.02
"""What a column may lose with inputs that are cut, however little it takes from all of them."""
INFLUENCE_ROWS = 2**12
"""Rows that influences are measured on."""


# The start ----------------------------------------------------------------------------------------------------------


@dataclasses.dataclass(frozen=True, kw_only=True, eq=False)
class Start:
    """What second moments say: a linear prediction of every feature from the earlier columns.

    Attributes:
        weights: (features, features): row f predicts the centred feature f from earlier columns' centred features.
        means: Of the features, from the encoder.
        left: The deviation that the prediction leaves.
        noise: The deviation of the noise of one correlation.
    """

    weights: Floats
    means: Floats
    left: Floats
    noise: float


def facts(encoder: Encoder, layout: Layout) -> tuple[Floats, Floats, Floats]:
    """What the encoder says of the signals: means, variances, and shares of states (columns, width)."""
    means, variances, shares = [], [], np.zeros((layout.columns, layout.width))
    for j, block in enumerate(layout.blocks):
        m = encoder.maps[block.name]
        if block.number:
            means.append(0.0)
            variances.append(max(1.0 - m.missing, 1e-3))
            states = np.array([1.0 - m.missing, m.missing])[: block.states]
        else:
            states = np.append(np.diff(m.distribution.cdf) * (1.0 - m.missing), m.missing)[: block.states]
        states = np.maximum(states, 1e-4) / max(float(np.maximum(states, 1e-4).sum()), 1e-12)
        means.extend(states)
        variances.extend(np.maximum(states * (1.0 - states), 1e-4))
        shares[j, block.number : block.width] = states
    return np.array(means), np.array(variances), shares


def start_from(
    moments: Floats, means: Floats, variances: Floats, layout: Layout, *, noise: float, loadings: Floats | float = 1.0
) -> Start:
    """Linear predictions from noisy second moments, Σ x xᵀ / rows of clipped signals.

    The measured diagonal undoes what clipping took from each signal; the known means are taken away; the matrix of
    correlations is nearest_correlation and each feature is regressed on those of earlier columns.

    Args:
        loadings: Of accented scores, E[a Z] with Z the normal score behind: correlations are those of Z, as a normal
            copula has them, and predictions and what they leave are in units of a = loading · Z.
    """
    squares = variances + means**2
    kept = np.sqrt(np.clip(np.diag(moments) / squares, 0.3, 1.2))
    covariance = moments / np.outer(kept, kept) - np.outer(means, means)
    deviations = np.sqrt(variances)
    spread = deviations * loadings
    correlation = np.clip(covariance / np.outer(spread, spread), -0.99, 0.99)
    smallest = min(max(SMALLEST, SMALLEST_OF_NOISE * 2 * noise * math.sqrt(len(means))), 0.9)
    correlation = nearest_correlation(correlation, smallest)
    weights, left = np.zeros_like(correlation), np.ones(len(means))
    for j in range(1, layout.columns):
        own, earlier = np.flatnonzero(layout.owners == j), np.flatnonzero(layout.owners < j)
        b = np.linalg.solve(correlation[np.ix_(earlier, earlier)], correlation[np.ix_(earlier, own)])
        left[own] = 1.0 - np.sum(b * correlation[np.ix_(earlier, own)], axis=0)
        weights[np.ix_(own, earlier)] = b.T * spread[own][:, None] / spread[earlier]
    left = np.sqrt(np.clip(left, LEAST_UNIT**2, 1.0)) * spread
    return Start(weights=weights, means=means, left=left, noise=noise)


def nearest_correlation(matrix: Floats, smallest: float, rounds: int = 50) -> Floats:
    """A correlation matrix near this one with eigenvalues of about `smallest` or more: alternating projections."""
    matrix, correction = (matrix + matrix.T) / 2, np.zeros_like(matrix)
    np.fill_diagonal(matrix, 1.0)
    for _ in range(rounds):
        values, vectors = np.linalg.eigh(matrix - correction)
        if values[0] >= smallest:
            break
        nearest = (vectors * np.maximum(values, smallest)) @ vectors.T
        correction = nearest - (matrix - correction)
        matrix = nearest.copy()
        np.fill_diagonal(matrix, 1.0)
    values, vectors = np.linalg.eigh(matrix)
    matrix = (vectors * np.maximum(values, smallest)) @ vectors.T
    scale = np.sqrt(np.diag(matrix))
    return matrix / np.outer(scale, scale)


def start_params(start: Start, shares: Floats, layout: Layout, hidden: int, components: int, draw: Any) -> dict:
    """The densities before training: normal about the linear prediction; states by a first-order logistic regression.

    With p_s = π_s + b_sᵀ(x - m), log p_s = log π_s + b_sᵀ(x - m) / π_s to first order. Hidden units look somewhere, and
    count for nothing yet.
    """
    d, features = layout.columns, layout.features
    first = np.zeros((d, features + 1, hidden + layout.width))
    first[:, :-1, :hidden] = draw.standard_normal((d, features, hidden)) * layout.earlier[:, :, None]
    first[:, :-1, :hidden] /= np.sqrt(layout.earlier.sum(axis=1) + 1.0)[:, None, None]
    first[:, -1, :hidden] = 0.5 * draw.standard_normal((d, hidden))
    unit = np.ones(d)
    for j, (block, at) in enumerate(zip(layout.blocks, layout.starts, strict=True)):
        for place in range(block.width):
            row = start.weights[at + place]
            if block.number and place == 0:
                unit[j] = max(start.left[at], LEAST_UNIT)
                scale, constant = 1.0 / unit[j], 0.0
            else:
                share = shares[j, place]
                scale, constant = 1.0 / max(share, 3.0 * start.noise, 0.02), math.log(max(share, 1e-4))
            first[j, :-1, hidden + place] = row * scale
            first[j, -1, hidden + place] = constant - scale * float(row @ start.means)
    made = {"first": first, "second": density.start_second(layout, hidden, components), "unit": unit}
    return {name: np.asarray(value, np.float32) for name, value in made.items()}


def penalties(scale: float, start: Start, rows: float, noise: float, layout: Layout, hidden: int) -> Floats:
    """λ of every pair of columns, in units of Adam's direction: (columns, columns).

    A group of m weights that the loss does not feel has a direction of length about √(m (1 - β) / (1 + β)), for Adam's
    first memory β; λ is a multiple of it. The multiple is the `scale` where the chance of these very rows, which a
    network would learn by heart, is as large in the gradient as the noise is, and it grows with the square of their
    ratio: under much noise there is nothing to learn by heart, and inputs are better left. As in the adaptive lasso,
    pairs that the start is sure of are spared: their λ is divided by how far their prediction is above its noise.

    Args:
        noise: As of `noise_of_training`.
    """
    size = np.array([block.width for block in layout.blocks]) * (hidden + layout.width)
    length = np.sqrt(size * (1 - DECAYS[0]) / (1 + DECAYS[0]))[None, :]
    chance = 1.0 / math.sqrt(max(rows, 1.0) * weights_of(layout))  # in one coordinate of a mean of rows of norm 1
    scale *= min((chance / max(noise, 1e-12)) ** 2, MOST_PENALTY)
    squares = np.zeros((layout.columns, layout.columns))
    np.add.at(squares, (layout.owners[:, None], layout.owners[None, :]), (start.weights / start.left[:, None]) ** 2)
    sure = np.sqrt(squares) / (start.noise + 1.0 / math.sqrt(max(rows, 1.0)))
    return scale * length / np.maximum(sure, 1.0)


# The loop -----------------------------------------------------------------------------------------------------------


@dataclasses.dataclass(frozen=True, kw_only=True)
class Likelihood:
    """The loop that `dpsgd.train` runs: Adam on the noisy gradient of -log density, and the penalty's proximal map.

    Adam's direction is the gradient over its own root mean square, so a penalty in those units is shrunk by η · λ
    alone (structure.py has why it must be Adam's metric).
    """

    layout: Layout
    components: int
    steps_per_round: int

    def begin(self, params: dict, settings: dict[str, Any]) -> dict[str, Any]:
        """The state before the first step, as plain arrays.

        Args:
            settings: rate, batch (expected), steps, average, weights of the columns, and the penalty of each pair.
        """
        trained = {name: params[name] for name in ("first", "second")}
        zeros = {name: np.zeros_like(value) for name, value in trained.items()}
        return {
            "params": trained,
            "unit": params["unit"],
            "mean": dict(zeros),
            "slow": dict(zeros),
            "square": dict(zeros),
            "step": np.zeros((), np.float32),
            "settings": {name: np.asarray(value, np.float32) for name, value in settings.items()},
        }

    def prepare(self, state: dict[str, Any], key: jax.Array) -> jax.Array:
        return jnp.zeros(self.steps_per_round)

    def factors(self, state: dict[str, Any], rows: jax.Array) -> list[Layer]:
        params = {**state["params"], "unit": state["unit"]}
        return density.factors(params, rows, state["settings"]["weights"], self.layout, self.components)

    def update(self, state: dict[str, Any], gradient: Sequence[jax.Array], prepared: Any) -> dict[str, Any]:
        """One step of Adam, m / (√v + ε) with running means m and v, and of the mean over the last steps."""
        settings, (b1, b2) = state["settings"], DECAYS
        step = state["step"] + 1
        seen = density.seen(self.layout)[:, :, None]  # the noise is everywhere
        slope = {
            "first": jnp.where(seen, gradient[0], 0.0) / settings["batch"],
            "second": gradient[1] / settings["batch"],
        }
        slow = jax.tree.map(lambda m, g: b1 * m + (1 - b1) * g, state["slow"], slope)
        square = jax.tree.map(lambda v, g: b2 * v + (1 - b2) * g**2, state["square"], slope)
        rate = settings["rate"] * jnp.maximum(1.0 - (step - 1) / settings["steps"], 0.0)

        def moved(weights, m, v):
            return weights - rate * (m / (1 - b1**step)) / (jnp.sqrt(v / (1 - b2**step)) + 1e-6)

        params = jax.tree.map(moved, state["params"], slow, square)
        params["first"] = structure.shrunk(params["first"], self.layout, rate * settings["penalty"])
        since = step - 1 - jnp.floor((1 - settings["average"]) * settings["steps"])
        weight = jnp.where(since >= 0, 1 / (since + 1), 0.0)
        mean = jax.tree.map(lambda before, now: before + weight * (now - before), state["mean"], params)
        return {**state, "params": params, "slow": slow, "square": square, "mean": mean, "step": step}

    def finish(self, state: dict[str, Any], key: jax.Array) -> dict[str, Any]:
        return state


# Fits ---------------------------------------------------------------------------------------------------------------


def order_of(method: Any, schema: Schema) -> tuple[str, ...]:
    """The order of generation: the one that is set, the schema's, or its columns with the target last.

    Last, the target is drawn from a density that sees every other column, and that counts `emphasis` times.
    """
    if method.order != "schema":
        return method.order
    if schema.order or schema.target is None:
        return schema.generation_order
    return (*(name for name in schema.names if name != schema.target), schema.target)


def noise_of_training(ledger: Ledger, rate: float, rows: float) -> float:
    """The noise in one coordinate of the mean gradient over a whole training, in units of the clipping norm.

    All steps together are about as private, and as exact, as one Gaussian release of
    μ = q √(T (exp(1 / σ²) - 1)) over all rows: its noise is 1 / μ on a sum, and 1 / (μ n) on a mean.

    Args:
        rate: q, that rows are drawn with.
    """
    item, sigma = ledger.planned("gradients"), ledger.noise("gradients")
    mu = rate * math.sqrt(item.times * math.expm1(min(1 / sigma**2, 500.0)))
    return 1.0 / (min(mu, 1e6) * max(rows, 1.0))


def capacity(noise: float, layout: Layout) -> tuple[int, int]:
    """Hidden units and components that the noise allows: the more weights, the more noise in all of them together."""
    return (32, 4) if total_noise(noise, layout) <= ENOUGH_NOISE else (16, 3)


def total_noise(noise: float, layout: Layout) -> float:
    """The norm of the noise on the mean gradient of a whole training, for 32 hidden units, in clipping norms."""
    return noise * math.sqrt(weights_of(layout))


def weights_of(layout: Layout) -> float:
    """Weights of all first layers, for 32 hidden units."""
    return 32.0 * float((layout.earlier.sum(axis=1) + 1).sum())


def rate_for(rate: float, noise: float, layout: Layout) -> float:
    """The rate of the steps: the less noise, the longer, within what was tried.

    Under noise Adam's denominators are the noise, so that its steps are as long as the gradient is above it.
    """
    return rate * float(np.clip(math.sqrt(USUAL_NOISE / max(total_noise(noise, layout), 1e-9)), 0.5, 2.5))


def fit_densities(requests: Sequence[Request]) -> list[FittedDensity]:
    """The fitted generators of densities, in the order of the requests."""
    fits = [_Fit.of(*request) for request in requests]
    states = run_together(fits, "gradients", "train the densities of the columns")
    return [fit.generator(state) for fit, state in zip(fits, states, strict=True)]


@dataclasses.dataclass(frozen=True, kw_only=True, eq=False)
class _Fit:
    """One fit on its way: what it is trained with, on what, and who pays."""

    method: Any
    encoder: Encoder
    loop: Likelihood
    start: Start
    job: Job
    columns: tuple[str, ...]

    @classmethod
    def of(cls, method: Any, rows: PrivateRows, encoder: Encoder, ledger: Ledger, key: Key) -> "_Fit":
        order = order_of(method, encoder.schema)
        layout = Layout(tuple(block_of(encoder, name) for name in order))
        wanted = features(encoder, order)
        columns = tuple(signal.name for signal in wanted)
        # Last, no other column sees its score, which `calibrate_marginals` makes normal again.
        accents = target_weightings(encoder) if order[-1] == encoder.schema.target else {}
        locked = feature_rows(rows, encoder, wanted, key=key, weightings=accents)
        means, variances, shares = facts(encoder, layout)
        far = sum(accent.farthest**2 for accent in accents.values())
        loadings = np.array(
            [accents[s.column].loading if s.column in accents and s.state is None else 1.0 for s in wanted]
        )
        start = _bought_start(locked, columns, encoder, layout, means, variances, far, loadings, ledger, key)
        rate = drawn_rate(method, encoder.schema, encoder.rows)
        noise = noise_of_training(ledger, rate, encoder.rows)
        hidden, components = capacity(noise, layout)
        hidden, components = method.hidden or hidden, method.components or components
        per_round = min(STEPS_PER_ROUND, method.steps)
        loop = Likelihood(layout=layout, components=components, steps_per_round=per_round)
        params = start_params(start, shares, layout, hidden, components, key.child("weights").numpy())
        settings = {
            "rate": rate_for(method.rate, noise, layout),
            "penalty": penalties(method.penalty, start, encoder.rows, noise, layout, hidden),
            "batch": rate * max(encoder.rows, 1.0),
            "steps": method.steps,
            "average": method.average,
            "weights": [method.emphasis if name == encoder.schema.target else 1.0 for name in order],
        }
        job = Job(
            rows=locked,
            ledger=ledger,
            key=key,
            state=loop.begin(params, settings),
            clip_norm=method.clip_norm,
            capacity=capacity_for(encoder.rows),
            rate=rate,
        )
        return cls(method=method, encoder=encoder, loop=loop, start=start, job=job, columns=columns)

    def generator(self, state: Mapping[str, Any]) -> FittedDensity:
        layout, components = self.loop.layout, self.loop.components
        params = {**(state["mean"] if self.method.average else state["params"]), "unit": state["unit"]}
        params = {name: np.nan_to_num(value) for name, value in params.items()}
        keys = self.job.key.child("straighten").jax(), self.job.key.child("influences").jax()
        limit, means, shares = score_limit(self.encoder), *facts(self.encoder, layout)[::2]
        last = jnp.asarray(shares, jnp.float32), jnp.float32(limit), keys[0], layout, components, STRAIGHT_ROWS
        counted = Tables.none(layout) if self.counts else None
        made, rows = density.calibrate_marginals(params, *last, arrays(counted))
        if counted is not None:
            counted = self._counted(np.asarray(rows))
            made, rows = density.calibrate_marginals(params, *last, arrays(counted))
        norms = np.asarray(density.influences(made, rows[:, :INFLUENCE_ROWS], keys[1], layout, components))
        norms = np.where(np.isfinite(norms) & _felt(np.asarray(made["first"]), layout), norms, 0.0)
        pairs = prune_parents(norms, self.method.threshold, np.asarray(state["settings"]["weights"]))
        if self.method.threshold > 0:
            params = {**params, "first": without(params["first"], pairs, means, layout)}
            counted = None if counted is None else counted.within(pairs, layout)
            made, _ = density.calibrate_marginals(params, *last, arrays(counted))
            norms = np.where(pairs, norms, 0.0)
        return FittedDensity(
            layout=layout,
            params={name: np.asarray(value, np.float32) for name, value in made.items()},
            norms=norms.astype(np.float32),
            pairs=pairs,
            edges=category_edges(self.encoder, layout),
            components=components,
            limit=limit,
        )

    @property
    def counts(self) -> int:
        """How many tables of categories are to be counted."""
        planned = tables.plan(self.encoder.schema, self.method.tables_share)
        return planned[0].times if planned else 0

    def _counted(self, made: NDArray) -> Tables:
        """Tables of categories that the generated rows have wrong."""
        return tables.bought(
            self.job.rows,
            self.columns,
            made,
            self.encoder.rows,
            self.loop.layout,
            target=self.encoder.schema.target,
            times=self.counts,
            ledger=self.job.ledger,
            key=self.job.key.child("tables"),
        )


def arrays(counted: Tables | None) -> dict[str, jax.Array] | None:
    """Counted tables as `density.calibrate_marginals` takes them."""
    if counted is None:
        return None
    return {"target": jnp.asarray(counted.target), "noise": jnp.asarray(counted.noise)}


def prune_parents(influences: NDArray, share: float, weights: NDArray | float = 1.0) -> NDArray[np.bool_]:
    """Which pairs stay: of every column, all but the weakest inputs that hold a `share` of its nats between them.

    What a column takes from its inputs is Σ influence², in nats. The weakest are cut one after the other, as long
    as all that are cut held no more than the share of it, or `FEW_NATS`; of a column whose nats count w times, the w-th
    part of that. With a share of 0 every input stays.
    """
    nats = np.asarray(influences, np.float64) ** 2
    order = np.argsort(nats, axis=1, kind="stable")
    held = np.cumsum(np.take_along_axis(nats, order, axis=1), axis=1)
    most = np.maximum(share * held[:, -1:], FEW_NATS) / np.reshape(weights, (-1, 1)) if share > 0 else 0.0
    kept = np.zeros(nats.shape, bool)
    np.put_along_axis(kept, order, held > most, axis=1)
    return kept & (nats > 0)


def _felt(first: NDArray, layout: Layout) -> NDArray[np.bool_]:
    """Which pairs have any weight at all."""
    return np.asarray(structure.group_norms(jnp.asarray(first), layout)) > 0


def without(first: NDArray, pairs: NDArray, means: Floats, layout: Layout) -> NDArray:
    """First layers with exact zeros for what are not parents, whose mean goes into the constant."""
    kept = np.concatenate([pairs[:, layout.owners], np.ones((layout.columns, 1), bool)], axis=1)[:, :, None]
    lost = np.where(kept, 0.0, first)
    cut = np.where(kept, first, 0.0)
    cut[:, -1] += np.einsum("f,dfo->do", means, lost[:, :-1])
    return cut.astype(np.float32)


def score_limit(encoder: Encoder) -> float:
    """How far out the scores of this many rows lie, as the encoding has it."""
    from scipy.special import ndtri

    return float(-ndtri(0.25 / max(encoder.rows, 10.0)))


def _bought_start(
    rows: PrivateRows,
    columns: Sequence[str],
    encoder: Encoder,
    layout: Layout,
    means: Floats,
    variances: Floats,
    far: float,
    loadings: Floats,
    ledger: Ledger,
    key: Key,
) -> Start:
    """Linear predictions from a noisy matrix of second moments.

    Args:
        far: The square of the largest accent, which rows may have on top.

    Privacy:
        A function of one purchase of `noisy_second_moments`. Rows are clipped to a norm that follows from the noise.
    """
    expected = float(np.sum(variances + means**2))
    multiplier = ledger.noise("moments") * rows.max_rows_per_unit
    least, most = CLIP_RANGE
    wanted = NOISE_TARGET * math.sqrt(2) * max(encoder.rows, 1.0) / multiplier
    clip_squared = float(np.clip(wanted, least * expected, most * expected + far))
    moments = noisy_second_moments(
        rows,
        columns,
        clip_norm=math.sqrt(clip_squared),
        what="second moments of the signals",
        planned="moments",
        ledger=ledger,
        key=key.child("moments"),
    )
    total = max(encoder.rows, 1.0)
    noise = multiplier * clip_squared / math.sqrt(2) / total
    return start_from(moments / total, means, variances, layout, noise=noise, loadings=loadings)
