"""Replay: fits to neighbouring tables with equal releases differ inside of mechanisms alone, by what was charged."""

import ast
import dataclasses
import inspect
from pathlib import Path
from typing import Any

import numpy as np
import pytest

import understudy as us
from conftest import MIXED
from mutants import SCHEMA
from understudy.audit import account, audit, noise, replay, replay_tables
from understudy.audit.comparison import changes, judge, judge_pair
from understudy.audit.replay_tables import UNITS, small
from understudy.audit.shortened import shortened
from understudy.audit.tape import Tape
from understudy.core.randomness import Key
from understudy.privacy import recording
from understudy.privacy.counts import noisy_counts
from understudy.privacy.ledger import Ledger
from understudy.privacy.plan import Budget, PlannedMechanism
from understudy.privacy.rows import PrivateRows
from understudy.synthesizers import METHODS

PRIVACY = Path(us.__file__).parent / "privacy"
UNITED = us.Schema.parse(SCHEMA, "mutants")
CLAIM: dict[str, Any] = {"epsilon": 1.0, "delta": 1e-5}


# The seam -----------------------------------------------------------------------------------------------------------


def calls(function: ast.AST) -> set[str]:
    found = [node.func for node in ast.walk(function) if isinstance(node, ast.Call)]
    return {each.attr for each in found if isinstance(each, ast.Attribute)}


def test_every_mechanism_that_charges_shows_its_release_to_a_recorder():
    blind = []
    for path in sorted(PRIVACY.glob("*.py")):
        for node in ast.walk(ast.parse(path.read_text())):
            if isinstance(node, ast.FunctionDef) and not node.name.startswith("_"):
                arguments = {each.arg for each in (*node.args.args, *node.args.kwonlyargs)}
                charges = "charge" in calls(node) and ("ledger" in arguments or "jobs" in arguments)
                if charges and not {"released", "trained"} & calls(node):
                    blind.append(f"{path.name}: {node.name}")
    assert blind == []


def test_nobody_but_the_audit_sets_a_recorder_and_no_function_that_does_takes_a_table():
    setting = [path for path in PRIVACY.parent.rglob("*.py") if "watched_by(" in path.read_text()]
    assert {path.relative_to(PRIVACY.parent).as_posix() for path in setting} == {
        "audit/replay.py",
        "audit/noise.py",
        "privacy/recording.py",
    }
    for function in (audit.audit, replay.replay, noise.judge_noise, replay_tables.replay_tables):
        assert not {"table", "rows", "data", "frame"} & set(inspect.signature(function).parameters)


def test_the_receipt_of_a_recorded_fit_is_void():
    table = replay_tables.replay_tables(MIXED)[0].table
    with recording.watched_by(Tape()):
        watched = us.fit(table, MIXED, "independent", epsilon=1.0, seed=0)
    assert recording.VOID in watched.receipt.void
    assert recording.VOID not in us.fit(table, MIXED, "independent", epsilon=1.0, seed=0).receipt.void


# Tables -------------------------------------------------------------------------------------------------------------


@pytest.mark.parametrize("schema", [MIXED, UNITED], ids=["rows", "units"])
def test_neighbours_have_one_unit_more_at_their_end(schema):
    for tables in replay_tables.replay_tables(schema):
        for what, neighbour in tables.neighbours.items():
            assert neighbour.head(tables.table.height).equals(tables.table), what
            added = neighbour[tables.table.height :]
            assert len(added) > 0 and (schema.unit is None or added[schema.unit].n_unique() == 1)
            most = schema.max_rows_per_unit or 1
            assert len(added) <= most or what == "too many rows"


def test_a_stated_number_of_rows_becomes_that_of_the_tables():
    assert small(dataclasses.replace(MIXED, rows=10**6)).rows == UNITS
    assert small(MIXED).rows is None


@pytest.mark.parametrize("name", METHODS)
def test_a_shortened_method_has_fewer_steps_and_the_same_other_settings(name):
    method = METHODS[name]()
    short = shortened(method, MIXED)
    assert type(short) is type(method)
    changed = {f.name for f in dataclasses.fields(method) if getattr(short, f.name) != getattr(method, f.name)}
    assert not {"encoding_share", "clip_norm", "noise_multiplier"} & changed


# Judging ------------------------------------------------------------------------------------------------------------


def tape_of(codes, *, rows_of_a_unit=1, key=0, frozen=None):
    """The tape of one marginal."""
    tape = Tape(frozen)
    with recording.watched_by(tape):
        ledger = Ledger(
            Budget(epsilon=1.0, delta=1e-5), [PlannedMechanism(name="it", mechanism="discrete gaussian", share=1.0)]
        )
        rows = PrivateRows({"c": np.asarray(codes)}, {}, rows_of_a_unit)
        noisy_counts(rows, ["c"], [4], what="test", planned="it", ledger=ledger, key=Key.new(key))
    return tape


def test_one_row_more_changes_counts_by_their_sensitivity():
    base = tape_of([0, 1, 1])
    other = tape_of([0, 1, 1, 2], frozen=base)
    assert [change for _, change in changes(base, other)] == [1.0]
    assert not [*judge(base), *judge_pair(base, other, "a row")]
    np.testing.assert_array_equal(other.frozen.releases[0].value, base.releases[0].value)  # pyright: ignore


def test_two_rows_of_a_unit_of_one_break_the_bound():
    base = tape_of([0, 1, 1])
    other = tape_of([0, 1, 1, 2, 2], frozen=base)
    assert [each.check for each in judge_pair(base, other, "two rows")] == ["sensitivity"]


def test_frozen_releases_are_handed_out_whatever_the_noise():
    base, handed = tape_of([0, 1, 1]), []
    tape = Tape(base)
    with recording.watched_by(tape):
        ledger = Ledger(
            Budget(epsilon=1.0, delta=1e-5), [PlannedMechanism(name="it", mechanism="discrete gaussian", share=1.0)]
        )
        rows = PrivateRows({"c": np.array([3])}, {}, 1)
        handed = noisy_counts(rows, ["c"], [4], what="test", planned="it", ledger=ledger, key=Key.new(9))
    np.testing.assert_array_equal(handed, base.releases[0].value)


@pytest.mark.parametrize("epsilon", [pytest.param(0.5, marks=pytest.mark.slow), 4.0])
def test_the_account_is_that_of_the_receipt(epsilon):
    table = replay_tables.replay_tables(MIXED)[0].table
    receipt = us.fit(table, MIXED, "copula", epsilon=epsilon, seed=0).receipt
    assert account.epsilon_of(receipt.charges, receipt.delta) == pytest.approx(receipt.epsilon, rel=0.003)
    assert not [*account.judge(receipt.charges, receipt.epsilon, epsilon)]
    assert [each.check for each in account.judge(receipt.charges, 1.0001 * epsilon, epsilon)] == ["account"]


# Whole methods ------------------------------------------------------------------------------------------------------


def judged(name, schema):
    return replay.replay(schema, METHODS[name](), **CLAIM)


@pytest.mark.slow
def test_independent_columns_pass_and_reach_their_sensitivities():
    found = judged("independent", MIXED)
    assert found.passed, found.findings
    assert found.worst == pytest.approx(1.0)
    assert {each.mechanism for each in found.mechanisms} == {"row count", "counts", "categories"}


MECHANISMS = {
    "aim": {"selected pair"},
    "gem": {"selected marginal"},
    "copula": {"second moments"},
    "independent": set(),
    "mst": {"selected pair"},
    "prada": {"second moments", "selected pair", "gradient sums"},
    "prada-gan": {"gradient sums"},
    "dpgan": {"gradient sums"},
    "dp-merf": {"embedding sum"},
    "privbayes": {"selected dependence"},
    "privmrf": {"errors of marginals"},
}


@pytest.mark.slow
@pytest.mark.parametrize("schema", [MIXED, UNITED], ids=["rows", "units"])
@pytest.mark.parametrize("method", METHODS)
def test_every_method_passes(method, schema):
    found = judged(method, schema)
    assert found.passed, found.findings
    shown = {each.mechanism: each.worst for each in found.mechanisms}
    assert MECHANISMS[method] | {"row count", "counts", "categories"} == set(shown)
    # Above a half, a sensitivity that is charged at half of what it is would show.
    assert all(0.5 < worst <= 1.0 + 1e-9 for worst in shown.values()), shown
