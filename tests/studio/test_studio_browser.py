"""The studio in headless Chromium: a person's whole way on three files, by mouse and by keyboard, on every screen.

Screenshots go to the folder that UNDERSTUDY_ARTIFACTS names, or to build/browser.
"""

import os
import re
import shutil
import signal
import subprocess
import sys
import time
from pathlib import Path

import numpy as np
import polars as pl
import pytest
from axe_playwright_python.sync_playwright import Axe
from playwright import sync_api as playwright

import messy_export
from browsing import CANARY, write_people

pytestmark = pytest.mark.browser

ROOT = Path(__file__).parents[2]
BROWSERS = ("chromium", "chromium-browser", "google-chrome", "google-chrome-stable", "chrome")
TABLES = {"clean": "clean.csv", "export": "export.csv", "gaps": "gaps.parquet"}
MOST_CLICKS = 10
"""From the description to the report."""

TOO_WIDE = """() => [document.documentElement, ...document.querySelectorAll("body *")].filter(one => {
  const box = one.getBoundingClientRect();
  if (one === document.documentElement) return one.scrollWidth > innerWidth;
  const inside = one.parentElement.closest(".wide, svg, select, .hidden");
  const seen = !inside && box.width > 1 && !one.matches(".skip, .hidden");
  return seen && (box.right > innerWidth + 0.5 || box.left < -0.5);
}).map(one => one.outerHTML.slice(0, 120))"""


def write_tables(folder: Path) -> None:
    """A clean CSV, a semicolon export in Latin-1 with dates, and Parquet with missing values."""
    write_people(folder / "clean.csv", rows=2000)
    messy_export.write(folder / "export.csv", patients=2500)
    chance = np.random.default_rng(0)
    amount = chance.gamma(2.0, 30.0, 3000).round(2)
    label = chance.choice(["north", "south", "west"], 3000, p=[0.5, 0.3, 0.2]).tolist()
    gaps = chance.random((2, 3000)) < 0.15
    pl.DataFrame(
        {
            "amount": [None if gap else float(value) for value, gap in zip(amount, gaps[0], strict=True)],
            "region": [None if gap else value for value, gap in zip(label, gaps[1], strict=True)],
            "visits": chance.poisson(4, 3000).tolist(),
        }
    ).write_parquet(folder / "gaps.parquet")


@pytest.fixture(scope="module")
def browser():
    """One headless Chromium for the whole file: playwright's own, or the machine's."""
    with playwright.sync_playwright() as driver:
        for place in [driver.chromium.executable_path, *(shutil.which(name) for name in BROWSERS)]:
            if place and Path(place).exists():
                try:
                    opened = driver.chromium.launch(executable_path=place, args=["--no-sandbox"])
                except playwright.Error:
                    continue
                yield opened
                opened.close()
                return
        pytest.skip("no browser is installed: apt-get install chromium, or playwright install chromium-headless-shell")


@pytest.fixture(scope="module")
def address(tmp_path_factory):
    """The first address of a studio that was started by the command, for a folder with three tables."""
    folder = tmp_path_factory.mktemp("studio")
    write_tables(folder)
    command = [sys.executable, "-m", "understudy", "studio", "--no-browser", "--folder", str(folder)]
    process = subprocess.Popen(command, stdout=subprocess.PIPE, text=True)
    assert process.stdout is not None
    found = re.search(r"http://\S+", process.stdout.readline())
    assert found is not None
    yield found[0]
    process.send_signal(signal.SIGINT)
    process.wait(20)
    process.stdout.close()


class Person:
    """Somebody at a screen, who counts clicks."""

    def __init__(self, browser, address: str, *, width: int = 1200, height: int = 900, scheme: str = "light"):
        self.context = browser.new_context(viewport={"width": width, "height": height}, color_scheme=scheme)
        self.page, self.said, self.asked, self.clicks = self.context.new_page(), [], [], 0
        self.page.on("console", lambda message: self.said.append(f"{message.type}: {message.text}"))
        self.page.on("pageerror", lambda error: self.said.append(str(error)))
        self.page.on("request", lambda request: self.asked.append(request.url))
        self.home = address.split("?")[0]
        self.page.goto(address)
        self.page.wait_for_url(self.home)

    def go(self, path: str) -> None:
        self.page.goto(self.home + path.lstrip("/"))

    def click(self, role: str, name: str, **options) -> None:
        self.page.get_by_role(role, name=name, exact=True).first.click(**options)
        self.clicks += 1

    def shows(self, name: str) -> None:
        """Keeps a picture of the page as it is."""
        place = Path(os.environ.get("UNDERSTUDY_ARTIFACTS") or ROOT / "build" / "browser") / "studio" / f"{name}.png"
        place.parent.mkdir(parents=True, exist_ok=True)
        self.page.screenshot(path=place)


def whole_way(person: Person, name: str, method: str) -> str:
    """Opens a table and goes on until its report is there; returns the path of the fit."""
    page = person.page
    person.go("/open")
    page.get_by_label("Path of the file").fill(TABLES[name])
    person.click("button", "Open")
    page.wait_for_url("**/describe")
    person.shows(f"{name}-describe")
    person.clicks = 0
    person.click("button", "Save and plan")
    page.wait_for_url("**/plan")
    page.get_by_label("Method").select_option(method)
    page.wait_for_selector("svg[aria-labelledby^=curve]", timeout=60_000)
    person.shows(f"{name}-plan")
    person.click("button", "Continue to the fit")
    page.get_by_role("checkbox", name="Spend ε = 1").check()
    person.clicks += 1
    person.click("button", "Charge and fit")
    page.wait_for_url("**/fits/*")
    person.shows(f"{name}-fit")
    person.click("link", "Look at the report", timeout=120_000)
    page.wait_for_url("**/look")
    page.frame_locator("iframe").get_by_role("heading", name="Privacy", exact=True).wait_for()
    person.shows(f"{name}-report")
    return page.url.removeprefix(person.home).removesuffix("/look")


@pytest.fixture(scope="module")
def ways(browser, address):
    """The fits that three whole ways end at, and the persons who went them."""
    persons = {name: Person(browser, address) for name in TABLES}
    found = {name: whole_way(persons[name], name, "mst" if name == "export" else "copula") for name in TABLES}
    yield found, persons
    for person in persons.values():
        person.context.close()


def pages_of(fit: str) -> list[str]:
    project = fit.split("/fits")[0]
    looks = [f"{fit}/{each}" for each in ("look", "look/rows", "look/pictures", "look/network", "judge", "share")]
    return ["", "open", "compare", project, f"{project}/describe", f"{project}/plan", f"{project}/fit", fit, *looks]


@pytest.mark.parametrize("name", TABLES)
def test_a_person_reaches_the_report_in_few_clicks(ways, name):
    person = ways[1][name]
    assert person.clicks < MOST_CLICKS
    # A request whose answer is no longer needed is aborted, and htmx says so.
    assert [each for each in person.said if not each.startswith("error: htmx:")] == []
    assert {url.split("/", 3)[2] for url in person.asked} == {person.home.split("/")[2]}


@pytest.mark.parametrize("name", TABLES)
def test_no_page_shows_a_cell_that_nobody_may_see(browser, address, ways, name):
    person = Person(browser, address)
    secrets = (CANARY, *messy_export.CANARIES)
    for path in pages_of(ways[0][name]):
        person.go(path)
        assert not [each for each in secrets if each in person.page.content()], path
    person.context.close()


@pytest.mark.parametrize(("scheme", "width"), [("light", 1200), ("dark", 1200), ("light", 390)])
def test_axe_finds_nothing_serious_on_any_page(browser, address, ways, scheme, width):
    person = Person(browser, address, scheme=scheme, width=width)
    fits = [fit for fit in ways[0].values()]
    sides = [fit.removeprefix("p/").replace("/fits", "") for fit in fits[:2]]
    found = []
    for path in [*pages_of(ways[0]["export"]), f"compare?a={sides[0]}&b={sides[1]}", "p/nothing"]:
        person.go(path)
        if path.endswith("/plan"):
            person.page.wait_for_selector("svg[aria-labelledby^=curve]", timeout=60_000)
        person.shows(f"{scheme}-{width}-{re.sub('[^a-z]+', '-', path.split('?')[0])[-24:]}")
        rules = Axe().run(person.page).response["violations"]
        bad = [rule for rule in rules if rule["impact"] in ("serious", "critical")]
        found += [(path, rule["id"], rule["nodes"][0]["html"][:160]) for rule in bad]
    assert found == []
    person.context.close()


@pytest.mark.parametrize("width", [390, 640, 1600], ids=["phone", "200 % zoom", "wide"])
def test_nothing_is_wider_than_the_window(browser, address, ways, width):
    person = Person(browser, address, width=width)
    wide = {}
    for path in pages_of(ways[0]["export"]):
        person.go(path)
        if path.endswith("/plan"):
            person.page.wait_for_selector("svg[aria-labelledby^=curve]", timeout=60_000)
        if found := person.page.evaluate(TOO_WIDE):
            wide[path] = found
    assert wide == {}
    person.context.close()


def test_the_whole_way_can_be_gone_by_keyboard(browser, address, ways):
    person = Person(browser, address)
    page = person.page

    def reach(words: str, key: str) -> None:
        """Tabs to what carries these words, sees that its focus shows, and presses a key."""
        for _ in range(400):
            page.keyboard.press("Tab")
            if words in page.evaluate(
                "(document.activeElement.labels?.[0] || document.activeElement).textContent || ''"
            ):
                break
        assert words in page.evaluate(
            "(document.activeElement.labels?.[0] || document.activeElement).textContent || ''"
        )
        assert page.evaluate("getComputedStyle(document.activeElement).outlineStyle") != "none"
        page.keyboard.press(key)

    page.keyboard.press("Tab")
    assert page.evaluate("document.activeElement.textContent") == "Skip to the content"
    reach("Open a table", "Enter")
    page.wait_for_url("**/open")
    page.get_by_label("Path of the file").focus()
    page.keyboard.type("clean.csv")
    page.keyboard.press("Enter")
    page.wait_for_url("**/describe")
    reach("Save and plan", "Enter")
    page.wait_for_url("**/plan")
    slider = page.get_by_label("ε on a scale")
    slider.focus()
    page.keyboard.press("ArrowLeft")
    assert page.get_by_label("ε, the budget").input_value() == "0.7"
    assert slider.get_attribute("aria-valuetext") == "0.7"
    page.wait_for_selector("text=× 2.014")
    reach("Continue to the fit", "Enter")
    page.wait_for_url("**/fit")
    reach("Spend ε = 0.7", "Space")
    assert page.get_by_role("checkbox").is_checked()
    person.context.close()


def test_the_form_is_checked_while_it_is_filled_in(browser, address, ways):
    person = Person(browser, address)
    person.go(ways[0]["clean"].split("/fits")[0] + "/describe")
    card = person.page.get_by_role("group", name="age")
    card.get_by_label("Highest possible value").fill("-5")
    said = person.page.locator("#verdict")
    playwright.expect(said).to_contain_text("column 'age': expected low < high, got low = 0, high = -5")
    card.get_by_label("Highest possible value").fill("130")
    playwright.expect(said).to_contain_text("3 columns")
    playwright.expect(card).to_contain_text("from 0 to 130")
    card.get_by_label("Its values are").select_option("categorical")
    assert card.get_by_label("All categories").is_visible() and not card.get_by_label("Highest possible").is_visible()
    card.get_by_label("This column").select_option("ignore")
    assert not card.get_by_label("All categories").is_visible()
    playwright.expect(said).to_contain_text("2 columns")
    assert person.said == []
    person.context.close()


def test_rows_are_sorted_and_filtered_and_the_way_back_works(browser, address, ways):
    person = Person(browser, address)
    person.go(ways[0]["gaps"] + "/look/rows")
    page = person.page
    page.get_by_role("link", name="visits").click()
    playwright.expect(page.get_by_role("columnheader", name="visits")).to_have_attribute("aria-sort", "ascending")
    page.get_by_label("Rows whose").select_option("region")
    page.get_by_label("value").fill("west")
    page.get_by_role("button", name="Filter").click()
    page.wait_for_url("**value=west**")
    cells = page.locator("tbody tr td:nth-child(2)")
    playwright.expect(cells.first).to_have_text("west")
    assert set(cells.all_inner_texts()) == {"west"}
    page.go_back()
    playwright.expect(page.get_by_label("value")).to_have_value("")
    assert person.said == []
    person.context.close()


def test_pages_answer_at_once(browser, address, ways):
    person = Person(browser, address)
    late = {}
    for path in pages_of(ways[0]["export"]):
        person.go(path)
        times = []
        for _ in range(3):
            begun = time.monotonic()
            assert person.context.request.get(person.home + path).ok
            times.append(time.monotonic() - begun)
        if min(times) > 0.2:
            late[path] = min(times)
    assert late == {}
    person.context.close()
