"""Adversarial fits: from locked rows and settings to a trained generator, many at a time.

The one rule: rows go to `batch.train_together`, and to `noisy_second_moments` if an order is measured, and nowhere
else.
"""

import dataclasses
import functools
import math
from collections.abc import Sequence
from typing import TypeVar

import jax
import numpy as np
from numpy.typing import NDArray

from understudy.encoding.encoder import Encoder
from understudy.graphical.ordering import by_explained_variance
from understudy.privacy.moments import noisy_second_moments
from understudy.synthesizers.base import FitRequest
from understudy.synthesizers.moments import positive_correlation
from understudy.synthesizers.prada.adversarial import sequential, unstructured
from understudy.synthesizers.prada.adversarial.critic import default_widths
from understudy.synthesizers.prada.adversarial.fitted import FittedDPGAN, FittedPrada
from understudy.synthesizers.prada.adversarial.penalty import penalties, theory_penalty
from understudy.synthesizers.prada.adversarial.sequential import Sequential, Weights
from understudy.synthesizers.prada.adversarial.settings import (
    SequentialSettings,
    TrainingSettings,
    UnstructuredSettings,
)
from understudy.synthesizers.prada.adversarial.training import Adversarial, Hyperparameters, State
from understudy.synthesizers.prada.adversarial.unstructured import Unstructured
from understudy.synthesizers.prada.batch import Fit, LockedFeatures, train_together
from understudy.synthesizers.prada.layout import Layout
from understudy.synthesizers.prada.levels import category_edges
from understudy.synthesizers.prada.programs import Array
from understudy.synthesizers.prada.settings import drawn_rate
from understudy.synthesizers.prada.structure import group_norms, only

ORDER_CLIP = 1.3
"""Before their moments are taken for an order, rows are clipped to this times the root of the number of features."""

SettingsT = TypeVar("SettingsT", bound=TrainingSettings)
SequentialFit = Fit[SequentialSettings, Adversarial, State]


def fit_sequential(requests: Sequence[FitRequest]) -> list[FittedPrada]:
    """The fitted sequential generators, in the order of the requests."""
    fits = [_prepare_sequential(request) for request in requests]
    states = dict(enumerate(train_together(fits, planned="critic", what="train the critic")))
    again = {i: _second(fit, states[i]) for i, fit in enumerate(fits) if fit.settings.finish == "two-step"}
    if again:
        retrained = train_together(list(again.values()), planned="critic again", what="train the critic again")
        states.update(zip(again, retrained, strict=True))
    return [_fitted_sequential(again.get(i, fit), states[i]) for i, fit in enumerate(fits)]


def fit_unstructured(requests: Sequence[FitRequest]) -> list[FittedDPGAN]:
    """The fitted unstructured generators, in the order of the requests."""
    fits = [_prepare_unstructured(request) for request in requests]
    states = train_together(fits, planned="critic", what="train the critic")
    return [
        FittedDPGAN(
            layout=fit.layout,
            params=unstructured.to_arrays(state.mean if fit.settings.average else state.generator),
            edges=category_edges(fit.encoder, fit.layout),
        )
        for fit, state in zip(fits, states, strict=True)
    ]


def _prepare_sequential(request: FitRequest) -> SequentialFit:
    settings: SequentialSettings = request.method
    order = _order(settings, request)
    layout = Layout.of(request.encoder, order)
    adam = settings.optimiser == "adam"
    loop = Adversarial(
        generator=Sequential(
            layout=layout,
            hidden=settings.hidden,
            adam=adam,
            proximal=settings.proximal,
            bounded=settings.bounded,
            slope=settings.slope,
        ),
        steps_per_round=settings.generator_every,
        fakes=settings.fakes or settings.batch_size,
        critic_adam=adam,
        penalised=settings.lipschitz == "penalty",
        decay=settings.decay,
        slope=settings.slope,
    )
    scale = settings.penalty
    if isinstance(scale, str):
        scale = theory_penalty(round(request.encoder.rows), len(order))
    penalty = penalties(len(order), scale, settings.penalty_growth)
    return _fit(settings, request, layout, loop, penalty, np.ones((len(order), len(order)), np.float32))


def _prepare_unstructured(request: FitRequest) -> Fit[UnstructuredSettings, Adversarial, State]:
    settings: UnstructuredSettings = request.method
    layout = Layout.of(request.encoder, request.encoder.schema.generation_order)
    loop = Adversarial(
        generator=Unstructured(layout=layout, widths=settings.widths, noise=settings.noise or layout.features),
        steps_per_round=settings.generator_every,
        fakes=settings.fakes or settings.batch_size,
        penalised=settings.lipschitz == "penalty",
        decay=settings.decay,
    )
    return _fit(settings, request, layout, loop, np.zeros(0, np.float32), np.zeros((0, 0), np.float32))


def _fit(
    settings: SettingsT, request: FitRequest, layout: Layout, loop: Adversarial, penalty: NDArray, allowed: NDArray
) -> Fit[SettingsT, Adversarial, State]:
    """A fit of a loop from random weights."""
    encoder, key = request.encoder, request.key
    rate = drawn_rate(settings.batch_size, encoder.schema, encoder.rows)
    numbers = _hyperparameters(settings, encoder, rate, penalty, allowed)
    return Fit(
        settings=settings,
        encoder=encoder,
        ledger=request.ledger,
        key=key,
        locked=LockedFeatures.of(request.rows, encoder, layout.names, key=key),
        layout=layout,
        loop=loop,
        state=loop.start(key.child("weights").numpy(), _critic_widths(settings, layout), numbers),
        clip_norm=settings.clip_norm,
        rate=rate,
    )


def _critic_widths(settings: TrainingSettings, layout: Layout) -> tuple[int, ...]:
    return settings.critic_widths or default_widths(layout.features)


def _hyperparameters(
    settings: TrainingSettings, encoder: Encoder, rate: float, penalty: NDArray, allowed: NDArray
) -> Hyperparameters:
    return Hyperparameters(
        critic_rate=np.asarray(settings.critic_rate, np.float32),
        generator_rate=np.asarray(settings.generator_rate, np.float32),
        clip_norm=np.asarray(settings.clip_norm, np.float32),
        limit=np.asarray(settings.clamp, np.float32),
        batch=np.asarray(rate * max(encoder.rows, 1.0), np.float32),
        rounds=np.asarray(settings.critic_steps // settings.generator_every, np.float32),
        average=np.asarray(settings.average, np.float32),
        penalty=penalty,
        allowed=allowed,
    )


def _second(fit: SequentialFit, state: State) -> SequentialFit:
    """The same fit for its second training: no penalty, and the parents of the first alone."""
    _, norms = _outcome(fit, state)
    pairs = (norms > fit.settings.threshold).astype(np.float32)
    numbers = fit.state.numbers._replace(penalty=np.zeros(len(pairs), np.float32), allowed=pairs)
    key = fit.key.child("again")
    start = fit.loop.start(key.child("weights").numpy(), _critic_widths(fit.settings, fit.layout), numbers)
    return dataclasses.replace(fit, key=key, state=start)


def _fitted_sequential(fit: SequentialFit, state: State) -> FittedPrada:
    settings, layout = fit.settings, fit.layout
    params, norms = _outcome(fit, state)
    pairs = norms > settings.threshold
    if settings.finish == "clip":
        params = params._replace(rows=np.asarray(_only(params.rows, pairs, layout)))
        norms = np.where(pairs, norms, 0.0)
    if settings.finish == "two-step":
        pairs = norms > 0
    return FittedPrada(
        layout=layout,
        params={name: np.asarray(value, np.float32) for name, value in params._asdict().items()},
        norms=norms.astype(np.float32),
        pairs=pairs,
        edges=category_edges(fit.encoder, layout),
        slope=settings.slope,
    )


def _outcome(fit: SequentialFit, state: State) -> tuple[Weights, NDArray]:
    """The generator that was trained, and the norms of its inputs."""
    params = state.generator
    if fit.settings.average:
        params = _averaged(state.mean, state.numbers.allowed, fit.layout, fit.settings.bounded)
    return params, np.asarray(_norms(params.rows, fit.layout))


@functools.partial(jax.jit, static_argnames=("layout", "bounded"))
def _averaged(mean: Weights, allowed: Array, layout: Layout, bounded: bool) -> Weights:
    """A generator from the mean of many; that of bounded ones has heads that are a little short."""
    made = sequential.bounded(mean) if bounded else mean
    return made._replace(rows=only(made.rows, allowed, layout))


_norms = jax.jit(group_norms, static_argnames="layout")
_only = jax.jit(only, static_argnames="layout")


def _order(settings: SequentialSettings, request: FitRequest) -> tuple[str, ...]:
    """The order of generation; a private one begins with the columns that the others explain least.

    Privacy:
        A private order is a function of one noisy matrix of second moments.
    """
    encoder, key = request.encoder, request.key
    names = encoder.schema.generation_order
    if not isinstance(settings.order, str):
        return settings.order
    if settings.order == "schema":
        return names
    locked = LockedFeatures.of(request.rows, encoder, names, key=key.child("order rows"))
    moments = noisy_second_moments(
        locked.rows,
        locked.columns,
        clip_norm=ORDER_CLIP * math.sqrt(len(locked.columns)),
        what="how the columns go together, for an order",
        planned="order",
        ledger=request.ledger,
        key=key.child("order"),
    )
    ranks = order_by_moments(moments / max(encoder.rows, 1.0))
    owners = Layout.of(encoder, names).owners
    best = {name: min(r for r, owner in zip(ranks, owners, strict=True) if owner == j) for j, name in enumerate(names)}
    return tuple(sorted(names, key=lambda name: best[name]))


def order_by_moments(moments: NDArray[np.float64]) -> list[int]:
    """The rank of every feature, from noisy second moments: by its R² on all others, the least explained first."""
    correlation = positive_correlation((moments + moments.T) / 2, smallest=0.05)
    return [int(rank) for rank in np.argsort(by_explained_variance(correlation))]
