"""The scoreboard: a table follows from the runs alone, and a figure is the same whenever it is drawn."""

import io
import itertools
import json
import re
import statistics
import sys
import warnings
from pathlib import Path

import numpy as np
import polars as pl
import pytest
from scipy import stats

from understudy.benchmark import figures, scoreboard, selection, typesetting
from understudy.benchmark.grids import FigureRequest, GridError
from understudy.benchmark.result_file import ResultError, RunResult
from understudy.benchmark.scoreboard import beats, mark
from understudy.benchmark.selection import ScoreboardError

SEEDS = range(5, 15)
WIGGLE = [0.01, -0.02, 0.03, -0.04, 0.05, -0.06, 0.07, -0.08, 0.09, -0.05]  # sums to 0
RISE = [0.001 * place for place in range(1, 11)]
ROOT = Path(__file__).parents[2]
RUNS = """
name = "real-data"
epsilons = [1.0]
seeds = [5]
metrics = ["wd"]

[[datasets]]
table = "california"

[[methods]]
name = "copula"
"""
GRID = (
    RUNS
    + """
[[tables]]
name = "similarity"
title = "Distance"
scores = ["wd"]
"""
)


def run(label="copula", epsilon=1.0, seed=5, dataset="california", scores=None, **more):
    return {
        "id": json.dumps([label, epsilon, seed, dataset, more.get("settings"), more.get("sweep")]),
        "grid": "real-data",
        "protocol": "private",
        "dataset": dataset,
        "method": label,
        "settings": {},
        "label": label,
        "epsilon": epsilon,
        "delta": 1e-5,
        "seed": seed,
        "scores": {"wd": 1.0} if scores is None else scores,
        "versions": {},
        "receipt": None,
        "measured": {"fit_s": 0.5, "peak_mb": 512.0, "date": "2026-03-04", "machine": "x86_64, 2 cores"},
    } | more


def many(label, values, score="wd", **more):
    return [run(label, seed=seed, scores={score: value}, **more) for seed, value in zip(SEEDS, values, strict=False)]


@pytest.fixture
def folder(tmp_path):
    def make(runs, grid=GRID, tail=""):
        (tmp_path / "grid.toml").write_text(grid)
        (tmp_path / "runs.jsonl").write_text("".join(json.dumps(line) + "\n" for line in runs) + tail)
        return tmp_path

    return make


@pytest.fixture
def rendered(folder):
    def make(runs, grid=GRID, name="similarity"):
        return scoreboard.render_tables(selection.read(folder(runs, grid)))[name]

    return make


def tidy(text):
    shape = {"epsilon": pl.Float64, "mean": pl.Float64, "sd": pl.Float64, "rank": pl.Int64, "runs": pl.Int64}
    return pl.read_csv(io.StringIO(text), schema_overrides=shape)


def body(markdown):
    """The cells of each row of a Markdown table, by the first; without the header."""
    lines = [line.strip("| ").split(" | ") for line in markdown.splitlines() if line.startswith("|")]
    return {cells[0].strip(): [cell.strip() for cell in cells[1:]] for cells in lines[2:]}


# Numbers as they are printed -----------------------------------------------------------------------------------------


@pytest.mark.parametrize(
    ("value", "text"),
    [
        (0.41049, "0.410"),
        (-0.0002, "0.000"),
        (-0.0101, "-0.010"),
        (26.553, "26.55"),
        (9.9994, "9.999"),
        (9.9996, "10.00"),
        (-512.04, "-512.0"),
        (1495.6, "1496"),
        (12346.0, "12350"),
        (3.21e8, "3.210e+08"),
        (0.0, "0.000"),
        (None, "–"),
    ],
)
def test_numbers_have_three_decimals_and_at_most_four_digits_when_big(value, text):
    assert typesetting.show(value) == text


@pytest.mark.parametrize(
    ("score", "title"),
    [
        ("wd", "WD"),
        ("tvd2", "TVD (2-way)"),
        ("tvd2_quantile", "TVD (quantile)"),
        ("r2/catboost", "R² CatBoost"),
        ("rmse/random forest", "RMSE Random forest"),
        ("structure/f1", "F1 of edges"),
        ("new/thing", "new thing"),
    ],
)
def test_scores_have_titles(score, title):
    assert typesetting.score_title(score) == title


def test_a_data_set_keeps_its_remark_in_the_title():
    assert typesetting.dataset_title("california, no bounds") == "California, no bounds"
    assert typesetting.dataset_title("mine") == "mine"


# Marks ---------------------------------------------------------------------------------------------------------------


def seeded(values):
    return dict(zip(SEEDS, values, strict=False))


def test_the_best_is_starred_when_it_beats_every_other():
    best, second, third = [seeded([base + w for w in WIGGLE]) for base in (1.0, 1.0, 3.0)]
    second = {seed: best[seed] + rise for seed, rise in zip(best, RISE, strict=True)}
    cells = mark({"third": third, "best": best, "second": second}, better="lower")
    assert {label: (cell.rank, cell.star) for label, cell in cells.items()} == {
        "best": (1, True),
        "second": (2, False),
        "third": (3, False),
    }
    assert cells["best"].mean == pytest.approx(statistics.fmean(best.values()))
    assert cells["best"].sd == pytest.approx(statistics.stdev(best.values()))


def test_the_best_has_no_star_when_it_beats_only_some():
    best = seeded([1.0] * 10)
    close = {seed: 1.0 + w + 0.005 for seed, w in zip(SEEDS, WIGGLE, strict=True)}
    far = {seed: 2.0 + w for seed, w in zip(SEEDS, WIGGLE, strict=True)}
    cells = mark({"best": best, "close": close, "far": far}, better="lower")
    assert (cells["best"].rank, cells["best"].star) == (1, False)
    assert mark({"best": best, "far": far}, better="lower")["best"].star


@pytest.mark.parametrize(("shift", "zeros"), [(0.0, 0), (0.04, 0), (0.06, 0), (0.1, 0), (0.02, 1), (0.1, 1), (0.06, 2)])
def test_the_test_is_scipys(shift, zeros):
    # Eight seeds: with zeros or ties scipy tries every combination of signs, twice as many for each further seed.
    difference = [0.0] * zeros + [shift + w for w in WIGGLE[zeros:8]]
    mine, other = seeded([1.0] * 8), seeded([1.0 + d for d in difference])
    gaps = [other[seed] - mine[seed] for seed in mine]
    _, p = np.asarray(stats.wilcoxon(gaps, zero_method="wilcox"))
    expected = bool(p < 0.05)
    assert beats(mine, other, sign=-1) == expected
    assert not beats(other, mine, sign=-1)
    assert beats(other, mine, sign=1) == expected


def test_a_far_value_cannot_turn_the_test():
    mine = seeded([0.0] * 10)
    other = seeded([-0.1 - 0.01 * place for place in range(9)] + [50.0])  # better nine times, worse in the mean
    assert mark({"mine": mine, "other": other}, better="lower")["mine"].rank == 1
    assert not beats(mine, other, sign=-1)


@pytest.mark.parametrize(("seeds", "star"), [(5, False), (6, True)])
def test_a_star_needs_six_common_seeds(seeds, star):
    mine, other = seeded([1.0] * 10), seeded([1.1 + rise for rise in RISE[:seeds]])
    assert mark({"mine": mine, "other": other}, better="lower")["mine"].star is star


def test_seeds_that_are_not_common_do_not_count():
    mine, other = {seed: 1.0 for seed in range(10)}, {seed: 2.0 + seed for seed in range(5, 15)}
    assert not beats(mine, other, sign=-1)


def test_equal_scores_share_the_mark_and_raise_no_warning():
    with warnings.catch_warnings():
        warnings.simplefilter("error")
        cells = mark({"a": seeded([1.0] * 10), "b": seeded([1.0] * 10), "c": seeded([2.0] * 10)}, better="lower")
    assert [(cell.rank, cell.star) for cell in cells.values()] == [(1, False), (1, False), (2, False)]


def test_ties_are_ties_as_printed():
    cells = mark({"a": seeded([0.41001]), "b": seeded([0.41009]), "c": seeded([0.42])}, better="lower")
    assert [cell.rank for cell in cells.values()] == [1, 1, 2]


def test_a_single_label_has_no_star():
    assert mark({"a": seeded([1.0] * 10)}, better="lower")["a"] == typesetting.Cell(
        mean=1.0, sd=0.0, runs=10, rank=1, star=False
    )


def test_a_label_without_any_score_stands_in_nobodys_way():
    cells = mark({"a": seeded([1.0] * 10), "b": seeded([1.1 + r for r in RISE]), "none": {}}, better="lower")
    assert cells["a"].star
    assert cells["none"] == typesetting.Cell(mean=None, sd=None, runs=0, rank=None, star=False)


@pytest.mark.parametrize(
    ("score", "best"),
    [
        ("r2/catboost", 2.0),
        ("f1/mlp", 2.0),
        ("auc/svm", 2.0),
        ("accuracy", 2.0),
        ("structure/f1", 2.0),
        ("structure/hamming", 1.0),
        ("rmse/svm", 1.0),
        ("wd", 1.0),
    ],
)
def test_the_direction_is_the_scores(rendered, score, best):
    runs = many("a", [1.0] * 3, score) + many("b", [2.0] * 3, score)
    table = tidy(rendered(runs, GRID.replace('"wd"', f'"{score}"')).csv)
    assert table.filter(pl.col("rank") == 1)["mean"].to_list() == [best]


# Tables --------------------------------------------------------------------------------------------------------------


def test_a_table_has_sections_by_epsilon_and_baselines_below(rendered):
    runs = many("real rows", [0.1] * 3, epsilon=None) + many("shuffled rows", [9.0] * 3, epsilon=None)
    runs += many("b", [2.0] * 3, epsilon=5.0) + many("a", [3.0] * 3, epsilon=0.2) + many("b", [4.0] * 3, epsilon=0.2)
    lines = [line.split(" | ")[0].strip("| ") for line in rendered(runs).markdown.splitlines() if line[:1] == "|"]
    assert lines[2:] == [
        "**ε = 0.2**",
        "b",
        "a",
        "**ε = 5**",
        "b",
        "———",
        "real rows (floor)",
        "shuffled rows (reference)",
    ]


def test_markdown_marks_best_second_and_star(rendered):
    runs = many("best", WIGGLE) + many("second", [w + 20 * r for w, r in zip(WIGGLE, RISE, strict=True)])
    runs += many("third", [5.0] * 10) + many("real rows", [0.01] * 10, epsilon=None)
    assert body(rendered(runs).markdown) == {
        "**ε = 1**": [],
        "best": [r"**0.000**\*"],
        "second": ["<u>0.110</u>"],
        "third": ["5.000"],
        "———": ["———"],
        "real rows (floor)": ["0.010"],
    }


def test_nulls_are_left_out_of_the_mean_and_counted_as_missing(rendered):
    runs = many("a", [1.0, None, 3.0]) + many("b", [None] * 3) + many("c", [4.0] * 3)
    table = rendered(runs)
    assert body(table.markdown)["a"] == ["**2.000**"]
    assert body(table.markdown)["b"] == ["–"]
    assert "Means over 3 seeds." in table.markdown
    assert "Fewer runs: a at ε = 1 on California: 2." in table.markdown
    assert tidy(table.csv).filter(label="b").row(0, named=True)["mean"] is None


def test_a_label_has_no_row_where_it_was_not_run(rendered):
    runs = many("a", [1.0] * 3) + many("a", [1.0] * 3, epsilon=5.0) + many("b", [2.0] * 3, epsilon=5.0)
    assert tidy(rendered(runs).csv).select("epsilon", "label").rows() == [(1.0, "a"), (5.0, "a"), (5.0, "b")]


def test_learners_come_in_their_order_and_per_data_set(rendered):
    scores = {"r2/svm": 0.1, "r2/random forest": 0.2, "r2/catboost": 0.3, "r2/mine": 0.4, "wd": 1.0}
    runs = [run(scores=scores), run(dataset="adult", scores={"wd": 1.0})]
    table = tidy(rendered(runs, GRID.replace('"wd"', '"r2/*", "wd"')).csv)
    assert table.select("dataset", "score").rows() == [
        ("california", "r2/catboost"),
        ("california", "r2/random forest"),
        ("california", "r2/svm"),
        ("california", "r2/mine"),
        ("california", "wd"),
        ("adult", "wd"),
    ]


def test_a_table_can_choose_its_data_sets(rendered):
    runs = [run(dataset=name) for name in ("adult", "california", "cpu_act")]
    table = rendered(runs, GRID + 'datasets = ["cpu_act", "adult"]')
    assert tidy(table.csv)["dataset"].to_list() == ["cpu_act", "adult"]


def test_settings_that_vary_under_a_label_tell_its_rows_apart(rendered):
    runs = [run(settings={"degrees": d, "fixed": 1}, scores={"wd": float(d)}) for d in (3, 8)]
    assert tidy(rendered(runs).csv)["label"].to_list() == ["copula, degrees = 3", "copula, degrees = 8"]


def test_two_runs_with_one_seed_in_one_row_are_refused(folder):
    runs = [run(sweep="one"), run(sweep="two")]
    with pytest.raises(ScoreboardError, match=r"table 'similarity': 2 runs of copula, california, 1.0 have the seed 5"):
        scoreboard.render_tables(selection.read(folder(runs)))


def test_a_sweep_can_be_chosen(rendered):
    runs = [run(sweep="one", scores={"wd": 1.0}), run(sweep="two", scores={"wd": 2.0})]
    assert tidy(rendered(runs, GRID + 'sweep = "two"').csv)["mean"].to_list() == [2.0]


def test_csv_says_what_was_computed_to_the_last_digit(rendered):
    values = [1 / 3, 2 / 3, 1 / 7]
    runs = many("a", values) + many("b", [2.0] * 3) + many("shuffled rows", values, epsilon=None)
    mean, sd = statistics.fmean(values), statistics.stdev(values)
    table = tidy(rendered(runs).csv)
    assert table.columns == ["dataset", "epsilon", "label", "score", "mean", "sd", "runs", "rank", "star", "source"]
    assert table.rows() == [
        ("california", 1.0, "a", "wd", pytest.approx(mean, abs=1e-15), pytest.approx(sd), 3, 1, False, "ours"),
        ("california", 1.0, "b", "wd", 2.0, 0.0, 3, 2, False, "ours"),
        ("california", None, "shuffled rows", "wd", pytest.approx(mean), pytest.approx(sd), 3, None, False, "ours"),
    ]


def test_footnotes_say_how_the_numbers_came_about(rendered):
    later = {"fit_s": 2.0, "date": "2026-03-09T10:00:00", "machine": "arm64, 8 cores"}
    text = rendered([run(seed=5), run(seed=6, measured=later)]).markdown
    assert "Means over 2 seeds. Protocol private: everything is inside the stated ε. δ = 1e-05." in text
    assert "Lower is better: WD." in text
    provenance = r"grid real-data; 2 runs; 2026-03-04 to 2026-03-09; arm64, 8 cores; x86\_64, 2 cores; 2.5 s of fitting"
    assert f"Provenance: {provenance} in all." in text


def test_the_papers_protocol_is_called_what_it_is(rendered):
    text = rendered([run(protocol="paper")]).markdown
    assert "standardised with exact moments of the training rows, which NO BUDGET COVERS" in text


def test_columns_with_different_numbers_of_seeds_are_owned_up_to(rendered):
    assert "Means over 2 to 3 seeds." in rendered(many("a", [1.0] * 3) + many("a", [1.0] * 2, epsilon=5.0)).markdown


def test_published_rows_stand_apart(rendered):
    runs = [run(seed=seed, dataset=d, scores={"wd": 9.0}) for d in ("california", "adult") for seed in (5, 6)]
    runs += many("real rows", [0.1], epsilon=None)
    table = rendered(runs, GRID + "paper = true")
    rows = body(table.markdown)
    assert rows["copula"] == ["**9.000**", "**9.000**"]
    assert rows["PrAda-GAN (published)"] == ["1.533", "–"]
    assert rows["PrivBayes (published)"] == ["29.14", "–"]
    assert list(rows)[-2:] == ["real rows (floor)", "Ground Truth (published)"]
    assert rows["Ground Truth (published)"] == ["0.046", "–"]
    published = tidy(table.csv).filter(source="published", dataset="california")
    assert len(published) == 7
    assert published["rank"].null_count() == 7
    assert not published["star"].any()


@pytest.mark.parametrize(
    ("epsilon", "score", "method", "value"),
    [
        (0.2, "r2/catboost", "PrAda-GAN", 0.312),
        (5.0, "r2/random forest", "AIM", 0.567),
        (1.0, "r2/xgboost", "GEM", -0.087),
        (0.2, "tvd2", "PrAda-GAN", 0.354),
    ],
)
def test_published_numbers_are_the_papers(rendered, epsilon, score, method, value):
    runs = [run(epsilon=epsilon, scores={score: 1.0})]
    table = tidy(rendered(runs, GRID.replace('"wd"', f'"{score}"') + "paper = true").csv)
    assert table.filter(label=method, source="published")["mean"].to_list() == [value]


def test_an_epsilon_that_the_paper_has_not_has_no_published_rows(rendered):
    table = tidy(rendered([run(epsilon=3.0)], GRID + "paper = true").csv)
    assert table.filter(source="published")["label"].to_list() == ["Ground Truth"]


def test_cost_is_seconds_in_the_mean_and_megabytes_at_the_most(rendered):
    runs = [run(seed=s, measured={"fit_s": float(s), "peak_mb": 100.0 * s}) for s in (5, 7)]
    runs += many("real rows", [0.1], epsilon=None, measured={"judge_s": 3.0})
    table = rendered(runs, name="cost")
    assert body(table.markdown) == {"copula": ["6.000", "700.0"]}
    assert pl.read_csv(io.StringIO(table.csv)).rows() == [("california", "copula", 6.0, 700.0, 2)]


# LaTeX ---------------------------------------------------------------------------------------------------------------


@pytest.fixture
def latex(rendered):
    runs = [
        run(label, epsilon=epsilon, seed=seed, dataset=dataset, scores={"wd": 1.0 + seed, "r2/mlp": -0.5})
        for label in ("a_b & 50%", "$x^{2}$ #1~\\n")
        for epsilon in (0.2, 1.0)
        for dataset in ("california", "house_16h")
        for seed in (5, 6)
    ]
    return rendered(runs, GRID.replace('"wd"', '"wd", "r2/*"') + "paper = true").latex


def test_latex_has_balanced_braces_and_environments(latex):
    bare = re.sub(r"\\[{}]", "", latex)
    depths = list(itertools.accumulate({"{": 1, "}": -1}.get(character, 0) for character in bare))
    assert min(depths) == 0 and depths[-1] == 0
    opened, closed = re.findall(r"\\begin\{(\S+?)\}", latex), re.findall(r"\\end\{(\S+?)\}", latex)
    assert opened == closed[::-1] == ["table*", "tabular"]


def test_latex_rows_have_a_cell_for_every_column(latex):
    rows = [line for line in latex.splitlines() if line.endswith(r"\\")]
    header, *rest = rows
    assert re.findall(r"\\multicolumn\{(\d)\}", header) == ["2", "2"]
    cells = {len(re.findall(r"(?<!\\)&", row)) for row in rest if not row.startswith(r"\multicolumn")}
    assert cells == {4}
    assert r"\multicolumn{5}{c}{\textbf{$\varepsilon$ = 0.2}} \\" in rows
    assert r"\cmidrule(lr){2-3} \cmidrule(lr){4-5}" in latex


def test_latex_escapes_what_it_would_act_on(latex):
    assert r"\texttt{a\_b \& 50\%}" in latex
    assert r"\texttt{\$x\textasciicircum{}\{2\}\$ \#1\textasciitilde{}\textbackslash{}n}" in latex
    assert r"\textbf{$-$0.500}" in latex
    assert r"\textsc{House-16H}" in latex


@pytest.mark.parametrize(("count", "scaled"), [(8, False), (9, True)])
def test_wide_latex_tables_are_scaled_to_the_page(rendered, count, scaled):
    names = [f"s{place}" for place in range(count)]
    table = rendered([run(scores=dict.fromkeys(names, 1.0))], GRID.replace('["wd"]', json.dumps(names)))
    assert (r"\resizebox" in table.latex) is scaled


def test_markdown_finds_nothing_to_do_in_a_label(rendered):
    assert r"| a\|b\*\_\<u> |" in rendered([run("a|b*_<u>")]).markdown


# Files ---------------------------------------------------------------------------------------------------------------


def test_tables_are_written_three_times_each(folder, tmp_path):
    written = scoreboard.write_tables(folder([run()]), tmp_path / "deep" / "paper")
    names = [f"{name}.{kind}" for name in ("similarity", "cost") for kind in ("md", "csv", "tex")]
    assert [path.name for path in written] == names
    assert all(path.read_text().endswith("\n") for path in written)
    assert sorted(path.name for path in (tmp_path / "deep" / "paper").iterdir()) == sorted(names)


@pytest.mark.parametrize("tail", ['{"id": "x", "sco', json.dumps(run(seed=99)), ""])
def test_a_torn_last_line_is_passed_over(folder, tail):
    assert [found.seed for found in selection.read(folder([run()], tail=tail)).runs] == [5]


@pytest.mark.parametrize(
    ("line", "message"),
    [
        ("not json", "line 2: expected a JSON object"),
        ("", "line 2: expected a JSON object"),
        ("[1]", "line 2: expected a JSON object, got list"),
        ('{"id": "x"}', "line 2: expected dataset to be a text"),
        (json.dumps(run() | {"seed": "5"}), "line 2: expected seed to be a whole number"),
        (json.dumps(run(epsilon=0)), "line 2: expected epsilon to be a number > 0 or null"),
        (json.dumps(run(scores={"wd": "low"})), "line 2: expected scores to be an object of finite numbers"),
        (json.dumps(run(scores={"wd": float("nan")})), "line 2: expected a JSON object, but NaN is no number"),
        (json.dumps(run()), "line 2: the run .* is already on line 1"),
    ],
)
def test_a_broken_line_is_named(folder, line, message):
    with pytest.raises(ResultError, match=f"runs.jsonl, {message}"):
        selection.read(folder([run()], tail=line + "\n"))


@pytest.mark.parametrize("missing", ["grid.toml", "runs.jsonl"])
def test_a_folder_without_its_files_is_no_folder_of_results(folder, missing):
    place = folder([run()])
    (place / missing).unlink()
    with pytest.raises(ResultError, match=f"has no {missing}, so `understudy bench` did not write it"):
        selection.read(place)


def test_a_folder_without_a_whole_run_is_refused(folder):
    with pytest.raises(ResultError, match="holds no whole run"):
        selection.read(folder([], tail='{"id"'))


@pytest.mark.parametrize(
    ("change", "message"),
    [
        ('dataset = ["adult"]', r"\[\[tables\]\] number 1: unknown key 'dataset'. Did you mean 'datasets'\?"),
        ('paper = "yes"', r"expected paper to be true or false, got 'yes'"),
        ("[[tables]]\nname = 'b'\ntitle = 'B'", r"\[\[tables\]\] number 2: scores is missing"),
        ("[[tables]]\nname = '../b'\ntitle = 'B'\nscores = ['wd']", r"expected name to be letters"),
        ("[[tables]]\nname = 'cost'\ntitle = 'B'\nscores = ['wd']", r"'cost' is taken"),
        ("[[tables]]\nname = 'similarity'\ntitle = 'B'\nscores = ['wd']", r"2 \[\[tables\]\] are called 'similarity'"),
        ("[[figures]]\nname = 'f'\ntitle = 'F'\nscores = ['wd']\nxscale = 'log'", r"Did you mean 'x_scale'\?"),
        ("[[figures]]\nname = 'f'\ntitle = 'F'\nscores = ['wd']\ny_limits = [1, 0]", r"the lower one first"),
        ("[[figures]]\nname = 'f'\ntitle = 'F'\nscores = ['wd']\ny_limits = { wd = [1, 0] }", r"for each score"),
        ("[[figures]]\nname = 'f'\ntitle = 'F'\nscores = []", r"expected scores to be a list"),
        ("[figures]\nname = 'f'", r"figures: expected \[\[figures\]\] tables"),
        ("= 3", "not TOML"),
    ],
)
def test_a_grid_that_asks_for_something_unknown_is_refused(folder, change, message):
    with pytest.raises(GridError, match=message):
        selection.read(folder([run()], GRID + change))


def test_a_table_without_columns_is_refused(folder):
    with pytest.raises(ScoreboardError, match=r"table 'similarity': no run has any of its scores, r2/\*"):
        scoreboard.render_tables(selection.read(folder([run()], GRID.replace('"wd"', '"r2/*"'))))


@pytest.mark.parametrize("name", ["adult", "published"])
def test_committed_tables_follow_from_the_committed_runs(name, tmp_path):
    results = ROOT / "benchmarks" / "results" / name
    for path in scoreboard.write_tables(results, tmp_path):
        assert path.read_bytes() == (results / path.name).read_bytes()


# Figures -------------------------------------------------------------------------------------------------------------

FIGURE = (
    RUNS
    + """
[[figures]]
name = "utility"
title = "Distance against ε"
scores = ["wd", "r2/*"]
"""
)


def finished(labels=("copula", "a_b"), epsilons=(0.2, 1.0, 5.0)):
    cells = [("real rows", None), ("shuffled rows", None), *itertools.product(labels, epsilons)]
    return [
        run(label, epsilon, seed, dataset, {"wd": seed / (epsilon or 1) + len(label), "r2/mlp": 0.1 * seed})
        for dataset in ("california", "house_16h")
        for label, epsilon in cells
        for seed in (5, 6, 7)
    ]


def sweep(values, key="penalty", **more):
    return [
        run(seed=seed, epsilon=epsilon, settings={key: value}, scores={"wd": float(seed)}, **more)
        for value in values
        for epsilon in (1.0, 5.0)
        for seed in (5, 6)
    ]


def sketch(wanted, runs):
    request = FigureRequest(**{"name": "f", "title": "F", "scores": ("wd",)} | wanted)
    with figures.style():
        return figures.draw(request, [RunResult.of(line) for line in runs])


def legend(figure):
    return [text.get_text() for text in figure.legends[0].get_texts()]


@pytest.mark.slow
def test_the_same_runs_give_the_same_svg(folder, tmp_path):
    place = folder(finished(), FIGURE)
    first, second = (figures.write_figures(place, tmp_path / name) for name in ("one", "two"))
    assert [path.name for path in first] == ["utility.svg", "utility.png"]
    assert first[0].read_bytes() == second[0].read_bytes()
    assert first[1].read_bytes()[:8] == b"\x89PNG\r\n\x1a\n"
    assert first[1].stat().st_size > 10_000


def test_a_figure_says_what_it_shows(folder, tmp_path):
    svg, _ = figures.write_figures(folder(finished(), FIGURE), tmp_path / "out")
    drawn = svg.read_text(encoding="utf-8")
    wanted = ["Distance against ε", "copula", "a_b", "real rows", "shuffled rows", "California", "R² MLP", "0.2"]
    assert [text for text in wanted if f">{text}<" not in drawn] == []


def test_panels_are_scores_by_data_sets_with_ticks_at_the_epsilons():
    figure = sketch({"scores": ["wd", "r2/*"]}, finished())
    assert len(figure.axes) == 4
    assert [list(axes.get_xticks()) for axes in figure.axes] == [[0.2, 1.0, 5.0]] * 4
    assert [axes.get_title() for axes in figure.axes] == ["California", "House-16H", "", ""]
    assert figure.axes[0].get_xscale() == "log"


def test_points_are_means_with_a_standard_deviation_up_and_down():
    axes = sketch({}, finished(labels=["copula"])).axes[0]
    (bars,) = axes.containers
    line, _, (spread,) = bars.lines
    assert list(line.get_ydata()) == pytest.approx([36.0, 12.0, 7.2])  # 6 / ε + 6
    heights = [segment[1][1] - segment[0][1] for segment in spread.get_segments()]
    assert heights == pytest.approx([10.0, 2.0, 0.4])  # 2 / ε: a deviation of 1 / ε each way


def test_lines_differ_without_colour():
    figure = sketch({}, finished(labels=[f"method {letter}" for letter in "abcdefghij"]))
    lines = [bars.lines[0] for bars in figure.axes[0].containers]
    assert len({(line.get_marker(), str(line._dash_pattern)) for line in lines}) >= 8
    assert len({(line.get_marker(), line.get_color()) for line in lines}) == 10


def test_a_sweep_has_a_line_for_each_epsilon():
    figure = sketch({"x": "penalty"}, sweep([0.1, 1.0, 10.0]))
    assert legend(figure) == ["copula, ε = 1", "copula, ε = 5"]
    assert list(figure.axes[0].get_xticks()) == [0.1, 1.0, 10.0]


def test_lines_may_be_settings():
    figure = sketch({"lines": "penalty"}, sweep([0.1, "inf"]))
    assert legend(figure) == ["penalty = 0.1", "penalty = ∞"]


@pytest.mark.parametrize(
    ("values", "labels"),
    [([1, 0, 10], ["0", "1", "10"]), (["inf", 8], ["8", "∞"]), (["b", "a"], ["a", "b"])],
)
def test_what_has_no_place_on_the_scale_is_evenly_spaced(values, labels):
    axes = sketch({"x": "penalty"}, sweep(values)).axes[0]
    assert list(axes.get_xticks()) == list(range(len(values)))
    assert [tick.get_text() for tick in axes.get_xticklabels()] == labels


def test_limits_and_a_linear_scale_are_obeyed():
    axes = sketch({"x": "penalty", "x_scale": "linear", "y_limits": [-1, 20]}, sweep([0, 5])).axes[0]
    assert axes.get_ylim() == (-1, 20)
    assert (axes.get_xscale(), list(axes.get_xticks())) == ("linear", [0, 5])


def test_a_panel_without_runs_says_so():
    figure = sketch({"datasets": ["california", "adult"]}, finished())
    assert [text.get_text() for text in figure.axes[1].texts] == ["no runs"]


@pytest.mark.parametrize(
    ("spec", "message"),
    [
        ({"x": "penalti"}, r"figure 'f': no run of a method has a setting 'penalti'. Did you mean 'penalty'\?"),
        ({"lines": "pack"}, "no run of a method has a setting 'pack'"),
        ({"scores": ["mmd"]}, "no run that it draws has any of its scores, mmd"),
    ],
)
def test_a_figure_of_what_no_run_has_is_refused(spec, message):
    with pytest.raises(ScoreboardError, match=message):
        sketch(spec, sweep([1, 2]))


def test_two_runs_with_one_seed_at_one_point_are_refused():
    with pytest.raises(ScoreboardError, match=r"figure 'f': 2 runs of .* have the seed 5. Name one `sweep`"):
        sketch({"x": "penalty"}, sweep([1, 2], sweep="one") + sweep([2, 3], sweep="two"))


def test_a_grid_without_figures_has_none(folder, tmp_path):
    assert figures.write_figures(folder([run()]), tmp_path / "out") == []


def test_figures_say_what_they_need(folder, tmp_path, monkeypatch):
    monkeypatch.setitem(sys.modules, "matplotlib", None)
    monkeypatch.delitem(sys.modules, "matplotlib.style", raising=False)
    with pytest.raises(ImportError, match=r"figures need matplotlib. Run: pip install 'understudy-dp\[eval\]'"):
        figures.write_figures(folder(finished(), FIGURE), tmp_path / "out")
