"""The release check: what would be uploaded is built, looked at, and tried in empty environments.

    python .ci/release.py [--demo]

Builds the source distribution and the wheel, has twine check them, holds the wheel against 2 MB and against the files
of the package, then installs it with each of Python 3.11, 3.12 and 3.13 that is on the machine, outside of the
checkout, and makes a model, rows and a report with the commands. `--demo` runs the whole demonstration as well.
"""

import glob
import hashlib
import os
import shutil
import subprocess
import sys
import tempfile
import time
import zipfile
from collections.abc import Iterator
from pathlib import Path

ROOT = Path(__file__).resolve().parents[1]
DIST = ROOT / "dist"
LARGEST = 2_000_000  # bytes
VERSIONS = ("3.11", "3.12", "3.13")
SMALL = """
from understudy import datasets
datasets.example(500).write_csv("people.csv")
datasets.example_schema().write("people.toml")
"""
COMMANDS = (
    "--version",
    "schema draft people.csv -o draft.toml",
    "plan people.toml --epsilon 1",
    "fit people.csv people.toml --method mst --epsilon 1 --ledger budget.jsonl -o people.understudy",
    "sample people.understudy -n 100 -o synthetic.csv",
    "report people.understudy --ledger budget.jsonl -o report.html",
)


def build() -> Path:
    """Builds both distributions anew and returns the wheel."""
    shutil.rmtree(DIST, ignore_errors=True)
    # setuptools copies what an earlier build left behind into the wheel.
    shutil.rmtree(ROOT / "build" / "lib", ignore_errors=True)
    run(sys.executable, "-m", "build", "-o", str(DIST), str(ROOT))
    run(sys.executable, "-m", "twine", "check", "--strict", *map(str, sorted(DIST.iterdir())))
    (wheel,) = DIST.glob("*.whl")
    return wheel


def missing_files(wheel: Path) -> list[str]:
    """The files of the package that git knows and that the wheel lacks."""
    listed = subprocess.run(["git", "ls-files", "src/understudy"], cwd=ROOT, capture_output=True, text=True, check=True)
    known = {name.removeprefix("src/") for name in listed.stdout.split()}
    with zipfile.ZipFile(wheel) as archive:
        return sorted(known - set(archive.namelist()))


def interpreters() -> Iterator[tuple[str, str]]:
    """Each version that is on the machine, with a Python that runs: on the path, or one of pyenv's."""
    for version in VERSIONS:
        found = [
            shutil.which(f"python{version}"),
            *glob.glob(os.path.expanduser(f"~/.pyenv/versions/{version}*/bin/python")),
        ]
        for place in filter(None, found):
            asked = subprocess.run(
                [place, "-c", "import sys, venv; print(sys.version)"], capture_output=True, text=True
            )
            if asked.returncode == 0 and asked.stdout.startswith(version):
                yield version, place
                break
        else:
            print(f"Python {version}: not on this machine, not tried")


def try_out(wheel: Path, python: str, *, demo: bool) -> None:
    """Installs the wheel in an empty environment and uses it in an empty folder."""
    with tempfile.TemporaryDirectory() as folder:
        environment, work = Path(folder, "environment"), Path(folder, "work")
        work.mkdir()
        run(python, "-m", "venv", str(environment))
        own = str(environment / "bin" / "python")
        run(own, "-m", "pip", "install", "-q", "--disable-pip-version-check", str(wheel))
        clean = {name: value for name, value in os.environ.items() if name not in ("PYTHONPATH", "PYTHONHOME")}
        run(own, "-c", SMALL, cwd=work, env=clean)
        for words in COMMANDS + ("demo -o demo",) * demo:
            run(str(environment / "bin" / "understudy"), *words.split(), cwd=work, env=clean, quiet=True)
        assert len((work / "synthetic.csv").read_text().splitlines()) == 101
        assert (work / "report.html").stat().st_size > 20_000


def run(*words: str, quiet: bool = False, **options: object) -> None:
    done = subprocess.run(words, capture_output=quiet, text=True, **options)  # type: ignore[call-overload]
    if done.returncode:
        raise SystemExit(f"{' '.join(words[:6])} ended with {done.returncode}.\n{done.stderr or ''}")


def main() -> None:
    wheel = build()
    if lacking := missing_files(wheel):
        raise SystemExit(
            f"{wheel.name} lacks {lacking[0]} and {len(lacking) - 1} more: see package-data in pyproject.toml."
        )
    if wheel.stat().st_size > LARGEST:
        raise SystemExit(f"{wheel.name} has {wheel.stat().st_size} bytes; at most {LARGEST} are meant.")
    for path in sorted(DIST.iterdir()):
        print(
            f"{path.name}: {path.stat().st_size / 1000:.0f} kB, sha256 {hashlib.sha256(path.read_bytes()).hexdigest()}"
        )
    tried = 0
    for version, python in interpreters():
        started = time.monotonic()
        try_out(wheel, python, demo="--demo" in sys.argv and not tried)
        tried += 1
        print(f"Python {version}: installed and used in {time.monotonic() - started:.0f} s")
    if not tried:
        raise SystemExit("No Python to try the wheel with.")


if __name__ == "__main__":
    main()
