"""The report in a real browser: nothing is too wide, cut off, unreadable or loaded from elsewhere.

Three pages are opened in headless Chromium, on a desktop and on a phone, in light and in dark. What they looked like is
kept in the folder that UNDERSTUDY_ARTIFACTS names, or in build/browser. Without a browser, these tests are skipped.
"""

import dataclasses
import itertools
import os
import shutil
from datetime import datetime
from pathlib import Path
from typing import Any

import numpy as np
import polars as pl
import pytest
from axe_playwright_python.sync_playwright import Axe
from playwright import sync_api as playwright

import understudy as us
from conftest import MIXED, mixed_table
from understudy import datasets
from understudy.core.network_drawing import MOST_PARENTS
from understudy.tables.column import Column

pytestmark = pytest.mark.browser
BROWSERS = ("chromium", "chromium-browser", "google-chrome", "google-chrome-stable", "chrome")
ROOT = Path(__file__).parents[2]
SIZES = {"desktop": (1280, 900), "phone": (390, 844)}
VIEWS = list(itertools.product(("alone", "judged", "family"), SIZES, ("light", "dark")))
each_once = pytest.mark.parametrize(  # for what is slow: each page, each size and each scheme once
    "view", [one for one in VIEWS if one[1:] in (("desktop", "light"), ("phone", "dark"))], indirect=True, ids="-".join
)
LONG = "a name that is longer than any label has room for"
WORDS = ("a category of many words", "W" * 24, "很长的类别名称写在这里面", "short")


# Pages ------------------------------------------------------------------------------------------------------------


def strange_table(n: int) -> tuple[pl.DataFrame, us.Schema]:
    """Every kind of column, and whatever is hard to draw: long words, huge numbers, one value, a few hours."""
    draw = np.random.default_rng(0)
    hours = np.datetime64("2024-02-28T07:00:00", "ms") + draw.integers(0, 90_000_000, n)
    table = mixed_table(n).with_columns(
        pl.Series(LONG, draw.choice(WORDS, n)),
        pl.Series("huge", draw.normal(size=n) * 1e9),
        pl.Series("tiny", draw.normal(size=n) * 1e-7),
        pl.Series("still", np.zeros(n)),
        pl.Series("always", np.ones(n, dtype=bool)),
        pl.Series("hour", hours),
    )
    columns = (
        Column(name=LONG, kind="categorical", values=WORDS),
        Column(name="huge", kind="continuous"),
        Column(name="tiny", kind="continuous"),
        Column(name="still", kind="continuous"),
        Column(name="always", kind="boolean"),
        Column(name="hour", kind="datetime", low=datetime(2024, 2, 28), high=datetime(2024, 3, 1)),
    )
    return table, dataclasses.replace(MIXED, columns=(*MIXED.columns, *columns))


@pytest.fixture(scope="module")
def pages(tmp_path_factory):
    """A page about a model alone, one with real rows and a true network with arrows both ways, and one of a database.

    Each with the networks that it should show: the model's, and the true one; a database has none.
    """
    folder = tmp_path_factory.mktemp("pages")
    alone = us.fit(datasets.example(600), datasets.example_schema(), "copula", epsilon=8.0, progress=False)
    table, schema = strange_table(500)
    model = us.fit(table, schema, "privbayes", epsilon=20.0, seed=1, progress=False)
    family = us.fit(datasets.hospital(150), datasets.hospital_schema(), "independent", epsilon=8.0, progress=False)
    names = list(model.parents)
    truth = {names[-1]: [names[0]], names[0]: [names[-2]], names[2]: [names[1]]}
    return {
        us.report(alone, folder / "alone.html", rows=300): (alone.parents, datasets.EXAMPLE_PARENTS),
        us.report(model, folder / "judged.html", table, train=table, truth=truth): (model.parents, truth),
        us.report(family, folder / "family.html", datasets.hospital(150, seed=1), rows=100): (),
    }


# The browser ------------------------------------------------------------------------------------------------------


@pytest.fixture(scope="module")
def browser():
    """One headless Chromium for the whole file: playwright's own, or the machine's."""
    with playwright.sync_playwright() as driver:
        places = [driver.chromium.executable_path, *(shutil.which(name) for name in BROWSERS)]
        for place in places:
            if place and Path(place).exists():
                try:
                    opened = driver.chromium.launch(executable_path=place, args=["--no-sandbox"])
                except playwright.Error:
                    continue
                yield opened
                opened.close()
                return
        pytest.skip("no browser is installed: apt-get install chromium, or playwright install chromium-headless-shell")


@dataclasses.dataclass(frozen=True)
class View:
    """A page that was opened, what it said on the console, what it asked for, and the networks it should show."""

    page: Any
    name: str
    size: str
    scheme: str
    said: list[str]
    asked: list[str]
    networks: tuple[dict[str, list[str]], ...]


def opened(browser, path: Path, size: str, scheme: str):
    width, height = SIZES[size]
    context = browser.new_context(viewport={"width": width, "height": height}, color_scheme=scheme)
    page, said, asked = context.new_page(), [], []
    page.on("console", lambda message: said.append(f"{message.type}: {message.text}"))
    page.on("pageerror", lambda error: said.append(str(error)))
    page.on("request", lambda request: asked.append(request.url))
    page.goto(path.as_uri())
    return page, said, asked


def artefact(name: str) -> Path:
    place = Path(os.environ.get("UNDERSTUDY_ARTIFACTS") or ROOT / "build" / "browser") / name
    place.parent.mkdir(parents=True, exist_ok=True)
    return place


@pytest.fixture(scope="module", params=VIEWS, ids="-".join)
def view(request, browser, pages):
    name, size, scheme = request.param
    path = next(path for path in pages if path.stem == name)
    page, said, asked = opened(browser, path, size, scheme)
    page.screenshot(path=artefact(f"{name}-{size}-{scheme}.png"), full_page=True)
    page.evaluate(UNFOLD, True)
    yield View(page, name, size, scheme, said, asked, pages[path])
    page.context.close()


# What is measured in the page -------------------------------------------------------------------------------------

UNFOLD = "open => document.querySelectorAll('details').forEach(one => one.open = open)"

TOO_WIDE = """() => [document.documentElement, ...document.querySelectorAll("body *")].filter(one => {
  const box = one.getBoundingClientRect();
  if (one === document.documentElement) return one.scrollWidth > innerWidth;
  const inside = one.parentElement.closest(".wide, svg");
  return !inside && box.width > 1 && !one.matches(".skip") && (box.right > innerWidth + 0.5 || box.left < -0.5);
}).map(one => one.outerHTML.slice(0, 80))"""

SECTIONS = """() => [...document.querySelectorAll("header, main section")].map(one => ({
  name: one.id || one.tagName, visible: one.checkVisibility(), height: one.getBoundingClientRect().height }))"""

# A label may touch its neighbour's box, which is higher than its letters, but not reach into it.
BAD_LABELS = """() => [...document.querySelectorAll("svg[role=img]")].flatMap(svg => {
  const frame = svg.getBoundingClientRect(), wrong = [];
  const boxes = [...svg.querySelectorAll("text")].map(one => [one.textContent, one.getBoundingClientRect()]);
  boxes.forEach(([text, box], place) => {
    if (box.left < frame.left - 0.5 || box.right > frame.right + 0.5 || box.top < frame.top - 2.5
        || box.bottom > frame.bottom + 2.5) wrong.push("cut: " + text);
    boxes.slice(place + 1).forEach(([other, next]) => {
      const across = Math.min(box.right, next.right) - Math.max(box.left, next.left);
      const down = Math.min(box.bottom, next.bottom) - Math.max(box.top, next.top);
      if (text && other && across > 0.5 && down > 5) wrong.push("overlap: " + text + " / " + other);
    });
  });
  return wrong;
})"""

# The ground of a text in a picture: the last filled box before it that its middle lies in, or what the picture lies on.
FAINT = """() => {
  const parse = text => text.match(/[\\d.]+/g).map(Number);
  const linear = c => c <= 0.04045 ? c / 12.92 : ((c + 0.055) / 1.055) ** 2.4;
  const light = rgb => rgb.slice(0, 3).map(c => linear(c / 255))
    .reduce((sum, c, place) => sum + c * [0.2126, 0.7152, 0.0722][place], 0);
  const under = (text, svg) => {
    const box = text.getBoundingClientRect(), x = (box.left + box.right) / 2, y = (box.top + box.bottom) / 2;
    let found = null;
    for (const rect of svg.querySelectorAll("rect")) {
      const area = rect.getBoundingClientRect(), fill = getComputedStyle(rect).fill;
      const before = rect.compareDocumentPosition(text) & Node.DOCUMENT_POSITION_FOLLOWING;
      const around = area.left <= x && x <= area.right && area.top <= y && y <= area.bottom;
      if (before && around && fill !== "none") found = fill;
    }
    for (let one = svg; !found && one; one = one.parentElement) {
      const ground = getComputedStyle(one).backgroundColor;
      if (parse(ground)[3] !== 0) found = ground;
    }
    return parse(found || "rgb(255, 255, 255)");
  };
  return [...document.querySelectorAll("svg[role=img] text")].map(text => {
    const [a, b] = [light(parse(getComputedStyle(text).fill)), light(under(text, text.ownerSVGElement))];
    return [text.textContent, (Math.max(a, b) + 0.05) / (Math.min(a, b) + 0.05)];
  }).filter(([text, contrast]) => !(contrast >= 4.5));
}"""

SMALL = """() => [...document.querySelectorAll("svg[role=img] text")].map(text =>
  [text.textContent, parseFloat(getComputedStyle(text).fontSize) * text.getScreenCTM().a])
  .filter(([, size]) => size < 8)"""

ARROWS = """key => [...document.querySelectorAll(`svg[aria-labelledby^="${key}-title"] path.edge`)].map(one => {
  const shape = getComputedStyle(one);
  return one.getTotalLength() > 5 && shape.stroke !== "none" && shape.visibility === "visible"; })"""


def read_out(page) -> list[dict[str, Any]]:
    """What a screen reader is told of each picture, by the browser's own accessibility tree."""
    tree = page.context.new_cdp_session(page).send("Accessibility.getFullAXTree")["nodes"]
    pictures = [node for node in tree if node.get("role", {}).get("value") in ("image", "img") and not node["ignored"]]
    return [node.get("name", {}).get("value", "") for node in pictures]


# Tests ------------------------------------------------------------------------------------------------------------


def test_every_section_is_seen_and_nothing_is_wider_than_the_window(view):
    sections = view.page.evaluate(SECTIONS)
    utility = ["utility"] if view.name in ("judged", "family") else []
    assert [one["name"] for one in sections][1:] == ["privacy", "learned", *utility, "sign"]
    assert all(one["visible"] and one["height"] > 50 for one in sections)
    assert view.page.evaluate(TOO_WIDE) == []


def test_nothing_is_said_on_the_console_and_nothing_is_loaded(view):
    assert view.said == []
    assert view.asked == [view.page.url]


def test_no_label_is_cut_off_or_lies_on_another(view):
    assert view.page.evaluate(BAD_LABELS) == []


def test_labels_are_large_enough_to_read_and_stand_out(view):
    assert view.page.evaluate(SMALL) == []
    assert view.page.evaluate(FAINT) == []


def test_two_arrows_of_each_column_of_the_network_are_drawn(view):
    if view.name == "family":
        assert len(view.page.evaluate(ARROWS, "keys")) == 2  # of visits, and of prescriptions
    for key, parents in zip(("learned-net", "true-net"), view.networks, strict=view.name != "family"):
        arrows = view.page.evaluate(ARROWS, key)
        assert len(arrows) == sum(min(len(of), MOST_PARENTS) for of in parents.values()) > 0 and all(arrows)


@each_once
def test_every_picture_is_read_out(view):
    names = read_out(view.page)
    assert len(names) == view.page.locator("figure svg").count() > 0
    assert len(set(names)) == len(names) and all("table below" in name or "bars" in name for name in names)


def test_the_page_is_printed_whole_and_on_white(view):
    view.page.emulate_media(media="print")
    view.page.evaluate(UNFOLD, False)
    try:
        sections = view.page.evaluate(SECTIONS)
        assert all(one["visible"] and one["height"] > 50 for one in sections)
        assert view.page.evaluate("getComputedStyle(document.body).backgroundColor") == "rgb(255, 255, 255)"
        assert view.page.evaluate(FAINT) == []
        assert view.page.get_by_text("The costs alone do not add up").is_visible()
        if (view.size, view.scheme) == ("desktop", "light"):
            view.page.pdf(path=artefact(f"{view.name}.pdf"))
    finally:
        view.page.emulate_media(media="screen")
        view.page.evaluate(UNFOLD, True)


@each_once
def test_axe_finds_nothing_serious(view):
    found = Axe().run(view.page).response["violations"]
    bad = [rule for rule in found if rule["impact"] in ("serious", "critical")]
    assert [(rule["id"], rule["nodes"][0]["html"][:200]) for rule in bad] == []


def test_a_bad_page_would_be_found_out(browser, tmp_path):
    (tmp_path / "bad.html").write_text("""<!DOCTYPE html><html><head>
<meta http-equiv="Content-Security-Policy" content="default-src 'none'; style-src 'unsafe-inline'"></head><body>
<header style="display: none"></header><div style="width: 3000px; height: 1px"></div><img src="picture.png">
<svg role="img" width="99" height="50"><text x="-20" y="20">one</text><text x="-15" y="20" font-size="5" fill="#eee">
two</text></svg></body></html>""")
    page, said, asked = opened(browser, tmp_path / "bad.html", "desktop", "light")
    try:
        assert len(page.evaluate(TOO_WIDE)) == 2
        assert not page.evaluate(SECTIONS)[0]["visible"]
        assert {one.split(":")[0] for one in page.evaluate(BAD_LABELS)} == {"cut", "overlap"}
        assert len(page.evaluate(FAINT)) == len(page.evaluate(SMALL)) == 1
        assert "" in read_out(page)
        assert any("error" in one for one in said) or len(asked) > 1
        assert {"image-alt", "svg-img-alt"} <= {rule["id"] for rule in Axe().run(page).response["violations"]}
    finally:
        page.context.close()
