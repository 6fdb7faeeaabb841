"""Files of less than a megabyte that would fill a machine's memory, or take it hours, if they were believed."""

import gzip
import io
import zipfile
import zlib

import numpy as np
import polars as pl
import zstandard

MB = 10**6
HEAD = b"age,education_years,salary,working_hours,credit_score,region,savings"
ROW = b"\n1,2,3,4,5,north,7"
LEDGER = b'{"kind": "understudy-ledger", "format": 1}\n'
FIT = b'{"kind":"fit","id":"a","table":"t%d","method":"c","epsilon":1e308,"delta":1e-300,"time":"","version":""}\n'


def _joined(pattern: bytes, count: int, between: bytes = b",") -> bytes:
    return between.join(pattern % number for number in range(count))


def tables() -> dict[str, bytes]:
    """Text files, packed ones among them."""
    zeros = gzip.compress(b"0" * MB)
    frame = zstandard.ZstdCompressor().compress(b"0" * 8 * MB)
    return {
        "columns.csv": HEAD + b"," + _joined(b"%d", 150_000) + ROW,
        "commas.csv": HEAD + b"," * MB + ROW,
        "blank.csv": HEAD + b"\n" * MB,
        "quotes.csv": HEAD + b'\n"' + b'""' * (MB // 2) + b'"',
        "digits.csv": HEAD + b"\n" + b"9" * MB,
        "zeros.csv.gz": gzip.compress(HEAD + b"\n") + zeros * 900,
        "rows.csv.gz": gzip.compress(HEAD) + gzip.compress(ROW * 100_000) * 120,
        "blank.csv.gz": gzip.compress(HEAD) + gzip.compress(b"\n" * MB) * 240,
        "zeros.csv.zst": zstandard.ZstdCompressor().compress(HEAD + b"\n") + frame * 300,
    }


def parquets() -> dict[str, bytes]:
    """Tables that repeat themselves, in columns, in pages and in dictionaries."""
    import pyarrow as pa
    import pyarrow.parquet as pq

    names = HEAD.decode().split(",")

    def written(count: int, region: pa.Array, **options) -> bytes:
        columns = {name: region if name == "region" else pa.array(np.zeros(count)) for name in names}
        whole = io.BytesIO()
        pq.write_table(pa.table(columns), whole, compression="zstd", **options)
        return whole.getvalue()

    long = pa.DictionaryArray.from_arrays(pa.array(np.zeros(3 * MB, np.int32)), pa.array(["x" * MB]))
    many = io.BytesIO()
    pl.DataFrame({name: np.zeros(8 * MB) for name in names}).write_parquet(many)
    return {
        "rows.parquet": many.getvalue(),
        "dictionary.parquet": written(3 * MB, long),
        "texts.parquet": written(8, pa.array(["y" * 40 * MB] * 8), use_dictionary=False),
    }


def schemas() -> dict[str, bytes]:
    """Keys, lists and numbers without end."""
    a, b = b'[columns.a]\nkind="integer"\n', b'[columns.b]\nkind="integer"\n'
    return {
        "key.toml": b".".join([b"a"] * 400_000) + b"=1",
        "quoted.toml": b".".join([b'"a"'] * 200_000) + b"=1",
        "tables.toml": b"\n".join(b"[a%d%s]" % (number, b".a" * 400) for number in range(1000)),
        "lists.toml": b"a=" + b"[" * (MB // 2) + b"]" * (MB // 2),
        "inline.toml": b"a=" + b"{a=" * 240_000 + b"1" + b"}" * 240_000,
        "keys.toml": _joined(b"k%d=1", 90_000, b"\n"),
        "name.toml": b"a" * MB + b"=1",
        "columns.toml": _joined(b'[columns.a%d]\nkind="integer"', 25_000, b"\n"),
        "rules.toml": b"constraints=[" + b'"a >= b",' * 80_000 + b"]\n" + a + b,
        "sum.toml": b'constraints=["a = ' + b"b + " * 200_000 + b'b"]\n' + a + b,
        "rows.toml": b"rows=" + b"9" * MB + b"\n" + a,
        "format.toml": b'[columns.a]\nkind="date"\nformat="' + b"%Y-%m-%d " * 100_000 + b'"',
        "levels.toml": b'[columns.a]\nkind="categorical"\n[columns.a.levels]\n' + _joined(b'a%d="b"', 80_000, b"\n"),
    }


def ledgers() -> dict[str, bytes]:
    """Lines without end, and more tables than anybody has."""
    return {
        "deep.jsonl": LEDGER + b"[" * MB + b"\n",
        "digits.jsonl": LEDGER + b'{"kind":"fit","epsilon":' + b"9" * MB + b"}\n",
        "tables.jsonl": LEDGER + _joined(FIT, 9000, b""),
        "blank.jsonl": LEDGER + b"\n" * MB,
        "name.jsonl": LEDGER + FIT.replace(b"t%d", b"e" * (MB - 200)),
    }


def models() -> dict[str, bytes]:
    """Archives that claim, or hold, far more than their size."""
    long = _header((10**8,))
    return {
        "objects.understudy": _model(b"[" + b"{}," * 80 * MB + b"0]", _zipped({})),
        "most_objects.understudy": _model(b"[" + b"{}," * 5 * MB + b"0]", _zipped({})),
        "deep.understudy": _model(b"[" * 16 * MB, _zipped({})),
        "claimed.understudy": _model(b"{}", _zipped({"a.npy": _header((10**12,))})),
        "short.understudy": _model(b"{}", _zipped({"a.npy": long})),
        "zeros.understudy": _model(b"{}", _zipped({"a.npy": long + b"\0" * 8 * 10**7})),
        "lying.understudy": _lying(),
    }


def _header(shape: tuple[int, ...]) -> bytes:
    whole = io.BytesIO()
    np.lib.format.write_array_header_1_0(whole, {"descr": "<f8", "fortran_order": False, "shape": shape})
    return whole.getvalue()


def _zipped(entries: dict[str, bytes]) -> bytes:
    whole = io.BytesIO()
    with zipfile.ZipFile(whole, "w", zipfile.ZIP_DEFLATED) as archive:
        for name, content in entries.items():
            archive.writestr(name, content)
    return whole.getvalue()


def _model(document: bytes, arrays: bytes) -> bytes:
    return _zipped({"model.json": document, "arrays.npz": arrays})


def _lying() -> bytes:
    """A model whose document is said to have a thousand bytes, and unpacks to 300 million."""
    content = bytearray(_model(b"0" * 300 * MB, b""))
    for place in (22, content.index(b"PK\1\2") + 24):
        content[place : place + 4] = (1000).to_bytes(4, "little")
    for place in (14, content.index(b"PK\1\2") + 16):
        content[place : place + 4] = zlib.crc32(b"0" * 1000).to_bytes(4, "little")
    return bytes(content)


BOMBS = {"csv": tables, "parquet": parquets, "schema": schemas, "ledger": ledgers, "model": models}
