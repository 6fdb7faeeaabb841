"""The supply of packages: the lock file has a hash for each, and the bill of materials lists the same ones."""

import importlib.util
import json
import re
from pathlib import Path

import pytest

ROOT = Path(__file__).parents[1]


@pytest.fixture(scope="module")
def supply():
    specification = importlib.util.spec_from_file_location("supply", ROOT / ".ci" / "supply.py")
    assert specification and specification.loader
    module = importlib.util.module_from_spec(specification)
    specification.loader.exec_module(module)
    return module


def test_every_package_in_the_lock_file_has_a_hash(supply):
    packages = supply.locked()
    assert len(packages) > 50 and all(package["sha256"] for package in packages)


def test_a_line_that_is_no_pin_is_refused(supply, tmp_path):
    (tmp_path / "wrong.lock").write_text("numpy>=2\n")
    with pytest.raises(SystemExit, match="expected NAME==VERSION"):
        supply.locked(tmp_path / "wrong.lock")


def test_the_requirements_are_those_that_pip_checks_by_hash(supply, capsys):
    supply.requirements()
    lines = capsys.readouterr().out.splitlines()
    assert len(lines) == len(supply.locked())
    assert all(re.fullmatch(r"\S+==\S+ --hash=sha256:[0-9a-f]{64}", line) for line in lines)


def test_the_bill_of_materials_lists_what_is_locked(supply):
    document = json.loads((ROOT / "sbom.cdx.json").read_text())
    assert (document["bomFormat"], document["specVersion"]) == ("CycloneDX", "1.5")
    listed = [(each["name"], each["version"], each["hashes"][0]["content"]) for each in document["components"]]
    assert listed == [(each["name"], each["version"], each["sha256"]) for each in supply.locked()], "run `make sbom`"
