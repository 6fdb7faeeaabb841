"""The report: its numbers are those of `evaluate`, its bounds hold, and its page is whole, readable and escaped."""

import dataclasses
import html.parser
import itertools
import json
import math
import re
import time
import tomllib
from fnmatch import fnmatch
from pathlib import Path

import numpy as np
import polars as pl
import pytest

import understudy as us
from commands import done, run
from conftest import quick
from understudy import datasets
from understudy.core.network_drawing import layers, network, strongest
from understudy.privacy.gaussian import gaussian_delta
from understudy.privacy.plan import Budget, Charge
from understudy.privacy.shares import by_planned_mechanism, mu_squared
from understudy.report import drawing
from understudy.report.content import GIVEN, as_text, summaries_as_text
from understudy.report.page import ReportError, at_most, render
from understudy.report.privacy import attacker, privacy_part
from understudy.tables.column import Column
from understudy.tables.schema import Schema

ROOT = Path(__file__).parents[2]
HOSTILE = '<script>alert("1")</script>'
VOID_ELEMENTS = {"meta", "rect", "path", "circle", "br", "img"}


@pytest.fixture(scope="module")
def people(tmp_path_factory):
    """A folder with a table, other rows of the same kind, a model, a ledger and synthetic rows."""
    folder = tmp_path_factory.mktemp("people")
    datasets.example(600).write_csv(folder / "people.csv")
    datasets.example(400, seed=1).write_csv(folder / "holdout.csv")
    datasets.example_schema().write(folder / "people.toml")
    ledger = folder / "budget.jsonl"
    model = us.fit(folder / "people.csv", folder / "people.toml", "copula", epsilon=2.0, ledger=ledger, progress=False)
    model.save(folder / "m.understudy")
    model.sample(500, seed=3).write_csv(folder / "synthetic.csv")
    return folder


@pytest.fixture(scope="module")
def judged(people):
    """The page with real rows and its numbers, made by the command."""
    tables = [
        "--real",
        people / "holdout.csv",
        "--synthetic",
        people / "synthetic.csv",
        "--train",
        people / "people.csv",
    ]
    options = ["--ledger", people / "budget.jsonl", "--learners", "none", "-o", people / "judged.html"]
    printed = done("report", people / "m.understudy", *tables, *options)
    assert "Not covered by the budget" in printed
    return (people / "judged.html").read_text(), json.loads((people / "judged.json").read_text())


@pytest.fixture(scope="module")
def plain(people):
    """The page about the model alone, and its numbers."""
    printed = done("report", people / "m.understudy", "-n", 300, "-o", people / "plain.html")
    assert "plain.html" in printed and "plain.json" in printed and "budget" not in printed
    return (people / "plain.html").read_text(), json.loads((people / "plain.json").read_text())


@pytest.fixture(scope="module")
def hostile(tmp_path_factory):
    """Pages about a table that has a column of every kind, and a column that stands still."""
    draw, n = np.random.default_rng(0), 300
    table = pl.DataFrame(
        {
            "size": draw.normal(size=n),
            HOSTILE: draw.choice(["a", HOSTILE, "</svg><b>"], n),
            "when": pl.Series(np.datetime64("2020-01-01") + draw.integers(0, 900, n)).cast(pl.Date),
            "yes": draw.random(n) < 0.3,
            "still": np.zeros(n),
            "rare": [f"label {place}" for place in draw.integers(0, 40, n)],
        }
    )
    schema = Schema(
        name=HOSTILE,
        columns=(
            Column(name="size", kind="continuous", nullable=True),
            Column(name=HOSTILE, kind="categorical", values=("a", HOSTILE, "</svg><b>")),
            Column(name="when", kind="datetime"),
            Column(name="yes", kind="boolean"),
            Column(name="still", kind="continuous"),
            Column(name="rare", kind="categorical", values=tuple(f"label {place}" for place in range(40))),
        ),
    )
    model = us.fit(table, schema, "privbayes", epsilon=3.0, seed=1, progress=False)
    page = us.report(model, tmp_path_factory.mktemp("hostile") / "page.html", table, truth={HOSTILE: ["size"]})
    return page.read_text(), json.loads(page.with_suffix(".json").read_text())


class Elements(html.parser.HTMLParser):
    """Every element of a page with its attributes, and that each is closed where it should be."""

    def __init__(self, text: str):
        super().__init__()
        self.found: list[tuple[str, dict[str, str | None]]] = []
        self.open: list[str] = []
        self.texts: list[str] = []
        self.feed(text)
        assert self.open == []

    def handle_starttag(self, tag, attrs):
        self.found.append((tag, dict(attrs)))
        if tag not in VOID_ELEMENTS:
            self.open.append(tag)

    def handle_startendtag(self, tag, attrs):
        self.found.append((tag, dict(attrs)))

    def handle_endtag(self, tag):
        assert self.open.pop() == tag

    def handle_data(self, data):
        self.texts.append(data)

    def named(self, *tags):
        return [attributes for tag, attributes in self.found if tag in tags]


@pytest.fixture(params=["judged", "plain", "hostile"])
def page(request):
    return request.getfixturevalue(request.param)[0]


# The numbers ------------------------------------------------------------------------------------------------------


def test_the_numbers_are_those_of_evaluate(people, judged):
    tables = [people / "holdout.csv", people / "synthetic.csv", people / "people.toml"]
    said = json.loads(done("evaluate", *tables, "--train", people / "people.csv", "--json"))
    text, content = judged
    assert content["utility"]["rows"] == said["rows"]
    assert (content["utility"]["note"], content["utility"]["covered_by_budget"]) == (said["note"], False)
    shown = set(re.findall(r"<td>([^<]+)</td>", text))
    whole = [row for row in said["rows"] if not row["columns"]]
    numbers = [row[key] for row in whole for key in ("value", "floor", "reference")]
    assert whole and all(("–" if number is None else f"{number:.4g}") in shown for number in numbers)


def test_rows_that_are_drawn_are_those_of_sample(people, tmp_path):
    us.report(people / "m.understudy", tmp_path / "a.html", people / "holdout.csv", rows=200, learners=(), seed=5)
    drawn = us.load(people / "m.understudy").sample(200, seed=5)
    said = us.evaluate(people / "holdout.csv", drawn, people / "people.toml", seed=5).to_dicts()
    assert json.loads((tmp_path / "a.json").read_text())["utility"]["rows"] == said


def test_the_worst_columns_and_pairs_come_first(judged):
    utility = judged[1]["utility"]
    distances = [column["wd"] for column in utility["columns"]]
    gaps = [abs(pair["difference"]) for pair in utility["associations"]["worst"]]
    assert distances == sorted(distances, reverse=True) and len(distances) == 7
    assert gaps == sorted(gaps, reverse=True) and len(gaps) == 10
    worst = [row["value"] for row in utility["rows"] if row["metric"] == "correlation_max" and row["columns"]]
    assert gaps == pytest.approx(worst)


def test_every_row_is_in_one_bar(judged, plain, hostile):
    for column in [*judged[1]["utility"]["columns"], *plain[1]["columns"], *hostile[1]["utility"]["columns"]]:
        for side, shares in column["shares"].items():
            missing = column["missing"][side] if column["figure"] == "histogram" else 0.0
            assert sum(shares) + missing == pytest.approx(1.0), column["name"]


def test_the_histogram_is_of_the_rows(people, judged):
    real = pl.read_csv(people / "holdout.csv")["age"].to_numpy()
    column = next(column for column in judged[1]["utility"]["columns"] if column["name"] == "age")
    low, high = column["edges"][3], column["edges"][4]
    assert column["shares"]["real"][3] == pytest.approx(((real > low) & (real < high)).mean())
    assert column["summary"]["real"]["50 %"] == np.quantile(real, 0.5)


def test_without_real_rows_nothing_of_them_is_said(plain):
    text, content = plain
    assert content["utility"] is None and len(content["columns"]) == 7
    assert all(set(column["shares"]) == {"synthetic"} for column in content["columns"])
    assert 'id="utility"' not in text and "do not publish it" not in text


def test_real_rows_are_stamped_at_the_top_and_where_they_stand(judged):
    header, main = judged[0].split("<main>")
    assert "not covered by the budget: look at it, do not publish it" in header
    assert "Look at it, do not publish it" in main.split('id="utility"')[1]


def test_usefulness_is_that_of_evaluate(people, tmp_path):
    us.report(people / "m.understudy", tmp_path / "a.html", people / "holdout.csv", synthetic=people / "synthetic.csv")
    found = {
        row["metric"]: row["value"]
        for row in json.loads((tmp_path / "a.json").read_text())["utility"]["rows"]
        if row["learner"]
    }
    said = us.evaluate(
        people / "holdout.csv",
        people / "synthetic.csv",
        people / "people.toml",
        metrics=["r2", "rmse"],
        learners=["catboost"],
    )
    assert found == dict(zip(said["metric"], said["value"], strict=True))


# Privacy ----------------------------------------------------------------------------------------------------------


def test_the_promise_and_the_receipt_are_the_models(people, plain):
    text, content = plain
    receipt = us.load(people / "m.understudy").receipt
    assert receipt.promise in text
    assert [charge["what"] for charge in content["privacy"]["charges"]] == [charge.what for charge in receipt.charges]
    assert (content["privacy"]["epsilon"], content["privacy"]["delta"]) == (2.0, 1e-6)


@pytest.mark.parametrize("epsilon", [0.01, 0.5, 1.0, 8.0, 1e4])
def test_the_bounds_of_an_attacker_are_those_of_randomised_response(epsilon):
    # The mechanism that tells the truth with probability exp(ε) / (1 + exp(ε)) reaches the first bound at δ = 0.
    bound = attacker(Budget(epsilon=epsilon, delta=1e-12), gaussian=False)
    assert bound["right"] == pytest.approx(1 / (1 + math.exp(-epsilon)), abs=1e-9)
    line = min(1.0, 0.01 * math.exp(min(epsilon, 50)), 1 - 0.99 * math.exp(-epsilon))
    assert bound["true_positives"] == pytest.approx(line, abs=1e-9)


@pytest.mark.parametrize("epsilon", [0.01, 0.5, 1.0, 8.0, 100.0])
@pytest.mark.parametrize("delta", [1e-9, 1e-5, 0.01])
def test_the_gaussian_bound_is_tighter_and_its_mu_the_accountants(epsilon, delta):
    bound = attacker(Budget(epsilon=epsilon, delta=delta), gaussian=True)
    assert 0.5 <= bound["gaussian"]["right"] <= bound["right"] <= 1
    assert 0.01 <= bound["gaussian"]["true_positives"] <= bound["true_positives"] <= 1
    mu = bound["gaussian"]["mu"]  # rounded towards the attacker: just too much for (ε, δ)
    assert gaussian_delta(mu, epsilon) >= delta > gaussian_delta(mu * (1 - 1e-6), epsilon)


def test_no_test_on_a_gaussian_of_that_mu_passes_its_bound():
    bound = attacker(Budget(epsilon=1.0, delta=1e-6), gaussian=True)["gaussian"]
    draw = np.random.default_rng(0)
    away, there = draw.normal(size=200_000), draw.normal(bound["mu"], size=200_000)
    right = max(((away < cut).mean() + (there >= cut).mean()) / 2 for cut in np.linspace(-2, 2, 81))
    assert right == pytest.approx(bound["right"], abs=0.004)
    assert (there > np.quantile(away, 0.99)).mean() == pytest.approx(bound["true_positives"], abs=0.002)


@pytest.mark.slow
def test_training_on_batches_gets_no_gaussian_bound(people):
    model = us.load(people / "m.understudy")
    assert privacy_part(model, None)["attacker"]["gaussian"] is not None
    trained = dataclasses.replace(model, method=quick("prada-gan"))
    assert privacy_part(trained, None)["attacker"]["gaussian"] is None


def test_a_bound_is_rounded_up():
    assert [at_most(share) for share in (0.73101, 0.731, 1.0)] == ["73.2\xa0%", "73.1\xa0%", "100.0\xa0%"]


def test_the_budget_went_where_the_plan_said(people, plain):
    planned = us.plan(people / "people.toml", "copula", epsilon=2.0).shares()
    went = {each["name"]: each["share"] for each in plain[1]["privacy"]["by_mechanism"]}
    assert went == pytest.approx({name: planned[name] for name in went}, rel=1e-2)
    assert sum(went.values()) == pytest.approx(1.0)


def test_sampling_makes_a_charge_lighter_but_never_heavier():
    def charge(rate):
        return Charge(
            name="t", what="t", mechanism="sampled gaussian", noise_multiplier=0.1, times=10, sampling_rate=rate
        )

    assert mu_squared(charge(1e-30)) < mu_squared(charge(1.0)) == pytest.approx(10 / 0.1**2)
    assert by_planned_mechanism([]) == []


def test_a_void_receipt_is_marked_in_colour_at_the_top_of_the_page(hostile, plain):
    header = hostile[0].split("<main>")[0]
    loud = header.split('<div class="loud"')[1]
    reasons = hostile[1]["privacy"]["void"]
    assert "VOID" in loud and reasons and all(reason in html.unescape(loud) for reason in reasons)
    assert "seed = 1" in hostile[0] and "void, so none of this holds" in hostile[0]
    assert plain[1]["privacy"]["void"] == [] and "VOID" not in plain[0]


def test_every_reason_for_a_void_receipt_is_given(plain):
    content = json.loads(json.dumps(plain[1]))
    content["privacy"]["void"] = ["The first <reason>.", "The second."]
    loud = render(content).split('<div class="loud"')[1].split("</div>")[0]
    assert "<p>The first &lt;reason&gt;.</p>" in loud and "<p>The second.</p>" in loud


def test_rows_that_the_report_drew_are_covered_and_rows_that_were_given_are_not(people, plain, tmp_path):
    assert plain[1]["synthetic"]["covered_by_budget"] is True and plain[1]["synthetic"]["note"] is None
    assert GIVEN not in plain[0] and "So do the rows drawn from it." in plain[0]
    printed = done("report", people / "m.understudy", "--synthetic", people / "people.csv", "-o", tmp_path / "r.html")
    shown = json.loads((tmp_path / "r.json").read_text())["synthetic"]
    assert (shown["covered_by_budget"], shown["note"], shown["from"]) == (False, GIVEN, "from people.csv")
    header, main = (tmp_path / "r.html").read_text().split("<main>")
    assert GIVEN in header and GIVEN in main.split('id="learned"')[1] and GIVEN in printed
    assert "The rows shown here do not." in main


def test_given_rows_are_stamped_beside_real_ones_too(judged):
    header, main = judged[0].split("<main>")
    assert judged[1]["synthetic"]["covered_by_budget"] is False
    assert GIVEN in header and GIVEN in main.split('id="utility"')[1]


def test_the_ledger_s_total_is_told(judged, plain):
    ledger = judged[1]["privacy"]["ledger"]
    assert (ledger["fits"], ledger["epsilon"], ledger["cap"]) == (1, 2.0, None)
    assert "counts 1 fit of the table" in judged[0] and "No ledger was given" in plain[0]


# The network ------------------------------------------------------------------------------------------------------


def test_the_network_is_the_models_beside_the_true_one(people, plain):
    network = plain[1]["network"]
    assert network["parents"] == us.load(people / "m.understudy").parents
    assert network["truth"] == datasets.EXAMPLE_PARENTS
    assert network["structure"]["true"] == 8 - 1 and network["complete"]


def test_a_given_truth_is_drawn(hostile):
    network = hostile[1]["network"]
    assert network["truth"][HOSTILE] == ["size"] and network["truth"]["yes"] == []
    assert "The true network" in hostile[0]


def test_an_arrow_that_is_not_true_is_dashed():
    drawn = network({"a": [], "b": ["a"], "c": ["a"]}, "n", "net", against={"b": ["a"]})
    assert drawn.count('class="edge"') == 1 and drawn.count('class="edge wrong"') == 1
    assert "3 columns and 2 arrows" in drawn


def test_a_stronger_arrow_is_thicker():
    strengths = {"c": {"a": 0.5, "b": 2.0}}
    drawn = network({"a": [], "b": [], "c": ["a", "b"]}, "n", "net", strengths=strengths)
    assert re.findall(r'stroke-width="([^"]+)"', drawn) == ["4.0", "1.8"]


def test_of_every_column_the_two_strongest_arrows_are_drawn():
    parents = {"a": [], "b": ["a"], "c": ["a", "b"], "d": ["a", "b", "c"]}
    strengths = {"d": {"a": 3.0, "b": 1.0, "c": 2.0}}
    assert strongest(parents, strengths)["d"] == ["a", "c"] and strongest(parents, {})["d"] == ["c", "b"]
    drawn = network(parents, "n", "net", strengths=strengths)
    assert drawn.count('class="edge"') == 5 and "6 arrows" in drawn and "The 5 strongest are drawn" in drawn


@pytest.mark.parametrize(
    ("parents", "expected"),
    [
        ({"a": [], "b": ["a"], "c": ["a", "b"], "d": []}, [["a", "d"], ["b"], ["c"]]),
        ({"a": ["b"], "b": []}, [["b"], ["a"]]),
        ({"a": ["b"], "b": ["a"], "c": ["b"]}, [["a"], ["b"], ["c"]]),  # a circle
        ({}, []),
    ],
)
def test_a_column_stands_below_what_it_depends_on(parents, expected):
    assert layers(parents) == expected


def test_a_method_without_strengths_shows_the_strongest_associations(plain):
    network = plain[1]["network"]
    assert network["strength_by"] == "association" and network["cut"]
    assert all(0 <= value <= 1 for of in network["strengths"].values() for value in of.values())


# The page ---------------------------------------------------------------------------------------------------------


def test_the_page_loads_nothing_and_runs_nothing(page):
    elements = Elements(page)
    assert not elements.named("script", "link", "img", "iframe", "object", "image", "use")
    for attributes in elements.named(*{tag for tag, _ in elements.found}):
        assert not any(name.startswith("on") or name == "src" for name in attributes)
        assert (attributes.get("href") or "#").startswith("#")
    assert "http:" not in page and "https:" not in page and "@import" not in page
    assert len(page.encode()) < 3_000_000


def test_text_of_the_table_is_escaped(hostile):
    assert HOSTILE not in hostile[0] and "</svg><b>" not in hostile[0]
    texts = Elements(hostile[0]).texts
    assert sum(HOSTILE in text for text in texts) > 5


def test_headings_are_in_order_and_landmarks_are_there(page):
    elements = Elements(page)
    levels = [int(tag[1]) for tag, _ in elements.found if re.fullmatch(r"h[1-6]", tag)]
    assert levels.count(1) == 1 and levels[0] == 1
    assert all(after <= before + 1 for before, after in itertools.pairwise(levels))
    assert elements.named("html")[0]["lang"] == "en"
    assert all(len(elements.named(tag)) == 1 for tag in ("header", "nav", "main", "footer"))


def test_every_picture_has_a_name_and_a_text_beside_it(page):
    elements = Elements(page)
    pictures = [attributes for attributes in elements.named("svg") if attributes.get("aria-hidden") != "true"]
    ids = [attributes["id"] for _, attributes in elements.found if "id" in attributes]
    assert pictures and len(set(ids)) == len(ids)
    for attributes in pictures:
        assert attributes["role"] == "img"
        assert set((attributes["aria-labelledby"] or "").split()) <= set(ids)
    assert len(elements.named("table")) > len(pictures)
    assert all(attributes.get("scope") in ("row", "col") for attributes in elements.named("th"))


def contrast(one, other):
    light, dark = sorted((drawing.luminance(rgb) for rgb in (one, other)), reverse=True)
    return (light + 0.05) / (dark + 0.05)


def themes(text):
    """The colours of the light and of the dark theme, by name."""
    style = text.split("<style>")[1]
    return [
        {name: tuple(bytes.fromhex(code)) for name, code in re.findall(r"--([a-z-]+): #([0-9a-f]{6})", part)}
        for part in (style.split("@media")[0], style.split("@media")[1])
    ]


@pytest.mark.parametrize("ink", ["ink", "quiet", "link"])
@pytest.mark.parametrize("ground", ["page", "card"])
def test_text_stands_out_in_both_themes(plain, ink, ground):
    light, dark = themes(plain[0])
    assert set(light) == set(dark)
    assert all(contrast(theme[ink], theme[ground]) >= 4.5 for theme in (light, dark))


def test_notes_and_marks_stand_out_in_both_themes(plain):
    for theme in themes(plain[0]):
        assert contrast(theme["loud-ink"], theme["loud-page"]) >= 4.5
        assert contrast(theme["stamp-ink"], theme["stamp-page"]) >= 4.5
        assert contrast(theme["ink"], theme["node"]) >= 4.5
        assert all(contrast(theme[mark], theme["card"]) >= 3 for mark in ("fill", "line"))
        assert all(contrast(theme[mark], theme["blank"]) >= 3 for mark in ("plus", "minus"))


@pytest.mark.parametrize("theme", drawing.COLOURS)
def test_numbers_stand_out_in_every_cell_of_a_heat_map(theme):
    for strength in np.linspace(-1, 1, 201):
        drawn = drawing.heat(["a", "b"], [[None, strength], [strength, None]], "k", "Real")
        rgb = tuple(map(int, re.findall(rf"--{theme}:rgb\((\d+), (\d+), (\d+)\)", drawn)[0]))
        ink = {"#000": (0, 0, 0), "#fff": (255, 255, 255)}[re.findall(rf"--{theme}:(#\w+)", drawn)[0]]
        assert contrast(rgb, ink) >= 4.5


def test_the_colours_of_cells_are_those_of_the_themes(plain):
    for theme, colours in zip(themes(plain[0]), (drawing.COLOURS["light"], drawing.COLOURS["dark"]), strict=True):
        assert {name: theme[name] for name in colours} == colours


def test_a_text_is_cut_where_its_width_ends():
    assert drawing.short("short", 60) == "short"
    assert drawing.short_name("short", 60) == "short" and drawing.short_name("W" * 20, 5) == "…"
    names = [f"measurement_of_pressure_{place}" for place in range(20)]
    assert len({drawing.short_name(name, 116) for name in names}) == 20
    assert drawing.short("W" * 20, 60) == "WWW…" and drawing.short("i" * 20, 60) == "iiiiiiii…"
    assert drawing.width_of("é", 10) == drawing.width_of("e\u0301", 10)


def test_a_big_heat_map_tells_signs_by_shape():
    matrix = [[None if a == b else 0.5 - (a > b) for a in range(12)] for b in range(12)]
    drawn = drawing.heat([f"c{a}" for a in range(12)], matrix, "k", "Real")
    assert drawn.count('class="plus"') == drawn.count('class="minus"') == drawn.count("<circle") == 66


def test_numbers_and_instants_are_written_for_people():
    number = Column(name="x", kind="continuous")
    assert as_text(number, np.array([0.0, 12.80001, 51234.5, 1e12, -0.00012])) == [
        "0",
        "12.8",
        "51,234",
        "1e+12",
        "-0.00012",
    ]
    assert as_text(number, np.array([5e6, 2e9])) == ["5e+06", "2e+09"]
    assert as_text(Column(name="t", kind="datetime"), np.array([0.0, 86_400e6 * 365])) == ["1970-01-01", "1971-01-01"]


def test_numbers_that_stand_side_by_side_are_written_alike():
    hour, year = 3600e6, 365 * 86_400e6
    instants = summaries_as_text(
        Column(name="t", kind="datetime"), {"real": {"5 %": 0.0, "95 %": hour}, "synthetic": {"5 %": 0.0, "95 %": year}}
    )
    assert instants == {
        "real": {"5 %": "1970-01-01", "95 %": "1970-01-01"},
        "synthetic": {"5 %": "1970-01-01", "95 %": "1971-01-01"},
    }
    numbers = {"real": {"mean": 5e6}, "synthetic": {"mean": 2e9}, "none": {}}
    texts = summaries_as_text(Column(name="x", kind="continuous"), numbers)
    assert texts == {"real": {"mean": "5e+06"}, "synthetic": {"mean": "2e+09"}, "none": {}}


def test_a_column_of_every_kind_is_drawn(tmp_path, hostile):
    assert {column["kind"] for column in hostile[1]["utility"]["columns"]} >= {"continuous", "boolean", "datetime"}
    rare = next(column for column in hostile[1]["utility"]["columns"] if column["name"] == "rare")
    assert len(rare["labels"]) == 13 and rare["labels"][-1] == "(28 more together)"


def test_categories_that_the_schema_does_not_list_are_named(tmp_path):
    draw = np.random.default_rng(0)
    table = pl.DataFrame({"city": draw.choice(["Paris", "Rome"], 400, p=[0.8, 0.2]), "id": range(400)})
    schema = Schema(columns=(Column(name="city", kind="categorical"),), unit="id", max_rows_per_unit=1)
    model = us.fit(table, schema, "independent", epsilon=5.0, progress=False)
    us.report(model, tmp_path / "a.html", table)
    content = json.loads((tmp_path / "a.json").read_text())
    column = content["utility"]["columns"][0]
    assert column["labels"][:2] == ["Paris", "Rome"]
    assert column["shares"]["real"][0] == pytest.approx((table["city"] == "Paris").mean())
    assert content["utility"]["associations"] is None
    assert "all rows with the same" in (tmp_path / "a.html").read_text()


@pytest.mark.slow
def test_twenty_columns_are_drawn_in_ten_seconds(tmp_path):
    draw = np.random.default_rng(0)
    table = pl.DataFrame({f"c{place}": draw.normal(size=2000) for place in range(20)})
    schema = Schema(columns=tuple(Column(name=name, kind="continuous", low=-9, high=9) for name in table.columns))
    model = us.fit(table, schema, "copula", epsilon=1.0, progress=False)
    start = time.process_time()
    page = us.report(model, tmp_path / "wide.html", table)
    assert time.process_time() - start < 10
    assert page.stat().st_size < 3_000_000


def test_the_page_follows_from_its_numbers(judged):
    assert render(judged[1]) == judged[0]


# What is refused --------------------------------------------------------------------------------------------------


@pytest.mark.parametrize(
    ("options", "said"),
    [
        ({"path": "page.pdf"}, "ending in .html"),
        ({"rows": 0}, "whole number >= 1"),
        ({"rows": 5, "synthetic": "s.csv"}, "got both"),
        ({"train": "people.csv"}, "Give `real`"),
        ({"seed": -1}, "seed: expected a whole number"),
        ({"truth": {"nobody": []}}, "expected names of columns, got 'nobody'"),
        ({"truth": {"age": ["age"]}}, "its own parent"),
        ({"truth": {"age": "salary"}}, "expected the parents of each column"),
        ({"truth": "nowhere.json"}, "cannot be read"),
        ({"path": "nowhere/page.html"}, "cannot be written"),
    ],
)
def test_a_wrong_argument_is_refused_in_a_sentence(people, tmp_path, monkeypatch, options, said):
    monkeypatch.chdir(tmp_path)
    with pytest.raises(ReportError, match=re.escape(said)):
        us.report(people / "m.understudy", options.pop("path", "page.html"), **options)
    assert not list(tmp_path.iterdir())


@pytest.mark.parametrize(
    ("options", "said"),
    [
        (["--real", "holdout.csv", "-o", "holdout.csv"], "ending in .html"),
        (["--truth", "report.json", "-o", "report.html"], "is also an input of this command"),
        (["--ledger", "none.jsonl", "-o", "report.html"], "cannot read the ledger"),
        (["--real", "none.csv", "-o", "report.html"], "none.csv"),
        (["--real", "people.toml", "-o", "report.html"], "people.toml"),
        (["--learners", "catbost", "--real", "holdout.csv", "-o", "report.html"], "catbost"),
        (["-o", "nowhere/report.html"], "there is no folder"),
    ],
)
def test_the_command_refuses_in_one_line(people, monkeypatch, options, said):
    monkeypatch.chdir(people)
    result = run("report", "m.understudy", *options)
    assert result.exit_code == 1 and said in result.stderr and len(result.stderr.splitlines()) == 1
    assert not (people / "report.html").exists() and not (people / "report.json").exists()


def test_the_rows_are_given_or_drawn():
    assert run("report", "m.understudy", "--synthetic", "s.csv", "-n", 5, "-o", "a.html").exit_code == 2


# Around it --------------------------------------------------------------------------------------------------------


def test_the_template_is_in_the_package():
    patterns = tomllib.loads((ROOT / "pyproject.toml").read_text())["tool"]["setuptools"]["package-data"]["understudy"]
    package = Path(us.__file__).parent
    for template in package.rglob("*.html"):
        assert any(fnmatch(str(template.relative_to(package)), pattern) for pattern in patterns)
