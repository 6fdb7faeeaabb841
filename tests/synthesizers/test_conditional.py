"""Conditional densities: functions of bins, what is learned from released numbers, and rows drawn given a context."""

# pyright: reportArgumentType=false, reportOptionalMemberAccess=false

import dataclasses

import numpy as np
import pytest

from understudy.core.randomness import Key
from understudy.encoding.bins import Bins
from understudy.encoding.columns import CategoricalEncoder, NumericEncoder
from understudy.encoding.context import of_shares
from understudy.encoding.encoder import Encoder
from understudy.privacy.ledger import Ledger
from understudy.privacy.piecewise import Distribution
from understudy.privacy.plan import Budget
from understudy.privacy.unit_weights import STEPS, count_weights, moment_weights
from understudy.synthesizers.conditional.basis import Bases, basis_of
from understudy.synthesizers.conditional.correcting import Moments, corrected_margins, corrected_moments, corrected_pair
from understudy.synthesizers.conditional.density import Column, ConditionalDensity, add_stay, drawn_codes
from understudy.synthesizers.conditional.fit import plan_families
from understudy.synthesizers.conditional.landing import landing_of, landing_shares
from understudy.synthesizers.conditional.learning import learned, mixed
from understudy.synthesizers.conditional.level_maps import level_map
from understudy.synthesizers.conditional.measuring import (
    NOISY,
    Margins,
    PairCount,
    Sums,
    measurable_bases,
    moments_noise,
)
from understudy.synthesizers.conditional.pools import coded, pair_shares, raked
from understudy.synthesizers.conditional.shares import Counted, Measured, fine_shares, with_counted
from understudy.synthesizers.conditional.targets import Released, Targets, expected_weights, targets_of
from understudy.tables.column import Column as Stated
from understudy.tables.schema import Schema

EVEN = Bins(np.linspace(0.0, 1.0, 11), nullable=False)
NUMBER = NumericEncoder(
    Stated("x", "continuous", low=0, high=1), Distribution(np.array([0.0, 1.0]), np.array([0, 1.0]))
)
LETTERS = Bins(np.array([0.0, 0.5, 0.8, 1.0]), nullable=False)
LETTER = CategoricalEncoder(
    Stated("c", "categorical", values=("a", "b", "c")),
    Distribution(np.array([-0.5, 0.5, 1.5, 2.5]), LETTERS.edges, integer=True),
    0.0,
    ("a", "b", "c"),
)


def _bases() -> Bases:
    """A given number, a drawn one and a drawn category, and the category of the row before."""
    number = basis_of(NUMBER, EVEN, structural=False)
    letter = basis_of(LETTER, LETTERS, structural=False)
    return Bases(("previous.c", "x", "y", "c"), (LETTERS, EVEN, EVEN, LETTERS), (letter, number, number, letter))


@pytest.mark.parametrize("name", ["x", "c"])
def test_functions_of_a_number_are_uncorrelated_and_those_of_a_category_are_flags(name):
    own = _bases().of[1 if name == "x" else 3]
    products = own.table.T @ np.diag(own.shares / own.shares.sum()) @ own.table
    assert np.allclose(products, np.eye(5) if name == "x" else np.diag(own.shares))
    assert own.measured.sum() == (1 if name == "x" else 3)


def test_functions_up_to_a_degree_are_measured_and_found_among_moments_by_it():
    bases = _bases()
    finer = basis_of(NUMBER, EVEN, structural=False, degree=3)
    assert finer.degrees.tolist() == [1, 2, 3, 4, 5] and finer.measured.tolist() == [True, True, True, False, False]
    bases = dataclasses.replace(bases, of=(bases.of[0], finer, finer, bases.of[3]))
    places = np.flatnonzero(bases.measured)
    moments = Moments(places, np.outer(places, places).astype(np.float64), 1e-3)
    lowest = moments.up_to(1, bases)
    assert bases.degrees[lowest.places].tolist() == [1] * 8  # a score of either number, and a flag of each letter
    assert np.array_equal(lowest.covariances, np.outer(lowest.places, lowest.places))
    assert moments.of(bases.functions_of(2)).tolist() == bases.functions_of(2)[:3].tolist()


@dataclasses.dataclass(frozen=True)
class Alone:
    """Rows of which x is given, and that have no siblings."""

    given = frozenset({"x"})
    derived = structural = smooth = shares = frozenset[str]()
    history = None

    def rows(self, generator, n, *, key):
        levels = generator.sample(n, key=key)
        return levels, np.arange(n)


@pytest.mark.parametrize(("rows", "own", "given"), [(1e7, 4, 3), (1e2, 1, 1)])
def test_products_of_higher_degrees_are_measured_where_noise_lets_them_be_known(rows, own, given):
    columns = {name: dataclasses.replace(NUMBER, column=dataclasses.replace(NUMBER.column, name=name)) for name in "xy"}
    encoder = Encoder(Schema(columns=[each.column for each in columns.values()]), columns, rows)
    ledger = Ledger(Budget(epsilon=1.0, delta=1e-6), plan_families(1, share=1.0))
    found = measurable_bases(encoder, {"x": EVEN, "y": EVEN}, Alone(), most=3, total=rows, ledger=ledger)
    assert [int(each.measured.sum()) for each in found.of] == [given, own]
    assert moments_noise(found, 3, total=rows, ledger=ledger) <= NOISY or own == 1


def test_the_function_of_a_share_is_the_share_itself_and_none_for_first_rows():
    column = Stated("s", "continuous", low=0, high=1, nullable=True)
    own = basis_of(of_shares(column), Bins(np.linspace(0, 1, 5), nullable=True), structural=True, share=True)
    np.testing.assert_allclose(own.table[:, 0], [0.125, 0.375, 0.625, 0.875, 0.0])
    assert own.measured.tolist() == [True] and own.number


def _pool(bases: Bases, n: int = 20_000):
    draw = np.random.default_rng(0)
    levels = {name: draw.random(n) for name in bases.names}
    return coded(bases, levels, np.arange(n))


def _truth(bases: Bases, pool) -> np.ndarray:
    """Codes of y that depend on x, and of c that depend on y and stay with the category before."""
    draw = np.random.default_rng(1)
    x = pool.functions[:, bases.functions_of(1)]
    table = bases.of[2].table
    pool.codes[2] = drawn_codes((1.5 * x[:, :1] * table[:, 0] + 0.4 * x[:, 1:2] * table[:, 1]).astype(np.float32), draw)
    pool.functions[:, bases.functions_of(2)] = table[pool.codes[2]]
    logits = np.log(bases.of[3].shares) + np.outer(pool.functions[:, bases.functions_of(2)][:, 0], [0.0, 1.0, -1.0])
    logits = logits.astype(np.float32)
    add_stay(logits, pool.codes[0], 1.0, 3)
    pool.codes[3] = drawn_codes(logits, draw)
    pool.functions[:, bases.functions_of(3)] = bases.of[3].table[pool.codes[3]]
    return pool.codes.copy()


def test_what_is_learned_has_the_released_covariances_and_stays_as_often():
    bases, pool = _bases(), _pool(_bases())
    codes = _truth(bases, pool)
    own = tuple(
        np.bincount(code, minlength=bins.size) / pool.count for code, bins in zip(codes, bases.bins, strict=True)
    )
    made = tuple(type(each)(share, *list(vars(each).values())[1:]) for each, share in zip(bases.of, own, strict=True))
    bases = Bases(bases.names, bases.bins, made)
    places = np.flatnonzero(bases.measured)
    moments = Moments(places, np.cov(pool.functions[:, places].T), 1e-3)
    counts = {}
    for i, j in ((1, 2), (0, 3)):
        table = np.zeros((bases.bins[i].size, bases.bins[j].size))
        np.add.at(table, (codes[i], codes[j]), 1.0 / pool.count)
        counts[i, j] = PairCount(i, j, table, 1e-5, 1e3)
    stayed = float((codes[0] == codes[3]).mean())
    every, rows = np.ones(4, bool), np.ones(pool.count, bool)
    for j in (2, 3):
        targets = targets_of(j, bases, Released(moments, counts), pool, rows, readable=every, prior=np.ones(4))
        found = learned(j, bases, targets, pool, rows, None)
        density = ConditionalDensity(bases, (None, None, found, found))
        logits = density.logits(j, found, pool.functions, pool.codes)
        pool.codes[j] = drawn_codes(logits, np.random.default_rng(10 + j))
        pool.functions[:, bases.functions_of(j)] = bases.of[j].table[pool.codes[j]]
        assert np.abs(np.bincount(pool.codes[j], minlength=bases.bins[j].size) / pool.count - own[j]).max() < 0.02
    assert np.abs(np.cov(pool.functions[:, places].T) - moments.covariances).max() < 0.05
    assert abs(float((pool.codes[0] == pool.codes[3]).mean()) - stayed) < 0.02


def test_a_column_is_explained_by_no_more_than_its_variance():
    bases, pool = _bases(), _pool(_bases())
    places = np.flatnonzero(bases.measured)
    far = Moments(places, np.full((len(places), len(places)), 3.0), 1e-3)  # no rows have such covariances
    readable, rows = np.ones(4, bool), np.ones(pool.count, bool)
    targets = targets_of(2, bases, Released(far, {}), pool, rows, readable=readable, prior=np.ones(4))
    assert 0 < np.abs(targets.covariances).max() <= 1.0


def test_what_noise_hides_is_not_read():
    bases, pool = _bases(), _pool(_bases())
    places = np.flatnonzero(bases.measured)
    little = Moments(places, np.full((len(places), len(places)), 0.01), 0.1)
    readable, rows = np.ones(4, bool), np.ones(pool.count, bool)
    targets = targets_of(2, bases, Released(little, {}), pool, rows, readable=readable, prior=np.ones(4))
    assert not len(targets.reads)


def test_half_a_step_has_the_mean_of_both_logits_even_if_they_read_other_functions():
    bases, pool = _bases(), _pool(_bases(), 50)
    first, second = bases.functions_of(1)[:2], bases.functions_of(1)[1:3]
    draw = np.random.default_rng(3)
    old = Column(first, draw.normal(size=(2, 5)), draw.normal(size=10))
    new = Column(np.union1d(first, second), np.vstack([np.zeros(5), draw.normal(size=(2, 5))]), draw.normal(size=10))
    density = ConditionalDensity(bases, (None, None, new, None))
    logits = [density.logits(2, each, pool.functions, pool.codes) for each in (old, new, mixed(old, new, 0.5))]
    assert np.allclose(logits[2], (logits[0] + logits[1]) / 2, atol=1e-5)
    assert mixed(old, new, 1.0) is new and mixed(None, new, 0.5) is new


NOTHING = Margins({}, {}, 1.0, 1.0)


def test_shares_from_an_encoder_and_from_counted_pairs_are_weighted_by_their_precision():
    bases = _bases()
    shares = np.linspace(1.0, 2.0, 10) / 15.0
    counted = Counted(NOTHING, [PairCount(2, 3, np.outer(shares, [0.5, 0.3, 0.2]), 0.01, 1e3)])
    found = with_counted(bases, {"y": 0.01 * np.sqrt(3.0)}, counted)[0].of[2].shares  # as precise as the sum of three
    assert np.allclose(found, (shares + 0.1) / 2)
    assert found.sum() == pytest.approx(1.0)
    assert np.allclose(with_counted(bases, {"y": 1e-6}, counted)[0].of[2].shares, 0.1)
    assert np.array_equal(with_counted(bases, {"y": 1.0}, counted)[0].of[3].shares, bases.of[3].shares)


def test_shares_of_bins_are_sums_of_fine_ones_which_keep_their_part():
    bases, fine = _bases(), Bins(np.linspace(0.0, 1.0, 31), nullable=False)
    assert fine.within(EVEN).tolist() == np.repeat(np.arange(10), 3).tolist()
    counted = np.tile([1.0, 2.0, 0.0], 10) * np.repeat(np.linspace(1.0, 2.0, 10), 3) / 45.0
    margins = Margins({2: fine}, {2: counted}, 1e-9, 1.0)
    found, measured = with_counted(bases, {"y": 1.0}, Counted(margins, []))
    assert np.allclose(found.of[2].shares, np.linspace(1.0, 2.0, 10) / 15.0)
    assert measured["y"].noise == pytest.approx(1e-9 * np.sqrt(3.0)) and measured["y"].distance < 1e-8
    assert np.allclose(fine_shares(2, found, margins).shares, counted)
    weighted, _ = with_counted(bases, {"y": 0.0}, Counted(dataclasses.replace(margins, noise=0.006 / np.sqrt(3.0)), []))
    assert np.allclose(
        weighted.of[2].shares, (np.linspace(1.0, 2.0, 10) / 15.0 + 0.1) / 2
    )  # however sure the encoder is
    empty = Margins({2: fine}, {2: np.zeros(30)}, 1e-3, 1.0)
    assert np.allclose(fine_shares(2, bases, empty).shares, 1 / 30)


def test_a_density_draws_what_is_not_given_and_is_the_same_from_its_arrays():
    bases = _bases()
    reads = bases.functions_of(1)[:1]
    y = Column(reads, np.array([[4.0, 0, 0, 0, 0]]), np.zeros(10))
    c = Column(np.zeros(0, np.int64), np.zeros((0, 3)), np.log(bases.of[3].shares), 30.0, 0)
    density = ConditionalDensity(bases, (None, None, y, c))
    given = {"x": np.linspace(0.01, 0.99, 500), "previous.c": np.tile([0.1, 0.6, 0.9, 0.2, 0.7], 100)}
    drawn = density.sample_given(given, key=Key.new(1))
    assert np.array_equal(drawn["x"], given["x"])
    assert np.corrcoef(drawn["x"], drawn["y"])[0, 1] > 0.8
    assert np.array_equal(np.digitize(drawn["c"], LETTERS.edges), np.digitize(given["previous.c"], LETTERS.edges))
    again = ConditionalDensity.from_arrays(density.arrays()).sample_given(given, key=Key.new(1))
    assert all(np.array_equal(again[name], drawn[name]) for name in drawn)
    assert density.parents(None)["y"] == ["x"]
    assert len(density.sample(7, key=Key.new(2))["y"]) == 7


def test_a_gap_leads_from_the_row_before_to_an_order_and_beyond_the_last_to_none():
    days = NumericEncoder(
        Stated("day", "integer", low=0, high=99),
        Distribution(np.array([-0.5, 99.5]), np.array([0.0, 1.0]), integer=True),
    )
    gap = NumericEncoder(
        Stated("gap", "integer", low=0, high=19, nullable=True),
        Distribution(np.array([-0.5, 19.5]), np.array([0.0, 1.0]), integer=True),
        0.4,
    )
    start = NumericEncoder(Stated("first", "integer", low=0, high=99, nullable=True), days.distribution, 0.6)
    bins, gaps = Bins(np.linspace(0, 1, 11), False), Bins(np.linspace(0, 1, 5), True)
    landing = landing_of(1, 0, (gap, gaps), days, (days, bins), 1.0)
    codes = landing.codes(np.array([0.005, 0.995, np.nan]))
    assert codes.shape == (3, 5) and codes[0, :4].tolist() == [0, 0, 1, 1]
    assert (codes[1, 1:4] == 10).all()  # there is no such day
    shares = landing_shares(landing, start, np.array([0.15, 0.15, 0.15, 0.15, 0.4]), np.full(10, 0.1))
    assert len(shares) == landing.size == 11 and abs(shares.sum() - 0.6) < 0.01 and shares[-1] < 1e-3


def test_weights_stay_bounded_if_no_density_has_the_gaps_and_the_orders_that_were_measured():
    bases, pool = _bases(), _pool(_bases(), 2_000)
    pool = dataclasses.replace(pool, landings=np.tile(np.arange(10), (2_000, 1)))  # a gap of bin i leads to order i
    up, down = np.linspace(0.01, 0.19, 10), np.linspace(0.19, 0.01, 10)
    targets = Targets(np.zeros(0, np.int64), np.zeros((0, 5)), np.zeros((0, 5)), np.zeros(0), up, landings=down)
    found = learned(2, bases, targets, pool, np.ones(2_000, bool), None)
    assert np.abs(np.r_[found.constants, found.landings]).max() < 1e3
    assert np.isfinite(found.constants).all()


def test_raked_rows_have_the_measured_shares_and_pairs_those_of_drawn_columns():
    bases, pool = _bases(), _pool(_bases())
    pool.codes[1] = np.where(pool.codes[2] < 2, pool.codes[1] // 2, pool.codes[1])  # the shares of x are wrong
    found = raked(pool, bases, [1])
    assert np.allclose(np.bincount(pool.codes[1], found.weights, 10) / pool.count, 0.1, atol=0.02)
    shares = pair_shares(bases, pool, np.array([False, True, True, False]))
    x, y = slice(3, 13), slice(13, 23)
    assert np.allclose(shares[x, y].sum(axis=1), 0.1, atol=1e-3)
    assert np.allclose(shares[x, y].sum(axis=0), 0.1, atol=1e-3)


def test_rows_that_have_no_measured_value_keep_their_weights():
    bases = _bases()
    pool = coded(bases, {name: np.full(50, 0.05) for name in bases.names}, np.arange(50))
    shares = np.r_[0.0, np.full(9, 1 / 9)]
    of = tuple(dataclasses.replace(each, shares=shares) if each.number else each for each in bases.of)
    assert (raked(pool, dataclasses.replace(bases, of=of), [1]).weights == 1.0).all()


def test_the_plan_of_a_table_of_children_takes_the_share_that_it_is_given():
    planned = plan_families(5, share=0.6)
    assert sum(each.share for each in planned) == pytest.approx(0.6)
    assert [each.times for each in planned] == [1, 1, 15, 15]


def _families(bases: Bases, seed: int, alike: float):
    """Units of four rows whose x is that of the first with some probability, and y near x."""
    draw = np.random.default_rng(seed)
    first, own = np.repeat(draw.random(5_000), 4), draw.random(20_000)
    x = np.where(draw.random(20_000) < alike, first, own)
    levels = {"previous.c": draw.random(20_000), "x": x, "y": np.clip(x + draw.normal(0, 0.1, 20_000), 0, 1)}
    levels["c"] = draw.random(20_000)
    return coded(bases, levels, np.repeat(np.arange(5_000), 4))


def test_what_weights_do_to_families_is_made_good_by_drawn_ones():
    bases = _bases()
    private, drawn = _families(bases, 0, 0.8), _families(bases, 1, 0.7)
    cells = private.codes[1] * 10 + private.codes[2]
    plain = np.bincount(cells, minlength=100).reshape(10, 10) / 20_000
    weighted = np.bincount(cells, count_weights(private.unit, cells, bound=1.5) / STEPS, 100).reshape(10, 10) / 20_000
    pair = PairCount(1, 2, weighted, 1e-4, 1.5)
    for pool, most in ((private, 1e-9), (drawn, 0.003)):
        found = corrected_pair(pair, bases, pool)
        assert np.abs(found.shares - plain).max() < most and found.noise > pair.noise
    assert np.abs(weighted / weighted.sum() - plain).max() > 0.004  # there was something to make good

    fine = {j: bases.bins[j] for j in (1, 2)}
    both = private.codes[1:3] + np.array([[0], [10]])
    weights = count_weights(private.unit, both, bound=2.5) / STEPS
    margins = Margins(fine, {j: np.bincount(private.codes[j], weights, 10) / 20_000 for j in fine}, 1e-4, 2.5)
    single = np.bincount(private.codes[1], minlength=10) / 20_000
    for pool, most in ((private, 1e-9), (drawn, 0.004)):
        found = corrected_margins(margins, dataclasses.replace(pool, fine={j: pool.codes[j] for j in fine}))
        assert np.abs(found.shares[1] - single).max() < most and found.noise > margins.noise

    places, bound = np.flatnonzero(bases.measured), 8.0
    given = bases.owners[places] < 2
    x = private.functions[:, places].astype(np.float64)
    one = np.c_[np.ones(len(x)), x]
    weights = moment_weights(private.unit, one[:, np.r_[True, ~given]], x[:, given], bound=bound) / STEPS
    sums = Sums(places, given, (one * weights[:, None]).T @ one / len(x), 1e-4, bound)
    exact = np.cov(x.T, bias=True)
    exact[np.ix_(given, given)] = 0.0
    assert np.abs(corrected_moments(sums, private).covariances - exact).max() < 1e-6
    assert np.abs(corrected_moments(sums, drawn).covariances - exact).max() < 0.05


def test_covariances_that_no_weights_could_make_are_taken_for_noise():
    curvature = np.array([[1.0, 0.999], [0.999, 1.0]])  # two contexts that say the same
    found = curvature @ expected_weights(np.array([0.5, 0.3]), np.full(2, 0.05), curvature, np.full(2, 0.05))
    assert abs(found[0] - found[1]) < 0.01 and abs(found.mean() - 0.4) < 0.03
    sure = expected_weights(np.array([0.5, 0.3]), np.full(2, 1e-6), np.eye(2), np.ones(2))
    assert np.allclose(sure, [0.5, 0.3], atol=1e-6)


def test_steps_that_become_smaller_settle_at_the_shares_and_covariances_that_are_wanted():
    bases, pool = _bases(), _pool(_bases())
    _truth(bases, pool)
    places = np.flatnonzero(bases.measured)
    moments = Moments(places, np.cov(pool.functions[:, places].T, bias=True), 1e-3)
    rows, every = np.ones(pool.count, bool), np.ones(4, bool)
    targets = targets_of(2, bases, Released(moments, {}), pool, rows, readable=every, prior=np.ones(4))
    uneven = np.linspace(0.5, 1.5, 10) / 10
    targets = dataclasses.replace(targets, shares=uneven, covariances=targets.covariances / 2)  # both can be had
    column = Column(targets.reads, np.zeros((len(targets.reads), 5)), np.zeros(10))
    draw = np.random.default_rng(3)

    def apart(drawn: Column) -> tuple[float, float]:
        logits = ConditionalDensity(bases, (None,) * 4).logits(2, drawn, pool.functions, pool.codes)
        pool.codes[2] = drawn_codes(logits, draw)
        pool.functions[:, bases.functions_of(2)] = bases.of[2].table[pool.codes[2]]
        held = np.bincount(pool.codes[2], minlength=10) / pool.count
        x = pool.functions[:, targets.reads].astype(np.float64)
        found = (x - x.mean(axis=0)).T @ pool.functions[:, bases.functions_of(2)][:, 0] / pool.count
        return float(np.abs(held - uneven).sum()), float(np.abs(found - targets.covariances[:, 0]).max())

    found = [apart(column)]
    for step in np.geomspace(0.5, 0.1, 16):
        column = mixed(column, learned(2, bases, targets, pool, rows, column, iterations=10), step)
        found.append(apart(column))
    shares, covariances = zip(*found, strict=True)
    assert shares[-1] < shares[0] / 4 and covariances[-1] < covariances[0] / 10


# How levels are shown -------------------------------------------------------------------------------------------------


def _uneven(nullable: bool = False) -> tuple[Bins, np.ndarray]:
    """Ten bins, and levels that draw the lower ones too often: of density 1.4 - 0.8 u."""
    draw = np.random.default_rng(3).random(40_000)
    level = (1.4 - np.sqrt(1.96 - 1.6 * draw)) / 0.8
    return dataclasses.replace(EVEN, nullable=nullable), level


def test_levels_are_shown_with_the_measured_shares_in_their_order_and_read_as_they_were_drawn():
    bins, level = _uneven()
    made = level_map(level, bins, Measured(np.full(10, 0.1), 0.0))
    shown = made.show(level)
    held = np.bincount(bins.code_of(level), minlength=10) / len(level)
    assert np.abs(held - 0.1).sum() / 2 > 0.09
    assert np.allclose(np.bincount(bins.code_of(shown), minlength=10) / len(shown), 0.1, atol=0.003)
    assert (np.argsort(shown, kind="stable") == np.argsort(level, kind="stable")).all()
    assert np.allclose(made.read(shown), level, atol=1e-6)
    assert made.show(np.array([0.0, 1.0, np.nan])).tolist()[:2] == [0.0, 1.0]
    assert np.isnan(made.show(np.array([np.nan]))[0])


def test_what_noise_explains_is_shown_as_it_was_drawn_and_what_it_explains_in_part_moves_in_part():
    bins, level = _uneven()
    even = np.full(10, 0.1)
    assert level_map(level, bins, Measured(even, 0.03)) is None  # ten bins of it: 0.12 in total variation
    assert level_map(np.full(5, np.nan), bins, Measured(even, 0.0)) is None
    apart = [np.abs(np.bincount(bins.code_of(level), minlength=10) / len(level) - 0.1).sum() / 2]
    for noise in (0.015, 0.0):
        shown = level_map(level, bins, Measured(even, noise)).show(level)
        apart.append(np.abs(np.bincount(bins.code_of(shown), minlength=10) / len(shown) - 0.1).sum() / 2)
    assert apart[0] > apart[1] + 0.02 > apart[2] + 0.04
    expected = (10 * 0.015 / np.sqrt(2 * np.pi) / apart[0]) ** 2
    assert apart[1] / apart[0] == pytest.approx(expected, abs=0.05)


def test_a_density_draws_the_same_given_levels_that_are_shown_and_draws_others_as_they_are_shown():
    bases = _bases()
    bins, level = _uneven()
    made = level_map(level, bins, Measured(np.full(10, 0.1), 0.0))
    reads = bases.functions_of(1)
    column = Column(reads, np.full((5, 5), 0.3), np.zeros(10))
    letter = Column(np.zeros(0, np.int64), np.zeros((0, 3)), np.zeros(3))
    plain = ConditionalDensity(bases, (None, None, column, letter))
    mapped = dataclasses.replace(plain, maps={1: made, 2: made})
    given = {"previous.c": np.full(3_000, 0.2), "x": np.linspace(0.01, 0.99, 3_000)}
    first = plain.sample_given(given, key=Key.new(1))
    second = mapped.sample_given({**given, "x": made.show(given["x"])}, key=Key.new(1))
    assert np.allclose(second["y"], made.show(first["y"]))
    assert np.array_equal(second["c"], first["c"])
    again = ConditionalDensity.from_arrays(mapped.arrays())
    assert np.array_equal(again.sample(500, key=Key.new(2))["y"], mapped.sample(500, key=Key.new(2))["y"])
