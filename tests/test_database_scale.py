"""Databases that are joined some units at a time, from files to a model: the same bytes, and what a failure costs."""

# pyright: reportArgumentType=false, reportAttributeAccessIssue=false, reportCallIssue=false

import dataclasses

import polars as pl
import pytest

import understudy as us
from clinic import clinic, clinic_schema
from commands import run
from conftest import QUICK
from offices import offices, offices_schema
from row_watch import watching
from understudy.privacy import stored
from understudy.privacy.ledger import Ledger
from understudy.privacy.ledger_file import LedgerFile
from understudy.synthesizers import METHODS
from understudy.synthesizers.relational.planning import able_methods
from understudy.tables import streaming, unit_links, unit_ranges
from understudy.tables.structure import TableError


@pytest.fixture
def cut(monkeypatch):
    """Cuts tables into small pieces, keys into groups, and units into ranges; lists the partitions of each table."""
    monkeypatch.setattr(streaming, "_LEAST_ROWS", 70)
    monkeypatch.setattr(streaming, "_SHARE", 2**40)
    monkeypatch.setattr(unit_ranges, "_RANGE", 2**15)
    monkeypatch.setattr(unit_links, "BYTES", 2**19)
    locked, partitions = stored.StoredRows.locked, list[int]()

    def counted(self, **given):
        partitions.append(len(self._parts))
        return locked(self, **given)

    monkeypatch.setattr(stored.StoredRows, "locked", counted)
    return partitions


def in_files(tables, folder, many=4):
    """A folder with a folder of files for each table."""
    folder.mkdir(exist_ok=True)
    for name, frame in tables.items():
        (folder / name).mkdir()
        for i in range(many):
            part = frame[frame.height * i // many : frame.height * (i + 1) // many]
            part.write_parquet(folder / name / f"{i}.parquet")
    return folder


def fit(given, method, schema=None, **options):
    configured = METHODS[method](**QUICK.get(method, {}))
    return us.fit(given, schema or clinic_schema(), configured, epsilon=2.0, seed=3, progress=False, **options)


SLOW = [name for name in able_methods() if name not in ("independent", "mst")]


@pytest.mark.parametrize("method", ["independent", "mst", *(pytest.param(m, marks=pytest.mark.slow) for m in SLOW)])
def test_a_model_has_the_same_bytes_however_its_tables_are_cut(method, cut, tmp_path):
    tables = clinic(200)
    whole = fit(tables, method)
    assert not cut
    folder = in_files(tables, tmp_path / "clinic")
    assert fit(folder, method, memory=0.25).sha256 == whole.sha256
    assert min(cut) > 2


@pytest.mark.parametrize("method", ["independent", pytest.param("prada", marks=pytest.mark.slow)])
def test_memory_and_second_keys_make_no_difference(method, cut, tmp_path):
    tables, schema = offices(80), offices_schema()
    whole = fit(tables, method, schema)
    folder = in_files(tables, tmp_path / "offices", 3)
    for memory in (0.25, 1.0):
        assert fit(folder, method, schema, memory=memory).sha256 == whole.sha256
    assert len(set(cut)) > 1


def test_a_single_table_with_columns_of_its_units_may_be_in_files(cut, tmp_path):
    text = """
    name = "visits"
    unit = "who"
    max_rows_per_unit = 3
    columns.sex = { kind = "categorical", values = ["f", "m"], per_unit = true }
    columns.cost = { kind = "continuous", low = 0, high = 10 }
    """
    table = pl.DataFrame({"who": [i % 90 for i in range(300)], "cost": [i % 7 * 1.1 for i in range(300)]})
    table = table.with_columns(sex=pl.when(pl.col("who") % 3 == 0).then(pl.lit("f")).otherwise(pl.lit("m")))
    schema = us.Schema.parse(text)
    in_files({"visits": table}, tmp_path)
    assert fit(tmp_path / "visits", "independent", schema).sha256 == fit(table, "independent", schema).sha256
    assert min(cut) > 1


def test_a_file_of_another_structure_costs_nothing(tmp_path):
    folder, ledger = in_files(clinic(30), tmp_path / "clinic"), tmp_path / "budget.jsonl"
    path = folder / "visits" / "2.parquet"
    pl.read_parquet(path).drop("ward").write_parquet(path)
    with pytest.raises(TableError, match=r"visits.2\.parquet has no column 'ward'"):
        fit(folder, "independent", ledger=ledger)
    assert not ledger.exists()


def test_once_it_is_charged_a_fit_reads_no_file_again(cut, tmp_path, monkeypatch):
    tables, ledger = clinic(100), tmp_path / "budget.jsonl"
    folder, whole, charge = in_files(tables, tmp_path / "clinic"), fit(tables, "independent"), LedgerFile.charge

    def charge_and_lose(*given, **named):
        for path in folder.rglob("*.parquet"):
            path.unlink()
        return charge(*given, **named)

    monkeypatch.setattr(LedgerFile, "charge", charge_and_lose)
    assert fit(folder, "independent", ledger=ledger).sha256 == whole.sha256
    assert LedgerFile(ledger).total("clinic").epsilon == 2.0


def test_a_fit_that_died_goes_on_from_its_checkpoint_in_pieces(cut, tmp_path, monkeypatch):
    tables, checkpoint = clinic(100), tmp_path / "clinic.checkpoint"
    folder, whole = in_files(tables, tmp_path / "clinic"), fit(tables, "independent")
    charge = Ledger.charge

    def dying(self, *given, **named):
        if len(self._charges) > 12:
            raise KeyboardInterrupt
        return charge(self, *given, **named)

    with monkeypatch.context() as patch:
        patch.setattr(Ledger, "charge", dying)
        with pytest.raises(KeyboardInterrupt):
            fit(tables, "independent", checkpoint=checkpoint)
    assert fit(folder, "independent", checkpoint=checkpoint, memory=0.25).sha256 == whole.sha256


def test_shuffled_files_of_a_history_give_the_same_rows_of_each_unit(cut, tmp_path):
    """Orders decide which rows are used and where they stand; ties are up to chance, which goes by a row's number."""
    tables = clinic(100)
    tables["visits"] = tables["visits"].unique(["patient", "admission"], maintain_order=True)
    shuffled = tables | {"visits": tables["visits"].sample(fraction=1.0, shuffle=True, seed=1)}
    schema = dataclasses.replace(
        clinic_schema(), tables={name: clinic_schema()[name] for name in ("patients", "visits")}
    )
    every = {name: tables[name] for name in ("patients", "visits")}
    folder = in_files({name: shuffled[name] for name in every}, tmp_path / "clinic")
    whole, made = (us.fit(each, schema, "independent", epsilon=400.0, seed=1) for each in (every, folder))
    assert made.sha256 == whole.sha256


@pytest.mark.parametrize("method", ["independent", pytest.param("prada", marks=pytest.mark.slow)])
def test_no_function_outside_the_trusted_base_is_handed_a_joined_row(method, tmp_path, monkeypatch):
    """From the charge on; all patients come twice, so that the length of the table of visits is known."""
    patients = clinic(911)["patients"]
    twice = pl.concat([patients.select(patient="id", birth="birth")] * 2).with_row_index("visit")
    day = pl.max_horizontal("birth", pl.date(2010, 1, 1)).dt.offset_by("1d")
    visits = twice.select("visit", "patient", admission=day, discharge=day, age=pl.lit(30), ward=pl.lit("a"))
    given = clinic(30)["prescriptions"]
    folder = in_files({"patients": patients, "visits": visits, "prescriptions": given}, tmp_path / "clinic")
    charge = LedgerFile.charge
    with watching(2 * 911) as watch:

        def charge_and_watch(*given, **named):
            watch.locked = True
            return charge(*given, **named)

        monkeypatch.setattr(LedgerFile, "charge", charge_and_watch)
        fit(folder, method, ledger=tmp_path / "budget.jsonl")
    assert watch.calls > 50 and watch.found == set()


def test_an_engine_that_there_is_not_is_refused_before_anything_is_read():
    with pytest.raises(ValueError, match="engine: expected local or ray, got 'spark'"):
        us.fit({}, clinic_schema(), "independent", epsilon=1.0, engine="spark")


def test_the_command_takes_a_folder_of_folders_and_a_memory(tmp_path):
    folder, schema = in_files(clinic(60), tmp_path / "clinic"), tmp_path / "clinic.toml"
    schema.write_text(clinic_schema().to_toml())
    out = tmp_path / "clinic.understudy"
    words = ["fit", folder, schema, "--epsilon", 1, "--method", "independent", "--memory", 0.5, "-o", out, "--quiet"]
    done = run(*words)
    assert done.exit_code == 0 and us.load(out).schema == clinic_schema()
    (folder / "visits.csv").write_text("patient\n")
    done = run(*words)
    assert done.exit_code == 1 and "there are 2: visits, visits.csv" in done.output
