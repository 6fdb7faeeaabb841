"""The site of the documentation: built strictly, complete, and readable without a network."""

import os
import re
import shutil
import subprocess
import sys
from pathlib import Path

import pytest

import understudy as us

ROOT = Path(__file__).parents[1]
CONFIG = (ROOT / "mkdocs.yml").read_text()
BROWSERS = ("chromium", "chromium-browser", "google-chrome", "google-chrome-stable", "chrome")
LOADED = re.compile(
    r"""<(?:script|img|iframe|source)[^>]*\ssrc=["']?(https?:[^"'> ]+)|<link[^>]*href=["']?(https?:[^"'> ]+)"""
)


def test_the_reference_has_every_name_of_the_front_door():
    written = "\n".join(path.read_text() for path in (ROOT / "docs" / "reference").glob("*.md"))
    listed = {line.rpartition(".")[2] for line in re.findall(r"^::: (\S+)$", written, re.MULTILINE)}
    assert set(us.__all__) <= listed
    assert all(name.startswith("understudy.") for name in re.findall(r"^::: (\S+)$", written, re.MULTILINE))


def test_every_page_of_the_navigation_is_there():
    named = set(re.findall(r"[\w/-]+\.md", CONFIG))
    notebooks = {f"notebooks/{path.stem}.md" for path in (ROOT / "docs" / "notebooks").glob("*.ipynb")}
    outside = {name for name in named if name.startswith("repository/")}
    assert all((ROOT / name.removeprefix("repository/")).is_file() for name in outside)
    assert all((ROOT / "docs" / name).is_file() for name in named - notebooks - outside)
    assert notebooks <= named


def test_the_site_is_built_strictly_and_takes_no_font_from_elsewhere():
    assert re.search(r"^site:.*\n\t.*mkdocs build --strict$", (ROOT / "Makefile").read_text(), re.MULTILINE)
    assert "font: false" in CONFIG and "https://" not in CONFIG


@pytest.fixture(scope="module")
def site(tmp_path_factory):
    """The site, built once, as `make site` builds it."""
    for package in ("mkdocs", "material", "mkdocstrings", "latex2mathml"):
        pytest.importorskip(package)
    folder = tmp_path_factory.mktemp("site")
    words = [
        sys.executable,
        "-m",
        "mkdocs",
        "build",
        "--strict",
        "-q",
        "-f",
        str(ROOT / "mkdocs.yml"),
        "-d",
        str(folder),
    ]
    done = subprocess.run(
        words, cwd=ROOT, capture_output=True, text=True, env={**os.environ, "NO_MKDOCS_2_WARNING": "1"}
    )
    assert done.returncode == 0, done.stdout + done.stderr
    return folder


@pytest.mark.slow
def test_no_page_loads_anything_from_another_machine(site):
    pages = [*site.rglob("*.html")]
    assert len(pages) > 40
    assert {found for page in pages for found in LOADED.findall(page.read_text("utf-8"))} == set()
    for style in site.rglob("*.css"):
        assert not re.search(r"url\(.?https?:|@import .?https?:", style.read_text("utf-8")), style


@pytest.mark.slow
def test_formulas_pictures_and_docstrings_are_in_the_pages(site):
    equations = (site / "equations.html").read_text("utf-8")
    assert equations.count("<math") > 40 and "arithmatex" not in equations
    assert not re.search(r"<m[io]>\\", equations)  # a command of TeX that was not understood
    assert (site / "notebooks" / "first-table.html").read_text("utf-8").count('class="us"') >= 3
    assert "Learns a model of a table" in (site / "reference" / "fitting.html").read_text("utf-8")
    assert (site / "gallery" / "people.html").stat().st_size > 100_000


@pytest.mark.slow
@pytest.mark.browser
def test_a_page_that_is_opened_as_a_file_can_be_searched_and_asks_for_nothing(site):
    playwright = pytest.importorskip("playwright.sync_api")
    with playwright.sync_playwright() as driver:
        places = [driver.chromium.executable_path, *(shutil.which(name) for name in BROWSERS)]
        place = next((place for place in places if place and Path(place).exists()), None)
        if place is None:
            pytest.skip("no browser is installed")
        browser = driver.chromium.launch(executable_path=place, args=["--no-sandbox"])
        page, asked, said = browser.new_page(), [], []
        page.on("request", lambda request: asked.append(request.url))
        page.on("pageerror", lambda error: said.append(str(error)))
        page.goto((site / "index.html").as_uri())
        page.wait_for_selector("input.md-search__input")
        page.keyboard.press("/")
        page.keyboard.type("ledger cap")
        page.wait_for_selector(".md-search-result__item")
        assert "ledger cap" in page.locator(".md-search-result__list").inner_text().lower()
        assert said == [] and all(url.startswith(("file:", "about:", "data:")) for url in asked)
        browser.close()
