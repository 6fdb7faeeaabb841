"""Metrics of two tables: every one against another way to compute it, and on tables whose answer is known."""

import bisect
import collections
import itertools
import math

import numpy as np
import polars as pl
import pytest
from hypothesis import given
from hypothesis import strategies as st
from scipy import stats
from scipy.spatial.distance import jensenshannon

from conftest import examples, mixed_table
from understudy.evaluation import distances, histograms
from understudy.evaluation.associations import associations
from understudy.evaluation.histograms import tvd
from understudy.evaluation.metrics import METRICS
from understudy.evaluation.pair import Pair, open_tables
from understudy.tables.column import Column
from understudy.tables.schema import Schema

every_metric = pytest.mark.parametrize("name", METRICS)


def pair_of(schema, real, synthetic, scale=None, seed=0):
    tables = {"real": real, "synthetic": synthetic, "scale": real if scale is None else scale}
    return Pair(names=schema.names, seed=seed, **open_tables(schema, tables))


def numbers(**columns):
    """A schema of continuous columns, nullable."""
    return Schema(columns=tuple(Column(name=name, kind="continuous", nullable=True) for name in columns or "x"))


def texts(*names):
    return Schema(columns=tuple(Column(name=name, kind="categorical", nullable=True) for name in names))


def normal(n, seed, *names):
    draw = np.random.default_rng(seed)
    return pl.DataFrame({name: draw.normal(size=n) + place for place, name in enumerate(names)})


def value(name, pair):
    found = METRICS[name](pair).value
    assert found is not None
    return found


@pytest.fixture(scope="module")
def mixed_pair(mixed_schema):
    return pair_of(mixed_schema, mixed_table(400), mixed_table(300, seed=1))


# Known answers ------------------------------------------------------------------------------------------------------


@every_metric
def test_a_table_is_at_no_distance_from_itself(name, mixed_schema, mixed):
    assert value(name, pair_of(mixed_schema, mixed, mixed)) == pytest.approx(0, abs=1e-9)


@every_metric
def test_a_table_is_at_a_distance_from_another_one(name, mixed_pair):
    assert value(name, mixed_pair) > 0


@every_metric
def test_the_order_of_rows_does_not_matter(name, mixed_schema, mixed_pair):
    real, synthetic = mixed_table(400), mixed_table(300, seed=1)
    again = pair_of(mixed_schema, real.sample(fraction=1, shuffle=True, seed=3), synthetic.reverse())
    assert value(name, again) == pytest.approx(value(name, mixed_pair), rel=1e-6)


@every_metric
def test_every_result_says_how_it_came_about(name, mixed_pair):
    how = METRICS[name](mixed_pair).how
    assert any(word in how for word in ("bins", "z-score", "Pearson", "Spearman", "Cramér", "η"))
    assert "missing" in how or "rows that have both" in how


@pytest.mark.parametrize("name", ["tvd1", "tvd2", "tvd3", "tvd2_quantile"])
def test_disjoint_tables_are_at_distance_one(name):
    schema = Schema(columns=(*numbers(x=0, y=0).columns, *texts("a").columns))
    real = normal(50, 0, "x", "y").with_columns(a=pl.lit("left"))
    synthetic = normal(70, 1, "x", "y").with_columns(pl.all() + 1000, a=pl.lit("right"))
    assert value(name, pair_of(schema, real, synthetic)) == pytest.approx(1)


def test_a_disjoint_column_is_at_the_largest_jensen_shannon_distance():
    pair = pair_of(texts("a"), pl.DataFrame({"a": ["left"] * 3}), pl.DataFrame({"a": ["right"] * 4}))
    assert value("js", pair) == pytest.approx(math.sqrt(math.log(2)))


@pytest.mark.parametrize("shift", [0.0, 0.25, 3.0])
def test_a_shifted_column_is_its_shift_away(shift):
    real = normal(300, 0, "x", "y")
    deviation = real["x"].to_numpy().std()
    pair = pair_of(numbers(x=0, y=0), real, real.with_columns(pl.col("x") + shift * deviation))
    assert value("wd", pair) == pytest.approx(shift)
    assert METRICS["wd"](pair).parts["y",] == pytest.approx(0)
    assert value("mmd", pair) == pytest.approx(shift**2)
    assert value("wd_joint", pair) == pytest.approx(shift, abs=1e-6)


def test_the_scale_is_that_of_the_table_that_sets_it():
    real = normal(300, 0, "x")
    pair = pair_of(numbers(x=0), real, real.with_columns(pl.col("x") + 1), scale=real.with_columns(pl.col("x") * 4))
    assert value("wd", pair) == pytest.approx(1 / (4 * real["x"].to_numpy().std()))


def test_dependence_that_equal_margins_hide_is_seen():
    draw = np.random.default_rng(0)
    x = draw.normal(size=4000)
    real = pl.DataFrame({"x": x, "y": x + 0.1 * draw.normal(size=4000)})
    shuffled = real.with_columns(y=draw.permutation(real["y"].to_numpy()))
    pair = pair_of(numbers(x=0, y=0), real, shuffled)
    assert value("wd", pair) == value("tvd1", pair) == 0
    assert value("tvd2_quantile", pair) > 0.5
    assert value("correlation_max", pair) > 0.9


# Oracles ------------------------------------------------------------------------------------------------------------


def brute_tvd(real, synthetic):
    """Half the L1 distance of the shares of tuples, by counting them in dictionaries."""
    counts = [collections.Counter(rows) for rows in (real, synthetic)]
    cells = set(counts[0]) | set(counts[1])
    return 0.5 * sum(abs(counts[0][c] / len(real) - counts[1][c] / len(synthetic)) for c in cells)


def brute_bins(real, synthetic):
    """Bins of one column of a frame: text as it is, numbers by the rule of 100 bins, None for a missing value."""
    if real.dtype == pl.String:
        return real.to_list(), synthetic.to_list()
    present = [x for x in (*real, *synthetic) if x is not None]
    low, high = min(present), max(present)
    return tuple(
        [None if x is None else round(99 * (x - low) / (high - low)) for x in side] for side in (real, synthetic)
    )


@pytest.mark.parametrize("width", [1, 2, 3, 4])
def test_total_variation_is_that_of_counting_in_dictionaries(width, mixed_schema):
    names = ["age", "income", "weight", "city", "colour"]
    schema = Schema(columns=tuple(mixed_schema[name] for name in names))
    real, synthetic = mixed_table(200).select(names), mixed_table(150, seed=1).select(names)
    bins = {name: brute_bins(real[name], synthetic[name]) for name in names}
    expected = [
        brute_tvd(*(list(zip(*(bins[name][side] for name in chosen), strict=True)) for side in (0, 1)))
        for chosen in itertools.combinations(names, width)
    ]
    found = tvd(pair_of(schema, real, synthetic), width)
    assert found.value == pytest.approx(np.mean(expected))
    assert list(found.parts.values()) == pytest.approx(expected)


def test_quantile_bins_hold_equal_shares_of_the_real_side():
    real, synthetic = normal(2000, 0, "x"), normal(1000, 1, "x")
    codes, others, _ = histograms.quantile_bins(real["x"].to_numpy(), synthetic["x"].to_numpy(), bins=20)
    shares = np.unique(codes, return_counts=True)[1] / 2000
    assert len(shares) == 20 and np.allclose(shares, 0.05, atol=1e-3)
    assert set(others) <= set(codes)


def test_quantile_total_variation_is_that_of_counting_in_dictionaries():
    real, synthetic = normal(200, 0, "x", "y"), normal(150, 1, "x", "y") * 1.2
    # The 10th, 20th, ... smallest of 200 real values begin a bin.
    edges = {name: sorted(real[name])[9:199:10] for name in "xy"}
    rows = [
        [tuple(bisect.bisect_right(edges[name], row[name]) for name in "xy") for row in side.to_dicts()]
        for side in (real, synthetic)
    ]
    found = value("tvd2_quantile", pair_of(numbers(x=0, y=0), real, synthetic))
    assert found == pytest.approx(brute_tvd(rows[0], rows[1]))


def test_quantile_total_variation_of_triples_has_six_bins_a_number_and_one_for_the_missing():
    real, synthetic = normal(120, 0, "x", "y"), normal(150, 1, "x", "y") * 1.2
    real, synthetic = (
        side.with_columns(x=pl.when(pl.col("y") < 2).then("x"), a=pl.when(pl.col("x") > 0).then(pl.lit("up")))
        for side in (real, synthetic)
    )
    present = {name: sorted(real[name].drop_nulls()) for name in "xy"}
    edges = {name: [found[math.ceil(len(found) * k / 6) - 1] for k in range(1, 6)] for name, found in present.items()}
    rows = [
        [
            (*(None if row[name] is None else bisect.bisect_right(edges[name], row[name]) for name in "xy"), row["a"])
            for row in side.to_dicts()
        ]
        for side in (real, synthetic)
    ]
    schema = Schema(columns=(*numbers(x=0, y=0).columns, *texts("a").columns))
    assert real["x"].null_count() > 0
    assert value("tvd3_quantile", pair_of(schema, real, synthetic)) == pytest.approx(brute_tvd(rows[0], rows[1]))


def test_at_most_four_hundred_quantile_triples_are_drawn_with_the_seed():
    names = [f"c{i}" for i in range(15)]  # 455 triples
    real, synthetic = normal(40, 0, *names), normal(40, 1, *names)
    found = [
        METRICS["tvd3_quantile"](pair_of(numbers(**dict.fromkeys(names, 0)), real, synthetic, seed=s))
        for s in (0, 0, 1)
    ]
    assert [len(each.parts) for each in found] == [400] * 3 and "400 of 455" in found[0].how
    assert set(found[0].parts) == set(found[1].parts) != set(found[2].parts)


def test_an_atom_has_a_quantile_bin_of_its_own():
    draw = np.random.default_rng(0)
    real = np.where(draw.random(1000) < 0.5, 0.0, draw.exponential(size=1000))
    codes, others, _ = histograms.quantile_bins(real, np.array([0.0, 1e-9, -1.0]), bins=20)
    assert set(codes[real == 0]).isdisjoint(codes[real != 0])
    assert len(set(others)) == 3


def test_jensen_shannon_is_scipy_s_on_numpy_s_histograms():
    names = ("x", "y")
    real, synthetic = normal(500, 0, *names), normal(300, 1, *names) * 1.5
    expected = 0.0
    for name in names:
        both = pl.concat([real, synthetic])[name]
        edges = np.histogram_bin_edges(both, 20)
        counts = [np.histogram(side[name], edges)[0] for side in (real, synthetic)]
        expected += float(jensenshannon(counts[0], counts[1]))
    assert value("js", pair_of(numbers(x=0, y=0), real, synthetic)) == pytest.approx(expected)


def test_wasserstein_is_the_mean_gap_of_sorted_values():
    real, synthetic = normal(400, 0, "x", "y"), normal(400, 1, "x", "y") * 2
    expected = sum(
        np.abs(np.sort(real[name]) - np.sort(synthetic[name])).mean() / real[name].to_numpy().std() for name in "xy"
    )
    assert value("wd", pair_of(numbers(x=0, y=0), real, synthetic)) == pytest.approx(expected)


def test_joint_wasserstein_in_one_column_is_the_one_dimensional_one():
    pair = pair_of(numbers(x=0), normal(300, 0, "x"), normal(200, 1, "x") * 2)
    assert value("wd_joint", pair) == pytest.approx(value("wd", pair))


def test_joint_wasserstein_of_one_category_is_its_total_variation():
    real, synthetic = pl.DataFrame({"a": list("aaabbc")}), pl.DataFrame({"a": list("aabbbbdd")})
    pair = pair_of(texts("a"), real, synthetic)
    assert value("wd_joint", pair) == pytest.approx(value("wd", pair)) == pytest.approx(value("tvd1", pair))


def test_joint_wasserstein_is_that_of_the_best_assignment():
    from scipy.optimize import linear_sum_assignment
    from scipy.spatial.distance import cdist

    real, synthetic = normal(60, 0, "x", "y"), normal(60, 1, "x", "y") + 0.5
    x, y = (frame.to_numpy() / real.to_numpy().std(axis=0) for frame in (real, synthetic))
    costs = cdist(x, y)
    expected = costs[linear_sum_assignment(costs)].mean()
    assert value("wd_joint", pair_of(numbers(x=0, y=0), real, synthetic)) == pytest.approx(expected)


def vectors(pair):
    """Rows as dense vectors: z-scores, flags of missing ones, and one-hot categories of length √½."""
    for side, z_scores in zip(pair.sides, pair.z_scores, strict=True):
        blocks = [np.nan_to_num(z)[:, None] for z in z_scores.values()]
        blocks += [np.isnan(z)[:, None].astype(float) for z in z_scores.values()]
        blocks += [np.eye(side.sizes[name])[codes] / math.sqrt(2) for name, codes in side.codes.items()]
        yield np.hstack(blocks)


def test_the_linear_discrepancy_is_that_of_dense_vectors(mixed_pair):
    gap = np.subtract(*(rows.mean(axis=0) for rows in vectors(mixed_pair)))
    dense = len(mixed_pair.real.numbers) * 2
    expected = (gap[:dense] ** 2).sum() + 2 * (gap[dense:] ** 2).sum()
    assert value("mmd", mixed_pair) == pytest.approx(expected)


def test_the_gaussian_discrepancy_is_that_of_dense_vectors(mixed_pair):
    from sklearn.metrics.pairwise import rbf_kernel

    real, synthetic = vectors(mixed_pair)
    distances = np.sqrt(((real[:, None] - real[None]) ** 2).sum(axis=2))[np.triu_indices(len(real), 1)]
    gamma = 1 / (2 * np.median(distances[distances > 1e-9]) ** 2)
    expected = (
        rbf_kernel(real, real, gamma).mean()
        + rbf_kernel(synthetic, synthetic, gamma).mean()
        - 2 * rbf_kernel(real, synthetic, gamma).mean()
    )
    assert value("mmd_rbf", mixed_pair) == pytest.approx(expected, abs=1e-9)


def test_associations_are_those_of_scipy(mixed_schema):
    frame = mixed_table(500)
    found = associations(open_tables(mixed_schema, {"table": frame})["table"])
    told = frame.filter(pl.col("income").is_not_null())
    assert found["age", "weight"] == pytest.approx(stats.pearsonr(frame["age"], frame["weight"])[0])
    assert found["age", "income"] == pytest.approx(stats.pearsonr(told["age"], told["income"])[0])
    counts = stats.contingency.crosstab(frame["city"].to_list(), frame["colour"].fill_null("?").to_list())[1]
    assert found["city", "colour"] == pytest.approx(stats.contingency.association(counts, method="cramer"))
    groups = [group["income"].to_numpy() for _, group in told.group_by("city")]
    ratio = stats.f_oneway(*groups).statistic * (len(groups) - 1) / (len(told) - len(groups))
    assert found["city", "income"] == found["income", "city"] == pytest.approx(math.sqrt(ratio / (1 + ratio)))


def test_correlation_gaps_are_those_of_numpy():
    names = ("x", "y", "z")
    mix = np.array([[1, 0.5, 0], [0, 1, 0.8], [0, 0, 1]])
    real = pl.DataFrame(normal(500, 0, *names).to_numpy() @ mix, schema=names)
    synthetic = normal(400, 1, *names)
    gaps = np.abs(np.corrcoef(real.to_numpy().T) - np.corrcoef(synthetic.to_numpy().T))[np.triu_indices(3, 1)]
    pair = pair_of(numbers(x=0, y=0, z=0), real, synthetic)
    assert value("correlation_max", pair) == pytest.approx(gaps.max())
    assert value("correlation_mean", pair) == pytest.approx(gaps.mean())


def test_rank_correlation_is_that_of_pandas_over_rows_that_have_both():
    names = ("x", "y", "z")
    real = normal(300, 0, *names).with_columns(z=pl.col("x").exp().round(0), x=pl.when(pl.col("y") < 1.5).then("x"))
    synthetic = normal(200, 1, *names).with_columns(y=pl.when(pl.col("z") > 1).then("y"))
    rho = [side.to_pandas().corr(method="spearman").to_numpy() for side in (real, synthetic)]
    gaps = np.abs(rho[0] - rho[1])[np.triu_indices(3, 1)]
    found = METRICS["rank_correlation"](pair_of(numbers(x=0, y=0, z=0), real, synthetic))
    assert found.value == pytest.approx(np.mean(gaps)) and list(found.parts.values()) == pytest.approx(gaps)


def test_the_gap_of_cramer_s_v_is_scipy_s_with_a_missing_value_as_a_category():
    draw = np.random.default_rng(0)
    sides = []
    for n, follow in ((400, 0.8), (300, 0.1)):
        a = draw.integers(0, 4, n)
        b = np.where(draw.random(n) < follow, a // 2, draw.integers(0, 3, n))
        sides.append(pl.DataFrame({"a": [None if x == 3 else f"a{x}" for x in a], "b": [f"b{x}" for x in b]}))
    expected = []
    for side in sides:
        counts = np.zeros((4, 3))
        for row in side.to_dicts():
            counts[3 if row["a"] is None else int(row["a"][1]), int(row["b"][1])] += 1
        expected.append(stats.contingency.association(counts.astype(int), method="cramer"))
    found = value("cramers_v", pair_of(texts("a", "b"), *sides))
    assert found == pytest.approx(abs(expected[0] - expected[1])) and found > 0.2


def test_cramer_s_v_is_the_same_if_its_table_is_too_sparse_to_hold():
    labels = [f"v{i}" for i in range(60)]
    draw = np.random.default_rng(1)
    real = pl.DataFrame({"a": draw.choice(labels, 90), "b": draw.choice(labels, 90)})
    expected = stats.contingency.association(
        real.with_columns(n=1)
        .pivot("b", index="a", values="n", aggregate_function="len")
        .drop("a")
        .fill_null(0)
        .to_numpy(),
        method="cramer",
    )
    side = pair_of(texts("a", "b"), real, real).real
    assert side.sizes["a"] * side.sizes["b"] > 4 * len(real)
    assert associations(side)["a", "b"] == pytest.approx(expected)


def test_the_gap_of_correlation_ratios_is_that_of_group_means():
    real = pl.DataFrame({"a": ["u", "u", "v", "v"], "x": [0.0, 0.0, 1.0, 1.0]})  # all variance lies between: 1
    synthetic = pl.DataFrame({"a": ["u", "u", "v", "v"], "x": [0.0, 1.0, 0.0, 2.0]})  # 0.25² / 0.6875 lies between
    schema = Schema(columns=(*texts("a").columns, *numbers(x=0).columns))
    expected = 1 - math.sqrt(0.0625 / 0.6875)
    assert value("correlation_ratio", pair_of(schema, real, synthetic)) == pytest.approx(expected)


@pytest.mark.parametrize(
    ("name", "columns"),
    [("rank_correlation", "xa"), ("cramers_v", "xa"), ("correlation_ratio", "xy"), ("correlation_ratio", "ab")],
)
def test_an_association_without_a_pair_of_its_kinds_is_undefined(name, columns):
    kinds = {"x": numbers(x=0), "y": numbers(y=0), "a": texts("a"), "b": texts("b")}
    schema = Schema(columns=tuple(kinds[each].columns[0] for each in columns))
    cells = {"x": [1.0, 2.0], "y": [2.0, 1.0], "a": ["u", "v"], "b": ["v", "v"]}
    table = pl.DataFrame({each: cells[each] for each in columns})
    found = METRICS[name](pair_of(schema, table, table))
    assert found.value is None and "needs at least one pair" in found.how


# Properties ---------------------------------------------------------------------------------------------------------

cell = st.one_of(st.none(), st.floats(-1e6, 1e6).map(lambda x: round(x, 3)), st.sampled_from([0.0, 1.0]))
column = st.lists(cell, min_size=1, max_size=30)


@examples(12)
@given(real=column, synthetic=column)
def test_values_are_finite_and_total_variation_is_at_most_one(real, synthetic):
    schema = Schema(columns=(*numbers(x=0, y=0).columns, *texts("a").columns))
    tables = [
        pl.DataFrame(
            {"x": side, "y": side[::-1], "a": [None if x is None else str(x > 0) for x in side]},
            schema={"x": pl.Float64, "y": pl.Float64, "a": pl.String},
        )
        for side in (real, synthetic)
    ]
    pair = pair_of(schema, tables[0], tables[1])
    found = {name: value(name, pair) for name in METRICS if name not in ("wd_joint", "cramers_v")}
    assert all(math.isfinite(distance) and distance >= 0 for distance in found.values())
    assert all(found[name] <= 1 + 1e-9 for name in ("tvd1", "tvd2", "tvd3", "tvd2_quantile", "tvd3_quantile"))
    assert found["tvd1"] <= found["tvd2"] + 1e-9 <= found["tvd3"] + 2e-9  # a finer look sees no less
    assert found["correlation_mean"] <= found["correlation_max"] + 1e-12


@pytest.mark.slow
@examples(25)
@given(real=column, synthetic=column)
def test_total_variation_does_not_mind_which_side_is_real(real, synthetic):
    tables = [pl.DataFrame({"x": side}, schema={"x": pl.Float64}) for side in (real, synthetic)]
    there, back = pair_of(numbers(x=0), tables[0], tables[1]), pair_of(numbers(x=0), tables[1], tables[0])
    assert value("tvd1", there) == pytest.approx(value("tvd1", back))


# Missing values, single columns, many columns -----------------------------------------------------------------------


def test_missing_values_have_a_bin_of_their_own():
    real, synthetic = pl.DataFrame({"x": [1.0, 2, 3, 4]}), pl.DataFrame({"x": [1.0, 2, None, None]})
    pair = pair_of(numbers(x=0), real, synthetic)
    assert value("tvd1", pair) == pytest.approx(0.5)
    assert (
        value("tvd2_quantile", pair_of(numbers(x=0, y=0), real.with_columns(y=0.0), synthetic.with_columns(y=0.0))) > 0
    )


def test_a_wholly_missing_column_is_one_away():
    real, synthetic = pl.DataFrame({"x": [1.0, 2, 3]}), pl.DataFrame({"x": [None] * 3}, schema={"x": pl.Float64})
    for sides in ((real, synthetic), (synthetic, real)):
        assert value("wd", pair_of(numbers(x=0), *sides)) == pytest.approx(1)
        assert value("tvd1", pair_of(numbers(x=0), *sides)) == pytest.approx(1)


def test_the_wasserstein_distance_with_missing_values_is_that_of_its_definition():
    real = pl.DataFrame({"x": [0.0, 2.0, None, None]})  # deviation 1
    synthetic = pl.DataFrame({"x": [1.0, 3.0, 1.0, None]})
    moved = stats.wasserstein_distance([0, 2], [1, 3, 1])
    assert value("wd", pair_of(numbers(x=0), real, synthetic)) == pytest.approx(0.5 * moved + 0.25)


def test_infinite_numbers_are_missing_and_huge_ones_do_not_break():
    real = pl.DataFrame({"x": [1.0, 2, 3], "y": [1e300, -1e300, 0]})
    synthetic = pl.DataFrame({"x": [1.0, math.inf, -math.inf], "y": [0.0, 0, 0]})
    pair, undefined = (
        pair_of(numbers(x=0, y=0), real, synthetic),
        ("wd_joint", "tvd3", "tvd3_quantile", "cramers_v", "correlation_ratio"),
    )
    assert all(math.isfinite(value(name, pair)) for name in METRICS if name not in undefined)


@every_metric
@pytest.mark.parametrize(
    "names", [["age", "weight", "joined"], ["city", "colour", "member"]], ids=["numbers", "categories"]
)
def test_tables_of_one_kind_are_judged(name, names, mixed_schema):
    schema = Schema(columns=tuple(mixed_schema[column] for column in names))
    pair = pair_of(schema, mixed_table(200).select(names), mixed_table(300, seed=1).select(names))
    of_other_kinds = {"age": ("cramers_v", "correlation_ratio"), "city": ("rank_correlation", "correlation_ratio")}
    if name in of_other_kinds[names[0]]:
        assert METRICS[name](pair).value is None
    else:
        assert 0 < value(name, pair) < math.inf


@every_metric
def test_a_table_of_one_column_has_no_pairs(name):
    found = METRICS[name](pair_of(numbers(x=0), normal(50, 0, "x"), normal(40, 1, "x")))
    of_one = name in ("wd", "wd_joint", "tvd1", "mmd", "mmd_rbf", "js")
    assert (found.value is not None) == of_one
    assert of_one or "needs at least" in found.how


def test_labels_that_only_one_side_has_are_shared():
    pair = pair_of(texts("a"), pl.DataFrame({"a": ["x", "z"]}), pl.DataFrame({"a": ["y", "z"]}))
    assert value("tvd1", pair) == pytest.approx(0.5)


def test_a_column_that_stands_still_has_no_scale_and_no_correlation():
    real = normal(100, 0, "x").with_columns(y=pl.lit(0.1))
    pair = pair_of(numbers(x=0, y=0), real, real.with_columns(y=pl.lit(0.6)))
    assert value("wd", pair) == pytest.approx(0.5)
    assert value("correlation_max", pair) == 0


def test_many_tuples_are_sampled_and_that_is_said():
    names = [f"c{place}" for place in range(13)]  # 286 triples
    schema = numbers(**dict.fromkeys(names))
    tables = normal(60, 0, *names), normal(60, 1, *names)
    found = METRICS["tvd3"](pair_of(schema, *tables))
    assert (
        len(found.parts) == histograms.MOST_TUPLES and "200 of 286 triples of columns, drawn with seed 0" in found.how
    )
    assert METRICS["tvd3"](pair_of(schema, *tables)).parts == found.parts
    assert METRICS["tvd3"](pair_of(schema, *tables, seed=1)).parts != found.parts


def test_many_categories_are_counted_by_sorting():
    draw = np.random.default_rng(0)
    real, synthetic = ({name: draw.integers(0, 700, 900).astype(str) for name in "ab"} for _ in range(2))
    pair = pair_of(texts("a", "b"), pl.DataFrame(real), pl.DataFrame(synthetic))
    rows = [list(zip(side["a"], side["b"], strict=True)) for side in (real, synthetic)]
    assert value("tvd2", pair) == pytest.approx(brute_tvd(*rows))


def test_subsamples_follow_the_seed(monkeypatch):
    monkeypatch.setattr(distances, "KERNEL_ROWS", 50)
    tables = normal(300, 0, "x"), normal(300, 1, "x")
    first, again, other = (value("mmd_rbf", pair_of(numbers(x=0), *tables, seed=seed)) for seed in (0, 0, 1))
    assert first == again != other


def test_without_pot_the_joint_distance_is_skipped_with_a_note(monkeypatch):
    import sys

    monkeypatch.setitem(sys.modules, "ot", None)
    found = METRICS["wd_joint"](pair_of(numbers(x=0), normal(5, 0, "x"), normal(5, 1, "x")))
    assert found.value is None and found.how.startswith("skipped: POT is not installed")
