"""The model: the same after a round trip, whole or not at all, and without a row of what it was fitted to."""

import datetime
import gc
import io
import json
import os
import zipfile

import numpy as np
import polars as pl
import pytest

import understudy
from conftest import MIXED, mixed_table
from fits import CITY, COLOUR, INSTANT, NUMBER, WEIGHT, every_method, fitted, quick, table_of
from understudy.model import Model, ModelError, load
from understudy.privacy.rows import PrivateRows


@pytest.fixture(scope="module")
def saved(tmp_path_factory):
    path = tmp_path_factory.mktemp("models") / "m.understudy"
    fitted("copula").save(path)
    return path


@every_method
def test_a_loaded_model_is_the_same(tmp_path, method):
    model = fitted(method)
    model.save(tmp_path / "m.understudy")
    again = load(tmp_path / "m.understudy")
    assert again.sample(200, seed=3).equals(model.sample(200, seed=3))
    assert again.receipt == model.receipt
    assert again.method == model.method
    assert again.parents == model.parents
    assert again.strengths == model.strengths
    assert again.schema == MIXED
    assert repr(again) == repr(model)


def test_a_method_without_densities_says_which_has_them():
    with pytest.raises(TypeError, match=r"independent has no densities\. Fit one of prada\."):
        fitted("independent").log_density(mixed_table(5))


# No row of the training data.


@every_method
@pytest.mark.parametrize("epsilon", [1.0, pytest.param(1e6, marks=pytest.mark.new_shape)])
def test_a_model_file_holds_no_value_of_a_row(tmp_path, method, epsilon):
    fitted(method, epsilon=epsilon).save(tmp_path / "m.understudy")
    with zipfile.ZipFile(tmp_path / "m.understudy") as archive:
        text = archive.read("model.json")
        packed = archive.read("arrays.npz")
        arrays = np.load(io.BytesIO(packed), allow_pickle=False)
        numbers = np.concatenate([arrays[n].ravel() for n in arrays.files if arrays[n].dtype.kind == "f"])
        words = {str(word) for n in arrays.files if arrays[n].dtype.kind == "U" for word in arrays[n].ravel()}
    micros = (INSTANT - datetime.datetime(1970, 1, 1)) / datetime.timedelta(microseconds=1)
    for secret in (NUMBER, WEIGHT, micros):
        assert not np.any(numbers == secret)
        assert repr(secret).encode() not in text
        assert np.float64(secret).tobytes() not in packed
    for column in ("income", "weight"):
        values = table_of("mixed")[column].drop_nulls().to_numpy()
        assert not np.isin(values[values != 1000.0], numbers).any()
    assert COLOUR not in words and COLOUR.encode() not in text
    if epsilon == 1.0:
        assert CITY not in words and CITY.encode() not in text


def assert_holds_no_rows(model: Model, n: int) -> None:
    gc.collect()
    seen, todo = set(), [model.__dict__]
    while todo:
        thing = todo.pop()
        if id(thing) in seen or isinstance(thing, type) or type(thing).__name__ in ("module", "function"):
            continue
        seen.add(id(thing))
        assert not isinstance(thing, PrivateRows | pl.DataFrame | pl.Series)
        if isinstance(thing, np.ndarray):
            assert n not in thing.shape
        todo += gc.get_referents(thing)


def locked_rows() -> int:
    gc.collect()
    return sum(type(thing) is PrivateRows for thing in gc.get_objects())


@pytest.mark.parametrize("method", [pytest.param(name, id=f"method={name}") for name in ("prada", "copula")])
def test_no_locked_rows_outlive_a_fit(method):
    before = locked_rows()
    model = understudy.fit(table_of("mixed"), MIXED, quick(method), epsilon=1.0, seed=0)
    assert locked_rows() == before
    assert model.receipt.not_released == 0


# Files that are not whole models.


def refused(path):
    with pytest.raises(ModelError) as caught:
        load(path)
    assert "\n" not in str(caught.value) and str(path) in str(caught.value)


@pytest.mark.parametrize("part", [0.0, 0.001, 0.2, 0.5, 0.9, 0.999])
def test_a_file_cut_short_is_refused(saved, tmp_path, part):
    whole = saved.read_bytes()
    (tmp_path / "cut.understudy").write_bytes(whole[: int(len(whole) * part)])
    refused(tmp_path / "cut.understudy")


@pytest.mark.parametrize("position", [10, 100, 500, 1500, -500, -100])
def test_a_file_with_a_flipped_byte_is_refused_or_gives_the_same_model(saved, tmp_path, position):
    damaged = bytearray(saved.read_bytes())
    damaged[position] ^= 0xFF
    (tmp_path / "flipped.understudy").write_bytes(bytes(damaged))
    try:
        model = load(tmp_path / "flipped.understudy")
    except ModelError as error:
        assert "\n" not in str(error)
    else:
        assert model.sample(50, seed=0).equals(load(saved).sample(50, seed=0))


def rewritten(saved, path, *, change=lambda document: document, arrays=None):
    """The saved model with its JSON or its arrays changed."""
    with zipfile.ZipFile(saved) as archive:
        document, packed = json.loads(archive.read("model.json")), archive.read("arrays.npz")
    if arrays is not None:
        with np.load(io.BytesIO(packed), allow_pickle=False) as before:
            known = {name: before[name] for name in before.files}
        buffer = io.BytesIO()
        np.savez(buffer, allow_pickle=True, **arrays(known))
        packed = buffer.getvalue()
    with zipfile.ZipFile(path, "w") as archive:
        archive.writestr("model.json", json.dumps(change(document)))
        archive.writestr("arrays.npz", packed)


def test_a_file_written_again_as_it_was_is_the_same_model(saved, tmp_path):
    rewritten(saved, tmp_path / "again.understudy", arrays=lambda known: known)
    assert load(tmp_path / "again.understudy").sample(20, seed=0).equals(load(saved).sample(20, seed=0))


CHANGES = {
    "newer format": lambda d: {**d, "format": 99},
    "older format": lambda d: {**d, "format": 1},
    "no format": lambda d: {k: v for k, v in d.items() if k != "format"},
    "a list": lambda d: [1, 2, 3],
    "unknown method": lambda d: {**d, "method": {"name": "oracle"}},
    "no receipt": lambda d: {**d, "receipt": {}},
    "broken schema": lambda d: {**d, "schema": "rows = 'many'"},
    "no columns": lambda d: {**d, "columns": {}},
    "rows as text": lambda d: {**d, "rows": "many"},
}


@pytest.mark.parametrize("change", CHANGES.values(), ids=CHANGES)
def test_a_file_with_the_wrong_facts_is_refused(saved, tmp_path, change):
    path = tmp_path / "changed.understudy"
    rewritten(saved, path, change=change)
    refused(path)


def test_a_foreign_zip_a_text_a_folder_and_nothing_are_refused(tmp_path):
    with zipfile.ZipFile(tmp_path / "foreign.zip", "w") as archive:
        archive.writestr("readme.txt", "hello")
    (tmp_path / "text").write_text("not a model")
    (tmp_path / "folder").mkdir()
    for name in ("foreign.zip", "text", "folder", "nothing"):
        refused(tmp_path / name)


class Bomb:
    """Unpickling it makes a folder."""

    def __init__(self, path):
        self.path = str(path)

    def __reduce__(self):
        return os.mkdir, (self.path,)


@pytest.mark.parametrize("method", [pytest.param("prada", id="method=prada")])
@pytest.mark.parametrize("place", ["column/0", "generator/params/planted"])
def test_a_planted_pickle_is_refused_and_never_run(tmp_path, place, method):
    path, crater = tmp_path / "planted.understudy", tmp_path / "crater"
    payload = np.empty(1, dtype=object)
    payload[0] = Bomb(crater)
    fitted(method).save(tmp_path / "m.understudy")
    rewritten(tmp_path / "m.understudy", path, arrays=lambda known: {**known, place: payload})
    refused(path)
    assert not crater.exists()
    with zipfile.ZipFile(path) as archive, np.load(io.BytesIO(archive.read("arrays.npz")), allow_pickle=True) as arrays:
        assert arrays[place].shape == (1,) and crater.exists()  # the payload is a live one


def test_a_place_that_cannot_be_written_is_one_line(saved, tmp_path):
    with pytest.raises(ModelError, match="cannot be written"):
        load(saved).save(tmp_path / "no such folder" / "m.understudy")


@pytest.mark.parametrize("n", [-1, 2.5, True, "ten", None])
def test_the_number_of_rows_to_draw_is_a_whole_number(saved, n):
    with pytest.raises(ValueError, match="n: expected a whole number >= 0"):
        load(saved).sample(n)


def test_no_rows_can_be_drawn(saved):
    drawn = load(saved).sample(0)
    assert drawn.shape == (0, len(MIXED))


def test_without_a_seed_samples_differ(saved):
    model = load(saved)
    assert not model.sample(50).equals(model.sample(50))
