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
from understudy.privacy.normal_scores import normal_score
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
from understudy.synthesizers.prada.likelihood.pool import Pool
from understudy.synthesizers.prada.likelihood.schedule import GRADIENTS, noise_of_training, penalties
from understudy.synthesizers.prada.likelihood.settings import STEPS_PER_ROUND, LikelihoodSettings
from understudy.synthesizers.prada.likelihood.start import (
    Correlations,
    FeatureFacts,
    LinearStart,
    correlations_of,
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
            pool = Pool(
                made.sample(self.settings.pool_rows, key=self.key.child("second pool")), self.encoder, self.layout
            )
            weights = _tilted(pool, self.measured, self.moments)
            params = cut_inputs(params, pairs, self.facts.means, self.layout)
            params = _distil(params, pool, weights, self.settings, self.key.child("second"), SECOND_RATE)
            made, rows = self._calibrated(params, "last")
            norms = np.where(pairs, self._influences(made, rows), 0.0)
        return dataclasses.replace(made, norms=norms.astype(np.float32), pairs=pairs)

    def _calibrated(self, params: Densities, name: str) -> tuple[FittedDensity, NDArray[np.float32]]:
        return _calibrated(params, self.facts, self.layout, self.settings, self.encoder, self.key.child(name))

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
    common = {"request": request, "layout": layout, "facts": facts}
    if layout.columns == 1:
        alone = Correlations(facts.means, np.sqrt(facts.variances), np.eye(layout.features))
        start, params = _start_densities(alone, np.zeros((1, 1), bool), facts, layout, settings, key)
        return _Started(**common, measured=None, moments=None, start=start, params=params)
    measured = AIM().measure(request.rows, encoder, ledger=ledger, key=key.child("graph"))
    moments = measure_moments(request.rows, encoder, layout, facts, ledger=ledger, key=key)
    pool = _first_pool(measured, moments, facts, layout, settings, encoder, key)
    weights = _tilted(pool, measured, moments)
    pairs = candidate_parents(pool.codes(measured.bins), weights, layout, settings.most_parents)
    found = correlations_of(pool.plain_features.astype(np.float64), weights)
    start, params = _start_densities(found, pairs, facts, layout, settings, key)
    params = _distil(params, pool, weights, settings, key.child("first"), 1.0)
    return _Started(**common, measured=measured, moments=moments, start=start, params=params)


def _first_pool(
    measured: MeasuredModel,
    moments: NoisyMoments,
    facts: FeatureFacts,
    layout: Layout,
    settings: LikelihoodSettings,
    encoder: Encoder,
    key: Key,
) -> Pool:
    """Rows of the graphical model, and as many of a normal copula that has the measured moments.

    A tilt can only weigh rows that there are: where one of the two has hardly any, the other may have more.
    """
    net = measured.model.to_bayesnet(measured.bins)
    earlier = np.tril(np.ones((layout.columns, layout.columns), bool), -1)
    _, params = _start_densities(moments.correlations(facts, layout), earlier, facts, layout, settings, key)
    copula, _ = _calibrated(params, facts, layout, settings, encoder, key.child("copula"))
    halves = [each.sample(settings.pool_rows // 2, key=key.child("first pool")) for each in (net, copula)]
    return Pool({name: np.concatenate([half[name] for half in halves]) for name in layout.names}, encoder, layout)


def _tilted(pool: Pool, measured: MeasuredModel, moments: NoisyMoments) -> NDArray[np.float64]:
    """Weights under which the rows of a pool have the measured counts and moments."""
    counts = count_terms(pool, measured.measured, pool.codes(measured.bins), max(pool.encoder.rows, 1.0))
    return tilt([*counts, moment_term(pool, moments)], pool.rows)


def _start_densities(
    found: Correlations, pairs: Pairs, facts: FeatureFacts, layout: Layout, settings: LikelihoodSettings, key: Key
) -> tuple[LinearStart, Densities]:
    """Linear predictions from correlations, and the densities they stand for."""
    start = linear_start(found, pairs, layout)
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


def _calibrated(
    params: Densities, facts: FeatureFacts, layout: Layout, settings: LikelihoodSettings, encoder: Encoder, key: Key
) -> tuple[FittedDensity, NDArray[np.float32]]:
    """The fitted generator, its parents unknown, and rows it has generated: (features, rows)."""
    limit = score_limit(encoder)
    made, rows = calibrate_marginals(
        params,
        facts.shares,
        np.asarray(limit, np.float32),
        key.child("calibrate").jax(),
        layout,
        settings.components,
        CALIBRATION_ROWS,
    )
    nothing = np.zeros((layout.columns, layout.columns))
    fitted = FittedDensity(
        layout=layout,
        params=made.arrays(),
        norms=nothing.astype(np.float32),
        pairs=nothing > 0,
        edges=category_edges(encoder, layout),
        components=settings.components,
        limit=limit,
    )
    return fitted, np.asarray(rows)


def _distil(
    params: Densities, pool: Pool, weights: NDArray[np.float64], settings: LikelihoodSettings, key: Key, slower: float
) -> Densities:
    return distil(
        params,
        pool.plain_features,
        weights,
        steps=settings.distillation_steps,
        rate=slower * settings.distillation_rate,
        key=key.child("distil").jax(),
        layout=pool.layout,
        components=settings.components,
    )


def score_limit(encoder: Encoder) -> float:
    """How far out the scores of this many rows lie, as the encoder makes them."""
    return -float(normal_score(np.asarray(encoder.outermost_level)))
