"""Replay: a fit is recorded mechanism by mechanism, and fitted again to neighbouring tables with the same releases.

The one rule: only tables that `replay_tables` makes are recorded. No function in here takes a table of a user.

A fit is a function of what its mechanisms release, of public facts and of a key. So a fit to a neighbour, with the same
key, whose mechanisms hand out the recorded releases must be the same fit, bit by bit: the same charges in the same
order, the same messages, the same compiled programs and the same model file. What may differ are the exact answers
inside of the mechanisms, by at most the sensitivity that was charged. Whatever else depends on a row shows here.
"""

import contextlib
import dataclasses
import io
import sys
import time
import warnings
from collections.abc import Iterator
from typing import Any

from understudy import pipeline
from understudy.audit import account
from understudy.audit.comparison import changes, judge, judge_pair
from understudy.audit.finding import Finding
from understudy.audit.replay_databases import replay_databases
from understudy.audit.replay_tables import ReplayTables, replay_tables, small
from understudy.audit.shortened import shortened
from understudy.audit.simulated import Simulated
from understudy.audit.tape import Diverged, Tape
from understudy.privacy import recording
from understudy.privacy.plan import Charge
from understudy.synthesizers.base import Method
from understudy.tables.database_schema import DatabaseSchema
from understudy.tables.schema import Schema

SEED = 0
"""The seed of all replayed fits: what is compared is everything but noise."""


@dataclasses.dataclass(frozen=True)
class MechanismReplay:
    """One mechanism over all replays.

    Attributes:
        mechanism: Its name.
        releases: How many pairs of exact answers were compared.
        worst: The largest change, as a part of the charged sensitivity.
    """

    mechanism: str
    releases: int
    worst: float


@dataclasses.dataclass(frozen=True)
class Replay:
    """What the replays of a method showed.

    Attributes:
        method: Its name.
        fits: How many fits were made.
        pairs: How many pairs of neighbours were compared.
        mechanisms: Every mechanism that released something, with its worst change.
        accounted_epsilon: What the recorded charges cost at delta, computed anew.
        findings: What must not be so; empty if all is well.
        seconds: How long it took.
    """

    method: str
    fits: int
    pairs: int
    mechanisms: tuple[MechanismReplay, ...]
    accounted_epsilon: float
    findings: tuple[Finding, ...]
    seconds: float

    @property
    def worst(self) -> float:
        """The largest change of any mechanism, as a part of its charged sensitivity."""
        return max((each.worst for each in self.mechanisms), default=0.0)

    @property
    def passed(self) -> bool:
        return not self.findings

    def to_json(self) -> dict[str, Any]:
        return {**dataclasses.asdict(self), "worst": self.worst, "passed": self.passed}


@dataclasses.dataclass(eq=False)
class _Fit:
    """One fit that was watched: its tape, and everything else that could tell of a row."""

    tape: Tape
    model: bytes = b""
    messages: tuple[str, ...] = ()
    error: str = ""
    diverged: str = ""
    programs: int = 0


def tables_for(
    schema: Schema | DatabaseSchema, simulated: Simulated | None
) -> tuple[Schema | DatabaseSchema, list[ReplayTables]]:
    """What is fitted in an audit, and the schema to fit it with."""
    if isinstance(schema, DatabaseSchema):
        return schema, replay_databases(schema)
    schema = small(schema)
    return schema, replay_tables(schema, simulated=simulated)


def replay(
    schema: Schema | DatabaseSchema,
    method: Method,
    *,
    epsilon: float,
    delta: float,
    simulated: Simulated | None = None,
) -> Replay:
    """Replays a method on all tables that are made from a schema.

    Args:
        method: Its trainings are cut short: every step is the same mechanism.
        epsilon, delta: The budget of every fit.
        simulated: Whose rows neighbours have; None: rows made from the schema.
    """
    started, counted = time.perf_counter(), _Count()
    schema, made = tables_for(schema, simulated)
    short = shortened(method, schema)

    def fit(table: Any, frozen: Tape | None = None) -> _Fit:
        counted.fits += 1
        return _watched(table, schema, short, epsilon, delta, Tape(frozen))

    for tables in made:
        counted.add(_replayed(tables, fit, counted))
    spent = account.epsilon_of(counted.charges, delta)
    counted.add(account.judge(counted.charges, spent, epsilon))
    return Replay(
        method=method.name,
        fits=counted.fits,
        pairs=counted.pairs,
        mechanisms=tuple(MechanismReplay(name, n, worst) for name, (n, worst) in sorted(counted.worst.items())),
        accounted_epsilon=spent,
        findings=tuple(counted.findings),
        seconds=time.perf_counter() - started,
    )


class _Count:
    """What a replay adds up."""

    def __init__(self) -> None:
        self.fits = self.pairs = 0
        self.charges: list[Charge] = []
        self.worst: dict[str, tuple[int, float]] = {}
        self.findings: list[Finding] = []

    def add(self, found: Iterator[Finding]) -> None:
        self.findings += [each for each in found if each not in self.findings]

    def compare(self, base: Tape, other: Tape) -> None:
        self.pairs += 1
        for release, change in changes(base, other):
            times, worst = self.worst.get(release.mechanism, (0, 0.0))
            self.worst[release.mechanism] = times + 1, max(worst, change)


def _replayed(tables: ReplayTables, fit: Any, counted: _Count) -> Iterator[Finding]:
    """One table: a recorded fit, the same fit again, and one for every neighbour."""
    base = fit(tables.table)
    if base.error:
        yield Finding("messages", f"the table of rows {tables.name}", f"the fit fails: {base.error}")
        return
    counted.charges = base.tape.charges
    yield from judge(base.tape)
    again = fit(tables.table, base.tape)
    yield from _judge_rest(base, again, "nobody more", first=True)
    for what, table in tables.neighbours.items():
        other = fit(table, base.tape)
        named = f"a unit with {what}" if what[0].islower() else what
        yield from judge_pair(base.tape, other.tape, named)
        yield from _judge_rest(again, other, named)
        counted.compare(base.tape, other.tape)


def _judge_rest(base: _Fit, other: _Fit, what: str, *, first: bool = False) -> Iterator[Finding]:
    """Everything outside of the mechanisms must be the same."""
    if other.diverged:
        yield Finding("charges", "the fit", f"with {what} and equal releases {other.diverged}.")
        return
    if other.error:
        yield Finding("messages", "the fit", f"with {what} it fails: {other.error}")
        return
    if other.model != base.model:
        sizes = f"{len(base.model)} and {len(other.model)} bytes"
        yield Finding("identical", "the model", f"with {what} and equal releases it is another one ({sizes}).")
    if other.messages != base.messages and not first:  # what is said once a process is said by the first fit
        said = next((text for text in (*other.messages, *base.messages)), "")
        yield Finding("messages", "the fit", f"with {what} it says something else: {said[:200]!r}")
    if other.programs and not first:
        yield Finding("programs", "the training", f"with {what} another program is compiled.")


def _watched(
    table: Any, schema: Schema | DatabaseSchema, method: Method, epsilon: float, delta: float, tape: Tape
) -> _Fit:
    """A fit of a table made for replays, watched."""
    made, compiled = _Fit(tape), _programs()
    out, err = io.StringIO(), io.StringIO()
    with (
        contextlib.redirect_stdout(out),
        contextlib.redirect_stderr(err),
        warnings.catch_warnings(record=True) as warned,
        recording.watched_by(tape),
    ):
        warnings.simplefilter("always")
        try:
            model = pipeline.fit(table, schema, method, epsilon=epsilon, delta=delta, seed=SEED, progress=False)
            made.model = model.to_bytes()
        except Diverged as error:
            made.diverged = str(error)
        except Exception as error:
            made.error = f"{type(error).__name__}: {error}"
    made.messages = (out.getvalue(), err.getvalue(), *(str(each.message) for each in warned))
    made.programs = _programs() - compiled
    return made


def _programs() -> int:
    """How many programs were compiled for trainings."""
    module = sys.modules.get("understudy.privacy.compiled_training")
    return 0 if module is None else int(module.run_rounds._cache_size())
