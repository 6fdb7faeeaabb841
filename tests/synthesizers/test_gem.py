"""GEM: errors of pairs, marginals that are means over the batch, and rounds that follow the noise."""

import itertools
import subprocess
import sys

import numpy as np
import polars as pl
import pytest

import understudy
from conftest import MIXED, QUICK, mixed_table
from understudy import encoding, pipeline
from understudy.core.randomness import Key
from understudy.encoding.bins import Bins
from understudy.privacy.ledger import Ledger
from understudy.privacy.plan import Budget
from understudy.privacy.rows import lock
from understudy.synthesizers.gem.fitted import FittedGEM
from understudy.synthesizers.gem.measured import MeasuredPairs, bins_for, first_shares
from understudy.synthesizers.gem.method import FILTER, GEM, pair_errors
from understudy.tables.column import Column
from understudy.tables.schema import Schema
from understudy.tables.table import read

SIZES = (3, 2, 4)
PAIRS = list(itertools.combinations(range(3), 2))


# The generator ------------------------------------------------------------------------------------------------------


def started(seed=0, components=7):
    from understudy.synthesizers.gem import generator

    shares = np.concatenate([np.full(size, 1 / size) for size in SIZES])
    whose = np.repeat(np.eye(3, dtype=np.float32), SIZES, axis=0)
    return generator.start(Key.new(seed).jax(), shares, components=components, width=5, inputs=4), whose


@pytest.mark.slow
def test_the_loss_is_the_sum_over_cells():
    from understudy.synthesizers.gem import generator

    state, whose = started()
    q = np.asarray(generator.products(state.params, state.noise, whose))  # pyright: ignore[reportArgumentType]
    starts = np.cumsum([0, *SIZES])
    columns = [q[:, a:b] for a, b in itertools.pairwise(starts)]
    for column in columns:
        assert column.sum(axis=1) == pytest.approx(1.0, abs=1e-5)
    draw = np.random.default_rng(0)
    cells = int(starts[-1])
    measured = {
        "whose": whose,
        "shares": draw.random(cells),
        "share_weights": draw.random(cells),
        "pairs": draw.random((cells, cells)),
        "pair_weights": np.zeros((cells, cells)),
    }
    by_hand = sum(measured["share_weights"] * (q.mean(axis=0) - measured["shares"]) ** 2)
    for a, b in PAIRS[:2]:
        block = np.s_[starts[a] : starts[a + 1], starts[b] : starts[b + 1]]
        measured["pair_weights"][block] = 0.3
        for i, j in itertools.product(range(SIZES[a]), range(SIZES[b])):
            joint = np.mean([columns[a][k, i] * columns[b][k, j] for k in range(7)])
            by_hand += 0.3 * (joint - measured["pairs"][block][i, j]) ** 2
    assert float(generator.loss(state.params, state.noise, measured)) == pytest.approx(by_hand, rel=1e-4)


def test_it_learns_the_pairs_it_is_given():
    from understudy.synthesizers.gem import generator

    state, whose = started(components=128)
    starts = np.cumsum([0, *SIZES])
    pairs, weights = np.zeros((9, 9)), np.zeros((9, 9))
    truth = np.array([[0.3, 0.0], [0.0, 0.4], [0.2, 0.1]])
    block = np.s_[starts[0] : starts[1], starts[1] : starts[2]]
    pairs[block], weights[block] = truth, 1.0
    measured = {"whose": whose, "shares": np.zeros(9), "share_weights": np.zeros(9), "pairs": pairs}
    state = generator.fit(state, {**measured, "pair_weights": weights}, 1500, 0.02, True)
    q = np.asarray(generator.mixture(state, whose), np.float64)
    assert np.abs((q.T @ q / len(q))[block] - truth).max() < 0.02


# What was measured --------------------------------------------------------------------------------------------------


def encoded(schema, frame, epsilon=1.0, method=None):
    """A ledger, the encoder that was charged to it, and the locked rows."""
    budget, method = Budget(epsilon=epsilon, delta=1e-6), method or GEM(**QUICK["gem"])
    ledger = Ledger(budget, pipeline.planned_mechanisms(schema, method, budget))
    table = read(frame, schema)
    rows = lock(table.columns, table.labels, key=Key.new(0))
    return ledger, encoding.fit_encoder(rows, schema, ledger=ledger, key=Key.new(0)), rows


def test_counts_measured_twice_are_averaged_by_their_precision(mixed):
    ledger, encoder, _ = encoded(MIXED, mixed)
    measured = MeasuredPairs(encoder, encoding.make_bins(encoder, 3), ledger=ledger, max_rows_per_unit=1)
    shape = (measured.sizes[0], measured.sizes[2])
    measured.add((0, 2), np.full(shape, 30.0), 3.0)
    measured.add((0, 2), np.full(shape, 60.0), 6.0)
    found = measured.pair_shares[measured.at[0], measured.at[2]] * measured.rows
    assert found == pytest.approx((30 / 9 + 60 / 36) / (1 / 9 + 1 / 36))
    assert np.count_nonzero(measured.pair_precision) == shape[0] * shape[1]


def test_errors_of_pairs_are_what_the_generator_misses_beyond_noise(mixed):
    ledger, encoder, _ = encoded(MIXED, mixed)
    measured = MeasuredPairs(encoder, encoding.make_bins(encoder, 3), ledger=ledger, max_rows_per_unit=1)
    draw = np.random.default_rng(0)
    mixture = np.concatenate([draw.dirichlet(np.ones(size), 5) for size in measured.sizes], axis=1)
    weights = [draw.uniform(0, 16, (measured.sizes[a], measured.sizes[b])) for a, b in measured.pairs]
    errors = pair_errors(measured, mixture, weights, 2.0)
    for error, (a, b), each in zip(errors, measured.pairs, weights, strict=True):
        assert error.columns == (measured.names[a], measured.names[b]) and error.weights is each
        joint = np.mean([np.outer(row[measured.at[a]], row[measured.at[b]]) for row in mixture], axis=0)
        assert error.estimate == pytest.approx(joint * measured.rows)
        assert error.penalty == pytest.approx(2.0 * np.sqrt(2 / np.pi) * each.sum()) and error.factor == 1.0


@pytest.mark.parametrize("columns", [1, 2, 7])
def test_all_that_is_planned_is_charged(columns, mixed):
    schema = Schema(columns=MIXED.columns[:columns])
    ledger, encoder, rows = encoded(schema, mixed.select(schema.names))
    GEM(**QUICK["gem"]).fit(rows, encoder, ledger=ledger, key=Key.new(1))
    assert ledger.left(FILTER) == 0
    assert sum(planned.share for planned in GEM().plan(schema)) == pytest.approx(1 - GEM().encoding_share)


def test_bins_follow_repeated_values_and_common_categories():
    draw = np.random.default_rng(0)
    zero = np.where(draw.random(5000) < 0.04, 0.0, draw.uniform(1, 2, 5000))
    names = draw.choice(["a", "b", "c", "d", "e"], 5000, p=[0.5, 0.01, 0.005, 0.005, 0.48])
    schema = Schema(
        columns=(
            Column(name="zero", kind="continuous", low=0.0, high=2.0, atoms=(0.0,)),
            Column(name="names", kind="categorical", values=("a", "b", "c", "d", "e")),
        )
    )
    _, encoder, _ = encoded(schema, pl.DataFrame({"zero": zero, "names": names}), epsilon=1e4)
    fine, coarse = (bins_for(encoder, 6, most=8, least=least) for least in (0.008, 0.1))
    assert fine["zero"].edges[1] == pytest.approx(0.04, abs=0.01)
    assert coarse["zero"].edges[1] == pytest.approx(0.04, abs=0.01)  # far from all others, so not by its share
    assert (fine["names"].size, coarse["names"].size) == (4, 3)  # c and d are one bin; then b, c and d are
    for bins in (fine, coarse):
        for shares in first_shares(encoder, bins):
            assert shares.sum() == pytest.approx(1.0)


# How many rounds and bins ----------------------------------------------------------------------------------------


def test_more_signal_never_means_fewer_rounds_or_far_fewer_bins():
    for columns in (2, 9, 20, 100, 400):
        layouts = [GEM().layout(columns, signal) for signal in np.geomspace(0.01, 1e9, 60)]
        rounds = [r for r, _ in layouts]
        assert rounds == sorted(rounds) and rounds[-1] == min(5 * columns, 100) and rounds[0] == min(columns, 100)
        assert all(3 <= m <= 32 for _, m in layouts)
        assert layouts[0][1] == 3 and layouts[-1][1] == max(3, min(32, 300 // columns))


@pytest.mark.parametrize(
    "wrong",
    [
        {"encoding_share": 1.0},
        {"choice_share": 0.0},
        {"rate": float("nan")},
        {"components": 0},
        {"steps": 2.5},
        {"cell_range": (1, 5)},
        {"cell_range": (9, 5)},
    ],
)
def test_settings_that_make_no_sense_are_refused(wrong):
    with pytest.raises(ValueError, match=f"GEM.{next(iter(wrong))}: expected"):
        GEM(**wrong)


# The fitted generator -----------------------------------------------------------------------------------------------


def test_rows_follow_the_shares_of_their_component():
    bins = {"x": Bins(np.array([0.0, 0.2, 0.5, 1.0]), False), "y": Bins(np.array([0.0, 0.5, 1.0]), True)}
    shares = {
        "x": np.array([[0.0, 1.0, 0.0], [0.7, 0.0, 0.3]]),
        "y": np.array([[0.1, 0.2, 0.7], [1.0, 0.0, 0.0]]),
    }
    levels = FittedGEM(bins, shares).sample(40_000, key=Key.new(0))
    first = (levels["x"] >= 0.2) & (levels["x"] < 0.5)
    assert first.mean() == pytest.approx(0.5, abs=0.01)
    assert np.isnan(levels["y"][first]).mean() == pytest.approx(0.7, abs=0.015)
    assert (levels["y"][~first] <= 0.5).all()
    assert (levels["x"][~first] < 0.2).mean() == pytest.approx(0.7, abs=0.015)


def test_a_generator_comes_back_from_its_arrays():
    fitted = understudy.fit(mixed_table(300), MIXED, GEM(**QUICK["gem"]), epsilon=1.0, seed=0).generator
    again = FittedGEM.from_arrays(fitted.arrays())
    one, two = (r.sample(50, key=Key.new(1)) for r in (fitted, again))
    assert all(np.array_equal(one[name], two[name], equal_nan=True) for name in MIXED.names)


def test_the_method_is_imported_without_jax():
    script = "import sys; from understudy.synthesizers.gem import fitted, method; print('jax' in sys.modules)"
    shown = subprocess.run([sys.executable, "-c", script], capture_output=True, text=True, check=True)
    assert shown.stdout.strip() == "False"


# At a huge epsilon --------------------------------------------------------------------------------------------------


def total_variation(one, two, names):
    shares = [frame.group_by(names).len().with_columns(pl.col("len") / frame.height) for frame in (one, two)]
    joined = shares[0].join(shares[1], on=names, how="full")
    return float((joined["len"].fill_null(0) - joined["len_right"].fill_null(0)).abs().sum()) / 2


@pytest.mark.slow
def test_at_a_huge_epsilon_pairs_are_as_near_as_a_sample():
    draw = np.random.default_rng(0)
    z = draw.standard_normal((4000, 2))
    columns = {
        name: np.digitize(z @ weights + 0.5 * draw.standard_normal(4000), cuts)
        for name, weights, cuts in [
            ("a", [1.0, 0.0], [-1, 0, 0.6]),
            ("b", [0.0, 1.0], [-0.5, 0.8]),
            ("c", [0.8, 0.6], [-1.2, -0.3, 0.2, 1]),
            ("d", [-0.7, 0.7], [0.1]),
            ("e", [0.6, -0.8], [-1, 0, 1]),
        ]
    }
    real = pl.DataFrame(columns)
    schema = Schema(columns=tuple(Column(name=name, kind="integer", low=0, high=5) for name in columns))
    drawn = understudy.fit(real, schema, GEM(), epsilon=1e6, seed=0).sample(4000, seed=0)
    again = real.sample(4000, with_replacement=True, seed=1)
    pairs = [list(names) for names in itertools.combinations(columns, 2)]
    floor, found = (np.mean([total_variation(real, other, names) for names in pairs]) for other in (again, drawn))
    assert found <= floor + 0.02
