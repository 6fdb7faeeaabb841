"""Costs on disk: the same answers as without, from public numbers alone, whatever happens to the files."""

import dataclasses
import json
import os

import numpy as np
import pytest

from plans import ADAPTIVE, FIND, MOMENTS, PLANS, TRAIN
from understudy.privacy import accounting, cost_cache
from understudy.privacy.calibration import calibrate
from understudy.privacy.ledger import FilterShare, Ledger
from understudy.privacy.plan import Budget

BUDGET = Budget(epsilon=1.0, delta=1e-6)


@pytest.fixture
def folder(tmp_path, monkeypatch):
    monkeypatch.setenv("XDG_CACHE_HOME", str(tmp_path))
    monkeypatch.setattr(accounting, "_costs", {})
    return tmp_path / "understudy" / "costs"


def _forget(monkeypatch, *, computing=True):
    """As in a new process; without `computing`, one in which no accountant can be loaded."""
    monkeypatch.setattr(accounting, "_costs", {})
    if not computing:

        def refuse():
            raise AssertionError("an accountant was loaded")

        monkeypatch.setattr(accounting.accountants, "load", refuse)


@pytest.mark.parametrize("plan", PLANS.values(), ids=PLANS)
def test_a_plan_priced_before_has_the_same_scale_and_needs_no_accountant(folder, monkeypatch, plan):
    first = calibrate(plan, BUDGET)
    _forget(monkeypatch, computing=False)
    assert calibrate(plan, BUDGET) == first


def test_a_receipt_of_a_plan_priced_before_needs_no_accountant(folder, monkeypatch):
    def receipt():
        ledger = Ledger(BUDGET, [FIND, MOMENTS, ADAPTIVE, TRAIN])
        for _ in range(FIND.times):
            ledger.charge("find", what="", sensitivity=1.0)
        ledger.charge("moments", what="", sensitivity=1.0)
        ledger.charge("train", what="", sensitivity=1.0, times=TRAIN.times)
        ledger.charge(FilterShare("adaptive", 0.7), what="", sensitivity=1.0, mechanism="discrete gaussian")
        return ledger.receipt()

    first = receipt()
    _forget(monkeypatch, computing=False)
    assert receipt() == first


def test_what_a_fit_left_unreleased_is_not_kept(folder):
    ledger = Ledger(BUDGET, [FIND, MOMENTS])
    before = {path.name: path.read_bytes() for path in folder.iterdir()}
    ledger.charge("find", what="", sensitivity=1.0)
    ledger.receipt()
    assert {path.name: path.read_bytes() for path in folder.iterdir()} == before


def test_a_file_holds_numbers_of_the_plan_alone(folder):
    named = [dataclasses.replace(planned, name=f"secret {planned.name}") for planned in (FIND, MOMENTS, TRAIN)]
    calibrate(named, BUDGET)
    (path,) = folder.iterdir()
    assert "secret" not in path.read_text()
    assert path.stat().st_mode & 0o077 == 0


@pytest.fixture(scope="module")
def priced(tmp_path_factory):
    """The scale of a plan, and the name and text of the file that keeps its costs."""
    with pytest.MonkeyPatch.context() as patch:
        patch.setenv("XDG_CACHE_HOME", str(kept := tmp_path_factory.mktemp("kept")))
        patch.setattr(accounting, "_costs", {})
        scale = calibrate(PLANS["sampled"], BUDGET)
        (path,) = (kept / "understudy" / "costs").iterdir()
    return scale, path.name, path.read_text()


@pytest.mark.parametrize(
    "damage",
    [
        lambda text: "",
        lambda text: text[: len(text) // 2],
        lambda text: "[1]",
        lambda text: text.replace('"RDP"', '"XYZ"'),
        lambda text: json.dumps({**json.loads(text), "costs": [[0]]}),
        lambda text: json.dumps({**json.loads(text), "checksum": 5}),
    ],
)
def test_a_damaged_file_counts_as_missing_and_is_made_anew(folder, priced, damage):
    scale, name, whole = priced
    folder.mkdir(parents=True)
    path = folder / name
    path.write_text(damage(whole))
    path.chmod(0o600)
    assert calibrate(PLANS["sampled"], BUDGET) == scale
    assert path.read_text() == whole


def test_a_file_that_others_may_write_to_counts_as_missing(folder, monkeypatch):
    plan = PLANS["gaussians"]
    calibrate(plan, BUDGET)
    (path,) = folder.iterdir()
    path.chmod(0o666)
    assert cost_cache._read(path, path.stem) == {}
    path.chmod(0o600)
    assert cost_cache._read(path, path.stem)


def test_costs_that_somebody_lowered_do_not_lessen_the_noise_for_gaussians(folder, monkeypatch):
    plan = PLANS["gaussians"]
    scale = calibrate(plan, BUDGET)
    (path,) = folder.iterdir()
    kept = json.loads(path.read_text())
    lines = [[*line[:-1], line[-1] / 2] for line in kept["costs"]]
    path.write_text(json.dumps({"costs": lines, "checksum": cost_cache._digest([path.stem, lines])}))
    _forget(monkeypatch)
    assert calibrate(plan, BUDGET) >= scale * (1 - 1e-3)


def test_a_folder_that_cannot_be_written_to_is_no_error(tmp_path, monkeypatch):
    blocked = tmp_path / "a file"
    blocked.touch()
    monkeypatch.setattr(accounting, "_costs", {})
    expected = calibrate(PLANS["gaussians"], BUDGET)
    monkeypatch.setenv("XDG_CACHE_HOME", str(blocked))
    _forget(monkeypatch)
    assert calibrate(PLANS["gaussians"], BUDGET) == expected


@pytest.mark.parametrize(
    "change",
    [{"share": 0.61}, {"times": 2}, {"mechanism": "discrete gaussian"}, {"noise_multiplier": 3.0}],
)
def test_another_plan_has_another_key(change):
    other = [FIND, dataclasses.replace(MOMENTS, **change)]
    assert cost_cache.key_of(other, BUDGET) != cost_cache.key_of([FIND, MOMENTS], BUDGET)


def test_another_budget_or_version_has_another_key(monkeypatch):
    key = cost_cache.key_of([FIND], BUDGET)
    assert cost_cache.key_of([FIND], Budget(epsilon=1.0, delta=2e-6)) != key
    monkeypatch.setattr(np, "__version__", "0")
    cost_cache._code.cache_clear()
    assert cost_cache.key_of([FIND], BUDGET) != key
    cost_cache._code.cache_clear()


def test_names_do_not_matter_to_the_key():
    renamed = [dataclasses.replace(FIND, name="other")]
    assert cost_cache.key_of(renamed, BUDGET) == cost_cache.key_of([FIND], BUDGET)


def test_a_file_of_another_user_counts_as_missing(folder, monkeypatch):
    calibrate(PLANS["gaussians"], BUDGET)
    (path,) = folder.iterdir()
    monkeypatch.setattr(os, "getuid", lambda: path.stat().st_uid + 1)
    assert cost_cache._read(path, path.stem) == {}
