"""The model: the same after a round trip, whole or not at all, and without a row of what it was fitted to."""

import datetime
import gc
import io
import json
import zipfile
from typing import Any

import numpy as np
import polars as pl
import pytest

import understudy
from conftest import MIXED, mixed_table, quick
from understudy.model import Model, ModelError, load
from understudy.privacy.rows import PrivateRows
from understudy.synthesizers import METHODS

every_method = pytest.mark.parametrize("method", METHODS)


@pytest.fixture(scope="module")
def saved(tmp_path_factory):
    path = tmp_path_factory.mktemp("models") / "m.understudy"
    model = understudy.fit(mixed_table(400), MIXED, epsilon=5.0, seed=0)
    model.save(path)
    return path


@every_method
def test_a_loaded_model_draws_the_same_rows(tmp_path, mixed, method):
    model = understudy.fit(mixed, MIXED, quick(method), epsilon=2.0, seed=1)
    model.save(tmp_path / "m.understudy")
    again = load(tmp_path / "m.understudy")
    assert again.sample(200, seed=3).equals(model.sample(200, seed=3))
    assert again.receipt == model.receipt
    assert again.method == model.method
    assert again.parents == model.parents
    assert again.schema == MIXED
    assert repr(again) == repr(model)


def test_a_model_file_is_json_and_arrays_without_pickle(saved):
    with zipfile.ZipFile(saved) as archive:
        assert archive.namelist() == ["model.json", "arrays.npz"]
        json.loads(archive.read("model.json"))
        arrays = np.load(io.BytesIO(archive.read("arrays.npz")), allow_pickle=False)
        assert all(arrays[name].dtype.kind in "fbiuU" for name in arrays.files)


# No row of the training data.

NUMBER, INSTANT, WORD = 123456.789012, datetime.datetime(2017, 3, 5, 7, 11, 13, 171717), "Xanthippe"


def planted(n):
    """A mixed table with one unmistakable row in it."""
    table = mixed_table(n)
    row = pl.DataFrame(
        {
            "age": [77],
            "income": [NUMBER],
            "weight": [71.828182845904],
            "city": [WORD],
            "colour": ["Zinnober"],
            "member": [True],
            "joined": [INSTANT],
        },
        schema=table.schema,
    )
    return pl.concat([table[: n // 2], row, table[n // 2 :]])


@every_method
@pytest.mark.parametrize("epsilon", [1.0, 1e6])
def test_a_model_file_holds_no_value_of_a_row(tmp_path, method, epsilon):
    table = planted(300)
    model = understudy.fit(table, MIXED, quick(method), epsilon=epsilon, delta=1e-9, seed=0)
    model.save(tmp_path / "m.understudy")
    with zipfile.ZipFile(tmp_path / "m.understudy") as archive:
        text = archive.read("model.json")
        packed = archive.read("arrays.npz")
        arrays = np.load(io.BytesIO(packed), allow_pickle=False)
        numbers = np.concatenate([arrays[n].ravel() for n in arrays.files if arrays[n].dtype.kind == "f"])
        words = {str(word) for n in arrays.files if arrays[n].dtype.kind == "U" for word in arrays[n].ravel()}
    micros = (INSTANT - datetime.datetime(1970, 1, 1)) / datetime.timedelta(microseconds=1)
    for secret in (NUMBER, 71.828182845904, micros):
        assert not np.any(numbers == secret)
        assert repr(secret).encode() not in text
        assert np.float64(secret).tobytes() not in packed
    for column in ("income", "weight"):
        values = table[column].drop_nulls().to_numpy()
        assert not np.isin(values[values != 1000.0], numbers).any()
    assert "Zinnober" not in words and b"Zinnober" not in text
    if epsilon == 1.0:
        assert WORD not in words and WORD.encode() not in text


@every_method
def test_a_model_keeps_no_box_and_no_array_as_long_as_the_table(method):
    n = 1237
    model = understudy.fit(mixed_table(n), MIXED, quick(method), epsilon=1.0, seed=0)
    assert_holds_no_rows(model, n)


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


def test_no_box_outlives_a_fit():
    gc.collect()
    before = sum(isinstance(thing, PrivateRows) for thing in gc.get_objects())
    model = understudy.fit(mixed_table(100), MIXED, epsilon=1.0, seed=0)
    gc.collect()
    assert sum(isinstance(thing, PrivateRows) for thing in gc.get_objects()) == before
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


def rewritten(saved, path, change):
    """The saved model with its JSON changed."""
    with zipfile.ZipFile(saved) as archive:
        document, packed = json.loads(archive.read("model.json")), archive.read("arrays.npz")
    with zipfile.ZipFile(path, "w") as archive:
        archive.writestr("model.json", json.dumps(change(document)))
        archive.writestr("arrays.npz", packed)


CHANGES = {
    "newer format": lambda d: {**d, "format": 99},
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
    rewritten(saved, path, change)
    refused(path)


def test_a_foreign_zip_a_text_a_folder_and_nothing_are_refused(tmp_path):
    with zipfile.ZipFile(tmp_path / "foreign.zip", "w") as archive:
        archive.writestr("readme.txt", "hello")
    (tmp_path / "text").write_text("not a model")
    (tmp_path / "folder").mkdir()
    for name in ("foreign.zip", "text", "folder", "nothing"):
        refused(tmp_path / name)


def test_arrays_with_objects_in_them_are_refused(saved, tmp_path):
    packed = io.BytesIO()
    arrays: dict[str, Any] = {"column/0": np.array([print], dtype=object)}
    np.savez(packed, **arrays)
    with zipfile.ZipFile(saved) as archive:
        document = archive.read("model.json")
    with zipfile.ZipFile(tmp_path / "objects.understudy", "w") as archive:
        archive.writestr("model.json", document)
        archive.writestr("arrays.npz", packed.getvalue())
    refused(tmp_path / "objects.understudy")


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
