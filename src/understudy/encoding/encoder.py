"""The cloakroom: values are exchanged for numbers, through maps that were bought.

Every column, whatever its kind, becomes a distribution function over levels in [0, 1] (and a share of missing
values): numbers and instants through one that is bought in three rounds of counts, categories and booleans through
their noisy shares, as if codes were whole numbers. The one rule: all of it is paid for. Bounds, categories, atoms and
the presence of missing values come from the schema or from a hatch, never from a look at the rows.

From one purchase there are two views. *Scores* are standard normal: the inverse normal of a level, for networks and the
copula. *Codes* are cell numbers, for methods that count. Going back, a level inside a cell is read through the learned
distribution function, so a value comes out of where the mass was, not out of the middle of the cell.

Departures from the usual: values outside the bounds are clamped, unknown categories go to `other` and a missing value
that the schema rules out is given a random level; none of these is an error, since failing is also a release.
"""

import dataclasses
import functools
from collections.abc import Mapping, Sequence

import numpy as np
from numpy.typing import NDArray

from understudy.core.randomness import Key
from understudy.encoding import distributions
from understudy.encoding.distributions import Distribution, Round
from understudy.privacy.accounting import PlannedMechanism
from understudy.privacy.ledger import Ledger
from understudy.privacy.mechanisms import noisy_counts, noisy_row_count, popular_categories
from understudy.privacy.rows import PrivateRows
from understudy.tables.schema import Column, Schema, SchemaError

Floats = NDArray[np.float64]
Levels = dict[str, Floats]  # a level per row and column; NaN is a missing value

BOOLEAN_LABELS = ("false", "true")
# How a numeric column's money is divided between its three rounds: find the mass, resolve it, refine it. Two rounds
# see less of small separate groups, four have too much noise in each (docs/design-notes.md).
ROUNDS = {"find": 0.3, "resolve": 0.3, "refine": 0.4}
QUESTIONS = {"find": "where '{}' lies", "resolve": "how '{}' is spread", "refine": "how '{}' is spread, finer"}
SELECTION = 0.3  # of an unknown category column's money: which categories there are; the rest counts them
COUNT_SHARE = 0.01  # of everything, for the number of rows where the schema does not give it
THRESHOLD_DELTA = 0.1  # of delta, for all partition selections together
STANDARDISED = (
    "THE STANDARDISATION OF THE COLUMNS WAS NOT PRIVATE. They were taken as they came, standardised beforehand; if "
    "that was done with moments of these very rows, no budget covers it, and the promise does not hold for it. The "
    "number of rows was taken from the schema, as public."
)
UNKNOWN = 1e30  # the variance of a number that nothing is known of


# The plan -----------------------------------------------------------------------------------------------------------


def plan(schema: Schema, *, share: float, delta: float) -> list[PlannedMechanism]:
    """What the encoder will buy, with `share` of the whole budget, divided evenly among the columns."""
    kinds = [_purchase(column) for column in schema]
    each = share / len(schema)
    items = []
    if schema.rows is None:
        items.append(PlannedMechanism(name="rows", mechanism="discrete gaussian", share=COUNT_SHARE * share))
    if numeric := kinds.count("numeric"):
        items += [
            PlannedMechanism(name=name, mechanism="discrete gaussian", share=part * each * numeric, times=numeric)
            for name, part in ROUNDS.items()
        ]
    listed, unlisted = kinds.count("listed"), kinds.count("unlisted")
    if unlisted:
        items.append(
            PlannedMechanism(
                name="select",
                mechanism="gaussian threshold",
                share=SELECTION * each * unlisted,
                times=unlisted,
                threshold_delta=THRESHOLD_DELTA * delta / unlisted,
            )
        )
        items.append(
            PlannedMechanism(
                name="count selected",
                mechanism="discrete gaussian",
                share=(1 - SELECTION) * each * unlisted,
                times=unlisted,
            )
        )
    if listed:
        items.append(PlannedMechanism(name="count", mechanism="discrete gaussian", share=each * listed, times=listed))
    return items


def _purchase(column: Column) -> str:
    if column.is_numeric:
        return "numeric"
    return "unlisted" if column.kind == "categorical" and column.values is None else "listed"


# What is bought -----------------------------------------------------------------------------------------------------


@dataclasses.dataclass(frozen=True)
class ColumnMap:
    """One column's learned distribution; public, since it was bought.

    Attributes:
        column: Its facts.
        distribution: Of the values that are not missing; of codes for categories and booleans.
        missing: The share of missing values; 0 unless the schema says `nullable`.
        labels: What the codes of a category or boolean column stand for.
    """

    column: Column
    distribution: Distribution
    missing: float = 0.0
    labels: tuple[str, ...] | None = None

    def levels(self, values: NDArray) -> tuple[Floats, Floats]:
        """The interval of levels that belongs to every value; NaN where it is missing."""
        x = np.where(values < 0, np.nan, values).astype(np.float64) if self.labels is not None else values
        low, high = self.column.bounds
        x = np.clip(x, -distributions.LARGEST if low is None else low, distributions.LARGEST if high is None else high)
        below, above = self.distribution.interval(x)
        gone = np.isnan(x)
        return np.where(gone, np.nan, below), np.where(gone, np.nan, above)

    def values(self, levels: Floats) -> NDArray:
        """Values (or codes of categories) at the given levels; a NaN level is a missing value, -1 as a code."""
        gone = np.isnan(levels)
        x = self.distribution.quantile(np.where(gone, 0.5, levels))
        if self.labels is not None:
            codes = np.clip(x, 0, len(self.labels) - 1)
            if self.column.kind == "boolean":  # a table holds truth values as numbers, and a missing one as NaN
                return np.where(gone, np.nan, codes)
            return np.where(gone, -1, codes).astype(np.int64)
        low, high = self.column.bounds
        x = np.clip(x, low, high) if low is not None or high is not None else x
        x = np.rint(x) if self.column.kind == "datetime" else x
        return np.where(gone, np.nan, x)


class PassThrough(ColumnMap):
    """The map of a column that is taken as it is: its own numbers stand for levels and for scores."""

    @classmethod
    def of(cls, column: Column) -> "PassThrough":
        return cls(column, Distribution(np.array([0.0, 1.0]), np.array([0.0, 1.0])))

    def levels(self, values: NDArray) -> tuple[Floats, Floats]:
        x = np.clip(np.nan_to_num(values), -distributions.LARGEST, distributions.LARGEST)
        return x, x

    def values(self, levels: Floats) -> NDArray:
        return levels


@dataclasses.dataclass(frozen=True)
class Encoder:
    """All columns' maps, and the (noisy or public) number of rows."""

    schema: Schema
    maps: Mapping[str, ColumnMap]
    rows: float

    def decode(self, levels: Levels) -> dict[str, NDArray]:
        """Columns of values from columns of levels."""
        return {name: self.maps[name].values(levels[name]) for name in self.schema.names}

    @property
    def labels(self) -> dict[str, Sequence[str]]:
        return {name: m.labels for name, m in self.maps.items() if m.labels is not None}


def pass_through_encoder(schema: Schema, *, ledger: Ledger) -> Encoder:
    """Columns that somebody has standardised already, and the number of rows that the schema gives. Buys nothing.

    Privacy:
        Reads nothing. What whoever standardised the columns learned from the rows is theirs to answer for, and the
        receipt says so.

    Raises:
        SchemaError: As of `check_pass_through`.
    """
    rows = check_pass_through(schema)
    ledger.warn(STANDARDISED)
    return Encoder(schema, {column.name: PassThrough.of(column) for column in schema}, float(rows))


def check_pass_through(schema: Schema) -> int:
    """The number of rows of a table whose columns can be taken as they are.

    Raises:
        SchemaError: A column is not a number, may be missing, or the schema does not say how many rows there are.
    """
    for column in schema:
        if not column.is_numeric or column.nullable:
            raise SchemaError(f"column {column.name!r}: only numbers that are never missing can be taken as they are.")
    if schema.rows is None:
        raise SchemaError("rows: expected the public number of rows, since none is bought. Add it to the schema.")
    return schema.rows


def fit_encoder(rows: PrivateRows, schema: Schema, *, ledger: Ledger, key: Key) -> Encoder:
    """Buys the distribution of every column.

    The number of rows is a noisy count. Where the schema gives one instead, that is only approximate, so the columns'
    own counts say how many there are.

    Privacy:
        Reads rows through the counting hatches only, as `plan` lists them.
    """
    if schema.rows is None:
        variance = (ledger.noise("rows") * rows.max_rows_per_unit) ** 2
        total = max(noisy_row_count(rows, planned="rows", ledger=ledger, key=key.child("rows")), 1.0)
    else:
        variance, total = UNKNOWN, float(schema.rows)
    root = Round(np.array([total]), variance, np.zeros(1, int))
    buyers = {"numeric": _buy_numeric, "listed": _buy_listed, "unlisted": _buy_unlisted}
    bought = {column.name: buyers[_purchase(column)](rows, column, root, ledger, key) for column in schema}
    if schema.rows is not None:
        total = max(float(np.median([counted for _, counted in bought.values()])), 1.0)
    return Encoder(schema, {name: column_map for name, (column_map, _) in bought.items()}, total)


Bought = tuple[ColumnMap, float]  # and how many rows its counts add up to


def _buy_numeric(rows: PrivateRows, column: Column, root: Round, ledger: Ledger, key: Key) -> Bought:
    """Three rounds of counts over partitions that grow finer where there are rows.

    Missing values are a cell, the last, whether the schema allows them or not: every row is counted somewhere.
    """
    name, integer = column.name, column.kind == "integer"
    low, high = column.bounds
    sigma = {item: ledger.noise(item) * rows.max_rows_per_unit for item in ROUNDS}
    precision = np.cumsum([1 / sigma[item] ** 2 for item in ROUNDS])
    noise = precision[-1] ** -0.5  # of a cell that is counted in every round
    octaves = distributions.octaves_for(noise, float(root.counts[0]))
    edges = distributions.starting_edges(low=low, high=high, integer=integer, atoms=column.atoms, octaves=octaves)
    rounds, parents, masses = [root], np.zeros(len(edges), int), np.zeros(0)
    for step, item in enumerate(ROUNDS):
        cells = len(edges)
        coded = rows.derive({"cell": ([name], functools.partial(_cell_or_missing, edges=edges))})
        counts = noisy_counts(
            coded,
            ["cell"],
            [cells],
            what=QUESTIONS[item].format(name),
            planned=item,
            ledger=ledger,
            key=key.child(item).child(name),
        )
        rounds.append(Round(counts, sigma[item] ** 2, parents))
        masses = distributions.combine(rounds)
        if step < len(ROUNDS) - 1:
            edges, parents = distributions.refine(
                edges,
                masses[: len(edges) - 1],
                noise_so_far=precision[step] ** -0.5,
                noise_ahead=(precision[-1] - precision[step]) ** -0.5,
                integer=integer,
            )
            parents = np.append(parents, cells - 1)
    present = masses[: len(edges) - 1]
    missing = _missing_share(masses[-1], present.sum()) if column.nullable else 0.0
    learned = distributions.distribution(edges, present, noise=noise, low=low, high=high, integer=integer)
    return ColumnMap(column, learned, missing), float(masses.sum())


def _cell_or_missing(values: Floats, *, edges: Floats) -> NDArray[np.int64]:
    cells = distributions.cell_of(values, edges)
    return np.where(cells < 0, len(edges) - 1, cells)


def _buy_listed(rows: PrivateRows, column: Column, root: Round, ledger: Ledger, key: Key) -> Bought:
    labels = BOOLEAN_LABELS if column.kind == "boolean" else column.labels
    assert labels is not None  # the schema gives them
    return _count_categories(rows, column, labels, "count", ledger, key)


def _buy_unlisted(rows: PrivateRows, column: Column, root: Round, ledger: Ledger, key: Key) -> Bought:
    what = f"which categories '{column.name}' has"
    found, _ = popular_categories(
        rows, column.name, what=what, planned="select", ledger=ledger, key=key.child("select").child(column.name)
    )
    other = _other(column)
    labels = tuple(found) if other in found else (*found, other)
    return _count_categories(_relabelled(rows, column, labels), column, labels, "count selected", ledger, key)


def _relabelled(rows: PrivateRows, column: Column, labels: Sequence[str]) -> PrivateRows:
    """The rows with a bought category column as codes into the bought labels; what was not bought is `other`."""
    return rows.relabel(column.name, labels, other=labels.index(_other(column)))


def _other(column: Column) -> str:
    return column.other or "other"


def _count_categories(rows: PrivateRows, column: Column, labels, planned: str, ledger: Ledger, key: Key) -> Bought:
    """Noisy shares of listed categories, as a distribution function over their codes."""
    name, size = column.name, len(labels)
    coded = rows.derive({"code": ([name], lambda codes: _code_or_missing(codes, size if column.nullable else -1))})
    counts = noisy_counts(
        coded,
        ["code"],
        [size + column.nullable],
        what=f"count the categories of '{name}'",
        planned=planned,
        ledger=ledger,
        key=key.child(planned).child(name),
    )
    present = counts[:size]
    missing = _missing_share(counts[-1], present.sum()) if column.nullable else 0.0
    shares = distributions.to_simplex(present, max(float(present.sum()), 1.0))
    cdf = np.clip(np.concatenate([[0.0], np.cumsum(shares / shares.sum())]), 0.0, 1.0)
    cdf[-1] = 1.0
    learned = Distribution(np.arange(size + 1.0) - 0.5, cdf, integer=True)
    return ColumnMap(column, learned, missing, tuple(labels)), float(counts.sum())


def _code_or_missing(codes: NDArray, missing: int) -> NDArray[np.int64]:
    gone = np.isnan(codes) if codes.dtype.kind == "f" else codes < 0
    return np.where(gone, missing, np.nan_to_num(codes)).astype(np.int64)


def _missing_share(missing: float, present: float) -> float:
    missing, present = max(float(missing), 0.0), max(float(present), 0.0)
    return missing / max(missing + present, 1.0)


# Scores -------------------------------------------------------------------------------------------------------------


@dataclasses.dataclass(frozen=True)
class ScoreColumn:
    """One standard normal coordinate: the value of a column, or whether it is missing."""

    column: str
    missing: bool = False

    @property
    def name(self) -> str:
        return f"{'missing' if self.missing else 'value'} {self.column}"


def score_columns(encoder: Encoder) -> list[ScoreColumn]:
    """The coordinates of a row in score space: one for every column, one more for every nullable one."""
    return [
        ScoreColumn(c.name, missing) for c in encoder.schema for missing in ((False, True) if c.nullable else (False,))
    ]


def score_rows(
    rows: PrivateRows,
    encoder: Encoder,
    *,
    key: Key,
    spread: bool,
    weightings: "Mapping[str, ValueWeighting] | None" = None,
) -> PrivateRows:
    """Locked rows of scores, one column for each feature.

    Args:
        weightings: Of columns whose scores are accented.
        spread: A value that owns an interval of levels (an atom, a whole number, a category) gets a random level of
            it, so that scores are normal. Otherwise it gets the mean score over the interval: less noise in products.

    Privacy:
        Releases nothing: row by row, through maps that are public by now.
    """
    recipes = {
        feature.name: ([feature.column], functools.partial(_score, encoder, feature, key, spread, weightings or {}))
        for feature in score_columns(encoder)
    }
    return _in_public_codes(rows, encoder).derive(recipes)


def _in_public_codes(rows: PrivateRows, encoder: Encoder) -> PrivateRows:
    """The rows with bought categories as codes into the bought labels.

    The codes they came with count the private labels of the whole table, so that one more row could move them all.
    """
    for m in encoder.maps.values():
        if m.labels is not None and _purchase(m.column) == "unlisted":
            rows = _relabelled(rows, m.column, m.labels)
    return rows


def _score(
    encoder: Encoder,
    feature: ScoreColumn,
    key: Key,
    spread: bool,
    weightings: "Mapping[str, ValueWeighting]",
    values: NDArray,
) -> Floats:
    from scipy.special import ndtri

    column_map = encoder.maps[feature.column]
    edge = 0.25 / max(encoder.rows, 10.0)  # no score is farther out than a sample of this size would go
    draw = key.child(f"score {feature.name}").numpy()
    below, above = column_map.levels(values)
    gone = np.isnan(below)
    if feature.missing:
        start = 1.0 - column_map.missing
        below, above = np.where(gone, start, 0.0), np.where(gone, 1.0, start)
        gone = np.zeros_like(gone)
    elif not column_map.column.nullable:  # missing against the schema: a random level, so that nothing is learned
        anywhere = draw.random(len(values))
        below, above = np.where(gone, anywhere, below), np.where(gone, anywhere, above)
        gone = np.zeros_like(gone)
    below, above = np.clip(below, edge, 1 - edge), np.clip(above, edge, 1 - edge)
    score = ndtri(below + draw.random(len(values)) * (above - below)) if spread else mean_score(below, above)
    if feature.column in weightings and not feature.missing:
        score = weightings[feature.column].score(column_map.distribution.quantile((below + above) / 2), score)
    return np.where(gone, 0.0, score)


def mean_score(below: Floats, above: Floats) -> Floats:
    """E[Z | below < Φ(Z) < above] = (φ(a) - φ(b)) / (above - below) with a, b the scores of the ends."""
    from scipy.special import ndtri

    a, width = ndtri(below), above - below
    wide = width > 1e-9
    density = _density(a) - _density(ndtri(above))
    return np.where(wide, density / np.where(wide, width, 1.0), a)


def _density(z: Floats) -> Floats:
    return np.exp(-(z**2) / 2) / np.sqrt(2 * np.pi)


def loading(encoder: Encoder, feature: ScoreColumn) -> float:
    """E[S Z] of a feature's mean score S with the normal Z behind it: how much of Z survives ties and gaps.

    With E[S_i S_j] = r · loading_i · loading_j to first order in the correlation r of the normals behind (the
    first Hermite coefficient of S), it turns products of scores into latent correlations.
    """
    column_map = encoder.maps[feature.column]
    if feature.missing:
        ends = np.array([0.0, 1.0 - column_map.missing, 1.0])
        below, above = ends[:-1], ends[1:]
        present = 1.0
    else:
        below, above = column_map.distribution.atoms()
        present = 1.0 - column_map.missing
    wide = above - below > 1e-9
    below, above = below[wide], above[wide]
    width = above - below
    second = width + _times_density(below) - _times_density(above)  # E[Z²; atom]
    lost = second - width * mean_score(below, above) ** 2
    return float(present * np.clip(1.0 - lost.sum(), 0.0, 1.0))


def _times_density(level: Floats) -> Floats:
    from scipy.special import ndtri

    z = ndtri(np.clip(level, 1e-300, 1 - 1e-16))
    return z * _density(z)


# Accents ------------------------------------------------------------------------------------------------------------

VALUE_SHARE = 0.75  # of values in an accented score, beside normal scores; see docs/design-notes.md
FARTHEST = 6.0  # deviations from the mean that a value counts for at most


@dataclasses.dataclass(frozen=True)
class ValueWeighting:
    """A score of a number column that follows its values as well as their ranks, of mean 0 and deviation 1.

        a(x) = (w · z(x) + (1 - w) · s(x) - shift) / scale

    with z the value in deviations from the mean, within ±`FARTHEST`, s the normal score of its level, and w `VALUE_SHARE`. A
    few rows far from the rest can be most of a column's variance and hardly show among its ranks: what such a
    column depends on is better seen with the values. Public, made from the bought distribution.

    Attributes:
        mean, deviation: Of the values.
        shift, scale: Of the sum before it is standardised.
        loading: E[a Z] with Z the normal score behind: how much of an accent a normal copula can see.
        farthest: The largest |a|, about.
    """

    mean: float
    deviation: float
    shift: float
    scale: float
    loading: float
    farthest: float

    @classmethod
    def of(cls, encoder: "Encoder", name: str) -> "ValueWeighting | None":
        """The accent of a column, where it is a number whose values vary."""
        from scipy.special import ndtri

        column_map = encoder.maps[name]
        if isinstance(column_map, PassThrough) or column_map.labels is not None:
            return None
        levels = (np.arange(4096) + 0.5) / 4096
        values = column_map.distribution.quantile(levels)
        largest = max(float(np.abs(values).max()), 1e-300)
        mean, deviation = largest * float((values / largest).mean()), largest * float((values / largest).std())
        if not 1e-9 * largest < deviation < np.inf:
            return None
        normal = ndtri(levels)
        plain = cls(mean, deviation, 0.0, 1.0, 0.0, 0.0).score(values, normal)
        shift, scale = float(plain.mean()), float(plain.std())
        found = (plain - shift) / scale
        return cls(mean, deviation, shift, scale, float(np.mean(found * normal)), float(np.abs(found).max()))

    def score(self, values: Floats, normal: Floats) -> Floats:
        """a of values that have these normal scores."""
        z = np.clip((np.nan_to_num(values) - self.mean) / self.deviation, -FARTHEST, FARTHEST)
        return (VALUE_SHARE * z + (1 - VALUE_SHARE) * normal - self.shift) / self.scale


def target_weightings(encoder: Encoder) -> dict[str, ValueWeighting]:
    """The accent of the schema's target, whose values, not ranks, are to be predicted; of no other column."""
    target = encoder.schema.target
    accent = None if target is None else ValueWeighting.of(encoder, target)
    return {} if target is None or accent is None else {target: accent}


# Signals ------------------------------------------------------------------------------------------------------------


@dataclasses.dataclass(frozen=True)
class Feature:
    """One input of a network: the score of a number, or whether a column is in one of its states.

    The states of a category are its values and, where it may be missing, that; those of a number that may be missing
    are present and missing.
    """

    column: str
    state: int | None = None

    @property
    def name(self) -> str:
        return f"score {self.column}" if self.state is None else f"state {self.state} {self.column}"


def category_count(encoder: Encoder, name: str) -> int:
    """How many states a column has: none if it is a number that is never missing."""
    labels, nullable = encoder.maps[name].labels, encoder.schema[name].nullable
    return len(labels) + nullable if labels is not None else 2 * nullable


def features(encoder: Encoder, order: Sequence[str]) -> list[Feature]:
    """The inputs that columns become, in this order of the columns."""
    found = []
    for name in order:
        number = [] if encoder.maps[name].labels is not None else [Feature(name)]
        found += [*number, *(Feature(name, state) for state in range(category_count(encoder, name)))]
    return found


def feature_rows(
    rows: PrivateRows,
    encoder: Encoder,
    wanted: Sequence[Feature],
    *,
    key: Key,
    weightings: Mapping[str, ValueWeighting] | None = None,
) -> PrivateRows:
    """Locked rows of signals, one column for each.

    Args:
        weightings: Of columns whose scores are accented.

    Privacy:
        Releases nothing: row by row, through maps that are public by now.
    """
    recipes = {
        signal.name: ([signal.column], functools.partial(_signal, encoder, signal, key, weightings or {}))
        for signal in wanted
    }
    return _in_public_codes(rows, encoder).derive(recipes)


def _signal(
    encoder: Encoder, signal: Feature, key: Key, weightings: Mapping[str, ValueWeighting], values: NDArray
) -> Floats:
    column_map = encoder.maps[signal.column]
    if isinstance(column_map, PassThrough):
        return column_map.levels(values)[0]
    if signal.state is None:
        return _score(encoder, ScoreColumn(signal.column), key, True, weightings, values)
    gone = np.isnan(values) if values.dtype.kind == "f" else values < 0
    if column_map.labels is None:
        return (gone == bool(signal.state)).astype(np.float64)
    size = len(column_map.labels)
    anywhere = key.child(f"state {signal.column}").numpy().random(len(values))
    instead = size if column_map.column.nullable else np.clip(column_map.distribution.quantile(anywhere), 0, size - 1)
    return (np.where(gone, instead, np.nan_to_num(values)) == signal.state).astype(np.float64)


def category_rows(rows: PrivateRows, states: Mapping[str, Sequence[str]]) -> PrivateRows:
    """Locked rows of codes from rows of signals: the number of the state that a row is in.

    Args:
        states: Of each column of categories, the names of the signals of its states, in order.

    Privacy:
        Releases nothing: row by row.
    """
    return rows.derive({name: (list(signals), _state) for name, signals in states.items()})


def _state(*signals: NDArray) -> NDArray[np.int64]:
    return np.argmax(np.stack(signals), axis=0)


# Codes --------------------------------------------------------------------------------------------------------------


@dataclasses.dataclass(frozen=True)
class Bins:
    """One column cut into cells for counting: ascending ends of levels, and a last cell for missing values."""

    edges: Floats
    nullable: bool

    @property
    def size(self) -> int:
        return len(self.edges) - 1 + self.nullable

    def code(self, below: Floats, above: Floats) -> NDArray[np.int64]:
        middle = (below + above) / 2
        code = np.clip(np.searchsorted(self.edges, middle, side="right") - 1, 0, len(self.edges) - 2)
        return np.where(np.isnan(middle), self.size - 1 if self.nullable else -1, code)

    def level(self, codes: NDArray, uniform: Floats) -> Floats:
        """A level inside every code's cell, at the place `uniform` says; NaN in the cell for missing values."""
        gone = codes >= len(self.edges) - 1
        at = np.where(gone, 0, codes)
        level = self.edges[at] + uniform * (self.edges[at + 1] - self.edges[at])
        return np.where(gone, np.nan, level)


VALUE_WEIGHT = 0.5  # of distances between values, beside those between levels; see docs/design-notes.md
LIGHTEST = 0.15  # over `most`: the least mass of a cell
PIECES = 128  # that a column is looked at in, evenly in levels, and as many evenly in values


def make_bins(encoder: Encoder, most: int) -> dict[str, Bins]:
    """Cuts every number column into at most about `most` cells, never through a repeated value.

    Rows of a cell should be alike in rank and in value, so cells make

        Σ_cells Σ_(x in cell) (1 - w) · (u - mean u)² / Var u  +  w · (x - mean x)² / Var x

    as small as can be, u being the level of x, w `VALUE_WEIGHT`, and the sums over the bought distribution. With w = 0
    they would be of even mass; the values see to it that a small group far from the rest has a cell of its own. Values
    that hold 1/(2 · most) or more always have, no other cell holds less than `LIGHTEST` / most, unless between two of
    those, and every category has its own.
    """
    return {name: Bins(_cell_ends(m, most), m.column.nullable) for name, m in encoder.maps.items()}


def _cell_ends(column_map: ColumnMap, most: int) -> Floats:
    if column_map.labels is not None:
        return column_map.distribution.cdf
    learned, least = column_map.distribution, LIGHTEST / most
    below, above = learned.atoms()
    heavy = above - below >= 0.5 / most
    walls, own = _walls(below[heavy], above[heavy], least / 10)
    far = least / 2  # farther out than this values are not told apart: no cell could
    ends = _with_points(walls, own, _points(learned, far))
    alone = own[np.searchsorted(walls, (ends[:-1] + ends[1:]) / 2) - 1]
    return ends[best_cut(np.diff(ends), places(learned, ends, far), most=most, least=least, alone=alone)]


def places(learned: Distribution, ends: Floats, far: float) -> Floats:
    """Where the middles of cells lie, in levels and in values, both in deviations and weighted.  # (2, cells)"""
    masses, levels = np.diff(ends), (ends[:-1] + ends[1:]) / 2
    values = learned.quantile(np.clip(levels, far, 1.0 - far))
    weights = np.sqrt([1.0 - VALUE_WEIGHT, VALUE_WEIGHT])
    return np.array([_standardised(levels, masses), _standardised(values, masses)]) * weights[:, None]


def _walls(below: Floats, above: Floats, least: float) -> tuple[Floats, NDArray[np.bool_]]:
    """Levels that heavy values begin and end at, and which intervals between them hold one.

    An interval that holds none and less than `least` belongs to the next.
    """
    walls = np.unique(np.concatenate([[0.0], below, above, [1.0]]))
    own = np.isin(walls[:-1], below)
    stays = np.ones(len(walls), bool)
    for i in np.flatnonzero(~own & (np.diff(walls) < least)):
        stays[i + 1 if i + 1 < len(own) else i] = False
    return walls[stays], np.logical_or.reduceat(own, np.flatnonzero(stays[:-1]))


def _points(learned: Distribution, far: float) -> Floats:
    """Levels at which a column could be cut: evenly spaced ones and evenly spaced values, at their ends if repeated."""
    first, last = learned.quantile(np.array([far, 1.0 - far]))
    part = np.linspace(0.0, 1.0, PIECES + 1)
    values = np.concatenate([learned.quantile(part), first * (1.0 - part) + last * part])
    values = np.rint(values) if learned.integer else values
    return np.unique(np.concatenate(learned.interval(values)))


def _with_points(walls: Floats, own: NDArray[np.bool_], points: Floats) -> Floats:
    """The walls, and those points that are not as good as on one, nor inside what a heavy value owns."""
    points = points[(points > 0.0) & (points < 1.0)]
    at = np.searchsorted(walls, points, side="right") - 1
    clear = np.minimum(points - walls[at], walls[at + 1] - points) > 1e-9
    points = points[~own[at] & clear]
    return np.union1d(walls, points[np.diff(points, prepend=-1.0) > 1e-9])


def _standardised(places: Floats, masses: Floats) -> Floats:
    centred = places - np.average(places, weights=masses)
    centred = centred / max(float(np.abs(centred).max()), 1e-300)  # squares of the farthest floats would overflow
    return centred / max(float(np.sqrt(np.average(centred**2, weights=masses))), 1e-15)


def best_cut(
    masses: Floats, places: Floats, *, most: int, least: float, alone: NDArray[np.bool_] | None = None
) -> NDArray[np.int64]:
    """Where to cut pieces in a row into at most `most` groups, so that the variance within groups is least.

    By dynamic programming: the best cut of the first j pieces into k groups is, for some i, the best one of the first i
    into k - 1, and one more group from i to j.

    Args:
        masses: Of the pieces.
        places: Where they lie, in any number of coordinates.  # (coordinates, pieces)
        least: The least mass of a group, unless it lies between pieces that are alone.
        alone: Pieces that are groups of their own, however many groups that makes.

    Returns:
        The piece that every group begins with, and at last the number of pieces.
    """
    pieces = len(masses)
    alone = np.zeros(pieces, bool) if alone is None else alone
    wall = np.r_[True, alone[1:] | alone[:-1], True]
    walls = np.cumsum(wall)
    held, cost = _between(masses), np.zeros((pieces + 1, pieces + 1))  # of the group from i to j
    for place in places:
        cost += _between(masses * place**2) - _between(masses * place) ** 2 / np.where(held > 0, held, 1.0)
    whole = wall[:, None] & wall[None, :]
    through = walls[None, :] - wall[None, :] > walls[:, None]  # a wall lies inside
    forward = np.triu(np.ones_like(whole), 1)
    cost = np.where(forward & ~through & (whole | (held >= least)), np.maximum(cost, 0.0), np.inf)
    best, came = [cost[0]], [np.zeros(pieces + 1, np.int64)]
    for _ in range(max(most, int(walls[-1]) - 1) - 1):
        reached = best[-1][:, None] + cost
        came.append(reached.argmin(axis=0))
        best.append(reached.min(axis=0))
    groups = int(np.argmin([each[-1] for each in best]))
    cuts = [pieces]
    for step in range(groups, -1, -1):
        cuts.append(int(came[step][cuts[-1]]))
    return np.array(cuts[::-1])


def _between(x: Floats) -> Floats:
    """The sum of x from i up to, and without, j."""
    sums = np.concatenate([[0.0], np.cumsum(x)])
    return sums[None, :] - sums[:, None]


def bin_rows(rows: PrivateRows, encoder: Encoder, cut: Mapping[str, Bins], *, key: Key) -> PrivateRows:
    """Locked rows of codes. A missing value that the schema rules out gets a random code.

    Privacy:
        Releases nothing: row by row, through maps that are public by now.
    """

    def code(name: str, values: NDArray) -> NDArray[np.int64]:
        below, above = encoder.maps[name].levels(values)
        found = cut[name].code(below, above)
        anywhere = key.child(f"code {name}").numpy().random(len(values))
        return np.where(found < 0, cut[name].code(anywhere, anywhere), found)

    recipes = {name: ([name], functools.partial(code, name)) for name in encoder.schema.names}
    return _in_public_codes(rows, encoder).derive(recipes)
