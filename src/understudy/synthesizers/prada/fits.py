"""Fits on their way: from locked rows and settings to a trained generator, many at a time.

The one rule: rows go to `dpsgd.train`, and to `noisy_second_moments` where an order is bought, and nowhere else.
"""

import dataclasses
import functools
import math
from collections.abc import Mapping, Sequence
from typing import Any

import jax
import numpy as np

from understudy.core.randomness import Key
from understudy.encoding.encoder import Encoder, category_count, feature_rows, features
from understudy.privacy.gradients import Job, capacity_for, train
from understudy.privacy.ledger import Ledger
from understudy.privacy.mechanisms import noisy_second_moments
from understudy.privacy.rows import PrivateRows
from understudy.synthesizers.prada import networks, structure
from understudy.synthesizers.prada.dpgan import FittedDPGAN
from understudy.synthesizers.prada.fitted import FittedPrada, category_edges
from understudy.synthesizers.prada.networks import Block, Layout
from understudy.synthesizers.prada.settings import drawn_rate
from understudy.synthesizers.prada.training import Adversarial, Sequential
from understudy.synthesizers.prada.unstructured import Unstructured

ORDER_CLIP = 1.3
"""Rows are clipped to this times the root of the number of signals before their moments are taken."""
MOST_TOGETHER = 96
"""Fits trained in one call."""

Request = tuple[Any, PrivateRows, Encoder, Ledger, Key]
"""A method, what it is to be fitted to, who pays, and where chance comes from."""


def fit_sequential(requests: Sequence[Request]) -> list[FittedPrada]:
    """The fitted generators of sequential generators, in the order of the requests."""
    fits = [_Fit.of(*request) for request in requests]
    states = dict(enumerate(run_together(fits, "critic", "train the critic")))
    again = {i: fit.second(states[i]) for i, fit in enumerate(fits) if fit.method.finish == "two-step"}
    if again:
        retrained = run_together(list(again.values()), "critic again", "train the critic again")
        states.update(zip(again, retrained, strict=True))
    return [again.get(i, fit).generator(states[i]) for i, fit in enumerate(fits)]


def fit_unstructured(requests: Sequence[Request]) -> list[FittedDPGAN]:
    """The fitted generators of unstructured generators, in the order of the requests."""
    fits = []
    for method, rows, encoder, ledger, key in requests:
        order = encoder.schema.generation_order
        wanted = features(encoder, order)
        layout = Layout(tuple(block_of(encoder, name) for name in order))
        loop = Adversarial(
            generator=Unstructured(layout=layout, widths=method.widths, noise=method.noise or layout.features),
            steps_per_round=method.generator_every,
            fakes=method.fakes or method.batch_size,
            penalised=method.lipschitz == "penalty",
            decay=method.decay,
        )
        locked = feature_rows(rows, encoder, wanted, key=key)
        job = job_of(method, loop, locked, encoder, {}, ledger, key)
        columns = tuple(signal.name for signal in wanted)
        fits.append(_Fit(method=method, encoder=encoder, loop=loop, job=job, columns=columns))
    states = run_together(fits, "critic", "train the critic")
    return [
        FittedDPGAN(
            layout=fit.loop.generator.layout,
            params={k: np.asarray(v) for k, v in state["mean" if fit.method.average else "generator"].items()},
            edges=category_edges(fit.encoder, fit.loop.generator.layout),
        )
        for fit, state in zip(fits, states, strict=True)
    ]


def block_of(encoder: Encoder, name: str) -> Block:
    """The features of a column."""
    return Block(name, encoder.maps[name].labels is None, category_count(encoder, name))


@dataclasses.dataclass(frozen=True, kw_only=True, eq=False)
class _Fit:
    """One fit on its way: what it is trained with, on what, and who pays."""

    method: Any
    encoder: Encoder
    loop: Adversarial
    job: Job
    columns: tuple[str, ...]

    @classmethod
    def of(cls, method: Any, rows: PrivateRows, encoder: Encoder, ledger: Ledger, key: Key) -> "_Fit":
        wanted = features(encoder, order := _order(method, rows, encoder, ledger, key))
        layout = Layout(tuple(block_of(encoder, name) for name in order))
        adam = method.optimiser == "adam"
        loop = Adversarial(
            generator=Sequential(
                layout=layout,
                hidden=method.hidden,
                adam=adam,
                proximal=method.proximal,
                bounded=method.bounded,
                slope=method.slope,
            ),
            steps_per_round=method.generator_every,
            fakes=method.fakes or method.batch_size,
            critic_adam=adam,
            penalised=method.lipschitz == "penalty",
            decay=method.decay,
            slope=method.slope,
        )
        scale = (
            structure.theory_penalty(round(encoder.rows), len(order)) if method.penalty == "theory" else method.penalty
        )
        settings = {
            "penalty": structure.penalties(len(order), scale, method.penalty_growth),
            "allowed": np.ones((len(order), len(order)), np.float32),
        }
        return cls(
            method=method,
            encoder=encoder,
            loop=loop,
            job=job_of(method, loop, feature_rows(rows, encoder, wanted, key=key), encoder, settings, ledger, key),
            columns=tuple(signal.name for signal in wanted),
        )

    def second(self, state: Mapping[str, Any]) -> "_Fit":
        """The same fit for its second training: no penalty, and the parents of the first alone."""
        _, norms = self._outcome(state)
        pairs = (norms > self.method.threshold).astype(np.float32)
        settings = {"penalty": np.zeros(len(pairs), np.float32), "allowed": pairs}
        key = self.job.key.child("again")
        job = job_of(self.method, self.loop, self.job.rows, self.encoder, settings, self.job.ledger, key)
        return dataclasses.replace(self, job=job)

    def generator(self, state: Mapping[str, Any]) -> "FittedPrada":
        layout = self.loop.generator.layout
        params, norms = self._outcome(state)
        pairs = norms > self.method.threshold
        if self.method.finish == "clip":
            params["rows"] = np.asarray(_kept(layout, params["rows"], pairs))
            norms = np.where(pairs, norms, 0.0)
        if self.method.finish == "two-step":
            pairs = norms > 0
        return FittedPrada(
            layout=layout,
            params={name: np.asarray(value, np.float32) for name, value in params.items()},
            norms=norms.astype(np.float32),
            pairs=pairs,
            edges=category_edges(self.encoder, layout),
            slope=self.method.slope,
        )

    def _outcome(self, state: Mapping[str, Any]) -> tuple[dict[str, np.ndarray], np.ndarray]:
        """The generator that was trained, and the norms of its inputs."""
        layout, params = self.loop.generator.layout, dict(state["generator"])
        if self.method.average:
            params = dict(_averaged(layout, self.method.bounded, state["mean"], state["settings"]["allowed"]))
        return params, np.asarray(_norms(layout, params["rows"]))


@functools.partial(jax.jit, static_argnums=(0, 1))
def _averaged(layout: Layout, bounded: bool, mean: Mapping[str, Any], allowed: Any) -> Mapping[str, Any]:
    """A generator from the mean of many; that of bounded ones has heads that are a little short."""
    made = networks.bounded(dict(mean)) if bounded else dict(mean)
    return {**made, "rows": structure.only(made["rows"], allowed, layout)}


_norms = jax.jit(lambda layout, rows: structure.group_norms(rows, layout), static_argnums=0)
_kept = jax.jit(lambda layout, rows, pairs: structure.only(rows, pairs, layout), static_argnums=0)


def job_of(
    method: Any,
    loop: Adversarial,
    rows: PrivateRows,
    encoder: Encoder,
    settings: dict[str, Any],
    ledger: Ledger,
    key: Key,
) -> Job:
    """The training of a loop from random weights."""
    features = loop.generator.layout.features
    rounds = method.critic_steps // loop.steps_per_round
    rate = drawn_rate(method, encoder.schema, encoder.rows)
    numbers = {
        "critic_rate": method.critic_rate,
        "generator_rate": method.generator_rate,
        "clip_norm": method.clip_norm,
        "limit": method.clamp,
        "batch": rate * max(encoder.rows, 1.0),
        "rounds": rounds,
        "average": method.average,
    }
    settings = {**settings, **{name: np.float32(value) for name, value in numbers.items()}}
    widths = method.critic_widths or networks.default_widths(features)
    state = loop.start(key.child("weights").numpy(), widths, settings)
    capacity = capacity_for(encoder.rows)
    return Job(rows=rows, ledger=ledger, key=key, state=state, clip_norm=method.clip_norm, capacity=capacity, rate=rate)


def run_together(fits: Sequence[Any], planned: str, what: str) -> list[Mapping[str, Any]]:
    """The last state of every fit; those of equal loops and shapes are trained in one call."""
    groups: dict[Any, list[int]] = {}
    for i, fit in enumerate(fits):
        shapes = tuple(np.shape(leaf) for leaf in jax.tree.leaves(fit.job.state))
        groups.setdefault((fit.loop, shapes, fit.columns), []).append(i)
    done: dict[int, Mapping[str, Any]] = {}
    for (loop, _, columns), members in groups.items():
        for start in range(0, len(members), MOST_TOGETHER):
            some = members[start : start + MOST_TOGETHER]
            jobs = [fits[i].job for i in some]
            trained = train(loop, jobs, columns, planned=planned, what=what, progress=jobs[0].ledger.on_step)
            done.update(zip(some, trained, strict=True))
    return [done[i] for i in range(len(fits))]


def _order(method: Any, rows: PrivateRows, encoder: Encoder, ledger: Ledger, key: Key) -> tuple[str, ...]:
    """The order of generation; a private one has the columns that the others explain least first.

    Privacy:
        A private order is a function of one noisy matrix of second moments.
    """
    names = encoder.schema.generation_order
    if method.order == "schema":
        return names
    if method.order != "private":
        return method.order
    wanted = features(encoder, names)
    moments = noisy_second_moments(
        feature_rows(rows, encoder, wanted, key=key.child("order rows")),
        [signal.name for signal in wanted],
        clip_norm=ORDER_CLIP * math.sqrt(len(wanted)),
        what="how the columns go together, for an order",
        planned="order",
        ledger=ledger,
        key=key.child("order"),
    )
    ranks = structure.order_by_moments(moments / max(encoder.rows, 1.0))
    best = {name: min(r for r, s in zip(ranks, wanted, strict=True) if s.column == name) for name in names}
    return tuple(sorted(names, key=lambda name: best[name]))
