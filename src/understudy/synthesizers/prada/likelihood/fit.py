"""Fits by likelihood: what is measured, distilled, trained and distilled again (method.py explains the parts).

The one rule: rows go to `AIM.measure`, `measure_moments` and `batch.train_together`, and nowhere else. What comes back
is public.
"""

import dataclasses
from collections.abc import Sequence

import numpy as np
from numpy.typing import NDArray

from understudy.core.randomness import Key
from understudy.encoding.encoder import Encoder
from understudy.synthesizers.aim import AIM, MeasuredModel
from understudy.synthesizers.base import FitRequest
from understudy.synthesizers.prada.batch import Fit, LockedFeatures, train_together
from understudy.synthesizers.prada.layout import Layout
from understudy.synthesizers.prada.levels import category_edges
from understudy.synthesizers.prada.likelihood.calibration import calibrate_marginals
from understudy.synthesizers.prada.likelihood.density import Densities
from understudy.synthesizers.prada.likelihood.distillation import distil
from understudy.synthesizers.prada.likelihood.fitted import FittedDensity
from understudy.synthesizers.prada.likelihood.moments import NoisyMoments, measure_moments
from understudy.synthesizers.prada.likelihood.parents import (
    Pairs,
    candidate_parents,
    cut_inputs,
    influences,
    prune_parents,
    sources_of,
)
from understudy.synthesizers.prada.likelihood.pool import POOL_ROWS, Pool
from understudy.synthesizers.prada.likelihood.schedule import GRADIENTS, noise_of_training, penalties
from understudy.synthesizers.prada.likelihood.settings import STEPS_PER_ROUND, LikelihoodSettings
from understudy.synthesizers.prada.likelihood.start import (
    FeatureFacts,
    LinearStart,
    feature_facts,
    linear_start,
    start_params,
)
from understudy.synthesizers.prada.likelihood.tilt import count_terms, moment_term, tilt
from understudy.synthesizers.prada.likelihood.training import Hyperparameters, Likelihood, State
from understudy.synthesizers.prada.settings import drawn_rate

CALIBRATION_ROWS = 2**14
"""Marginals are calibrated on this many generated rows."""
INFLUENCE_ROWS = 2**12
"""Influences are measured on this many of them."""
SECOND_RATE = 0.3
"""The second distillation starts with this part of the first one's rate: it mends, and does not begin anew."""

DensityFit = Fit[LikelihoodSettings, Likelihood, State]


def fit_densities(requests: Sequence[FitRequest]) -> list[FittedDensity]:
    """The fitted generators, in the order of the requests."""
    started = [_start(request) for request in requests]
    fits = [each.training() for each in started if each.takes_steps]
    states = iter(train_together(fits, planned=GRADIENTS, what="train the densities of the columns"))
    return [each.finish(_trained(next(states), each.settings) if each.takes_steps else each.params) for each in started]


def _trained(state: State, settings: LikelihoodSettings) -> Densities:
    layers = state.mean if settings.average else state.layers
    first, second, unit = (np.nan_to_num(np.asarray(value)) for value in (*layers, state.unit))
    return Densities(first, second, unit, state.sources)


@dataclasses.dataclass(frozen=True, kw_only=True, eq=False)
class _Started:
    """A fit that has measured and distilled, before its private steps.

    Attributes:
        measured, moments: What was released; None for a table of one column.
        start: The linear predictions before the distillation.
        params: The distilled densities.
    """

    request: FitRequest
    layout: Layout
    facts: FeatureFacts
    measured: MeasuredModel | None
    moments: NoisyMoments | None
    start: LinearStart
    params: Densities

    @property
    def settings(self) -> LikelihoodSettings:
        return self.request.method

    @property
    def encoder(self) -> Encoder:
        return self.request.encoder

    @property
    def key(self) -> Key:
        return self.request.key

    @property
    def takes_steps(self) -> bool:
        return self.settings.steps > 0 and self.moments is not None

    def training(self) -> DensityFit:
        """The private steps, from the distilled densities."""
        settings, encoder, layout = self.settings, self.encoder, self.layout
        rate = drawn_rate(settings.batch_size, encoder.schema, encoder.rows)
        loop = Likelihood(
            layout=layout,
            components=settings.components,
            steps_per_round=min(STEPS_PER_ROUND, settings.steps),
        )
        return Fit(
            settings=settings,
            encoder=encoder,
            ledger=self.request.ledger,
            key=self.key,
            locked=LockedFeatures.of(self.request.rows, encoder, layout.names, key=self.key),
            layout=layout,
            loop=loop,
            state=loop.begin(self.params, self._hyperparameters(rate)),
            clip_norm=settings.clip_norm,
            rate=rate,
        )

    def _hyperparameters(self, rate: float) -> Hyperparameters:
        settings, rows = self.settings, self.encoder.rows
        assert self.moments is not None  # there are steps
        return Hyperparameters(
            rate=np.asarray(settings.rate),
            penalty=penalties(
                settings.penalty,
                self.start,
                start_noise=self.moments.noise,
                rows=rows,
                noise=noise_of_training(self.request.ledger, rate, rows),
                layout=self.layout,
                hidden=settings.hidden,
            ),
            batch=np.asarray(rate * max(rows, 1.0)),
            steps=np.asarray(settings.steps),
            average=np.asarray(settings.average),
            weights=self._column_weights(),
        )

    def _column_weights(self) -> NDArray[np.float64]:
        target = self.encoder.schema.target
        return np.array([self.settings.emphasis if name == target else 1.0 for name in self.layout.names])

    def finish(self, params: Densities) -> FittedDensity:
        """Prunes, distils again towards what was measured, and calibrates. Public from here on."""
        made, rows = self._calibrated(params, "first")
        norms = self._influences(made, rows)
        pairs = prune_parents(norms, self.settings.threshold, self._column_weights())
        if self.measured is not None and self.moments is not None:
            pool = Pool(made.sample(POOL_ROWS, key=self.key.child("second pool")), self.encoder, self.layout)
            codes = pool.codes(self.measured.bins)
            counts = count_terms(pool, self.measured.measured, codes, max(self.encoder.rows, 1.0))
            weights = tilt([*counts, moment_term(pool, self.moments)], pool.rows)
            params = cut_inputs(params, pairs, self.facts.means, self.layout)
            params = _distil(params, pool, weights, self.settings, self.key.child("second"), SECOND_RATE)
            made, rows = self._calibrated(params, "last")
            norms = np.where(pairs, self._influences(made, rows), 0.0)
        return dataclasses.replace(made, norms=norms.astype(np.float32), pairs=pairs)

    def _calibrated(self, params: Densities, name: str) -> tuple[FittedDensity, NDArray[np.float32]]:
        """The fitted generator, its parents unknown, and rows it has generated: (features, rows)."""
        layout, components, limit = self.layout, self.settings.components, score_limit(self.encoder)
        key = self.key.child("calibrate").child(name).jax()
        made, rows = calibrate_marginals(
            params, self.facts.shares, np.asarray(limit, np.float32), key, layout, components, CALIBRATION_ROWS
        )
        nothing = np.zeros((layout.columns, layout.columns))
        fitted = FittedDensity(
            layout=layout,
            params=made.arrays(),
            norms=nothing.astype(np.float32),
            pairs=nothing > 0,
            edges=category_edges(self.encoder, layout),
            components=components,
            limit=limit,
        )
        return fitted, np.asarray(rows)

    def _influences(self, made: FittedDensity, rows: NDArray[np.float32]) -> NDArray[np.float64]:
        params = Densities(*(made.params[name] for name in Densities._fields))
        key = self.key.child("influences").jax()
        found = influences(params, rows[:, :INFLUENCE_ROWS], key, self.layout, self.settings.components)
        return np.nan_to_num(np.asarray(found, np.float64), posinf=0.0)


def _start(request: FitRequest) -> _Started:
    """Measures the graphical model and the moments, and distils them.

    Privacy:
        Rows are read by `AIM.measure` and by `measure_moments`.
    """
    settings: LikelihoodSettings = request.method
    encoder, ledger, key = request.encoder, request.ledger, request.key
    layout = Layout.of(encoder, settings.order_for(encoder.schema))
    facts = feature_facts(encoder, layout)
    measured = moments = None
    pairs, weights = np.zeros((layout.columns, layout.columns), bool), np.ones(POOL_ROWS)
    pool = None
    if layout.columns > 1:
        measured = AIM().measure(request.rows, encoder, ledger=ledger, key=key.child("graph"))
        moments = measure_moments(request.rows, encoder, layout, facts, ledger=ledger, key=key)
        net = measured.model.to_bayesnet(measured.bins)
        pool = Pool(net.sample(POOL_ROWS, key=key.child("first pool")), encoder, layout)
        weights = tilt([moment_term(pool, moments)], pool.rows)
        pairs = candidate_parents(pool.codes(measured.bins), weights, layout, settings.most_parents)
    start, params = _start_densities(pool, weights, pairs, facts, layout, settings, key)
    if pool is not None:
        params = _distil(params, pool, weights, settings, key.child("first"), 1.0)
    return _Started(
        request=request,
        layout=layout,
        facts=facts,
        measured=measured,
        moments=moments,
        start=start,
        params=params,
    )


def _start_densities(
    pool: Pool | None,
    weights: NDArray[np.float64],
    pairs: Pairs,
    facts: FeatureFacts,
    layout: Layout,
    settings: LikelihoodSettings,
    key: Key,
) -> tuple[LinearStart, Densities]:
    """Linear predictions on weighted rows of the pool, and the densities they stand for."""
    if pool is None:
        size = layout.features
        start = LinearStart(np.zeros((size, size)), facts.means, np.sqrt(facts.variances))
    else:
        start = linear_start(pool.features().astype(np.float64), weights, pairs, layout)
    params = start_params(
        start,
        facts.shares,
        sources_of(pairs, layout),
        layout,
        settings.hidden,
        settings.components,
        key.child("weights").numpy(),
    )
    return start, params


def _distil(
    params: Densities, pool: Pool, weights: NDArray[np.float64], settings: LikelihoodSettings, key: Key, slower: float
) -> Densities:
    return distil(
        params,
        pool.features(),
        weights,
        steps=settings.distillation_steps,
        rate=slower * settings.distillation_rate,
        key=key.child("distil").jax(),
        layout=pool.layout,
        components=settings.components,
    )


def score_limit(encoder: Encoder) -> float:
    """How far out the scores of this many rows lie, as the encoder makes them."""
    from scipy.special import ndtri

    return float(-ndtri(0.25 / max(encoder.rows, 10.0)))
