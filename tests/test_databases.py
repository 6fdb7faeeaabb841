"""Databases, fitted and drawn: keys that fit, rules that hold, and what the receipt says. Fits are small and cheap."""

# pyright: reportArgumentType=false, reportAttributeAccessIssue=false, reportCallIssue=false, reportOperatorIssue=false
# pyright: reportIndexIssue=false, reportOptionalMemberAccess=false, reportReturnType=false, reportOptionalOperand=false

import dataclasses
import re

import numpy as np
import polars as pl
import pytest

import understudy as us
from clinic import clinic, clinic_schema
from offices import offices, offices_schema
from understudy.core.randomness import Key
from understudy.encoding.context import of_shares
from understudy.encoding.encoder import Encoder
from understudy.synthesizers import METHODS
from understudy.synthesizers.base import GivenSampler
from understudy.synthesizers.relational.drawing import draw_children, draw_root, parents_of
from understudy.synthesizers.relational.fitted import FittedTable
from understudy.synthesizers.relational.planning import designs_for
from understudy.tables.database_context import SUMMARIES
from understudy.tables.database_design import designs, learned_rows
from understudy.tables.families import read_families
from understudy.tables.shards import ShardError


@pytest.fixture(scope="module")
def model():
    return us.fit(clinic(300), clinic_schema(), "independent", epsilon=50, delta=1e-6, seed=1)


@pytest.fixture(scope="module")
def drawn(model):
    return model.sample(200, seed=2)


def test_every_child_has_a_parent_and_no_parent_has_too_many(drawn):
    schema = clinic_schema()
    assert {name: frame.columns for name, frame in drawn.items()} == {
        "patients": ["id", "sex", "birth"],
        "visits": ["visit", "patient", "admission", "discharge", "age", "ward"],
        "prescriptions": ["visit", "drug", "dose"],
    }
    assert drawn["patients"]["id"].to_list()[:2] == ["patients-000001", "patients-000002"]
    assert drawn["visits"]["visit"][0] == "V0001" and drawn["patients"].height == 200
    for child, parent in (("visits", "patients"), ("prescriptions", "visits")):
        [own], [key] = schema[child].foreign_key, schema[parent].key
        assert drawn[parent][key].is_unique().all()
        assert drawn[child].height and drawn[child][own].is_in(drawn[parent][key].implode()).all()
        assert drawn[child].group_by(own).len()["len"].max() <= schema[child].max_per_parent


def test_rules_within_a_row_with_the_parent_and_with_the_row_before_hold_in_every_row(drawn):
    joined = drawn["visits"].join(drawn["patients"], left_on="patient", right_on="id")
    assert (joined["discharge"] >= joined["admission"]).all()
    assert (joined["admission"] >= joined["birth"]).all()
    before = drawn["visits"].select(pl.col("discharge").shift(1).over("patient"))["discharge"]
    later = before.is_not_null()
    assert later.any() and (drawn["visits"]["admission"].filter(later) >= before.filter(later)).all()
    born, seen = joined["birth"], joined["admission"]
    birthday = (
        seen.dt.month().cast(pl.Int32) * 100 + seen.dt.day() >= born.dt.month().cast(pl.Int32) * 100 + born.dt.day()
    )
    assert (joined["age"] == seen.dt.year() - born.dt.year() - 1 + birthday.cast(pl.Int32)).all()


def test_as_many_children_are_drawn_as_parents_have(drawn):
    real = clinic(300)
    for child, own, parent, key in (
        ("visits", "patient", "patients", "id"),
        ("prescriptions", "visit", "visits", "visit"),
    ):
        shares = []
        for tables in (real, drawn):
            many = tables[child].group_by(own).len()["len"].to_numpy()
            counts = np.bincount(many, minlength=6)
            counts[0] = tables[parent][key].n_unique() - len(many)
            shares.append(counts / counts.sum())
        assert np.abs(shares[0] - shares[1]).sum() / 2 < 0.1


def test_one_receipt_covers_all_tables_and_states_what_a_unit_adds_to_each(model):
    receipt = model.receipt
    assert receipt.epsilon <= 50 and receipt.not_released == 0
    assert receipt.unit == "one row of patients, with all that hangs on it"
    most = {"patients": 1.0, "visits": 4.0, "prescriptions": 8.0}  # all there are, at this epsilon
    assert {charge.name.partition(":")[0] for charge in receipt.charges} == set(most)
    for charge in receipt.charges:
        bound = most[charge.name.partition(":")[0]]
        assert charge.sensitivity == (bound**0.5 if charge.mechanism == "gaussian threshold" else bound)
    assert "Adding or removing one row of patients, with all that hangs on it" in receipt.promise


def test_a_model_is_the_same_after_it_was_saved(model, drawn, tmp_path):
    model.save(tmp_path / "clinic.understudy")
    again = us.load(tmp_path / "clinic.understudy")
    assert isinstance(again, us.DatabaseModel) and again.sha256 == model.sha256
    for name, frame in again.sample(200, seed=2).items():
        assert frame.equals(drawn[name])


def test_conditions_are_about_the_root(model):
    women = model.sample(50, seed=1, where={"sex": "f"})
    assert set(women["patients"]["sex"]) == {"f"} and women["patients"].height == 50
    assert set(women["visits"]["patient"]) <= set(women["patients"]["id"])
    nobody = model.sample(0, seed=1)
    assert [frame.height for frame in nobody.values()] == [0, 0, 0]


@dataclasses.dataclass(eq=False)
class Recorder:
    """A generator that knows nothing of shares, and remembers what rows were drawn given, by their rank."""

    generator: GivenSampler
    encoder: Encoder
    given: dict[int, dict[str, np.ndarray]] = dataclasses.field(default_factory=dict)

    def sample_given(self, given, *, key, present=()):
        rank = self.encoder.columns["rank of it"].values(given["rank of it"])
        self.given.setdefault(int(rank[0]), dict(given))
        seen = {name: levels for name, levels in given.items() if not name.startswith("share.")}
        return self.generator.sample_given(seen, key=key, present=present)


def test_rows_are_drawn_given_the_shares_and_means_that_private_rows_would_have(model):
    made, fitted = designs(clinic_schema(), 50, shares=True), model.tables
    root = draw_root(fitted["patients"], made["patients"], 200, key=Key.new(3))
    design, known = made["visits"], fitted["visits"].encoder
    shares = {each.name: of_shares(each.column) for each in design.context if each.kind == "share"}
    encoder = Encoder(design.flat, {**known.columns, **shares}, known.rows)
    recorder = Recorder(fitted["visits"].generator, encoder)
    visits = draw_children(FittedTable(encoder, recorder), design, {"patients": root}, key=Key.new(4))
    parents = parents_of(design, {"patients": root})
    above = {"patients": {name: cells[visits.parent] for name, cells in parents.ancestors["patients"].items()}}
    previous = np.where(visits.rank > 1, np.arange(len(visits.rank)) - 1, -1)
    context = design.context_of(visits.own, above, visits.rank, parents.children[visits.parent], previous)
    summaries = [each.name for each in design.context if each.kind in SUMMARIES]
    assert {"mean.age", "share.ward.1", "share.ward.2"} <= set(summaries)
    assert sorted(recorder.given) == [1, 2, 3, 4]
    for rank, given in recorder.given.items():
        for name in summaries:
            cells = context[name][visits.rank == rank]
            below, above = encoder.columns[name].levels(cells)
            assert np.isnan(cells).all() == (rank == 1) and np.isnan(given[name]).all() == (rank == 1)
            assert ((given[name] >= below - 1e-9) & (given[name] <= above + 1e-9) | np.isnan(cells)).all()


@pytest.mark.parametrize(("method", "shares"), [("prada", 2), ("mst", 0), ("independent", 0)])
def test_shares_are_for_methods_that_learn_from_families(method, shares):
    design = designs_for(clinic_schema(), METHODS[method](), 1.0)["visits"]
    assert sum(each.kind == "share" for each in design.context) == shares


@pytest.mark.slow
def test_children_depend_on_their_parent_and_on_the_row_before():
    model = us.fit(clinic(800), clinic_schema(), "mst", epsilon=100, delta=1e-6, seed=1)
    drawn = model.sample(800, seed=2)
    joined = drawn["visits"].join(drawn["patients"], left_on="patient", right_on="id")
    many = joined.group_by("patient", "sex").len()
    assert many.filter(pl.col("sex") == "m")["len"].mean() - many.filter(pl.col("sex") == "f")["len"].mean() > 1.5
    before = pl.col("ward").shift(1).over("patient")
    assert drawn["visits"].select((pl.col("ward") == before).mean())["ward"][0] > 0.8  # 0.33 if rows were independent
    given = drawn["prescriptions"].join(drawn["visits"], on="visit")
    assert given.select((pl.col("drug") == "drug of " + pl.col("ward")).mean())["drug"][0] > 0.8
    gaps = drawn["visits"].select((pl.col("admission") - pl.col("discharge").shift(1).over("patient")).dt.total_days())
    assert 25 < gaps["admission"].mean() < 40  # 32 in truth
    for name, design in designs(clinic_schema(), 100).items():
        given = {each.name for each in design.context}
        counted = [
            re.findall("'(.*?)'", each.what) for each in model.receipt.charges if each.what.startswith(f"{name}: count")
        ]
        pairs = [set(pair) for pair in counted if len(pair) == 2]
        assert len(pairs) == len(design.flat) - 1 and not any(pair <= given for pair in pairs)  # mst's tree


UNITS = us.Schema(
    columns=(
        us.Column("sex", "categorical", values=("f", "m"), per_unit=True),
        us.Column("born", "integer", low=1900, high=2000, per_unit=True),
        us.Column("year", "integer", low=1990, high=2030),
        us.Column("ward", "categorical", values=("a", "b")),
    ),
    name="stays",
    unit="patient",
    max_rows_per_unit=3,
    constraints=("year >= born",),
)


def test_columns_of_a_unit_are_constant_within_it_and_rows_carry_ids(tmp_path):
    draw = np.random.default_rng(0)
    whose = np.sort(draw.integers(0, 150, 300))
    of_units = pl.DataFrame({"sex": draw.choice(["f", "m"], 150), "born": draw.integers(1900, 2000, 150)})
    table = of_units[whose].with_columns(
        year=pl.Series(draw.integers(2000, 2020, 300)), ward=pl.Series(draw.choice(["a", "b"], 300)), patient=whose
    )
    model = us.fit(table, UNITS, "independent", epsilon=20, delta=1e-6, seed=1)
    drawn = model.sample(500, seed=1)
    assert drawn.columns == ["patient", "sex", "born", "year", "ward"] and drawn.height == 500
    assert (drawn["year"] >= drawn["born"]).all()
    of_each = drawn.group_by("patient").agg(pl.col("sex", "born").n_unique(), pl.len())
    assert of_each["sex"].max() == of_each["born"].max() == 1 and of_each["len"].max() <= 3 < of_each.height
    model.save(tmp_path / "stays.understudy")
    assert us.load(tmp_path / "stays.understudy").sample(500, seed=1).equals(drawn)


def test_a_plan_has_the_lines_of_every_table(tmp_path):
    plan = us.plan(clinic_schema(), "independent", epsilon=1, delta=1e-6)
    assert {each.name.partition(":")[0] for each in plan.items} == {"patients", "visits", "prescriptions"}
    assert plan.rows_to_be_seen.keys() == {"prescriptions.drug"} and plan.unit == "patients"
    assert "visits: context" in str(plan)


def test_a_ledger_is_charged_once_and_before_a_row_is_measured(tmp_path):
    book = tmp_path / "book.jsonl"
    schema = clinic_schema()
    with pytest.raises(us.TableError):
        us.fit({**clinic(20), "visits": pl.DataFrame({"x": [1]})}, schema, "independent", epsilon=1, ledger=book)
    us.fit(clinic(20), schema, "independent", epsilon=1, delta=1e-6, ledger=book)
    assert us.LedgerFile(book).total("clinic").epsilon == 1
    with pytest.raises(us.SchemaError, match="a ledger goes by names"):
        us.fit(clinic(20), dataclasses.replace(schema, name="database"), "independent", epsilon=1, ledger=book)


def test_a_method_that_cannot_draw_given_a_parent_is_refused():
    with pytest.raises(ValueError, match=r"dp-merf cannot draw a table given its parent's\. For a database use one of"):
        us.plan(clinic_schema(), "dp-merf", epsilon=1)


def test_a_table_is_learned_from_few_rows_of_a_unit_however_many_it_may_have():
    assert [learned_rows(most, 1.0) for most in (1, 2, 12, 60, 10_000)] == [1, 2, 3, 3, 3]
    assert [learned_rows(100, epsilon) for epsilon in (0.01, 0.2, 5.0, 25.0)] == [1, 1, 7, 15]
    assert [each.max_rows for each in designs(clinic_schema(), 0.1).values()] == [1, 1, 1]
    assert [each.max_rows for each in designs(clinic_schema(), 5.0).values()] == [1, 4, 7]


COMPOSITE = """
name = "houses"
unit = "houses"
[tables.houses]
key = ["street", "number"]
columns.floors = { kind = "integer", low = 1, high = 9 }
[tables.flats]
key = ["street", "number", "flat"]
parent = "houses"
foreign_key = ["street", "number"]
max_per_parent = 3
columns.rooms = { kind = "integer", low = 1, high = 9 }
"""


def test_a_key_of_several_columns_leads_to_its_parent_and_one_that_is_missing_to_none():
    houses = pl.DataFrame({"street": ["a", "a", "b"] * 40, "number": np.repeat(np.arange(40), 3), "floors": 2})
    houses = houses.unique(["street", "number"], maintain_order=True)
    flats = houses.select("street", "number", flat=pl.lit("1"), rooms=pl.lit(4)).with_columns(
        street=pl.when(pl.col("number") < 20).then("street")  # of the others nobody knows the house
    )
    schema = us.DatabaseSchema.parse(COMPOSITE)
    families = read_families({"houses": houses, "flats": flats}, schema, key=Key.new(0))[0]
    assert len(families["houses"].unit) == 80 and len(families["flats"].unit) == 40
    model = us.fit({"houses": houses, "flats": flats}, schema, "independent", epsilon=50, delta=1e-6, seed=0)
    drawn = model.sample(50, seed=0)
    keys = ["street", "number"]
    assert drawn["houses"].select(keys).is_unique().all() and drawn["flats"].select(*keys, "flat").is_unique().all()
    assert drawn["flats"].height and drawn["flats"].join(drawn["houses"], on=keys, how="anti").is_empty()


@pytest.mark.parametrize("method", ["independent", pytest.param("prada", marks=pytest.mark.slow)])
def test_second_keys_lead_to_rows_that_are_there_and_bosses_in_no_circle(method, tmp_path):
    model = us.fit(offices(150), offices_schema(), method, epsilon=100, delta=1e-6, seed=1)
    drawn = model.sample(120, seed=2)
    staff, cases = drawn["staff"], drawn["cases"]
    assert cases["handler"].drop_nulls().is_in(staff["person"].implode()).all() and cases["handler"].null_count() == 0
    boss = dict(zip(staff["person"], staff["boss"], strict=True))
    office = dict(zip(staff["person"], staff["office"], strict=True))
    for person in boss:
        above = [person]
        while boss[above[-1]] is not None:
            above.append(boss[above[-1]])
            assert office[above[-1]] == office[person] and len(above) <= 3
    assert 0 < staff["boss"].null_count() < staff.height
    same = [office[who] == where for who, where in zip(cases["handler"], cases["office"], strict=True)]
    assert 0.7 < np.mean(same) < 1.0  # one in ten is handled elsewhere
    found = us.evaluate(offices(150, seed=3), drawn, offices_schema(), metrics=["integrity"])
    assert "cases.handler → staff" in set(found["table"]) and set(found["value"]) == {0.0}
    if method == "prada":
        joined = cases.join(staff, left_on="handler", right_on="person")
        assert (
            joined["topic"] == joined["skill"]
        ).mean() > 0.55  # 0.33 by chance; the skill may be missing in an office
    model.save(tmp_path / "offices.understudy")
    again = us.load(tmp_path / "offices.understudy").sample(120, seed=2)
    assert all(frame.equals(again[name]) for name, frame in drawn.items())


def read_shards(folder, name):
    return pl.concat([pl.read_parquet(path) for path in sorted((folder / name).glob("*.parquet"))])


def test_shards_have_the_same_units_for_any_number_of_processes_and_whole_keys(model, tmp_path):
    made = {}
    for processes in (1, 2):
        folder = tmp_path / str(processes)
        found = model.sample_to(folder, 100, seed=4, units_per_shard=40, processes=processes, progress=False)
        assert (found.shards.count, found.made, found.seed) == (3, 3, 4)
        made[processes] = {name: read_shards(folder, name) for name in model.tables}
    assert all(made[1][name].equals(made[2][name]) for name in model.tables)
    patients, visits, given = made[1].values()
    assert patients.height == 100 and patients["id"].n_unique() == 100
    assert patients["id"][-1] == "patients-000100" and visits["visit"].is_unique().all()
    assert (
        visits["patient"].is_in(patients["id"].implode()).all()
        and given["visit"].is_in(visits["visit"].implode()).all()
    )
    schema, names = model.sample(3, seed=1), ("patients", "visits", "prescriptions")
    assert all(made[1][name].schema == schema[name].schema for name in names)


def test_shards_that_are_missing_are_drawn_again_and_another_sample_is_refused(model, tmp_path):
    folder = tmp_path / "made"
    model.sample_to(folder, 50, seed=4, units_per_shard=20, processes=1, progress=False)
    before = {name: read_shards(folder, name) for name in model.tables}
    (folder / "patients" / "part-000001.parquet").unlink()
    (folder / "visits" / "part-000001.parquet").write_bytes(b"half")
    again = model.sample_to(folder, 50, units_per_shard=20, processes=1, progress=False)
    assert again.made == 1 and again.seed == 4
    assert all(read_shards(folder, name).equals(before[name]) for name in model.tables)
    with pytest.raises(ShardError, match="units is 50 there and 60 here"):
        model.sample_to(folder, 60, seed=4, units_per_shard=20)
    women = model.sample_to(tmp_path / "women", 30, where={"sex": "f"}, units_per_shard=20, processes=1, progress=False)
    assert women.acceptance is not None and set(read_shards(tmp_path / "women", "patients")["sex"]) == {"f"}


@pytest.mark.parametrize("given", [{"n": -1}, {"n": True}, {"n": 5, "units_per_shard": 0}, {"n": 5, "engine": "spark"}])
def test_shards_that_cannot_be_are_refused_before_a_folder_is_made(given, model, tmp_path):
    with pytest.raises(ValueError, match="expected"):
        model.sample_to(tmp_path / "made", **given)
    assert not (tmp_path / "made").exists()
