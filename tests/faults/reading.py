"""One process of fuzzing: reads many damaged files, and ends with a count or with the number of what broke it.

    python reading.py KIND FOLDER FIRST COUNT

The folder holds sound files of the kind to start from. What counts as broken: an error that is not of this library, a
message of more than one line, an input that takes more than `PATIENCE` seconds, more than `MEMORY` bytes of memory.
"""

import contextlib
import faulthandler
import io
import json
import random
import resource
import sys
import time
import traceback
import warnings
import zipfile
from pathlib import Path

import mutations

PATIENCE = 20.0
MEMORY = 2**30

TOML_WORDS = (
    *(b"\n[columns.", b"]\n", b"[[", b'"""', b"'''", b" = ", b"low = ", b"high = ", b"kind = ", b"nullable = true\n"),
    *(
        b'values = ["a", "b"]\n',
        b"rows = ",
        b'unit = "u"\nmax_rows_per_unit = ',
        b"decimals = 3\n",
        b"atoms = [0, 1]\n",
    ),
    *(b'"continuous"', b'"integer"', b'"categorical"', b'"boolean"', b'"datetime"', b'"date"', b"1990-01-01", b"\xff"),
    *(b'constraints = ["age <= salary", "a = b + c", "a implies b"]\n', b'levels = "prefix"\n', b"levels = [1, 3]\n"),
    *(
        b'[file]\ndelimiter = ";"\n',
        b'encoding = "utf-16"\n',
        b'format = "%d.%m.%Y"\n',
        b"missing = ['?']\n",
        b"a.b.c.d = 1",
    ),
)
CSV_WORDS = (
    *(
        b'"',
        b'""',
        b",",
        b"\n",
        b"\r\n",
        b"\r",
        b";",
        b"\t",
        b"#",
        b"NA",
        b"?",
        b"nan",
        b"1e999",
        b"-inf",
        b"\x00",
        b"\xff",
    ),
    *(
        b"\xef\xbb\xbf",
        b"\xff\xfe",
        b"\x1f\x8b",
        b"\x28\xb5\x2f\xfd",
        b"x\x9c",
        b"9" * 400,
        b"0" * 5000,
        b"age",
        b"north",
    ),
)
JSON_WORDS = (
    *(
        b'{"kind": "fit"}\n',
        b'{"kind": "understudy-ledger", "format": 1}\n',
        b"\n",
        b"{",
        b"}",
        b"[" * 100,
        b'"epsilon": ',
    ),
    *(b'"kind": "cap", ', b'"kind": "fit", ', b"-1", b"1e999", b"NaN", b"null", b'"\\ud800"', b"\xff"),
)


class Broken(Exception):
    """A reader did what no file should make it do."""


def _shown(*things: object) -> str:
    """What a person would be shown of all these."""
    return " ".join(str(thing) for thing in things)


def read_model(path: Path, content: bytes, draw: random.Random) -> None:
    import understudy as us

    model = us.load(path)
    try:
        model.sample(3, seed=0)
        _shown(model.receipt, model, model.parents, model.receipt.to_json(), model._repr_html_())
    except Exception as error:
        if is_sound(content) or isinstance(error, MemoryError | Broken):
            raise
        # Somebody made a file that says it is whole. That it cannot be used may be an error of any kind.


def is_sound(content: bytes) -> bool:
    """Whether a model file holds what one of the sound files holds, in other bytes perhaps."""
    with zipfile.ZipFile(io.BytesIO(content)) as container:
        return json.loads(container.read("model.json"))["sha256"] in DIGESTS


DIGESTS: set[str] = set()


def read_schema(path: Path, content: bytes, draw: random.Random) -> None:
    import understudy as us

    schema = us.Schema.read(path)
    if us.Schema.parse(schema.to_toml()) != schema:
        raise Broken("a schema is not the one that was written")
    _shown(schema, schema._repr_html_())
    if draw.randrange(10) == 0:
        us.plan(schema, "independent", epsilon=1.0)


def read_ledger(path: Path, content: bytes, draw: random.Random) -> None:
    from understudy.privacy.ledger_file import LedgerFile

    ledger = LedgerFile(path)
    try:
        before = ledger.total("example")
        _shown(ledger.show(), ledger.cap("example"))
        ledger.charge("example", 0.5, 1e-6, "copula")
    except BaseException:
        if path.read_bytes() != content:
            raise Broken("a ledger that was refused was changed") from None
        raise
    if ledger.total("example").fits != before.fits + 1 or not path.read_bytes().startswith(content):
        raise Broken("a charge did not come on top of what was there")


def read_table(path: Path, content: bytes, draw: random.Random) -> None:
    from understudy import datasets
    from understudy.tables.schema import Schema
    from understudy.tables.table import read

    if draw.randrange(10) == 0:
        Schema.draft(path)
    else:
        read(path, datasets.example_schema(), covered=bool(draw.randrange(4)))


READERS = {
    "model": (read_model, ()),
    "schema": (read_schema, TOML_WORDS),
    "ledger": (read_ledger, JSON_WORDS),
    "csv": (read_table, CSV_WORDS),
    "parquet": (read_table, (b"PAR1", b"\x15\x00", b"\x15\xfe\xff\xff\xff\x0f", b"\xff\xff\xff\x7f")),
    "arrow": (read_table, (b"ARROW1", b"\xff\xff\xff\xff", b"\x00" * 8, b"\xff" * 7 + b"\x7f")),
    "excel": (read_table, (b"PK\x03\x04", b"PK\x01\x02", b"<row>", b"<c>", b"\xff\xff\xff\x7f")),
    "statistical": (read_table, (b"\xff\xff\xff\x7f", b"\xff" * 8, b"\x00" * 8, b"GSO", b"<data>")),
}


WARM = {
    "model": (b"PK", ".understudy"),
    "schema": (b"a = 1", ".toml"),
    "ledger": (b"", ".jsonl"),
    "csv": (b"age\n1\n", ".csv"),
    "parquet": (b"PAR1PAR1", ".parquet"),
    "arrow": (b"ARROW1ARROW1", ".arrow"),
    "excel": (b"PK", ".xlsx"),
    "statistical": (b"$FL2", ".sav"),
}
"""Something small of every kind, so that what is loaded once is not counted."""


def made(kind: str, seeds: list[Path], number: int) -> tuple[bytes, str, random.Random]:
    """The input of this number, and how the name of its file ends."""
    draw = random.Random(f"{kind} {number}")
    seed = seeds[number % len(seeds)]
    content = seed.read_bytes()
    if kind == "model" and draw.randrange(5):
        content = mutations.damaged_model(content, draw, forged=bool(draw.randrange(2)))
    elif kind == "schema" and draw.randrange(2):
        content = mutations.damaged_schema(content, draw)
    else:
        content = mutations.damaged(content, draw, READERS[kind][1])
    return content, "".join(seed.suffixes), draw


@contextlib.contextmanager
def _in_time():
    faulthandler.dump_traceback_later(2 * PATIENCE, exit=True)
    began = time.process_time()
    try:
        yield
    finally:
        faulthandler.cancel_dump_traceback_later()
    if time.process_time() - began > PATIENCE:
        raise Broken(f"took {time.process_time() - began:.1f} s")


def attempt(kind: str, content: bytes, ending: str, draw: random.Random, folder: Path) -> bool:
    """Whether the reader accepts the input.

    Raises:
        Exception: Whatever a reader should not raise.
    """
    path = folder / f"input{ending}"
    path.write_bytes(content)
    try:
        with warnings.catch_warnings():
            warnings.simplefilter("error" if kind == "ledger" else "ignore")
            with _in_time():
                READERS[kind][0](path, content, draw)
        return True
    except ValueError as error:
        if not type(error).__module__.startswith("understudy.") or "\n" in str(error):
            raise
        return False


def learn_digests(seeds: list[Path]) -> None:
    """Remembers what sound models hold."""
    for seed in seeds:
        with zipfile.ZipFile(seed) as container:
            DIGESTS.add(json.loads(container.read("model.json"))["sha256"])


def peak() -> int:
    """The most memory that the process ever had, in bytes."""
    return 1024 * resource.getrusage(resource.RUSAGE_SELF).ru_maxrss


def read_as_they_are(kind: str, files: list[Path]) -> int:
    """Reads files without damaging them, the smallest claim on memory first."""
    content, ending = WARM[kind]
    attempt(kind, content, ending, random.Random(0), Path.cwd())
    base, slowest = peak(), (0.0, "")
    for file in files:
        Path("number").write_text(file.name)
        began = time.process_time()
        attempt(kind, file.read_bytes(), "".join(file.suffixes), random.Random(1), Path.cwd())
        slowest = max(slowest, (time.process_time() - began, file.name))
        if peak() - base > MEMORY:
            print(f"{file.name}: took {(peak() - base) >> 20} MiB", file=sys.stderr)
            return 1
    print(json.dumps({"files": len(files), "slowest": slowest, "mb": (peak() - base) >> 20}))
    return 0


def main(kind: str, folder: str, first: str, count: str) -> int:
    seeds, scratch = sorted(Path(folder).glob("*")), Path.cwd()
    if not int(count):
        return read_as_they_are(kind, seeds)
    learn_digests(seeds if kind == "model" else [])
    for seed in seeds:  # whatever is loaded for sound files is loaded now
        attempt(kind, seed.read_bytes(), "".join(seed.suffixes), random.Random(0), scratch)
    base, accepted, slowest = peak(), 0, (0.0, 0)
    for number in range(int(first), int(first) + int(count)):
        content, ending, draw = made(kind, seeds, number)
        Path("number").write_text(str(number))  # if the process dies, this tells by which input
        began = time.process_time()
        try:
            accepted += attempt(kind, content, ending, draw, scratch)
        except BaseException as error:
            print(f"{kind} {number}: {''.join(traceback.format_exception(error))[-3000:]}", file=sys.stderr)
            return 1
        slowest = max(slowest, (time.process_time() - began, number))
        if peak() - base > MEMORY:
            print(f"{kind} {number}: took {(peak() - base) >> 20} MiB", file=sys.stderr)
            return 1
    print(json.dumps({"inputs": int(count), "accepted": accepted, "slowest": slowest, "mb": (peak() - base) >> 20}))
    return 0


if __name__ == "__main__":
    sys.exit(main(*sys.argv[1:]))
