"""Row maps: each is row by row and total, and says what its public numbers describe."""

import numpy as np
import pytest
from hypothesis import given, note
from hypothesis import strategies as st
from numpy.typing import ArrayLike
from scipy.special import ndtri

from conftest import examples
from understudy.core.randomness import Key
from understudy.privacy import interpolation, piecewise, row_draws
from understudy.privacy.normal_scores import ValueWeighting, mean_score
from understudy.privacy.piecewise import LARGEST, Distribution, LevelScale
from understudy.privacy.row_maps import (
    ROW_MAPS,
    ArgMax,
    Clip,
    Code,
    Gap,
    LevelBin,
    MissingFlag,
    MissingScore,
    NormalScore,
    OneHot,
    ValueBin,
)
from understudy.privacy.rows import PrivateRows

KEY = Key.new(0)
# An atom at 1, and steep and flat parts.
NUMBER = Distribution(np.array([-LARGEST, -2.0, 1.0, 1.0, 3.0, LARGEST]), np.array([0.0, 0.1, 0.4, 0.7, 0.9, 1.0]))
WHOLE = Distribution(np.array([-0.5, 4.5, 119.5, 120.5]), np.array([0.0, 0.3, 0.9, 1.0]), integer=True)
CODES = Distribution(np.arange(4.0) - 0.5, np.array([0.0, 0.2, 0.2, 1.0]), integer=True)
SCALES = {"number": LevelScale(NUMBER), "whole": LevelScale(WHOLE, 0.0, 120.0), "codes": LevelScale(CODES, coded=True)}
WEIGHTING = ValueWeighting(2.0, 1e-3, 0.1, 0.9, 0.8, 7.0)
LEVELS = np.array([0.0, 0.1, 0.4, 0.4, 0.95, 1.0])
MAPS = {
    "value bin": ValueBin("a", np.array([-LARGEST, -1.0, 0.0, np.nextafter(0, 1), 7.5, LARGEST])),
    "code": Code("a", 3),
    "code, nullable": Code("a", 3, 3),
    "flag": MissingFlag("a"),
    "flag, present": MissingFlag("a", missing=False),
    "one-hot": OneHot("a", 2, 3, CODES, False, KEY),
    "one-hot, nullable": OneHot("a", 3, 3, CODES, True, KEY),
    "clip": Clip("a"),
    "clip, narrow": Clip("a", -1.0, 2.0),
    "argmax": ArgMax(("a", "b", "c")),
    "gap": Gap("a", "b"),
    "gap in days": Gap("b", "a", 86_400e6),
    "missing score": MissingScore("a", False, 0.3, 1e-4, False, KEY),
    "missing score of codes, spread": MissingScore("a", True, 0.3, 1e-4, True, KEY),
    "weighted score": NormalScore("a", SCALES["number"], 1e-4, False, True, KEY, WEIGHTING),
    "weighted score, nullable": NormalScore("a", SCALES["number"], 1e-4, True, True, KEY, WEIGHTING),
    "grouped bin": LevelBin("a", SCALES["number"], LEVELS, False, KEY, np.array([4, 0, 1, 1, 0])),
    "numbered bin": LevelBin("a", SCALES["codes"], LEVELS, False, KEY, np.array([0.5, -1.0, 2.0, 0.0, 1e3])),
    "score, but for atoms": NormalScore("a", SCALES["number"], 1e-4, True, True, KEY, widest=0.2),
    "grouped bin, nullable": LevelBin("a", SCALES["whole"], LEVELS, True, KEY, np.array([4, 0, 1, 1, 0, 2])),
    **{
        f"score, {name}, nullable {nullable}, spread {spread}": NormalScore("a", scale, 1e-4, nullable, spread, KEY)
        for name, scale in SCALES.items()
        for nullable in (False, True)
        for spread in (False, True)
    },
    **{
        f"bin, {name}, nullable {nullable}": LevelBin("a", scale, LEVELS, nullable, KEY)
        for name, scale in SCALES.items()
        for nullable in (False, True)
    },
}
every_map = pytest.mark.parametrize("row_map", MAPS.values(), ids=MAPS)
tried = examples(25)

ODD = [np.nan, -np.nan, np.inf, -np.inf, 0.0, -0.0, 5e-324, -5e-324, 1e-310, 1.7e308, -1.7e308, 2.0**53, 0.5, 1.0, 2.0]
SIGNALLING = np.array([0x7FF0000000000001], np.uint64).view(np.float64)
KINDS = {
    "f8": st.sampled_from(ODD) | st.floats(),
    "f4": st.floats(width=32),
    "f2": st.floats(width=16),
    "g": st.sampled_from(ODD),
    "i8": st.integers(-1, 4) | st.integers(-(2**63), 2**63 - 1),
    "u8": st.integers(0, 2**64 - 1),
    "i1": st.integers(-128, 127),
    "?": st.booleans(),
    "O": st.sampled_from([None, "text", 10**400, np.nan, object(), -1]),
    "U5": st.text(max_size=5),
    "M8[us]": st.integers(-(2**62), 2**62),
    "c16": st.complex_numbers(),
}


@st.composite
def columns(draw):
    """Three columns of any dtype, with at least one row, and one more value of each."""
    size = draw(st.integers(1, 9))
    made = {}
    for name in "abc":
        dtype = draw(st.sampled_from(sorted(KINDS)))
        made[name] = np.array(draw(st.lists(KINDS[dtype], min_size=size + 1, max_size=size + 1)), dtype=dtype)
        if dtype == "f8" and draw(st.booleans()):
            made[name][draw(st.integers(0, size))] = SIGNALLING[0]
    return made


def derived(made, row_map):
    return PrivateRows(made, {}, 1).derive({"y": row_map})._exact["y"]


def test_every_kind_of_map_is_tried():
    assert {type(row_map) for row_map in MAPS.values()} == set(ROW_MAPS)


# Making columns takes longer than mapping them, so each example goes through every map.


def each_map():
    for name, row_map in MAPS.items():
        note(f"the map: {name}")
        yield row_map


@tried
@given(made=columns(), place=st.integers(0, 9))
def test_a_row_is_mapped_by_itself(made, place):
    """With its own uniforms, a row's result is the same in any table, and however the rows are ordered."""
    size = len(made["a"])
    order = np.random.default_rng(place).permutation(size)[: max(1, size - place % 3)]
    for row_map in each_map():
        uniforms = row_draws.uniforms(row_map, 0, size)
        with np.errstate(all="ignore"):
            whole = row_map.apply([made[name] for name in row_map.sources], uniforms)
            part = row_map.apply([made[name][order] for name in row_map.sources], uniforms[:, order])
        np.testing.assert_array_equal(part, whole[order])


@tried
@given(made=columns(), place=st.integers(0, 9))
def test_one_row_moves_no_other(made, place):
    """The last row is taken out, or put in another's place. Nothing raises, and no warning is given."""
    size = len(made["a"]) - 1
    without = {name: column[:-1] for name, column in made.items()}
    changed = {name: column.copy() for name, column in without.items()}
    for name, column in made.items():
        changed[name][place % size] = column[-1]
    others = np.arange(size) != place % size
    for row_map in each_map():
        before = derived(without, row_map)
        np.testing.assert_array_equal(derived(changed, row_map)[others], before[others])
        if row_draws.draws(row_map) <= 1:  # of two draws, the second one begins where the first one of all rows ends
            np.testing.assert_array_equal(derived(made, row_map)[:-1], before)


@tried
@given(made=columns())
def test_whatever_the_value_the_result_is_a_number_within_its_range(made):
    for row_map in each_map():
        result = derived(made, row_map)
        low, high = expected_range(row_map)
        assert len(result) == len(made["a"]) and np.isfinite(result[~missing_by_rule(made, row_map)]).all()
        result = result[np.isfinite(result)]
        if not len(result):
            continue
        assert result.min() >= low and result.max() <= high


def missing_by_rule(made, row_map):
    """The rows of a gap of which either number is missing, and no others."""
    cells = [piecewise.numbers(made[name]) for name in row_map.sources]
    return np.isnan(cells).any(axis=0) & isinstance(row_map, Gap)


def expected_range(row_map):
    match row_map:
        case Gap():
            return -2 * LARGEST / row_map.unit, 2 * LARGEST / row_map.unit
        case ValueBin():
            return 0, len(row_map.edges) - 1
        case Code():
            return -1, max(2, row_map.missing)
        case LevelBin():
            groups = row_map.groups
            return (0, len(LEVELS) - 2 + row_map.nullable) if groups is None else (groups.min(), groups.max())
        case NormalScore() | MissingScore():
            return -10, 10
        case ArgMax():
            return 0, 2
        case Clip():
            return row_map.low, row_map.high
        case _:
            return 0, 1


@every_map
def test_a_map_takes_rows_of_which_there_are_none(row_map):
    assert len(derived({name: np.zeros(0) for name in "abc"}, row_map)) == 0


# What each map is.

VALUES = np.array([-1e9, -1.0, 0.0, 1.0, 2.0, np.inf, np.nan])


def of(row_map, values: ArrayLike = VALUES):
    return derived({"a": np.asarray(values)}, row_map)


def test_a_value_bin_has_a_last_one_for_missing_values():
    np.testing.assert_array_equal(of(ValueBin("a", np.array([-1.0, 0.0, 2.0]))), [0, 0, 1, 1, 1, 1, 2])


@pytest.mark.parametrize("missing", [-1, 3])
def test_a_code_outside_the_list_is_counted_nowhere(missing):
    codes = of(Code("a", 3, missing), [0.0, 2.0, 3.0, -1.0, np.nan, np.inf])
    np.testing.assert_array_equal(codes, [0, 2, -1, missing, missing, -1])


def test_a_level_bin_is_that_of_the_middle_of_a_value_s_levels():
    # The atom at 1 owns the levels from 0.4 to 0.7.
    found = of(LevelBin("a", LevelScale(NUMBER), np.array([0.0, 0.5, 0.6, 1.0]), True, KEY), [0.9, 1.0, 1.1, np.nan])
    np.testing.assert_array_equal(found, [0, 1, 2, 3])


def test_a_level_bin_needs_a_group_for_each_of_its_bins():
    with pytest.raises(ValueError, match="expected a group for each bin"):
        LevelBin("a", LevelScale(NUMBER), LEVELS, True, KEY, np.zeros(5, np.int64))


def test_a_level_bin_may_stand_for_any_number():
    edges, numbers = np.array([0.0, 0.5, 0.6, 1.0]), np.array([0.25, -3.0, 7.5, 0.0])
    found = of(LevelBin("a", LevelScale(NUMBER), edges, True, KEY, numbers), [0.9, 1.0, 1.1, np.nan])
    np.testing.assert_array_equal(found, numbers)


def test_a_score_is_the_mean_over_an_atom_and_the_quantile_elsewhere():
    found = of(NormalScore("a", LevelScale(NUMBER), 1e-6, True, False, KEY), [-2.0, 1.0, np.nan])
    np.testing.assert_allclose(found, [ndtri(0.1), mean_score(np.array([0.4]), np.array([0.7]))[0], 0.0])


def test_spread_scores_of_an_atom_fill_its_interval():
    found = of(NormalScore("a", LevelScale(NUMBER), 1e-6, True, True, KEY), np.ones(2000))
    assert ndtri(0.4) <= found.min() < ndtri(0.41) and ndtri(0.69) < found.max() <= ndtri(0.7)


@pytest.mark.parametrize(("widest", "even"), [(0.2, True), (0.3001, False), (1.0, False)])
def test_values_that_own_more_levels_than_the_widest_have_their_mean_score(widest, even):
    """The atom at 1 owns three tenths of them; the whole number 120 a tenth, which is spread all the same."""
    found = of(NormalScore("a", LevelScale(NUMBER), 1e-6, True, True, KEY, widest=widest), np.ones(100))
    assert (np.ptp(found) == 0) == even
    if even:
        np.testing.assert_allclose(found, mean_score(np.array([0.4]), np.array([0.7]))[0])
    whole = of(NormalScore("a", SCALES["whole"], 1e-6, True, True, KEY, widest=widest), np.full(100, 120.0))
    assert np.ptp(whole) > 0


def test_a_forbidden_missing_value_gets_a_random_level():
    found = of(NormalScore("a", LevelScale(NUMBER), 1e-6, False, False, KEY), np.full(4000, np.nan))
    assert abs(found.mean()) < 0.06 and abs(found.std() - 1) < 0.05


def test_a_forbidden_missing_category_gets_the_same_random_one_in_all_its_maps():
    hot = np.stack([of(OneHot("a", k, 3, CODES, False, KEY), np.full(4000, -1)) for k in range(3)])
    np.testing.assert_array_equal(hot.sum(axis=0), 1.0)
    np.testing.assert_allclose(hot.mean(axis=1), [0.2, 0.0, 0.8], atol=0.03)


def test_the_score_of_being_missing_splits_the_levels_at_the_share():
    found = of(MissingScore("a", False, 0.25, 1e-9, False, KEY), [1.0, np.nan])
    np.testing.assert_allclose(found, mean_score(np.array([1e-9, 0.75]), np.array([0.75, 1 - 1e-9])))


def test_flags_of_missing_and_of_present_values_are_each_other_s_opposite():
    np.testing.assert_array_equal(of(MissingFlag("a")), [0, 0, 0, 0, 0, 0, 1])
    np.testing.assert_array_equal(of(MissingFlag("a")) + of(MissingFlag("a", missing=False)), 1.0)


def test_clipping_holds_numbers_within_bounds_and_takes_missing_ones_for_zero():
    np.testing.assert_array_equal(of(Clip("a", -2.0, 1.5)), [-2.0, -1.0, 0.0, 1.0, 1.5, 1.5, 0.0])


def test_the_largest_column_is_the_category():
    columns = {"a": np.array([1.0, 0.0, np.nan]), "b": np.array([0.0, 1.0, 0.0])}
    np.testing.assert_array_equal(derived(columns, ArgMax(("a", "b"))), [0, 1, 1])


MANY_ROWS = 3 * interpolation.MANY
MANY_NUMBERS = {
    "whole": np.random.default_rng(0).integers(-3, 125, MANY_ROWS).astype(float),
    "not whole": np.random.default_rng(1).normal(2.0, 3.0, MANY_ROWS).round(1),
    "codes": np.random.default_rng(2).integers(-1, 5, MANY_ROWS),
    "odd": np.random.default_rng(3).choice(np.array(ODD), MANY_ROWS),
}


@every_map
@pytest.mark.parametrize("kind", MANY_NUMBERS)
def test_many_rows_are_mapped_as_few_are(row_map, kind):
    """Many rows are looked up in tables, a few are computed: that makes no difference to a bit."""
    rows = {name: MANY_NUMBERS[kind] for name in "abc"}
    if kind == "whole":
        rows = {name: np.where(np.arange(MANY_ROWS) % 97 == 5, np.nan, each) for name, each in rows.items()}
    made = derived(rows, row_map)
    uniforms = row_draws.uniforms(row_map, 0, MANY_ROWS)
    for start in range(0, MANY_ROWS, 10_000):
        some = slice(start, start + 10_000)
        with np.errstate(all="ignore"):
            few = row_map.apply([rows[name][some] for name in row_map.sources], uniforms[:, some])
        np.testing.assert_array_equal(made[some], few)


def test_what_is_drawn_for_a_row_goes_by_its_number():
    row_map, at = MAPS["score, whole, nullable False, spread True"], np.array([3, 4, 90, 91, 1000])
    assert isinstance(row_map, NormalScore)
    drawn = row_draws.RowUniforms(row_map, 7, len(at), at)
    np.testing.assert_array_equal(drawn[1], row_draws.uniforms(row_map, 0, 2000)[1][7 + at])
