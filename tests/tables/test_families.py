"""Families: which rows of a database are used, and what a unit can add to each table."""

import numpy as np
import polars as pl
import pytest

import understudy as us
from clinic import clinic, clinic_schema
from understudy.core.randomness import Key
from understudy.tables.column import Column
from understudy.tables.database_context import Context, context_cells, running_mean, years
from understudy.tables.database_design import MOST_CONTEXT, designs
from understudy.tables.families import flattened, read_families, sources_of

KEY = Key.new(0)


def families(tables):
    return read_families(tables, clinic_schema(), key=KEY)[0]


def crowd(more: int) -> dict[str, pl.DataFrame]:
    """A clinic in which patient 100 has so many visits more, each with as many prescriptions more."""
    tables = clinic(30)
    some = tables["visits"].filter(pl.col("patient") == 100).head(1)
    visits = pl.concat([some.with_columns(visit=pl.lit(9000 + i, pl.Int64)) for i in range(more)])
    given = pl.DataFrame({"visit": np.repeat(np.arange(9000, 9000 + more), more)})
    given = given.with_columns(drug=pl.lit("drug of a"), dose=pl.lit(1, pl.Int64))
    added = {"visits": visits, "prescriptions": given}
    return tables | {name: pl.concat([tables[name], frame]) for name, frame in added.items()}


def test_no_unit_has_more_rows_in_a_table_than_the_schema_says():
    schema, found = clinic_schema(), families(crowd(40))
    for name in schema.private:
        most = int(np.unique(found[name].unit, return_counts=True)[1].max())
        assert most == schema.max_rows(name)


def test_a_unit_more_changes_no_row_of_another():
    tables = clinic(30)
    others = {"patients": "id", "visits": "patient"}
    less = {name: tables[name].filter(pl.col(column) != 129) for name, column in others.items()}
    gone = tables["visits"].filter(pl.col("patient") == 129)["visit"]
    less["prescriptions"] = tables["prescriptions"].filter(~pl.col("visit").is_in(gone.to_list()))
    made = designs(clinic_schema(), shares=True)
    all_rows, fewer = (flattened(families(each), made) for each in (tables, less))
    assert all_rows["visits"].unit.max() == 29 and fewer["visits"].unit.max() == 28
    for name in made:
        kept = all_rows[name].unit < 29
        assert fewer[name].columns.keys() == all_rows[name].columns.keys()
        for column, cells in fewer[name].columns.items():
            np.testing.assert_array_equal(cells, all_rows[name].columns[column][kept])


def test_rows_without_a_parent_are_left_out_without_an_error():
    tables = clinic(30)
    before = families(tables)
    orphans = tables["visits"].head(3).with_columns(patient=pl.Series([7, None, 8], dtype=pl.Int64))
    after = families(tables | {"visits": pl.concat([tables["visits"], orphans])})
    assert len(after["visits"].unit) == len(before["visits"].unit) == tables["visits"].height


def test_one_row_is_used_of_a_unit_that_the_root_has_twice():
    tables = clinic(30)
    twice = families(tables | {"patients": pl.concat([tables["patients"], tables["patients"].head(5)])})
    assert len(twice["patients"].unit) == 30
    assert len(twice["visits"].unit) == tables["visits"].height


def test_the_first_rows_of_a_history_are_used_and_stand_in_their_order():
    found = families(crowd(40))["visits"]
    for patient in np.unique(found.parent):
        own = found.columns["admission"][found.parent == patient]
        assert (np.diff(own) >= 0).all()
        np.testing.assert_array_equal(found.rank[found.parent == patient], np.arange(1, len(own) + 1))


def test_rows_that_are_equal_in_their_order_stay_as_they_stand_in_their_table():
    tables = clinic(30)
    visits = (
        tables["visits"].with_columns(pl.col("admission").dt.truncate("10y")).sample(fraction=1.0, shuffle=True, seed=4)
    )
    found = families(tables | {"visits": visits})["visits"]
    order, row = found.columns["admission"], found.row
    equal = (found.parent[1:] == found.parent[:-1]) & (order[1:] == order[:-1])
    assert equal.sum() > 10
    assert (np.diff(row)[equal] > 0).all()


def test_the_context_of_a_row_is_its_parent_and_the_rows_before():
    schema, tables = clinic_schema(), clinic(30)
    made, found = designs(schema), families(tables)
    flat = flattened(found, made)["visits"].columns
    first = found["visits"].rank == 1
    assert np.isnan(flat["previous.discharge"][first]).all() and (flat["previous.ward"][first] == -1).all()
    later = np.flatnonzero(~first)
    np.testing.assert_array_equal(flat["previous.admission"][later], flat["admission"][later - 1])
    np.testing.assert_array_equal(flat["patients.birth"], found["patients"].columns["birth"][found["visits"].parent])
    gap = (flat["admission"][later] - found["visits"].columns["discharge"][later - 1]) / 86_400e6
    np.testing.assert_array_equal(flat["admission since"][later], gap)
    many = np.bincount(found["visits"].parent, minlength=30)
    np.testing.assert_array_equal(flattened(found, made)["patients"].columns["number of visits"], many)


def test_the_start_of_a_history_is_a_hidden_column_of_its_parent():
    schema, tables = clinic_schema(), clinic(30)
    made, found = designs(schema), families(tables)
    flat = flattened(found, made)
    visits, starts = found["visits"], flat["patients"].columns["first admission of visits"]
    first = visits.rank == 1
    np.testing.assert_array_equal(starts[visits.parent[first]], visits.columns["admission"][first])
    assert np.isnan(np.delete(starts, visits.parent[first])).all()
    np.testing.assert_array_equal(flat["visits"].columns["patients.first admission of visits"], starts[visits.parent])
    assert "first admission of visits" not in flat["visits"].columns


def test_the_mean_of_earlier_rows_leaves_out_what_is_missing():
    rank = np.array([1, 2, 3, 4, 1, 2])
    column = np.array([4.0, np.nan, 8.0, 1.0, np.nan, 5.0])
    np.testing.assert_array_equal(running_mean(column, rank), [np.nan, 4.0, 4.0, 6.0, np.nan, np.nan])


@pytest.mark.parametrize("huge", [np.inf, -np.inf, 1e300, 1e17])
def test_the_mean_of_earlier_rows_has_nothing_of_another_family(huge):
    rank, tenths = np.array([1, 2, 1, 2, 3]), np.array([0.1, 0.2, 0.3])
    alone = running_mean(tenths, rank[2:])
    np.testing.assert_array_equal(running_mean(np.r_[huge, huge, tenths], rank)[2:], alone)


def shares_of(design) -> list[str]:
    return [each.name for each in design.context if each.kind == "share"]


@pytest.mark.parametrize("kind", ["categorical", "boolean"])
def test_the_share_of_a_category_is_that_of_a_loop_over_earlier_rows(kind):
    draw = np.random.default_rng(0)
    lengths = draw.integers(1, 6, 200)
    rank = np.concatenate([np.arange(1, length + 1) for length in lengths])
    codes = draw.integers(-1, 2 if kind == "boolean" else 3, len(rank))
    cells = np.where(codes < 0, np.nan, codes) if kind == "boolean" else codes
    context = [Context("share", Column("s", "continuous", low=0, high=1, nullable=True), "t", "c", code=1)]
    siblings, previous = np.repeat(lengths, lengths), np.where(rank > 1, np.arange(len(rank)) - 1, -1)
    found = context_cells(context, {"c": cells}, {}, rank, siblings, previous)["s"]
    for row, place in enumerate(rank):
        known = [code for code in codes[row - place + 1 : row] if code >= 0]
        expected = known.count(1) / len(known) if known else np.nan
        np.testing.assert_allclose(found[row], expected, atol=1e-12)


def test_shares_of_private_rows_are_those_of_the_labels_that_the_schema_lists():
    tables, found = clinic(30), families(clinic(30))
    flat, visits = flattened(found, designs(clinic_schema(), shares=True))["visits"].columns, tables["visits"]
    assert shares_of(designs(clinic_schema(), shares=True)["visits"]) == ["share.ward.1", "share.ward.2"]
    assert not shares_of(designs(clinic_schema())["visits"])
    for row in np.flatnonzero(found["visits"].rank > 1):
        patient = 100 + found["visits"].parent[row]
        earlier = visits.filter(pl.col("patient") == patient).sort("admission")["ward"]
        earlier = earlier.head(found["visits"].rank[row] - 1).to_list()
        for code, label in ((1, "b"), (2, "c")):
            np.testing.assert_allclose(flat[f"share.ward.{code}"][row], earlier.count(label) / len(earlier), atol=1e-12)


@pytest.mark.parametrize(
    ("column", "most", "shares"),
    [
        ('{ kind = "categorical", values = ["a", "b", "c", "d"] }', 4, 3),
        ('{ kind = "categorical", values = ["a", "b", "c"], other = "d" }', 4, 3),
        ('{ kind = "categorical", values = ["a", "b", "c", "d", "e"] }', 4, 0),
        ('{ kind = "categorical", values = ["a"] }', 4, 0),
        ('{ kind = "categorical" }', 4, 0),
        ('{ kind = "boolean" }', 4, 1),
        ('{ kind = "integer", low = 0, high = 3 }', 4, 0),
        ('{ kind = "boolean" }', 1, 0),
    ],
)
def test_categories_with_few_public_values_have_shares_if_there_are_earlier_rows(column, most, shares):
    assert len(shares_of(_design(f"columns.c = {column}", most))) == shares


@pytest.mark.parametrize(("numbers", "kinds"), [(15, {"mean", "share"}), (17, {"mean"}), (19, set())])
def test_shares_are_left_out_before_means(numbers, kinds):
    columns = [f"columns.n{i} = {{ kind = 'integer', low = 0, high = 9 }}" for i in range(numbers)]
    design = _design("\n".join([*columns, 'columns.c = { kind = "categorical", values = ["a", "b", "c", "d"] }']), 4)
    assert {each.kind for each in design.context} & {"mean", "share"} == kinds
    assert len(design.context) <= MOST_CONTEXT


def _design(columns: str, most: int):
    text = f"""
    unit = "people"
    [tables.people]
    key = "id"
    [tables.rows]
    parent = "people"
    foreign_key = "id"
    max_per_parent = {most}
    {columns}
    """
    return designs(us.DatabaseSchema.parse(text), shares=True)["rows"]


def test_years_are_counted_as_people_count_their_age():
    def at(*dates: str):
        return np.array(dates, dtype="datetime64[us]").astype(np.float64)

    births = at("1930-04-26", "2000-02-29", "2000-02-29", "1999-12-31", "1950-05-05")
    days = at("2012-01-20", "2001-02-28", "2001-03-01", "2000-01-01", "1950-05-05")
    np.testing.assert_array_equal(years(births, days), [81, 0, 1, 0, 0])


def test_tables_come_from_a_folder_or_a_database_file(tmp_path):
    schema, tables = clinic_schema(), clinic(20)
    for name, frame in tables.items():
        frame.write_csv(tmp_path / f"{name}.csv")
    (tmp_path / "notes.txt").write_text("not a table")
    from_folder, kind = read_families(tmp_path, schema, key=KEY)
    assert kind == "polars"
    np.testing.assert_array_equal(from_folder["visits"].parent, families(tables)["visits"].parent)
    assert sources_of("here/clinic.db", schema)["visits"] == "sqlite:///here/clinic.db?table=visits"


@pytest.mark.parametrize(
    ("change", "message"),
    [
        (lambda tables: tables.pop("visits"), "table 'visits' is missing"),
        (lambda tables: tables.update(wards=1), "table 'wards' is not in the schema"),
    ],
)
def test_a_table_that_is_missing_or_too_many_is_refused(change, message):
    tables = clinic(5)
    change(tables)
    with pytest.raises(us.TableError, match=message):
        families(tables)


def test_a_folder_without_the_file_of_a_table_is_refused(tmp_path):
    with pytest.raises(us.TableError, match=r"expected one file of the table 'patients', such as patients.csv"):
        sources_of(tmp_path, clinic_schema())
