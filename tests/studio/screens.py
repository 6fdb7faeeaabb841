"""Somebody at a screen: a page in headless Chromium, the tables there are to open, and the whole way to a report.

Screenshots go to the folder that UNDERSTUDY_ARTIFACTS names, or to build/browser.
"""

import os
from pathlib import Path

import numpy as np
import polars as pl

import messy_export
from browsing import write_clinic, write_people

ROOT = Path(__file__).parents[2]
TABLES = {"clean": "clean.csv", "export": "export.csv", "gaps": "gaps.parquet", "clinic": "clinic"}
"""Three files, and a folder of two tables."""
METHODS = {"clean": "copula", "export": "mst", "gaps": "copula", "clinic": "mst"}

TOO_WIDE = """() => [document.documentElement, ...document.querySelectorAll("body *")].filter(one => {
  const box = one.getBoundingClientRect();
  if (one === document.documentElement) return one.scrollWidth > innerWidth;
  const inside = one.parentElement.closest(".wide, svg, select, .hidden");
  const seen = !inside && box.width > 1 && !one.matches(".skip, .hidden");
  return seen && (box.right > innerWidth + 0.5 || box.left < -0.5);
}).map(one => one.outerHTML.slice(0, 120))"""


def write_tables(folder: Path) -> None:
    """A clean CSV, a semicolon export in Latin-1 with dates, Parquet with missing values, and a folder of tables."""
    write_clinic(folder / "clinic", patients=600)
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
    page.get_by_label("Path of the file or folder").fill(TABLES[name])
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


def pages_of(fit: str) -> list[str]:
    project = fit.split("/fits")[0]
    looks = [f"{fit}/{each}" for each in ("look", "look/rows", "look/pictures", "look/network", "judge", "share")]
    return ["", "open", "compare", project, f"{project}/describe", f"{project}/plan", f"{project}/fit", fit, *looks]
