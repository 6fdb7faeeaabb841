"""Fuzzing: no file makes a reader crash, hang, take a gigabyte, or raise anything but one line of this library.

Inputs are sound files with random damage, each made from its number (`reading.py`). `make test-all` reads 10⁵ of them
in processes of their own (UNDERSTUDY_FAULTS=full); otherwise there are 3 000, and a few in the process of the tests.
"""

import gzip
import io
import json
import os
import subprocess
import sys
from pathlib import Path

import other_bombs
import polars as pl
import pytest
import zstandard

import bombs
import reading
import understudy as us
from conftest import MIXED, mixed_table
from understudy import datasets
from understudy.privacy.ledger_file import LedgerFile

FULL = os.environ.get("UNDERSTUDY_FAULTS") == "full"
INPUTS = {"ledger": 40_000, "schema": 25_000, "model": 15_000, "csv": 10_000, "parquet": 10_000}
OTHERS = {"arrow": 4_000, "excel": 1_000, "statistical": 2_000}
BOMBS = {**bombs.BOMBS, **other_bombs.BOMBS}
VISITS = """
name = "visits"
rows = 1000
unit = "person"
max_rows_per_unit = 4
order = ["icd", "admission", "discharge", "a", "b", "total"]
ignore = ["note"]
missing = ["?", "NA"]
constraints = ["discharge >= admission", "total = a + b", "a <= total"]
[file]
delimiter = ";"
decimal = ","
encoding = "windows-1252"
[columns.icd]
kind = "categorical"
levels = "prefix"
[columns.admission]
kind = "date"
format = "%d.%m.%Y"
low = 2000-01-01
[columns.discharge]
kind = "date"
format = "%d.%m.%Y"
[columns.a]
kind = "integer"
low = 0
high = 10
[columns.b]
kind = "continuous"
decimals = 2
low = 0.0
high = 99.5
atoms = [0.0]
nullable = true
[columns.total]
kind = "continuous"
"""


def write_seeds(folder):
    """Sound files of every kind, in a folder for each."""
    for kind in (*INPUTS, *OTHERS):
        (folder / kind).mkdir()
    schema, table = datasets.example_schema(), datasets.example(60)
    for method in ("copula", "independent", "mst", "privbayes"):
        us.fit(datasets.example(300), schema, method, epsilon=1.0, seed=1).save(folder / f"model/{method}.understudy")
    us.fit(mixed_table(200), MIXED, "independent", epsilon=1.0, seed=1).save(folder / "model/mixed.understudy")
    schema.write(folder / "schema/example.toml")
    MIXED.write(folder / "schema/mixed.toml")
    (folder / "schema/visits.toml").write_text(VISITS)
    LedgerFile(folder / "ledger/capped.jsonl").set_cap("example", 3.0, 1e-4)
    for name in ("capped", "free"):
        LedgerFile(folder / f"ledger/{name}.jsonl").charge("example", 1.0, 1e-6, "copula")
        LedgerFile(folder / f"ledger/{name}.jsonl").charge("other", 0.5, 1e-7, "aim", version="0.1.0")
    _write_tables(folder, table)


def _write_tables(folder, table):
    text = table.write_csv().encode()
    (folder / "csv/plain.csv").write_bytes(text)
    (folder / "csv/packed.csv.gz").write_bytes(gzip.compress(text))
    (folder / "csv/packed.csv.zst").write_bytes(zstandard.ZstdCompressor().compress(text))
    quoted = table.with_columns(region=pl.concat_str(pl.lit('a "b", '), "region"))
    quoted.write_csv(folder / "csv/quoted.tsv", separator="\t", quote_style="always")
    for packing in ("uncompressed", "snappy", "zstd", "gzip", "lz4"):
        table.write_parquet(folder / f"parquet/{packing}.parquet", compression=packing)
    import pyarrow.parquet

    pyarrow.parquet.write_table(table.to_arrow(), folder / "parquet/arrow.parquet", data_page_version="2.0")
    _write_others(folder, table)


def _write_others(folder, table):
    import openpyxl
    import pyreadstat

    for packing in ("uncompressed", "zstd", "lz4"):
        table.write_ipc(folder / f"arrow/{packing}.arrow", compression=packing)
        table.write_ipc_stream(folder / f"arrow/{packing}_stream.arrow", compression=packing)
    book = openpyxl.Workbook()
    for row in (table.columns, *table.iter_rows()):
        book.worksheets[0].append(row)
    book.save(folder / "excel/book.xlsx")
    frame = table.to_pandas()
    pyreadstat.write_sav(frame, folder / "statistical/plain.sav")
    pyreadstat.write_sav(frame, folder / "statistical/packed.zsav", compress=True)
    pyreadstat.write_dta(frame, folder / "statistical/stata.dta")
    frame.to_stata(folder / "statistical/linked.dta", version=118, convert_strl=["region"], write_index=False)


@pytest.fixture(scope="module")
def seeds(tmp_path_factory):
    folder = tmp_path_factory.mktemp("seeds")
    write_seeds(folder)
    return folder


def fuzz(kind, folder, count, cwd):
    """What a process of fuzzing says in the end; it fails with the number of the input that broke a reader."""
    environment = {**os.environ, "PYTHONPATH": os.pathsep.join(filter(None, sys.path)), "OPENBLAS_NUM_THREADS": "1"}
    words = [sys.executable, str(Path(reading.__file__)), kind, str(folder), "0", str(count)]
    done = subprocess.run(words, cwd=cwd, env=environment, capture_output=True, text=True)
    number = (cwd / "number").read_text() if (cwd / "number").exists() else "none"
    assert done.returncode == 0, f"{kind} {number}, status {done.returncode}: {done.stderr[-3000:]}"
    return json.loads(done.stdout)


@pytest.mark.slow
@pytest.mark.parametrize("kind", {**INPUTS, **OTHERS})
def test_no_damaged_file_breaks_a_reader(seeds, tmp_path, kind):
    count = {**INPUTS, **OTHERS}[kind] if FULL else 600
    found = fuzz(kind, seeds / kind, count, tmp_path)
    assert found["inputs"] == count and 0 < found["accepted"] < count


@pytest.mark.parametrize("kind", {**INPUTS, **OTHERS})
def test_a_few_damaged_files_break_no_reader(seeds, tmp_path, kind):
    sound = sorted((seeds / kind).glob("*"))
    reading.learn_digests(sound if kind == "model" else [])
    accepted = 0
    for number in range(1_000_000, 1_000_025):
        content, ending, draw = reading.made(kind, sound, number)
        accepted += reading.attempt(kind, content, ending, draw, tmp_path)
    assert accepted < 25


@pytest.mark.slow
@pytest.mark.parametrize("kind", BOMBS)
def test_no_file_of_a_megabyte_takes_a_gigabyte_or_a_minute(tmp_path, kind):
    folder = tmp_path / "bombs"
    folder.mkdir()
    for name, content in BOMBS[kind]().items():
        assert len(content) <= 1.05 * 10**6, f"{name} has {len(content)} bytes"
        (folder / name).write_bytes(content)
    found = fuzz(kind, folder, 0, tmp_path)
    assert found["mb"] < 1024 and found["files"] == len(list(folder.iterdir()))


def test_a_model_that_unpacks_to_too_much_is_refused_unread(tmp_path):
    path = tmp_path / "m.understudy"
    path.write_bytes(bombs._model(b"{}", bombs._zipped({"a.npy": bombs._header((10**12,))})))
    with pytest.raises(ValueError, match="is not a whole understudy model"):
        us.load(path)


@pytest.mark.parametrize("packing", ["gz", "zst"])
def test_a_packed_table_in_several_parts_is_read_whole(tmp_path, packing):
    text = datasets.example(40).write_csv().encode()
    pack = gzip.compress if packing == "gz" else zstandard.ZstdCompressor().compress
    path = tmp_path / f"people.csv.{packing}"
    path.write_bytes(pack(text[:500]) + pack(text[500:]))
    from understudy.tables.packed import unpacked
    from understudy.tables.table import read

    assert unpacked(path) == text
    assert read(path, datasets.example_schema()).exact_rows == 40
    path.write_bytes((pack(text[:500]) + pack(text[500:]))[:-9])
    with pytest.raises(ValueError, match="damaged, cut short"):
        read(path, datasets.example_schema())


def test_a_parquet_file_that_claims_other_numbers_of_values_is_refused(tmp_path):
    """polars believes the number in the header of a page, and the process would end for want of memory."""
    from understudy.tables.table import read

    whole = io.BytesIO()
    datasets.example(60).write_parquet(whole, compression="uncompressed")
    content, path, refused = whole.getvalue(), tmp_path / "people.parquet", 0
    varint = b"\x15\x78"  # a field of type i32 with the value 60
    for place in range(len(content)):
        if content[place : place + 2] == varint:
            path.write_bytes(content[:place] + b"\x15\xfe\xff\xff\xff\x0f" + content[place + 2 :])
            with pytest.raises(ValueError, match="cannot be read as Parquet"):
                read(path, datasets.example_schema())
            refused += 1
    assert refused
