"""Fits by likelihood: a start from second moments, the training, calibrated marginals and pruned parents.

The one rule: rows go to `start.measure_start`, `batch.train_together` and `pair_counts.measure_pairs`, and nowhere
else. What comes back is public.
"""

from collections.abc import Sequence

import jax
import jax.numpy as jnp
import numpy as np
from numpy.typing import NDArray

from understudy.encoding.encoder import Encoder
from understudy.encoding.scores import target_weightings
from understudy.synthesizers.base import FitRequest
from understudy.synthesizers.prada import structure
from understudy.synthesizers.prada.batch import Fit, LockedFeatures, train_together
from understudy.synthesizers.prada.layout import Layout
from understudy.synthesizers.prada.levels import category_edges
from understudy.synthesizers.prada.likelihood import pair_counts
from understudy.synthesizers.prada.likelihood.calibration import calibrate_marginals
from understudy.synthesizers.prada.likelihood.density import Densities
from understudy.synthesizers.prada.likelihood.drawing import Calibrated
from understudy.synthesizers.prada.likelihood.fitted import FittedDensity
from understudy.synthesizers.prada.likelihood.pair_counts import PairCounts
from understudy.synthesizers.prada.likelihood.parents import cut_inputs, influences, prune_parents
from understudy.synthesizers.prada.likelihood.schedule import capacity, noise_of_training, penalties, rate_for
from understudy.synthesizers.prada.likelihood.settings import STEPS_PER_ROUND, LikelihoodSettings
from understudy.synthesizers.prada.likelihood.start import Start, feature_facts, measure_start, start_params
from understudy.synthesizers.prada.likelihood.training import Hyperparameters, Likelihood, State
from understudy.synthesizers.prada.settings import drawn_rate

CALIBRATION_ROWS = 2**14
"""Marginals are calibrated on this many generated rows."""
INFLUENCE_ROWS = 2**12
"""Influences are measured on this many of them."""

DensityFit = Fit[LikelihoodSettings, Likelihood, State]


def fit_densities(requests: Sequence[FitRequest]) -> list[FittedDensity]:
    """The fitted generators, in the order of the requests."""
    fits = [_prepare(request) for request in requests]
    states = train_together(fits, planned="gradients", what="train the densities of the columns")
    return [_finish(fit, state) for fit, state in zip(fits, states, strict=True)]


def _prepare(request: FitRequest) -> DensityFit:
    """Everything up to the first step.

    Privacy:
        Rows are read by `measure_start`.
    """
    settings: LikelihoodSettings = request.method
    encoder, ledger, key = request.encoder, request.ledger, request.key
    order = settings.order_for(encoder.schema)
    layout = Layout.of(encoder, order)
    # If the target comes last, no other column sees its score, which `calibrate_marginals` makes normal again.
    weightings = target_weightings(encoder) if order[-1] == encoder.schema.target else {}
    locked = LockedFeatures.of(request.rows, encoder, order, key=key, weightings=weightings)
    loadings = np.ones(layout.features)
    for name, weighting in weightings.items():
        loadings[layout.starts[order.index(name)]] = weighting.loading
    facts = feature_facts(encoder, layout)
    start = measure_start(
        locked,
        encoder,
        layout,
        facts,
        loadings=loadings,
        largest_weighting=sum(weighting.farthest**2 for weighting in weightings.values()),
        ledger=ledger,
        key=key,
    )
    rate = drawn_rate(settings.batch_size, encoder.schema, encoder.rows)
    noise = noise_of_training(ledger, rate, encoder.rows)
    hidden, components = capacity(noise, layout)
    hidden, components = settings.hidden or hidden, settings.components or components
    loop = Likelihood(layout=layout, components=components, steps_per_round=min(STEPS_PER_ROUND, settings.steps))
    params = start_params(start, facts.shares, layout, hidden, components, key.child("weights").numpy())
    return Fit(
        settings=settings,
        encoder=encoder,
        ledger=ledger,
        key=key,
        locked=locked,
        layout=layout,
        loop=loop,
        state=loop.begin(params, _hyperparameters(settings, encoder, layout, start, rate, noise, hidden)),
        clip_norm=settings.clip_norm,
        rate=rate,
    )


def _hyperparameters(
    settings: LikelihoodSettings,
    encoder: Encoder,
    layout: Layout,
    start: Start,
    rate: float,
    noise: float,
    hidden: int,
) -> Hyperparameters:
    target = encoder.schema.target
    return Hyperparameters(
        rate=np.asarray(rate_for(settings.rate, noise, layout)),
        penalty=penalties(settings.penalty, start, encoder.rows, noise, layout, hidden),
        batch=np.asarray(rate * max(encoder.rows, 1.0)),
        steps=np.asarray(settings.steps),
        average=np.asarray(settings.average),
        weights=np.array([settings.emphasis if name == target else 1.0 for name in layout.names]),
    )


def _finish(fit: DensityFit, state: State) -> FittedDensity:
    """Calibrates and prunes what was trained.

    Privacy:
        Rows are read by `measure_pairs`.
    """
    settings, layout, components = fit.settings, fit.layout, fit.loop.components
    layers = state.mean if settings.average else state.layers
    params = Densities(*(np.nan_to_num(value) for value in (*layers, state.unit)))
    facts, limit = feature_facts(fit.encoder, layout), score_limit(fit.encoder)
    for_rows, for_influences = fit.key.child("straighten").jax(), fit.key.child("influences").jax()

    def calibrate(params: Densities, counts: PairCounts | None) -> tuple[Calibrated, jax.Array]:
        shares = jnp.asarray(facts.shares, jnp.float32)
        return calibrate_marginals(
            params, shares, jnp.float32(limit), for_rows, layout, components, CALIBRATION_ROWS, counts
        )

    times = _pairs_to_count(fit)
    counts = PairCounts.none(layout) if times else None
    made, rows = calibrate(params, counts)
    if times:
        counts = _measure_pairs(fit, np.asarray(rows), times)
        made, rows = calibrate(params, counts)
    norms = np.asarray(influences(made.densities, rows[:, :INFLUENCE_ROWS], for_influences, layout, components))
    norms = np.where(np.isfinite(norms) & _have_weights(made, layout), norms, 0.0)
    pairs = prune_parents(norms, settings.threshold, np.asarray(state.numbers.weights))
    if settings.threshold > 0:
        params = params._replace(first=cut_inputs(np.asarray(params.first), pairs, facts.means, layout))
        made, _ = calibrate(params, None if counts is None else counts.within(pairs, layout))
        norms = np.where(pairs, norms, 0.0)
    return FittedDensity(
        layout=layout,
        params={name: np.asarray(value, np.float32) for name, value in made._asdict().items()},
        norms=norms.astype(np.float32),
        pairs=pairs,
        edges=category_edges(fit.encoder, layout),
        components=components,
        limit=limit,
    )


def _pairs_to_count(fit: DensityFit) -> int:
    """How many pairs of categories are planned to be counted."""
    planned = pair_counts.plan(fit.encoder.schema, fit.settings.tables_share)
    return planned[0].times if planned else 0


def _measure_pairs(fit: DensityFit, made: NDArray, times: int) -> PairCounts:
    return pair_counts.measure_pairs(
        fit.locked.rows,
        fit.locked.columns,
        made,
        fit.encoder.rows,
        fit.layout,
        target=fit.encoder.schema.target,
        times=times,
        ledger=fit.ledger,
        key=fit.key.child("tables"),
    )


def _have_weights(params: Calibrated, layout: Layout) -> NDArray[np.bool_]:
    """Which pairs have any weight at all."""
    return np.asarray(structure.group_norms(jnp.asarray(params.first), layout)) > 0


def score_limit(encoder: Encoder) -> float:
    """How far out the scores of this many rows lie, as the encoder makes them."""
    from scipy.special import ndtri

    return float(-ndtri(0.25 / max(encoder.rows, 10.0)))
