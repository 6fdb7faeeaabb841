"""The studio in headless Chromium: a person's whole way on three files and a folder, by mouse, keyboard and ear."""

import itertools
import os
import re
import shutil
import signal
import subprocess
import sys
import time
from pathlib import Path

import pytest
from axe_playwright_python.sync_playwright import Axe
from playwright import sync_api as playwright
from screens import METHODS, TABLES, TOO_WIDE, Person, pages_of, whole_way, write_tables

import messy_export
from browsing import CANARY

pytestmark = pytest.mark.browser

BROWSERS = ("chromium", "chromium-browser", "google-chrome", "google-chrome-stable", "chrome")
MOST_CLICKS = 10
"""From the description to the report."""


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
def studio(tmp_path_factory):
    """The first address and the process of a studio that was started by the command, for a folder with tables."""
    folder = tmp_path_factory.mktemp("studio")
    write_tables(folder)
    command = [sys.executable, "-m", "understudy", "studio", "--no-browser", "--folder", str(folder)]
    process = subprocess.Popen(command, stdout=subprocess.PIPE, text=True)
    assert process.stdout is not None
    found = re.search(r"http://\S+", process.stdout.readline())
    assert found is not None
    yield found[0], process.pid
    process.send_signal(signal.SIGINT)
    process.wait(20)
    process.stdout.close()


@pytest.fixture(scope="module")
def address(studio):
    return studio[0]


@pytest.fixture(scope="module")
def ways(browser, address):
    """The fits that whole ways end at, and the persons who went them."""
    persons = {name: Person(browser, address) for name in TABLES}
    found = {name: whole_way(persons[name], name, METHODS[name]) for name in TABLES}
    yield found, persons
    for person in persons.values():
        person.context.close()


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
    paths = [*pages_of(ways[0]["export"]), *pages_of(ways[0]["clinic"])[3:]]
    for path in [*paths, f"compare?a={sides[0]}&b={sides[1]}", "p/nothing", "open?in=clinic"]:
        person.go(path)
        if path.endswith("/plan"):
            person.page.wait_for_selector("svg[aria-labelledby^=curve]", timeout=60_000)
        person.shows(f"{scheme}-{width}-{re.sub('[^a-z]+', '-', path.split('?')[0])[-32:]}")
        rules = Axe().run(person.page).response["violations"]
        bad = [rule for rule in rules if rule["impact"] in ("serious", "critical")]
        found += [(path, rule["id"], rule["nodes"][0]["html"][:160]) for rule in bad]
    assert found == []
    person.context.close()


@pytest.mark.parametrize("width", [390, 640, 1600], ids=["phone", "200 % zoom", "wide"])
def test_nothing_is_wider_than_the_window(browser, address, ways, width):
    person = Person(browser, address, width=width)
    wide = {}
    for path in [*pages_of(ways[0]["export"]), *pages_of(ways[0]["clinic"])[3:]]:
        person.go(path)
        if path.endswith("/plan"):
            person.page.wait_for_selector("svg[aria-labelledby^=curve]", timeout=60_000)
        if found := person.page.evaluate(TOO_WIDE):
            wide[path] = found
    assert wide == {}
    person.context.close()


FOCUSED = """() => {
  const one = document.activeElement;
  return [one.getAttribute("aria-label") || (one.labels?.[0] || one).textContent.trim(),
          getComputedStyle(one).outlineStyle];
}"""


def test_the_whole_way_can_be_gone_by_keyboard_alone(browser, address, ways):
    person = Person(browser, address)
    page, keys = person.page, person.page.keyboard

    def reach(words: str, key: str | None = None) -> None:
        """Tabs to what carries these words, sees that its focus shows, and presses a key."""
        for _ in range(400):
            keys.press("Tab")
            said, outline = page.evaluate(FOCUSED)
            if said.startswith(words):
                assert outline != "none"
                return keys.press(key) if key else None
        raise AssertionError(f"no key leads to {words!r}")

    keys.press("Tab")
    assert page.evaluate(FOCUSED)[0] == "Skip to the content"
    reach("Open a table", "Enter")
    page.wait_for_url("**/open")
    reach("Path of the file or folder")
    keys.type("clean.csv")
    keys.press("Enter")
    page.wait_for_url("**/describe")
    reach("Save and plan", "Enter")
    page.wait_for_url("**/plan")
    reach("ε on a scale", "ArrowLeft")
    assert page.get_by_label("ε, the budget").input_value() == "0.7"
    assert page.get_by_label("ε on a scale").get_attribute("aria-valuetext") == "0.7"
    page.wait_for_selector("text=× 2.014")
    reach("Method")
    keys.type("cop")
    reach("Continue to the fit", "Enter")
    page.wait_for_url("**/fit")
    reach("Spend ε = 0.7", "Space")
    reach("Charge and fit", "Enter")
    page.wait_for_url("**/fits/*-copula-0.7")
    page.get_by_role("link", name="Look at the report").wait_for(timeout=120_000)
    assert "The fit is done." in page.locator("#said").inner_text()
    reach("Look at the report", "Enter")
    page.wait_for_url("**/look")
    reach("Rows", "Enter")
    page.wait_for_url("**/look/rows")
    reach("age", "Enter")
    playwright.expect(page.get_by_role("columnheader", name="age")).to_have_attribute("aria-sort", "ascending")
    reach("7 Share", "Enter")
    page.wait_for_url("**/share")
    with page.expect_download() as download:
        reach("Synthetic rows, CSV", "Enter")
    assert download.value.suggested_filename.endswith("rows.csv")
    assert [each for each in person.said if not each.startswith("error: htmx:")] == []
    person.context.close()


NAMED = "button|link|textbox|combobox|checkbox|slider|progressbar|img|region|navigation"


@pytest.mark.parametrize("name", ["export", "clinic"])
def test_what_a_screen_reader_gets_has_names_landmarks_and_an_order(browser, address, ways, name):
    person = Person(browser, address)
    for path in [*pages_of(ways[0][name]), "compare", "open?in=clinic", "p/nothing"]:
        person.go(path)
        tree = person.page.locator("body").aria_snapshot()
        assert re.findall(rf"^ *- (?:{NAMED})(?:$|:| \[)", tree, re.MULTILINE) == [], path
        assert person.page.locator("iframe:not([title])").count() == 0, path
        marks = re.findall(r"^- (banner|main|contentinfo)", tree, re.MULTILINE)
        assert marks == ["banner", "main", "contentinfo"], path
        levels = [int(each) for each in re.findall(r"- heading .*\[level=(\d)\]", tree)]
        assert levels[0] == 1 and levels.count(1) == 1, path
        assert all(after <= before + 1 for before, after in itertools.pairwise(levels)), (path, levels)
        assert person.page.locator("[role=status], [role=alert]").count() >= 1, path
    person.context.close()


def test_progress_is_said_when_it_changes_and_not_every_second(browser, address, ways):
    person = Person(browser, address)
    person.go(ways[0]["clean"])
    said = person.page.evaluate(
        """() => {
          const heard = [], place = document.getElementById("said");
          const hear = changes => heard.push(...changes.map(one => one.addedNodes[0].textContent));
          new MutationObserver(hear).observe(place, {childList: true});
          const part = document.getElementById("progress");
          for (const words of ["a quarter", "a quarter", "a quarter", "half"]) {
            part.dataset.said = words;
            document.dispatchEvent(new Event("htmx:afterSwap"));
          }
          return new Promise(done => setTimeout(() => done(heard), 50));
        }"""
    )
    assert said == ["a quarter", "half"]
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


def processor_seconds(pid: int) -> float:
    """What a process and its threads have used so far; on a busy machine, the rest of the time is others'."""
    used = Path(f"/proc/{pid}/stat").read_text().rsplit(")", 1)[1].split()[11:13]
    return sum(map(int, used)) / os.sysconf("SC_CLK_TCK")


def test_pages_answer_at_once(browser, studio, ways):
    person = Person(browser, studio[0])
    late = {}
    for path in [*pages_of(ways[0]["export"]), *pages_of(ways[0]["clinic"])[3:]]:
        person.go(path)
        times = []
        for _ in range(3):
            begun, used = time.monotonic(), processor_seconds(studio[1])
            assert person.context.request.get(person.home + path).ok
            times.append(min(time.monotonic() - begun, processor_seconds(studio[1]) - used + 0.01))
        if min(times) > 0.2:
            late[path] = min(times)
    assert late == {}
    person.context.close()
