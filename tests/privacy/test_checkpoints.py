"""Checkpoints: a fit that died goes on with what it released, pays once, and its file tells nothing else."""

import dataclasses
import json
import shutil

import numpy as np
import pytest

import understudy as us
from clinic import clinic, clinic_schema
from conftest import MIXED, QUICK, mixed_table
from fits import every_method
from understudy.core.leaves import filled, leaves
from understudy.core.randomness import Key
from understudy.privacy import checkpoints, ledger_marks
from understudy.privacy.checkpoints import Checkpoint, CheckpointError
from understudy.privacy.ledger_file import LedgerError, LedgerFile
from understudy.privacy.plan import Charge
from understudy.synthesizers import METHODS
from understudy.tables.structure import TableError

FACTS = {"version": "1", "epsilon": 1.0, "seed": None}
SLOW = pytest.mark.slow
COUNT = Charge(name="rows", what="how many rows there are", mechanism="discrete gaussian", noise_multiplier=2.0)


def opened(path, **changed):
    return checkpoints.opened(path, {**FACTS, **changed}, identity="i", started="s")


def released(path, *values):
    """A checkpoint that holds these releases, one charge each."""
    with opened(path) as checkpoint:
        for value in values:
            checkpoint.charged(COUNT)
            assert checkpoint.kept() is None
            checkpoint.keep(value)
    return path


def lines(path):
    return path.read_bytes().splitlines(keepends=True)


def kinds(path):
    return [json.loads(line)["kind"] for line in lines(path)]


def cut_to(path, content):
    """What is left of the file if a process died: the same file, which ends earlier."""
    with path.open("r+b") as file:
        file.write(content)
        file.truncate()


def bytes_of(model, path):
    model.save(path)
    return path.read_bytes()


# What a checkpoint keeps.


@pytest.mark.parametrize(
    "value",
    [
        -3.25,
        7,
        (2, 5),
        np.array([[0.1, -1e300], [np.pi, 3.0]]),
        (["a", "ü"], np.array([4.5, 1.0])),
        [[np.float32(0.1), np.zeros((2, 0), np.float32)], [3]],
    ],
)
def test_a_release_is_read_back_to_the_bit(value, tmp_path):
    with opened(released(tmp_path / "c", value)) as checkpoint:
        checkpoint.charged(COUNT)
        found = checkpoint.kept()
    ours, theirs = leaves(found), leaves(value)
    assert type(found) is type(value) and [type(each) for each in ours] == [type(each) for each in theirs]
    for one, other in zip(ours, theirs, strict=True):
        assert np.asarray(one).tobytes() == np.asarray(other).tobytes() and np.shape(one) == np.shape(other)


def test_a_charge_that_released_nothing_is_noted_and_measured_again(tmp_path):
    path = released(tmp_path / "c", 1.0)
    with opened(path) as checkpoint:
        checkpoint.charged(COUNT)
        assert checkpoint.kept() == 1.0
        checkpoint.charged(COUNT)
    assert kinds(path)[-2:] == ["charge", "nothing released"]
    with opened(path) as checkpoint:
        assert checkpoint.releases == 1
        for found in (1.0, None):
            checkpoint.charged(COUNT)
            assert checkpoint.kept() == found


def test_half_a_line_is_no_release_unless_a_key_may_have_been_read(tmp_path):
    """Whatever byte a process died at: the release is whole, or nobody can read it, or the fit does not go on."""
    path = released(tmp_path / "c", 1.0, 2.0)
    whole = path.read_bytes()
    start = whole.rindex(b'{"kind": "sealed"')
    key = whole.rindex(b'"key": "') + len(b'"key": "')
    for end in sorted({*range(start, len(whole), 23), *range(key - 2, key + 3), len(whole) - 2, len(whole)}):
        cut_to(path, whole[:end])
        if key < end < len(whole):
            with pytest.raises(CheckpointError, match="line 7: damaged"), opened(path):
                pass
            continue
        with opened(path) as checkpoint:
            assert checkpoint.releases == (2 if end == len(whole) else 1)


def test_a_checkpoint_of_other_settings_is_refused_and_left_alone(tmp_path):
    path = released(tmp_path / "c", 1.0)
    before = path.read_bytes()
    with (
        pytest.raises(CheckpointError, match="a fit with another epsilon and another seed"),
        opened(path, epsilon=2.0, seed=1),
    ):
        pass
    assert path.read_bytes() == before


def test_a_checkpoint_that_released_nothing_yet_may_become_that_of_another_fit(tmp_path):
    path = released(tmp_path / "c")
    with opened(path, epsilon=2.0) as checkpoint:
        assert not checkpoint.resumed
    with opened(path, epsilon=2.0) as checkpoint:
        assert checkpoint.resumed


def test_a_copy_does_not_go_on(tmp_path):
    path = released(tmp_path / "c", 1.0)
    shutil.copy(path, tmp_path / "d")
    with pytest.raises(CheckpointError, match="is a copy"), opened(tmp_path / "d"):
        pass


def test_two_processes_do_not_share_a_checkpoint(tmp_path):
    with opened(tmp_path / "c"), pytest.raises(CheckpointError, match="another process"), opened(tmp_path / "c"):
        pass


@pytest.mark.parametrize("content", [b"age,pay\n1,2\n", b"{}", b'{"kind": "understudy checkpoint", "format": 9}\n'])
def test_a_file_that_is_no_checkpoint_is_refused_and_left_alone(content, tmp_path):
    (tmp_path / "c").write_bytes(content)
    with pytest.raises(CheckpointError, match="not a checkpoint"), opened(tmp_path / "c"):
        pass
    assert (tmp_path / "c").read_bytes() == content


@pytest.mark.parametrize("line", [b"[]", b"{", b'{"kind": "charge"}', b'{"kind": "release", "key": "00"}'])
def test_a_damaged_line_is_named(line, tmp_path):
    path = released(tmp_path / "c", 1.0)
    cut_to(path, path.read_bytes() + line + b"\n")
    with pytest.raises(CheckpointError, match="line 5: damaged"), opened(path):
        pass


def test_a_fit_that_goes_another_way_is_stopped(tmp_path):
    other = dataclasses.replace(COUNT, what="something else")
    with opened(released(tmp_path / "c", 1.0)) as checkpoint, pytest.raises(CheckpointError, match="something else"):
        checkpoint.charged(other)


def test_secret_words_do_not_come_from_the_root_that_is_kept():
    one, other = (dataclasses.replace(Key.new(), public=5).child("x") for _ in range(2))
    assert one.words(4).tolist() != other.words(4).tolist()
    assert one.sealed().words(4).tolist() != other.sealed().words(4).tolist()
    np.testing.assert_array_equal(one.numpy().random(3), other.numpy().random(3))


def test_numbers_are_put_back_into_a_value_of_the_same_shape():
    value = {"a": (np.ones(2, np.float32), [1.5, None]), "b": COUNT}
    other = filled(value, [each * 2 for each in leaves(value)])
    assert leaves(other)[1:3] == [3.0, 4.0] and other["b"].noise_multiplier == 4.0 and other["b"].what == COUNT.what
    with pytest.raises(ValueError, match="same shapes"):
        filled(value, leaves(value)[1:])


# Whole fits.


def fit(table, method, path, **options):
    configured = METHODS[method](**QUICK.get(method, {}))
    return us.fit(table, MIXED, configured, epsilon=1.0, checkpoint=path, progress=False, **options)


def assert_goes_on_from_any_release(method, tmp_path, parts):
    """Seeded, the model has the same bytes; unseeded, kept releases stay, and those of a whole fit give its model."""
    table, path = mixed_table(230), tmp_path / "c"
    whole = bytes_of(fit(table, method, path, seed=3), tmp_path / "m")
    content = lines(path)
    ends = [i + 1 for i, kind in enumerate(kinds(path)) if kind == "release"]
    for part in parts:
        cut_to(path, b"".join(content[: ends[int(part * (len(ends) - 1))]]))
        assert bytes_of(fit(table, method, path, seed=3), tmp_path / "m") == whole
        assert len(lines(path)) == len(content)
    model = bytes_of(fit(table, method, tmp_path / "d"), tmp_path / "m")
    kept = (tmp_path / "d").read_bytes()
    others = mixed_table(60)  # no row is read: the model of another table is the same
    assert bytes_of(fit(others, method, tmp_path / "d"), tmp_path / "m") == model
    assert (tmp_path / "d").read_bytes() == kept


def test_a_fit_goes_on_from_any_release(tmp_path):
    assert_goes_on_from_any_release("independent", tmp_path, [0.6])


@pytest.mark.slow
@every_method
def test_every_method_goes_on_from_any_release(method, tmp_path):
    assert_goes_on_from_any_release(method, tmp_path, [0.0, 0.5, 0.9, 1.0])


def test_a_partition_that_cannot_be_read_ends_the_fit_which_goes_on_once_it_can(tmp_path, monkeypatch):
    rows, path, budget = tmp_path / "rows", tmp_path / "c", tmp_path / "budget.jsonl"
    rows.mkdir()
    for i in range(3):
        mixed_table(230)[i * 80 : i * 80 + 80].write_parquet(rows / f"{i}.parquet")
    charge = LedgerFile.charge

    def charge_and_lose(*given, **named):
        (rows / "2.parquet").rename(tmp_path / "elsewhere")
        return charge(*given, **named)

    monkeypatch.setattr(LedgerFile, "charge", charge_and_lose)
    said = r"2\.parquet cannot be read.*stays charged.*1 measurement had been released.*with the same checkpoint"
    with pytest.raises(TableError, match=said):
        fit(rows, "independent", path, ledger=budget)
    assert kinds(path)[1:5] == ["charge", "sealed", "release", "charge"] and kinds(path)[-1] == "nothing released"
    kept = path.read_bytes()
    (tmp_path / "elsewhere").rename(rows / "2.parquet")
    model = fit(rows, "independent", path, ledger=budget)
    assert path.read_bytes().startswith(kept) and kinds(path).count("nothing released") == 1
    assert LedgerFile(budget).total("mixed").fits == 1 and LedgerFile(budget).fit(model.receipt.id) is not None


class Died(BaseException):
    """What ends a process at any moment."""


@pytest.fixture
def dying(monkeypatch):
    """Ends a fit before so many of its releases are kept; 0 lets it live."""

    def after(releases):
        left, keep = [releases], Checkpoint.keep

        def kept(self, value):
            left[0] -= 1
            if left[0] == -1:
                raise Died
            keep(self, value)

        monkeypatch.undo()
        monkeypatch.setattr(Checkpoint, "keep", kept)

    yield after
    monkeypatch.undo()


def test_a_fit_beyond_the_cap_goes_on_because_it_was_charged(tmp_path, dying):
    path, budget = tmp_path / "c", tmp_path / "budget.jsonl"
    LedgerFile(budget).set_cap("mixed", 1.0, 1e-6)
    dying(after := 3)
    with pytest.raises(Died):
        fit(mixed_table(60), "independent", path, ledger=budget)
    assert kinds(path).count("release") == after
    dying(-5)
    fit(mixed_table(60), "independent", path, ledger=budget)
    assert LedgerFile(budget).total("mixed").epsilon == 1.0
    with pytest.raises(us.BudgetExceeded):
        fit(mixed_table(60), "independent", tmp_path / "another", ledger=budget)


def test_an_older_state_that_was_put_back_does_not_go_on_where_a_ledger_knows(tmp_path, dying):
    """Whatever the process died of: the ledger has a mark of each release before anybody has it."""
    path, budget = tmp_path / "c", tmp_path / "budget.jsonl"
    dying(2)
    with pytest.raises(Died):
        fit(mixed_table(60), "independent", path, ledger=budget)
    older = path.read_bytes()
    dying(2)
    with pytest.raises(Died):
        fit(mixed_table(60), "independent", path, ledger=budget)
    newer = path.read_bytes()
    cut_to(path, older)
    dying(-5)
    with pytest.raises(CheckpointError, match=r"holds 2 of the 4 releases .* an older state of it was put back"):
        fit(mixed_table(60), "independent", path, ledger=budget)
    cut_to(path, newer)
    model = fit(mixed_table(60), "independent", path, ledger=budget)
    book = LedgerFile(budget)
    assert book.total("mixed").fits == 1 and [each["kind"] for each in book.records()] == ["fit"]
    assert ledger_marks.marked(book, model.receipt.id) == kinds(path).count("release")
    assert "releases" not in book.show()


def test_a_release_that_cannot_be_marked_is_nobodys(tmp_path, monkeypatch):
    book = LedgerFile(tmp_path / "budget.jsonl")
    with opened(tmp_path / "c") as checkpoint:
        checkpoint.bind(book, "people")
        monkeypatch.setattr(LedgerFile, "_append", lambda *given: (_ for _ in ()).throw(OSError(28, "full")))
        checkpoint.charged(COUNT)
        with pytest.raises(LedgerError, match="full"):
            checkpoint.keep(1.0)


@pytest.mark.parametrize("line", ['{"kind": "releases", "id": "i", "table": "t", "releases": "1"}', '{"kind": "mark"}'])
def test_a_mark_that_is_none_is_refused(line, tmp_path):
    path = tmp_path / "budget.jsonl"
    LedgerFile(path).set_cap("mixed", 1.0, 1e-6)
    path.write_text(path.read_text() + line + "\n")
    with pytest.raises(LedgerError, match="line 3"):
        LedgerFile(path).records()


def test_the_file_of_a_fit_holds_charges_releases_and_public_facts_and_nothing_else(tmp_path):
    model = fit(mixed_table(60), "independent", tmp_path / "c")
    head, *entries = map(json.loads, lines(tmp_path / "c"))
    assert set(head) == {"kind", "format", "file", "id", "started", "public", "facts"}
    assert head["id"] == model.receipt.id and head["started"] == model.receipt.time
    charges = [{k: v for k, v in dataclasses.asdict(each).items() if k != "epsilon"} for each in model.receipt.charges]
    assert [{k: v for k, v in each.items() if k != "kind"} for each in entries if each["kind"] == "charge"] == charges
    others = [set(each) for each in entries if each["kind"] != "charge"]
    assert others and all(each in ({"kind", "content"}, {"kind", "key"}) for each in others)


@pytest.mark.parametrize(
    "method",
    ["independent", pytest.param("aim", marks=pytest.mark.slow), pytest.param("prada", marks=pytest.mark.slow)],
)
def test_a_fit_of_a_database_goes_on_from_any_release(method, tmp_path, dying):
    """Its tables are charged to one ledger, so that one file has the releases of all."""
    path, budget, tables = tmp_path / "c", tmp_path / "budget.jsonl", clinic(60)
    configured = METHODS[method](**QUICK.get(method, {}))

    def fit_database(**options):
        return us.fit(tables, clinic_schema(), configured, epsilon=1.0, progress=False, checkpoint=path, **options)

    whole = bytes_of(fit_database(seed=3), tmp_path / "m")
    content = lines(path)
    ends = [i + 1 for i, kind in enumerate(kinds(path)) if kind == "release"]
    for end in (ends[0], ends[len(ends) // 2], ends[-1]):
        cut_to(path, b"".join(content[:end]))
        assert bytes_of(fit_database(seed=3), tmp_path / "m") == whole
    path.unlink()
    for _ in range(3):
        dying(len(ends) // 5)
        with pytest.raises(Died):
            fit_database(ledger=budget)
    dying(-5)
    model = fit_database(ledger=budget)
    assert LedgerFile(budget).total("clinic").fits == 1 and LedgerFile(budget).fit(model.receipt.id) is not None
    assert ledger_marks.marked(LedgerFile(budget), model.receipt.id) == kinds(path).count("release")


def test_many_fits_have_no_checkpoint(tmp_path):
    with pytest.raises(ValueError, match="expected one fit, got 2"):
        us.fit_many(mixed_table(60), MIXED, ["copula"] * 2, epsilon=1.0, checkpoint=tmp_path / "c")
