"""All mechanisms: each charges before it reads, scales with the rows of a unit, and takes no function of rows."""

import ast
import contextlib
import dataclasses
from pathlib import Path
from typing import Any, ClassVar

import numpy as np
import pytest

from ledgers import assert_is_noise, both_keys, ledger_for, locked
from understudy.core.randomness import Key
from understudy.privacy import counts, embedding, moments, selection
from understudy.privacy.counts import noisy_counts, noisy_row_count, popular_categories
from understudy.privacy.embedding import EmbeddedColumn, Embedding, noisy_embedding_sum
from understudy.privacy.moments import noisy_second_moments
from understudy.privacy.noise import discrete_gaussian
from understudy.privacy.pair_selection import PairErrors, PairSelection
from understudy.privacy.plan import BudgetExceeded, lattice
from understudy.privacy.rows import PrivateRows
from understudy.privacy.selection import (
    DependenceCandidate,
    MarginalError,
    noisy_marginal_errors,
    select_dependence,
    select_marginal,
)

WAVES = Embedding(
    columns=(EmbeddedColumn("a", True), EmbeddedColumn("b", True)),
    touched=np.array([[0], [1]]),
    frequencies=np.eye(2),
    phases=(np.zeros((2, 0)), np.zeros((2, 0))),
    moments=0.5,
    clip=1.0,
)
ERRORS = [MarginalError(columns=("c",), estimate=np.zeros(3)), MarginalError(columns=("c",), estimate=np.ones(3))]
PAIR = DependenceCandidate(
    columns=("c", "d"), groups=(np.arange(2), np.arange(2)), shape=(2, 2), across=np.ones(2), along=np.ones(2)
)
PAIRS = PairErrors(
    singles=np.zeros(10), rows=1.0, weights=np.ones(10), factors=np.ones((2, 2)), penalties=np.zeros((2, 2))
)


def _choose_pair(rows, errors, **how):
    chooser = PairSelection(rows, ["c", "d"], [5, 5])
    chooser.compare(errors)
    return chooser.choose(np.ones((2, 2), bool), **ASKED, **how)


MECHANISMS = {
    "row count": ("discrete gaussian", 1.0, lambda rows, **how: noisy_row_count(rows, planned="it", **how)),
    "counts": ("discrete gaussian", 1.0, lambda rows, **how: noisy_counts(rows, ["c"], [5], **ASKED, **how)),
    "second moments": (
        "discrete gaussian",
        4.0,
        lambda rows, **how: noisy_second_moments(rows, ["a", "b"], clip_norm=2.0, **ASKED, **how),
    ),
    "embedding": (
        "discrete gaussian",
        1.0,
        lambda rows, **how: noisy_embedding_sum(rows, ["a", "b"], WAVES, **ASKED, **how),
    ),
    "categories": ("gaussian threshold", 1.0, lambda rows, **how: popular_categories(rows, "c", **ASKED, **how)),
    "selected marginal": ("exponential", 1.0, lambda rows, **how: select_marginal(rows, ERRORS, **ASKED, **how)),
    "selected dependence": ("exponential", 2.0, lambda rows, **how: select_dependence(rows, [PAIR], **ASKED, **how)),
    "selected pair": ("exponential", 1.000001, lambda rows, **how: _choose_pair(rows, PAIRS, **how)),
    "errors": (
        "discrete gaussian",
        np.sqrt(2),
        lambda rows, **how: noisy_marginal_errors(rows, ERRORS, **ASKED, **how),
    ),
}
ASKED: dict[str, Any] = {"what": "test", "planned": "it"}
every_mechanism = pytest.mark.parametrize(("mechanism", "per_row", "run"), MECHANISMS.values(), ids=MECHANISMS)


def ledger_of(mechanism):
    return ledger_for(mechanism, noise=1.0, threshold_delta=0.01 * (mechanism == "gaussian threshold"))


# Charging first.


@every_mechanism
def test_a_spent_ledger_is_refused_before_a_row_is_read(mechanism, per_row, run):
    ledger = ledger_of(mechanism)
    ledger.charge("it", what="all there is", sensitivity=1.0)
    empty = locked()  # reading anything in here raises KeyError or StopIteration
    with pytest.raises(BudgetExceeded):
        run(empty, ledger=ledger, key=Key.new(0))


@every_mechanism
def test_a_charge_is_on_the_receipt_even_if_reading_fails(mechanism, per_row, run):
    ledger = ledger_of(mechanism)
    with (
        pytest.raises((KeyError, StopIteration)) if run is not MECHANISMS["row count"][2] else contextlib.nullcontext()
    ):
        run(locked(), ledger=ledger, key=Key.new(0))  # that there is no column does not keep rows from being counted
    assert ledger.left("it") == 0


@every_mechanism
@pytest.mark.parametrize("m", [1, 4])
def test_the_charged_sensitivity_grows_with_the_rows_of_a_unit(mechanism, per_row, run, m):
    ledger = ledger_of(mechanism)
    columns = {"c": np.zeros(3, np.int64), "d": np.zeros(3, np.int64), "a": np.zeros(3), "b": np.zeros(3)}
    run(PrivateRows(columns, {"c": ["only"]}, m), ledger=ledger, key=Key.new(0))
    assert ledger.receipt().charges[0].sensitivity == pytest.approx(m * per_row, rel=1e-12)


@pytest.mark.parametrize("module", [counts, moments, selection, embedding], ids=lambda module: module.__name__)
def test_no_mechanism_takes_a_function(module):
    tree = ast.parse(Path(module.__file__).read_text())
    names = {node.id for node in ast.walk(tree) if isinstance(node, ast.Name)}
    names |= {alias.name for node in ast.walk(tree) if isinstance(node, ast.ImportFrom) for alias in node.names}
    assert "Callable" not in names
    for function in (node for node in ast.walk(tree) if isinstance(node, ast.FunctionDef)):
        arguments = [*function.args.posonlyargs, *function.args.args, *function.args.kwonlyargs]
        assert all(argument.annotation for argument in arguments if argument.arg not in ("self", "cls"))


# Noise.


@both_keys
@pytest.mark.parametrize("sigma", [1e-3, 0.4, 1.0, 31.9, 32.0, 1e3, 1e8])
def test_noise_lies_on_the_lattice_that_is_accounted_for(key, sigma):
    steps = discrete_gaussian(sigma, 200, key) * lattice(sigma)
    np.testing.assert_array_equal(steps, np.rint(steps))
    assert sigma * lattice(sigma) >= 128
    assert 0.7 < steps.std() / (sigma * lattice(sigma)) < 1.3


@both_keys
@pytest.mark.slow
def test_the_row_count_gets_the_noise_that_was_charged(key):
    ledger = ledger_for(noise=2.5, times=1500)
    rows = locked(2, c=np.zeros(40))
    draws = [noisy_row_count(rows, planned="it", ledger=ledger, key=key.child(str(i))) for i in range(1500)]
    assert_is_noise(np.array(draws) - 40, 5.0)


def test_noise_is_fresh_in_every_call_with_a_secret_key():
    key = Key.new()
    assert not np.array_equal(discrete_gaussian(10.0, 20, key), discrete_gaussian(10.0, 20, key))


def test_labels_of_keys_do_not_share_streams():
    root = Key.new(0)
    # These two have the same CRC-32.
    streams = [root, root.child("plumless"), root.child("buckeroo"), root.child("a").child("b"), root.child("a b")]
    draws = {tuple(stream.numpy().integers(0, 2**62, 2).tolist()) for stream in streams}
    assert len(draws) == len(streams)


@both_keys
def test_noise_that_64_bits_cannot_hold_is_refused(key):
    """At the ends of 64 bits it would stand still, and what it is added to would show."""
    assert len(np.unique(discrete_gaussian(2.0**44, 200, key))) == 200
    with pytest.raises(ValueError, match="epsilon"):
        discrete_gaussian(2.0**60, 1, key)


# Descriptions bring no code of their own.


class Spy(np.ndarray):
    """An array that keeps whatever it meets."""

    met: ClassVar[list[object]] = []

    def __array_ufunc__(self, ufunc, method, *inputs, **how):
        Spy.met.append(inputs)
        plain = [np.asarray(each) if isinstance(each, Spy) else each for each in inputs]
        return getattr(ufunc, method)(*plain, **how)


class SpyNumber(float):
    """A number that keeps whatever it meets."""

    def __mul__(self, other):
        Spy.met.append(other)
        return float(self) * other

    def __rsub__(self, other):
        Spy.met.append(other)
        return other - float(self)


def spying(array):
    return np.asarray(array).view(Spy)


def test_arrays_and_numbers_of_another_class_meet_no_count():
    rows = locked(c=np.array([0, 1, 1]), a=np.ones(3), b=np.ones(3))
    error = MarginalError(
        columns=("c",),
        estimate=spying(np.zeros(2)),
        weights=spying(np.ones(2)),
        groups=(spying([0, 1]),),
        factor=SpyNumber(1.0),
        penalty=SpyNumber(2.0),
    )
    groups = (spying([0, 1]),) * 2
    pair = DependenceCandidate(
        columns=("c", "c"), groups=groups, shape=(2, 2), across=spying(np.ones(2)), along=spying(np.ones(2))
    )
    waves = Embedding(
        columns=WAVES.columns,
        touched=spying(WAVES.touched),
        frequencies=spying(WAVES.frequencies),
        phases=tuple(map(spying, WAVES.phases)),
        moments=SpyNumber(0.5),
        clip=SpyNumber(1.0),
    )
    key = Key.new(0)
    Spy.met.clear()
    select_marginal(rows, [error], ledger=ledger_for("exponential"), key=key, **ASKED)
    noisy_marginal_errors(rows, [error], ledger=ledger_for(), key=key, **ASKED)
    select_dependence(rows, [pair], ledger=ledger_for("exponential"), key=key, **ASKED)
    noisy_counts(rows, ["c"], [2], groups=groups[:1], ledger=ledger_for(), key=key, **ASKED)
    noisy_embedding_sum(rows, ["a", "b"], waves, ledger=ledger_for(), key=key, **ASKED)
    pairs = PairErrors(
        singles=spying(np.ones(4)),
        pairs=spying(np.ones((4, 4))),
        rows=SpyNumber(1.0),
        weights=spying(np.ones(4)),
        factors=spying(np.ones((2, 2))),
        penalties=spying(np.ones((2, 2))),
    )
    chooser = PairSelection(rows, ["c", "c"], [2, 2])
    chooser.compare(pairs)
    chooser.choose(spying(np.ones((2, 2), bool)), ledger=ledger_for("exponential"), key=key, **ASKED)
    assert Spy.met == []


class LoudEmbedding(Embedding):
    def embed(self, features):
        raise AssertionError("was handed a row")


class LoudError(MarginalError):
    pass


class LoudCandidate(DependenceCandidate):
    pass


class LoudPairs(PairErrors):
    pass


def fields(description):
    return {field.name: getattr(description, field.name) for field in dataclasses.fields(description)}


def test_subclasses_of_descriptions_are_refused_before_anything_is_charged():
    ledger = ledger_for()
    rows = locked(c=np.zeros(1, int))
    how = {"ledger": ledger, "key": Key.new(0), **ASKED}
    loud_error, loud_pair = LoudError(**fields(ERRORS[0])), LoudCandidate(**fields(PAIR))
    for run in (
        lambda: select_marginal(rows, [loud_error], **how),
        lambda: noisy_marginal_errors(rows, [loud_error], **how),
        lambda: select_dependence(rows, [loud_pair], **how),
        lambda: _choose_pair(rows, LoudPairs(**fields(PAIRS)), ledger=ledger, key=Key.new(0)),
        lambda: noisy_embedding_sum(rows, ["a", "b"], LoudEmbedding(**fields(WAVES)), **how),
    ):
        with pytest.raises(TypeError, match="itself"):
            run()
    assert ledger.left("it") == 1
