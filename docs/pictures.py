"""Makes the pictures and the reports that the documentation shows: the demonstration, and the gallery.

    python docs/pictures.py            # Adult comes from UNDERSTUDY_DATA, the cache, or its publisher

The one rule: everything shown is what the software made. Screenshots need playwright and a Chromium.
"""

import io
import re
import shutil
import tempfile
from pathlib import Path

import polars as pl
from rich.console import Console

import understudy as us
from understudy import datasets
from understudy.cli import demo, demo_tables

DOCS = Path(__file__).parent
GALLERY = DOCS / "gallery"
WIDTH, HEIGHT = 1000, 720


def main() -> None:
    GALLERY.mkdir(exist_ok=True)
    people, schema = datasets.example(10_000), datasets.example_schema()
    model = us.fit(people, schema, epsilon=1.0, delta=1e-6)
    picture(model, people)
    page("people", "The columns", model, real=datasets.example(10_000, seed=1), train=people)
    adult = datasets.load("adult").sample(20_000, seed=0)
    census = us.fit(adult, datasets.schema("adult"), "mst", epsilon=1.0, delta=1e-6)
    page("adult", "Privacy", census)
    page("void", "A model", us.fit(people, schema, "copula", epsilon=20.0, seed=1))


def page(name: str, heading: str, model: us.Model, **options: object) -> None:
    """Writes a report, and a screenshot of what stands below a heading."""
    with tempfile.TemporaryDirectory() as folder:
        made = us.report(model, Path(folder, f"{name}.html"), learners=(), **options)  # pyright: ignore[reportArgumentType]
        shutil.copy(made, GALLERY / made.name)
    shoot(GALLERY / f"{name}.html", heading)


def shoot(path: Path, heading: str) -> None:
    from playwright.sync_api import sync_playwright

    with sync_playwright() as driver:
        browser = driver.chromium.launch(executable_path=shutil.which("chromium"), args=["--no-sandbox"])
        view = browser.new_page(viewport={"width": WIDTH, "height": HEIGHT}, device_scale_factor=0.7)
        view.goto(path.as_uri())
        view.get_by_role("heading", name=heading).first.evaluate("one => one.scrollIntoView()")
        view.screenshot(path=path.with_suffix(".png"))
        browser.close()


def picture(model: us.Model, people: pl.DataFrame) -> None:
    """The middle of what the demonstration prints, as a drawing of a terminal that loads no font."""
    console = Console(highlight=False, record=True, force_terminal=True, width=84, file=io.StringIO())
    synthetic = model.sample(len(people))
    console.print("[bold]$ understudy demo[/bold]\n")
    console.print(demo_tables.receipt_panel(model.receipt, console.width))
    console.print(demo_tables.distributions(people, synthetic))
    console.print(demo_tables.correlations(people, synthetic, demo.PAIRS))
    console.print(demo_tables.network(model.parents, datasets.EXAMPLE_PARENTS))
    drawn = console.export_svg(title="understudy demo", unique_id="demo")
    drawn = re.sub(r"@font-face \{.*?\}\s*", "", drawn, flags=re.DOTALL).replace("Fira Code, monospace", "monospace")
    (DOCS / "demo.svg").write_text(drawn)


if __name__ == "__main__":
    main()
