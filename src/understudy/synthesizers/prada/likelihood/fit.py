"""Fits by likelihood: what is measured, distilled, trained and distilled again (method.py explains the parts).

The one rule: rows go to `AIM.measure`, `measure_moments` and `gradients.train`, and nowhere else. What comes back is
public.
"""

import dataclasses
from collections.abc import Mapping, Sequence
from typing import NamedTuple

import numpy as np
from numpy.typing import NDArray

from understudy.core.processors import one_thread_each
from understudy.core.randomness import Key
from understudy.encoding.encoder import Encoder, with_public_codes
from understudy.privacy.batches import capacity_for
from understudy.privacy.gradients import Job, train
from understudy.privacy.gradients import Part as Network
from understudy.privacy.ledger import FilterShare
from understudy.privacy.normal_scores import normal_score
from understudy.privacy.row_maps import Clip, RowMap
from understudy.privacy.rows import PrivateRows
from understudy.synthesizers.aim import AIM, ROUNDS, MeasuredModel
from understudy.synthesizers.base import FitRequest
from understudy.synthesizers.prada.likelihood.columns import Column
from understudy.synthesizers.prada.likelihood.contrast import Contrast
from understudy.synthesizers.prada.likelihood.correcting import correction_of
from understudy.synthesizers.prada.likelihood.correction import Correction
from understudy.synthesizers.prada.likelihood.distillation import distil
from understudy.synthesizers.prada.likelihood.drawing import Densities, quantiles
from understudy.synthesizers.prada.likelihood.fitted import FittedDensity
from understudy.synthesizers.prada.likelihood.moments import NoisyMoments, measure_moments, moments_part
from understudy.synthesizers.prada.likelihood.parents import (
    candidate_parents,
    cut_inputs,
    influences,
    prune_parents,
    sources_of,
)
from understudy.synthesizers.prada.likelihood.parts import Part, parts_of
from understudy.synthesizers.prada.likelihood.pool import Pool, PublicRows, Whole, joined
from understudy.synthesizers.prada.likelihood.reading import Reading, reading_of
from understudy.synthesizers.prada.likelihood.schedule import GRADIENTS, noise_of_training, penalties, steady_rate
from understudy.synthesizers.prada.likelihood.settings import STEPS_PER_ROUND, LikelihoodSettings
from understudy.synthesizers.prada.likelihood.start import Prediction, start_column
from understudy.synthesizers.prada.likelihood.tilt import Tilted, count_term, moment_term, tilt, total_gap
from understudy.synthesizers.prada.likelihood.training import Hyperparameters, State, density_loop
from understudy.synthesizers.prada.likelihood.variables import Variable, own_score_map, state_map, variables_of
from understudy.synthesizers.prada.settings import drawn_rate

CALIBRATION_ROWS = 2**14
"""Marginals are calibrated on this many generated rows."""
INFLUENCE_ROWS = 2**12
"""Influences are measured on this many of them."""
SOME_ROWS = 2**13
"""So many rows show how near a model is to what was measured."""
MOST_COPULA = 0.5
"""At most this share of the first pool is drawn from a normal copula."""
NOTHING = "nothing"
"""A column of zeros is called this."""
LEAST_CONTRAST = 256
"""A contrast is the mean over at least this many public rows."""
LEAST_ALIKE = 1 / 3
"""Public rows whose weights are worth less than this part of them are unlike the private ones. Slopes are then
contrasted with draws given a row's own inputs, ..."""
OWN_CONTRASTS = 2
"""... so many of them."""


@one_thread_each()
def fit_densities(requests: Sequence[FitRequest]) -> list[FittedDensity]:
    """The fitted generators, in the order of the requests."""
    started = [_start(request) for request in requests]
    stepping = [each for each in started if each.takes_steps]
    jobs = [each.job() for each in stepping]
    progress = stepping[0].request.ledger.on_step if stepping else None
    what = "train the densities of the columns"
    states = iter(train(jobs, planned=GRADIENTS, what=what, progress=progress) if jobs else [])
    return [each.finish(each.trained(next(states)) if each.takes_steps else each.columns) for each in started]


class _Schedule(NamedTuple):
    """The numbers of the steps of all parts."""

    penalty: list[NDArray[np.float64]]  # λ of each earlier column, by column
    batch: float  # rows of a batch, on average
    rate: float  # of the first steps


@dataclasses.dataclass(frozen=True, kw_only=True, eq=False)
class _Started:
    """A fit that has measured and distilled, before its private steps.

    Attributes:
        measured, moments: What was released; None for a table of one column.
        reading: How columns are read by later ones.
        predictions: The linear predictions before the distillation.
        columns: The distilled densities.
        parts: The columns as they are trained.
        means: Of the inputs.
        rows, tilted: The public rows that the densities were distilled from, and their weights.
    """

    request: FitRequest
    measured: MeasuredModel | None
    moments: NoisyMoments | None
    reading: Reading
    predictions: list[Prediction]
    columns: list[Column]
    parts: list[Part]
    means: NDArray[np.float64]
    rows: PublicRows
    tilted: Tilted

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
    def variables(self) -> tuple[Variable, ...]:
        return self.reading.variables

    @property
    def takes_steps(self) -> bool:
        return self.settings.steps > 0 and self.moments is not None

    # The private steps ----------------------------------------------------------------------------------------------

    def job(self) -> Job[State]:
        """The private steps of all parts, from the distilled densities."""
        settings, encoder = self.settings, self.encoder
        rate = drawn_rate(settings.batch_size, encoder.schema, encoder.rows)
        schedule, clip_norms = self._schedule(rate), self._clip_norms()
        networks = []
        for part in self.parts:
            norms = clip_norms[list(part.members)]
            if self.tilted.effective < LEAST_ALIKE:
                contrasts, contrast = OWN_CONTRASTS, None
            else:
                contrasts, contrast = 0, self._contrast(part, norms, rate, self.key.child(f"contrast {len(networks)}"))
            loop = density_loop(part.shape, min(STEPS_PER_ROUND, settings.steps), contrasts=contrasts)
            state = State(part.pack(self.columns, self.variables), self._for_part(part, schedule), contrast)
            networks.append(Network(loop=loop, state=state, columns=self._read_by(part), clip_norm=norms))
        return Job(
            rows=self._locked(),
            ledger=self.request.ledger,
            key=self.key,
            parts=networks,
            capacity=capacity_for(encoder.rows),
            rate=rate,
        )

    def _contrast(self, part: Part, norms: NDArray[np.float64], rate: float, key: Key) -> Contrast:
        """What the slopes of a part are contrasted with: as many public rows as a batch has, with the weights of the
        tilt.
        """
        features, weights = part.rows(self.rows)[:, : part.shape.features + 1], self.tilted.weights
        return Contrast(
            shape=part.shape,
            features=np.ascontiguousarray(features),
            levels=np.cumsum(weights) / np.sum(weights),
            norms=norms.astype(np.float32),
            batch=max(LEAST_CONTRAST, round(rate * self.encoder.rows)),
            draw=key.numpy(),
        )

    def _locked(self) -> PrivateRows:
        """Rows as the parts read them.

        Privacy:
            Releases nothing: row by row, through maps that are public by now.
        """
        maps: dict[str, RowMap] = {NOTHING: Clip(self.variables[0].name, 0.0, 0.0)}
        maps.update(self.reading.maps(self.encoder, self.key))
        for v in self.variables:
            scale = self.encoder.columns[v.name].scale
            if v.number:
                maps[f"own {v.name}"] = own_score_map(v, scale, self.key)
            if v.states:
                maps[f"state {v.name}"] = state_map(v, scale, self.key)
        rows = with_public_codes(self.request.rows, self.encoder, [v.name for v in self.variables])
        return rows.derive(maps)

    def _read_by(self, part: Part) -> list[str]:
        """The columns of locked rows that a part reads, as `Part.rows` has them."""
        names = [name for name, _ in self.reading.maps(self.encoder, self.key)]
        members = [self.variables[j] for j in part.members]
        read = [names[i] for i in part.features]
        own = [f"own {v.name}" if v.number else NOTHING for v in members]
        state = [f"state {v.name}" if v.states else NOTHING for v in members]
        return [*read, NOTHING, *own, *state]  # the one among them is added by the mechanism

    def _clip_norms(self) -> NDArray[np.float64]:
        """What a row may add to the gradient of each column: all together the clipping norm, more for the target."""
        weights = self._column_weights()
        return self.settings.clip_norm * weights / np.sqrt(np.sum(weights**2))

    def _schedule(self, sampling_rate: float) -> "_Schedule":
        settings, rows = self.settings, self.encoder.rows
        assert self.moments is not None  # there are steps
        noise = noise_of_training(self.request.ledger, sampling_rate, rows)
        penalty = penalties(
            settings.penalty,
            self.columns,
            self.predictions,
            self.reading.owners,
            start_noise=self.moments.noise,
            rows=rows,
            noise=noise,
        )
        return _Schedule(penalty, sampling_rate * max(rows, 1.0), steady_rate(settings.rate, self.columns, noise))

    def _for_part(self, part: Part, schedule: "_Schedule") -> Hyperparameters:
        """The numbers of one part's training; the inputs that a column reads of another are a group."""
        shape, settings = part.shape, self.settings
        groups = np.full((shape.columns, shape.inputs), shape.inputs, np.int32)
        amounts = np.zeros((shape.columns, shape.inputs + 1), np.float32)
        for at, j in enumerate(part.members):
            whose, group = np.unique(self.reading.owners[self.columns[j].sources], return_inverse=True)
            groups[at, : len(group)] = group
            amounts[at, : len(whose)] = schedule.penalty[j][whose]
        return Hyperparameters(
            rate=schedule.rate,
            penalty=amounts,
            groups=groups,
            batch=schedule.batch,
            steps=settings.steps,
            average=settings.average,
        )

    def _column_weights(self) -> NDArray[np.float64]:
        target = self.encoder.schema.target
        return np.array([self.settings.emphasis if v.name == target else 1.0 for v in self.variables])

    def trained(self, states: Sequence[State]) -> list[Column]:
        """The columns after the private steps."""
        found = list(self.columns)
        for part, state in zip(self.parts, states, strict=True):
            for j, column in part.unpack(state.trained(), self.columns):
                found[j] = column
        return found

    # What is public from here on ------------------------------------------------------------------------------------

    def finish(self, columns: Sequence[Column]) -> FittedDensity:
        """Calibrates, finds the parents, and then the correction."""
        self.request.ledger.phase("calibrate the densities, and find the parents")
        made, rows = self._calibrated(columns, "first")
        norms = self._influences(made, rows)
        pairs = prune_parents(norms, self.settings.threshold, self._column_weights())
        if self.settings.cut:
            made, _ = self._calibrated(cut_inputs(columns, pairs, self.means, self.reading.owners), "last")
        return FittedDensity(
            densities=made, norms=norms.astype(np.float32), pairs=pairs, correction=self._correction(made)
        )

    def _correction(self, made: Densities) -> Correction | None:
        if self.measured is None or self.moments is None:
            return None
        key, rows = self.key.child("correction"), max(self.encoder.rows, 1.0)
        count, known = self.settings.correction_rows, self.measured
        if not count:
            return None
        self.request.ledger.phase("learn which rows to keep")
        return correction_of(made, known.bins, known.measured, self.moments, rows=rows, pool_rows=count, key=key)

    def _calibrated(self, columns: Sequence[Column], name: str) -> tuple[Densities, PublicRows]:
        made = Densities(
            reading=self.reading,
            columns=tuple(columns),
            knots=np.repeat(quantiles()[None, :], len(columns), axis=0),
            components=self.settings.components,
            limit=score_limit(self.encoder),
        )
        return made.calibrated(CALIBRATION_ROWS, self.key.child(name).child("calibrate").numpy())

    def _influences(self, made: Densities, rows: PublicRows) -> NDArray[np.float64]:
        return influences(made, rows.some(INFLUENCE_ROWS), self.key.child("influences").numpy())


def _start(request: FitRequest) -> _Started:
    """Measures the graphical model and the moments, and distils them.

    Privacy:
        Rows are read by `AIM.measure` and by `measure_moments`.
    """
    settings: LikelihoodSettings = request.method
    encoder, ledger, key = request.encoder, request.ledger, request.key
    order = settings.order_for(encoder.schema)
    variables = variables_of(encoder, order)
    if len(order) == 1:
        return _alone(request, variables)
    units = request.rows.max_rows_per_unit
    part = moments_part(encoder, order, FilterShare(ROUNDS, 1.0), ledger=ledger, rows_per_unit=units)
    moments = measure_moments(request.rows, encoder, order, FilterShare(ROUNDS, part), ledger=ledger, key=key)
    target, graph = encoder.schema.target, key.child("graph")
    emphasis = {} if target is None else {target: max(settings.emphasis, 1.0)}
    measured = AIM().measure(request.rows, encoder, ledger=ledger, key=graph, part=1.0 - part, emphasis=emphasis)
    ledger.phase("draw rows of the graphical model, and weigh them by what was measured")
    pool = _first_pool(measured, moments, variables, encoder, settings.pool_rows, key.child("first pool"))
    codes = pool.codes(measured.bins)
    tilted = _tilted(pool, codes, measured, moments, encoder)
    reading = reading_of(variables, pool.states, [codes[name] for name in order], tilted.weights)
    pairs = candidate_parents([codes[name] for name in order], tilted.weights, settings.most_parents)
    return _distilled(request, measured, moments, reading, pool.read(reading), tilted, pairs)


def _first_pool(
    measured: MeasuredModel,
    moments: NoisyMoments,
    variables: tuple[Variable, ...],
    encoder: Encoder,
    count: int,
    key: Key,
) -> Pool:
    """Rows of the graphical model, and some of a normal copula that has the measured moments.

    A tilt can only weigh rows that there are: where one of the two has hardly any, the other may have more. The nearer
    the copula is to what was measured, beside the graphical model, the more of its rows there are.
    """
    net = measured.model.to_bayesnet(measured.bins)
    some = min(count // 2, SOME_ROWS)
    gaps = [
        total_gap(Pool(levels, variables).codes(measured.bins), levels, measured.measured, moments, encoder.rows)
        for levels in (net.sample(some, key=key), moments.copula_rows(some, key.child("copula").numpy()))
    ]
    share = min(MOST_COPULA, gaps[0] / max(sum(gaps), 1e-300))
    of_copula = round(share * count)
    halves = [net.sample(count - of_copula, key=key), moments.copula_rows(of_copula, key.child("copula").numpy())]
    return Pool(joined(halves), variables)


def _distilled(
    request: FitRequest,
    measured: MeasuredModel | None,
    moments: NoisyMoments | None,
    reading: Reading,
    rows: PublicRows,
    tilted: Tilted,
    pairs: NDArray[np.bool_],
) -> _Started:
    """The densities that learn public rows, from linear predictions on."""
    settings: LikelihoodSettings = request.method
    weights = tilted.weights
    draw = request.key.child("weights").numpy()
    started = [
        start_column(
            j, sources, rows, weights, reading, hidden=settings.hidden, components=settings.components, draw=draw
        )
        for j, sources in enumerate(sources_of(pairs, reading))
    ]
    columns = [column for column, _ in started]
    parts = parts_of(columns, reading.variables, components=settings.components)
    if measured is not None:
        request.ledger.phase("learn the densities from these rows")
        steps, rate = settings.distillation_steps, settings.distillation_rate
        columns = _distil(columns, parts, rows, weights, steps, rate, request.key.child("first"))
    return _Started(
        request=request,
        measured=measured,
        moments=moments,
        reading=reading,
        predictions=[prediction for _, prediction in started],
        columns=columns,
        parts=parts,
        means=rows.inputs.astype(np.float64) @ (weights / weights.sum()),
        rows=rows,
        tilted=tilted,
    )


def _alone(request: FitRequest, variables: tuple[Variable, ...]) -> _Started:
    """A single column: its distribution is all there is to know."""
    [variable] = variables
    levels = {variable.name: (np.arange(CALIBRATION_ROWS) + 0.5) / CALIBRATION_ROWS}
    pool, even = Pool(levels, variables), Tilted(np.ones(CALIBRATION_ROWS), 1.0)
    reading = reading_of(variables, pool.states, [np.zeros(CALIBRATION_ROWS, np.int64)], even.weights)
    return _distilled(request, None, None, reading, pool.read(reading), even, np.zeros((1, 1), bool))


def _tilted(
    pool: Pool, codes: Mapping[str, Whole], measured: MeasuredModel, moments: NoisyMoments, encoder: Encoder
) -> Tilted:
    """Weights under which the rows of a pool, and their bins, have the measured counts and moments."""
    counts = count_term(measured.measured, codes, max(encoder.rows, 1.0))
    return tilt([counts, moment_term(pool.levels, moments)], pool.count)


def _distil(
    columns: Sequence[Column],
    parts: Sequence[Part],
    rows: PublicRows,
    weights: NDArray[np.float64],
    steps: int,
    rate: float,
    key: Key,
) -> list[Column]:
    """The columns, trained further on weighted public rows."""
    variables = rows.variables
    given = [(part, part.pack(columns, variables), part.rows(rows)) for part in parts]
    learned = distil(given, weights, steps=steps, rate=rate, draw=key.child("distil").numpy())
    found = list(columns)
    for part, made in zip(parts, learned, strict=True):
        for j, column in part.unpack(made, columns):
            found[j] = column
    return found


def score_limit(encoder: Encoder) -> float:
    """How far out the scores of this many rows lie, as the encoder makes them."""
    return -float(normal_score(np.asarray(encoder.outermost_level)))
