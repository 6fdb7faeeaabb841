"""The verdict: what the numbers of an evaluation mean, in one word for each of columns, pairs, prediction and rules.

The one rule: a word compares. The synthetic rows stand between real rows of the same table, which nothing can be
expected to beat, and the same rows with each column shuffled, which know no dependence. All tables are cut to one
size, so that chance weighs the same on all of them.

    columns     d = mean total variation of columns on 20 quantile bins, beyond that of real rows: the share of rows
                that would have to change. Score 1 / (1 + d / 0.15).
    pairs       (shuffled - synthetic) / (shuffled - real), of the mean total variation of pairs on 10 quantile bins,
                fewer for fewer than 2000 rows: the part of the dependence that was kept.
    prediction  mean over columns of (score from synthetic rows) / (score from real rows), by an additive model of
                all other columns, cut to [0, 1].
    rules       b = share of rows that break a constraint of the schema. Score 1 / (1 + b / 0.05).

A score of at least 0.75 is good, of at least 0.5 usable, below it poor. The overall score is the geometric mean of the
parts, so that one poor part cannot be made up for by the others. With a caution (a tail, a subgroup or a difference of
dates that is far off, and farther than chance explains) the overall word is usable at best.

Privacy:
    Reads real rows without noise. No budget covers what comes out.
"""

import dataclasses
import math
from collections.abc import Mapping, Sequence
from typing import TYPE_CHECKING, Any

import numpy as np

from understudy.evaluation.additive import Coordinates, propensity, scores
from understudy.evaluation.broken import rows_of
from understudy.evaluation.diagnostics import (
    WORST,
    Finding,
    cautions,
    coefficient_overlap,
    date_differences,
    invented,
    subgroup_means,
    tails,
)
from understudy.evaluation.histograms import quantile_distances
from understudy.evaluation.pair import (
    Pair,
    Parts,
    Side,
    in_known_groups,
    labels_of,
    open_table,
    open_tables,
    shuffled_side,
)
from understudy.tables.schema import Schema

if TYPE_CHECKING:
    from understudy.evaluation.pair import Source
    from understudy.tables.table import Table

GOOD, USABLE = 0.75, 0.5
"""The least scores that are called so."""
HALF_COLUMNS, HALF_RULES = 0.15, 0.05
"""The distance of columns, and the share of broken rows, at which a score is one half."""
LEAST_DEPENDENCE = 0.05
"""If shuffled rows are less than this farther away than real ones, there is hardly any dependence to be kept."""
ROWS_PER_CELL = 20
"""So many rows to a cell of two numbers at least, or chance would hide what differs."""
LOWEST_SCORE = 0.05
"""A column that is predicted no better than this from real rows does not count."""
LEAST_PART = 0.01
"""A part counts as at least this much in the overall score."""
MOST_ROWS, MOST_PROPENSITY_ROWS, MOST_PAIRS = 20_000, 5_000, 1_000


@dataclasses.dataclass(frozen=True, kw_only=True)
class Part:
    """One part of a verdict.

    Attributes:
        name: "columns", "pairs", "prediction" or "rules".
        score: 0 to 1.
        value, real, shuffled: The number behind it, of the synthetic rows and of the two that it is compared with.
        meaning: What the number is, in words.
    """

    name: str
    score: float
    value: float
    real: float | None
    shuffled: float | None
    meaning: str

    @property
    def word(self) -> str:
        return word_of(self.score)


@dataclasses.dataclass(frozen=True, kw_only=True)
class Verdict:
    """What an evaluation means.

    Attributes:
        parts: The words, with their numbers. A part that there is nothing to say of is left out.
        rows: How many rows of each table were compared.
        against: What "real rows" are: the training rows, or another half of the real ones.
        worst_columns, worst_pairs: By name, the farthest from the real ones first.
        findings: By kind, what an analyst would trip over.
        cautions: Those that are far off, in words.
        grouped: Columns whose real categories are compared in the groups that the synthetic rows have.
    """

    parts: tuple[Part, ...]
    rows: int
    against: str
    worst_columns: tuple[Finding, ...]
    worst_pairs: tuple[Finding, ...]
    findings: Mapping[str, Any]
    cautions: tuple[str, ...] = ()
    grouped: tuple[str, ...] = ()

    @property
    def score(self) -> float:
        """The overall score, 0 to 1: the geometric mean of the parts."""
        return math.exp(math.fsum(math.log(max(part.score, LEAST_PART)) for part in self.parts) / len(self.parts))

    @property
    def word(self) -> str:
        """The overall score in one word; usable at best if there is a caution."""
        return word_of(min(self.score, USABLE) if self.cautions and self.score >= USABLE else self.score)

    def to_json(self) -> dict[str, Any]:
        """All of it in types that JSON has; a number that JSON cannot say is null."""
        parts = [dataclasses.asdict(part) | {"word": part.word} for part in self.parts]
        return _plain(dataclasses.asdict(self) | {"score": self.score, "word": self.word, "parts": parts})

    def __str__(self) -> str:
        said = ", ".join(f"{part.name} {part.word} ({part.score:.2f})" for part in self.parts)
        worst = ", ".join(each["columns"][0] for each in self.worst_columns)
        lines = [f"Verdict: {self.word}, {self.score:.2f} of 1: {said}."]
        lines += [f"Caution: {caution}." for caution in self.cautions[:WORST]]
        return "\n".join([*lines, f"Worst columns: {worst}."] if worst else lines)


def _plain(value: Any) -> Any:
    if isinstance(value, Mapping):
        return {key: _plain(each) for key, each in value.items()}
    if isinstance(value, list | tuple):
        return [_plain(each) for each in value]
    if isinstance(value, float):
        return float(value) if math.isfinite(value) else None
    return value


def word_of(score: float) -> str:
    """good, usable or poor."""
    return "good" if score >= GOOD else "usable" if score >= USABLE else "poor"


def judge(
    real: "Source | Table",
    synthetic: "Source | Table",
    schema: Schema,
    *,
    train: "Source | Table | None" = None,
    seed: int = 0,
) -> Verdict:
    """The verdict on a synthetic table.

    Args:
        real: Real rows, best some that were kept from the fit.
        train: The table that was fitted: the real rows that the synthetic ones are held against. None: a half of
            `real`, against the other.
        seed: Fixes what is drawn.

    Privacy:
        None: real rows are read without noise.
    """
    sources = {"real": real, "synthetic": synthetic} | ({} if train is None else {"train": train})
    opened = in_known_groups(schema, {name: open_table(source, schema) for name, source in sources.items()})
    sides, labels = open_tables(schema, opened), labels_of(schema, opened)
    if "train" not in sides:
        order = np.random.default_rng(seed).permutation(sides["real"].rows)
        half = max(len(order) // 2, 1)
        sides["real"], sides["train"] = sides["real"].take(order[:half]), sides["real"].take(order[-half:])
    rows = min(MOST_ROWS, *(side.rows for side in sides.values()))
    target, made, base = (sides[name].sample(rows, seed) for name in ("real", "synthetic", "train"))
    with np.errstate(all="ignore"):  # a warning would depend on somebody's value
        pairs = {name: _pair(schema, target, side, seed) for name, side in _compared(made, base, seed).items()}
        columns, joint = _columns(pairs), _pairs(pairs)
        parts = [columns[0], joint[0], _prediction(target, made, base, seed), _rules(schema, opened)]
        return Verdict(
            parts=tuple(part for part in parts if part is not None),
            rows=rows,
            against="a half of the real rows" if train is None else "the training rows",
            worst_columns=columns[1],
            worst_pairs=joint[1],
            grouped=tuple(column.name for column in schema if column.levels is not None),
            **_findings(schema, target, made, base, labels),
        )


def _compared(made: Side, base: Side, seed: int) -> dict[str, Side]:
    return {"synthetic": made, "real": base, "shuffled": shuffled_side(base, seed)}


def _pair(schema: Schema, target: Side, side: Side, seed: int) -> Pair:
    return Pair(names=schema.names, real=target, synthetic=side, scale=target, seed=seed)


def _columns(pairs: Mapping[str, Pair]) -> tuple[Part, tuple[Finding, ...]]:
    found = {name: quantile_distances(pairs[name], width=1, bins=20) for name in ("synthetic", "real")}
    means = {name: float(np.mean(list(parts.values()))) for name, parts in found.items()}
    excess = max(means["synthetic"] - means["real"], 0.0)
    part = Part(
        name="columns",
        score=1 / (1 + excess / HALF_COLUMNS),
        value=means["synthetic"],
        real=means["real"],
        shuffled=None,
        meaning="share of rows that would have to change for a column to be that of real rows, mean over columns",
    )
    return part, _worst(found)


def _pairs(pairs: Mapping[str, Pair]) -> tuple[Part | None, tuple[Finding, ...]]:
    if len(pairs["real"].names) < 2:
        return None, ()
    bins = int(np.clip(math.sqrt(pairs["real"].real.rows / ROWS_PER_CELL), 3, 10))
    found = {name: quantile_distances(pair, width=2, bins=bins, most=MOST_PAIRS) for name, pair in pairs.items()}
    means = {name: float(np.mean(list(parts.values()))) for name, parts in found.items()}
    depth = max(means["shuffled"] - means["real"], LEAST_DEPENDENCE)
    part = Part(
        name="pairs",
        score=float(np.clip(1 - (means["synthetic"] - means["real"]) / depth, 0, 1)),
        value=means["synthetic"],
        real=means["real"],
        shuffled=means["shuffled"],
        meaning="share of rows that would have to change for two columns together, mean over pairs",
    )
    return part, _worst(found)


def _worst(found: Mapping[str, Parts]) -> tuple[Finding, ...]:
    """The columns or pairs that are farthest beyond what real rows are from each other."""
    own, floor = found["synthetic"], found["real"]
    ranked = sorted(own, key=lambda names: floor[names] - own[names])[:WORST]
    return tuple(
        {"columns": list(names), **{name: parts[names] for name, parts in found.items()}}
        for names in ranked
        if own[names] > floor[names]
    )


def _prediction(target: Side, made: Side, base: Side, seed: int) -> Part | None:
    """How much of what real rows tell of each column the synthetic rows tell as well."""
    coordinates = Coordinates.of(base)
    tables = _compared(made, base, seed)
    if len(coordinates.blocks) < 2:
        return None
    found = {name: scores(side, target, coordinates) for name, side in tables.items()}
    counted = [name for name, score in found["real"].items() if score > LOWEST_SCORE]
    if not counted:
        return None
    kept = {
        name: float(np.mean([np.clip(of[column] / found["real"][column], 0, 1) for column in counted]))
        for name, of in found.items()
    }
    return Part(
        name="prediction",
        score=kept["synthetic"],
        value=kept["synthetic"],
        real=kept["real"],
        shuffled=kept["shuffled"],
        meaning="score of an additive model trained on these rows, as a part of one trained on real rows, mean over "
        f"{len(counted)} columns",
    )


def _rules(schema: Schema, opened: "Mapping[str, Table]") -> Part | None:
    """How many rows keep every constraint of the schema."""
    if not schema.constraints:
        return None
    broken = {name: _broken(schema, opened[name]) for name in ("real", "synthetic")}
    return Part(
        name="rules",
        score=1 / (1 + broken["synthetic"] / HALF_RULES),
        value=broken["synthetic"],
        real=broken["real"],
        shuffled=None,
        meaning="share of rows that break a constraint of the schema",
    )


def _broken(schema: Schema, table: "Table") -> float:
    rows = rows_of(schema, table)
    kept = np.logical_and.reduce([rule.holds(rows) for rule in schema.constraints])
    return float(1 - kept.mean()) if len(kept) else 0.0


def _findings(
    schema: Schema, target: Side, made: Side, base: Side, labels: Mapping[str, Sequence[str]]
) -> dict[str, Any]:
    """The findings and the cautions of a verdict."""
    found, by_chance = (
        {
            "date_differences": date_differences(schema, target, side),
            "tails": tails(schema, target, side),
            "subgroup_means": subgroup_means(schema, target, side, labels),
        }
        for side in (made, base)
    )
    made_up, lost = invented(target, made) if len(schema) > 1 else ([], [])
    fewer = [side.sample(MOST_PROPENSITY_ROWS, 0) for side in (target, made)]
    pmse, expected = propensity(fewer[0], fewer[1], Coordinates.of(fewer[0]))
    findings = {
        "invented": made_up,
        "lost": lost,
        **{kind: all_of[:WORST] for kind, all_of in found.items()},
        "coefficients": coefficient_overlap(schema, target, made, labels),
        "pmse": {"value": pmse, "expected": expected, "ratio": pmse / expected if expected else None},
    }
    return {"findings": findings, "cautions": tuple(cautions(found, by_chance))}
