"""Parquet files by URL: the same model as from files of this machine, and no key in a message."""

import pytest

import understudy as us
from conftest import MIXED, mixed_table
from understudy.tables.object_store import is_stored, shown
from understudy.tables.streaming import stream
from understudy.tables.structure import TableError

pytest.importorskip("pyarrow")
fsspec = pytest.importorskip("fsspec")


@pytest.fixture
def folder(tmp_path):
    """A folder of three files, with row groups that no partition is cut at, and one that is something else."""
    table = mixed_table(120)
    (tmp_path / "rows" / "more").mkdir(parents=True)
    for i in range(3):
        place = tmp_path / "rows" / ("more" if i == 2 else "")
        table[i * 40 : i * 40 + 40].write_parquet(place / f"{i}.parquet", row_group_size=13)
    (tmp_path / "rows" / "notes.txt").write_text("no table")
    return tmp_path / "rows"


def rows_of(source):
    """How many rows there are, and all columns, as mechanisms would read them."""
    table = stream(source, MIXED)
    assert table is not None
    found = [{name: column.tolist() for name, column in each.read(MIXED.names).items()} for each in table.readers]
    return [repr([row for each in found for row in each[name]]) for name in MIXED.names]


def test_a_url_has_the_cells_of_the_files(folder):
    expected = rows_of(folder)
    assert rows_of(f"file://{folder}") == rows_of(f"file://{folder}/**/*.parquet") == expected
    some = [rows_of(f"file://{folder}/*.parquet"), rows_of(str(folder / "*.parquet"))]
    assert some[0] == some[1] != expected
    assert rows_of(f"file://{folder}/1.parquet") == rows_of(str(folder / "[1].parquet"))


def test_a_store_that_only_fsspec_knows_gives_the_same_model(folder, tmp_path):
    memory = fsspec.filesystem("memory")
    for path in folder.rglob("*.parquet"):
        memory.pipe(f"/bucket/{path.relative_to(folder)}", path.read_bytes())
    try:
        models = [
            us.fit(each, MIXED, "independent", epsilon=1.0, seed=0) for each in (folder, "memory://bucket/**/*.parquet")
        ]
        table = stream("memory://bucket", MIXED)
        assert table is not None and not table.in_files  # no other process has this memory
    finally:
        memory.rm("/bucket", recursive=True)
    for i, model in enumerate(models):
        model.save(tmp_path / str(i))
    assert (tmp_path / "0").read_bytes() == (tmp_path / "1").read_bytes()


def test_a_partition_of_rows_may_begin_and_end_within_a_group(folder):
    table = stream(f"file://{folder}", MIXED)
    assert table is not None
    piece = table.readers[0].piece
    whole = piece.load(MIXED, ["age"]).columns["age"].series
    for first, rows in ((0, 13), (5, 30), (13, 13), (39, 1)):
        part = type(piece)(piece.url, piece.path, piece.name, first, rows).load(MIXED, ["age"])  # pyright: ignore
        assert part.columns["age"].series.equals(whole.slice(first, rows))


@pytest.mark.parametrize(
    ("url", "message"),
    [
        ("file:///nowhere/at/all", "file:///nowhere/at/all: expected Parquet files, and there are none."),
        ("file:///nowhere/*.parquet", "file:///nowhere/*.parquet cannot be reached (FileNotFoundError)."),
        ("az://me:Xanthippe@store/x?sig=Zinnober", "az://store/x cannot be reached"),
    ],
)
def test_what_cannot_be_read_is_named_without_its_keys(url, message):
    with pytest.raises(TableError) as failure:
        us.fit(url, MIXED, "independent", epsilon=1.0)
    assert message in str(failure.value)
    assert "Xanthippe" not in str(failure.value) and "Zinnober" not in str(failure.value)


def test_a_damaged_file_and_a_wrong_column_are_named(folder):
    (folder / "1.parquet").write_bytes(b"PAR1 and nothing else")
    with pytest.raises(TableError, match=r"file:///.*/1\.parquet cannot be read as Parquet"):
        stream(f"file://{folder}", MIXED)
    mixed_table(10).rename({"age": "years"}).write_parquet(folder / "1.parquet")
    with pytest.raises(TableError, match=r"1\.parquet has no column 'age'"):
        stream(f"file://{folder}", MIXED)


def test_urls_of_databases_are_none_of_stores():
    assert is_stored("s3://bucket/rows") and not is_stored("sqlite:///x.db?table=t") and not is_stored("rows/x.parquet")
    assert shown("s3://key:secret@bucket/rows/*.parquet?region=eu") == "s3://bucket/rows/*.parquet"
