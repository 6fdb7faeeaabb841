"""Checks of Python and of the packages that understudy needs.

The one rule: pyproject.toml says what is needed, and nothing is listed again here. It is read from the checkout this
runs from, else from the metadata that was stored when the distribution was installed.
"""

import dataclasses
import importlib.metadata
import platform
import tomllib
from collections.abc import Iterable, Iterator
from pathlib import Path
from typing import Any

from packaging.requirements import Requirement
from packaging.specifiers import SpecifierSet
from packaging.utils import canonicalize_name

import understudy
from understudy.cli.doctor.finding import Finding
from understudy.core.version import __version__

DISTRIBUTION = "understudy-dp"
PURPOSES = {
    "eval": "the learners of `understudy evaluate --learners`, and figures",
    "files": "Excel, SPSS, Stata and SAS files, and DuckDB and PostgreSQL databases",
    "gpu": "fits on an NVIDIA card",
    "browser": "the tests that open pages in a browser",
    "ray": "fits, samples and benchmarks on a Ray cluster",
    "docs": "the documentation's site, and releases",
    "dev": "the tests",
}


@dataclasses.dataclass(frozen=True, kw_only=True)
class Need:
    """A package that understudy needs.

    Attributes:
        name: What pip calls it.
        versions: The versions that are accepted; empty if any is.
        extra: The extra that asks for it; empty if every fit needs it.
    """

    name: str
    versions: SpecifierSet = dataclasses.field(default_factory=SpecifierSet)
    extra: str = ""

    def __str__(self) -> str:
        return f"{self.name}{self.versions}"

    @property
    def installed(self) -> str | None:
        """The installed version, or None."""
        for name in (self.name, self.name.removesuffix("-cpu")):  # xgboost-cpu is xgboost without support for cards
            try:
                return importlib.metadata.version(name)
            except importlib.metadata.PackageNotFoundError:
                continue
        return None

    @property
    def is_met(self) -> bool:
        return self.installed is not None and self.versions.contains(self.installed, prereleases=True)


def needs() -> list[Need]:
    """Every package that pyproject.toml asks for on this platform."""
    project = _project()
    if project is None:
        metadata = importlib.metadata.metadata(DISTRIBUTION)
        extras = ["", *(metadata.get_all("Provides-Extra") or [])]
        return list(_needs((text, extras) for text in metadata.get_all("Requires-Dist") or []))
    optional = ((text, [extra]) for extra, texts in project["optional-dependencies"].items() for text in texts)
    return list(_needs([*((text, [""]) for text in project["dependencies"]), *optional]))


def _project() -> dict[str, Any] | None:
    """The [project] table of the checkout, which may be newer than what was installed from it."""
    try:
        with open(Path(understudy.__file__).parents[2] / "pyproject.toml", "rb") as file:
            project = tomllib.load(file).get("project", {})
    except (OSError, tomllib.TOMLDecodeError, IndexError):
        return None
    return project if project.get("name") == DISTRIBUTION else None


def _needs(requirements: Iterable[tuple[str, Iterable[str]]]) -> Iterator[Need]:
    """The needs of this platform, from requirements and the extras that may ask for them; "" stands for none."""
    for text, extras in requirements:
        requirement = Requirement(text)
        marker = requirement.marker
        extra = next((each for each in extras if marker is None or marker.evaluate({"extra": each})), None)
        if extra is None or canonicalize_name(requirement.name) == DISTRIBUTION:
            continue
        # A variant of JAX is a plugin of its own: jax[cuda13] brings jax-cuda13-plugin.
        variants = sorted(requirement.extras)
        name = f"{requirement.name}-{variants[0]}-plugin" if variants else requirement.name
        yield Need(name=name, versions=requirement.specifier, extra=extra)


def installed_versions() -> dict[str, Any]:
    """The versions of understudy, of Python and of every installed package that understudy needs."""
    found = {need.name: need.installed for need in needs()}
    packages = {name: version for name, version in sorted(found.items()) if version is not None}
    return {"understudy": __version__, "python": platform.python_version(), "packages": packages}


# Checks -------------------------------------------------------------------------------------------------------------


def check_python() -> Iterator[Finding]:
    project, version = _project(), platform.python_version()
    asked = project["requires-python"] if project else importlib.metadata.metadata(DISTRIBUTION)["Requires-Python"]
    where = f"{platform.python_implementation()} {version} on {platform.system()} {platform.machine()}"
    if SpecifierSet(asked).contains(version, prereleases=True):
        yield Finding(name="python", state="ok", fact=f"{where}; understudy {__version__}")
    else:
        advice = "Make a virtual environment with a newer one."
        yield Finding(name="python", state="problem", fact=f"{where}, but {asked} is needed", advice=advice)


def check_dependencies() -> Iterator[Finding]:
    needed = [need for need in needs() if not need.extra]
    yield from unmet_needs(needed)
    met = [f"{need.name} {need.installed}" for need in needed if need.is_met]
    if met:
        yield Finding(name="dependencies", state="ok", fact=", ".join(met))


def unmet_needs(needed: Iterable[Need]) -> Iterator[Finding]:
    """A problem for every package that is missing or too old."""
    for need in needed:
        if not need.is_met:
            have = f"{need.installed} is installed" if need.installed else "it is not installed"
            fact, advice = f"{need} is needed, but {have}", f"Run: pip install '{need}'"
            yield Finding(name="dependencies", state="problem", fact=fact, advice=advice)


def check_extras() -> Iterator[Finding]:
    wanted = [need for need in needs() if need.extra]
    for extra in dict.fromkeys(need.extra for need in wanted):
        purpose = f"[{extra}], for {PURPOSES.get(extra, 'more')}"
        unmet = [str(need) for need in wanted if need.extra == extra and not need.is_met]
        if unmet:
            fact = f"{purpose}; missing: {', '.join(unmet)}"
            advice = f"If you want it: pip install '{DISTRIBUTION}[{extra}]'"
            yield Finding(name="extra", state="note", fact=fact, advice=advice)
        else:
            yield Finding(name="extra", state="ok", fact=purpose)
