"""Each guess of a draft on its own: what the cells of one column suggest, and what they must not."""

import datetime
from typing import Any

import numpy as np
import polars as pl
import pytest

from understudy.tables.column import KINDS
from understudy.tables.drafting import missing, relations
from understudy.tables.drafting.catalogue import entries, suggestions, words_of
from understudy.tables.drafting.columns import judged
from understudy.tables.drafting.dates import FORMATS, dates_in
from understudy.tables.drafting.numbers import numbers_in
from understudy.tables.drafting.reading import Cells


def series(*cells):
    return pl.Series("x", list(cells), dtype=pl.String)


def judge(name, cells, *, declared=None, spellings=(), **options):
    return judged(Cells(name, series(*cells), declared), set(spellings), **options).draft


def fact(draft, key) -> Any:
    return next((each for each in draft.facts if each.key == key), None)


def dates(*cells) -> Any:
    return dates_in(series(*cells))


def numbers(*cells, **marks) -> Any:
    return numbers_in(series(*cells), **marks)


# The catalogue ----------------------------------------------------------------------------------------------------


@pytest.mark.parametrize(
    ("name", "words"),
    [
        ("dateOfBirth", "date of birth"),
        ("Date_of-birth", "date of birth"),
        ("PatientID", "patient id"),
        ("Größe (cm)", "groesse cm"),
        ("année", "annee"),
        ("HbA1c", "hb a1c"),
        ("  ", ""),
    ],
)
def test_a_name_is_split_into_words_without_accents(name, words):
    assert " ".join(words_of(name)) == words


@pytest.mark.parametrize(
    ("name", "key"),
    [
        *[(name, "age") for name in ("age", "Alter", "EDAD", "âge", "patient_age", "AgeYears")],
        *[(name, "sex") for name in ("Sex", "gender", "Geschlecht", "sexe", "sexo")],
        *[(name, "postal_code") for name in ("PLZ", "zip", "ZipCode", "code_postal", "Código Postal")],
        *[(name, "month") for name in ("month", "Monat", "mois", "mes")],
        *[(name, "systolic") for name in ("SBP", "Blutdruck_sys", "systolic blood pressure", "presión sistólica")],
        *[(name, "date_of_birth") for name in ("dob", "Geburtsdatum", "birthDate", "fecha de nacimiento")],
        *[(name, "person_id") for name in ("patient_id", "Patientennummer", "CustomerID", "id_paciente", "MRN")],
        *[(name, "person_name") for name in ("first_name", "Nachname", "prénom", "apellidos")],
        ("age_group", "code"),
        ("diagnosis", "diagnosis"),
        ("day", "day"),
        ("HbA1c", "hba1c"),
    ],
)
def test_a_column_is_known_by_its_name_in_several_languages(name, key):
    assert suggestions(name)[0].key == key


@pytest.mark.parametrize("name", ["package", "x", "", "manage", "sexton", "Kilometer", "V17", "HouseAge", "HR"])
def test_a_word_within_a_word_is_no_match(name):
    assert suggestions(name) == ()


def test_the_catalogue_is_large_and_sound():
    roles = {"number", "code", "category", "date", "person", "personal"}
    assert len(entries()) >= 60
    for entry in entries():
        assert entry.role in roles and entry.words and entry.about
        assert all(word == " ".join(words_of(word)) for spelling in entry.words for word in spelling)
        low: Any = entry.low
        assert low is None or entry.high is None or low < entry.high
        if entry.role == "date":
            assert isinstance(entry.low, datetime.date)


def test_no_spelling_belongs_to_two_entries():
    spellings = [spelling for entry in entries() for spelling in entry.words]
    assert len(set(spellings)) == len(spellings)


# Numbers ----------------------------------------------------------------------------------------------------------


@pytest.mark.parametrize(
    ("cells", "whole", "decimals", "percent", "zeros"),
    [
        (["1", "-2", "+3"], True, None, False, False),
        (["1.50", "2.25", "3"], False, 2, False, False),
        (["1.0", "2.0", None], True, None, False, False),
        (["12 %", "13%", "7 %"], True, None, True, False),
        (["12.5 %", "3.0 %"], False, 1, True, False),
        (["01067", "04109", "80331"], True, None, False, True),
        (["1e3", "2.5E-2"], False, None, False, False),
        (["0.123456789", "1.5"], False, None, False, False),
        (["0", "0.5", "10"], False, 1, False, False),
    ],
)
def test_numbers_are_found_with_how_they_are_written(cells, whole, decimals, percent, zeros):
    found = numbers(*cells)
    assert (found.whole, found.decimals, found.percent, found.zeros) == (whole, decimals, percent, zeros)


@pytest.mark.parametrize("cells", [["a", "b"], ["1", "2", "x"], [None, None], ["12-3", "4"], ["1,5", "2,5"]])
def test_cells_that_are_no_numbers_are_none(cells):
    assert numbers_in(series(*cells)) is None


def test_marks_of_numbers_follow_the_dialect():
    found = numbers("1.234,50", "2,5", "-7", decimal=",", thousands=".")
    assert found.values.tolist() == [1234.5, 2.5, -7.0] and found.decimals == 2


# Dates ------------------------------------------------------------------------------------------------------------

MOMENTS = [datetime.datetime(1948 + 5 * k, 1 + k % 12, 13 + k, 10 + k, 5, 30) for k in range(12)]


@pytest.mark.parametrize("form", FORMATS)
def test_every_format_is_recognised(form):
    found = dates(*(moment.strftime(form) for moment in MOMENTS))
    assert found.timed == ("%H" in form)
    expected = [datetime.datetime.strptime(moment.strftime(form), form) for moment in MOMENTS]
    values = [(each - datetime.datetime(1970, 1, 1)) / datetime.timedelta(microseconds=1) for each in expected]
    if form.startswith("%Y-"):  # with two digits each it is ISO 8601
        assert found.format is None and found.values.tolist() == values
    elif form[:2] != "%m" and "%y" not in form:  # May is its own short name, and centuries are the library's choice
        assert found.format.replace("%B", "%b") == form.replace("%B", "%b")
        assert found.values.tolist() == values


@pytest.mark.parametrize("cells", [["2024-05-01"], ["2024-05-01T13:30", "2024-05-02 00:00:00"]])
def test_iso_dates_need_no_format(cells):
    found = dates(*cells)
    assert found.format is None and found.timed == ("T" in cells[0])


@pytest.mark.parametrize(
    ("cells", "form", "other"),
    [
        (["03/04/2020", "05/06/2020"], "%d/%m/%Y", "%m/%d/%Y"),
        (["03/04/2020", "25/06/2020"], "%d/%m/%Y", None),
        (["03/04/2020", "05/26/2020"], "%m/%d/%Y", None),
        (["03.04.2020", "05.06.2020"], "%d.%m.%Y", None),
        (["03-04-2020", "05-06-2020"], "%d-%m-%Y", "%m-%d-%Y"),
        (["03-04-20", "25-06-20"], "%d-%m-%y", None),
        (["2020-4-3", "2020-6-25"], "%Y-%m-%d", None),
    ],
)
def test_day_or_month_first_is_asked_only_where_both_fit(cells, form, other):
    found = dates(*cells * 30)
    assert (found.format, found.other_format) == (form, other)


@pytest.mark.parametrize("cells", [["1.5", "2.5"], ["99.99.2020"], ["12/2020"], ["hello"], ["2020"], [None]])
def test_cells_that_are_no_dates_are_none(cells):
    assert dates_in(series(*cells)) is None


# Missing values ---------------------------------------------------------------------------------------------------


@pytest.mark.parametrize(
    ("rest", "number", "far"),
    [
        (range(0, 100), "-999", True),
        (range(0, 50_000, 500), "-999", True),  # all others are positive
        (range(-500, 500, 7), "-999", False),
        (range(60, 200), "999", True),
        (range(0, 41_310, 60), "99999", False),  # may be a value that was cut off
        (range(0, 98), "99", False),
        (range(0, 1000), "9999", True),
        (range(0, 100_000, 99), "9999", False),
        (range(0, 2), "-1", False),
        (range(0, 6), "-9", True),
    ],
)
def test_a_number_is_missing_only_if_it_is_far_from_the_rest(rest, number, far):
    column = np.array([*rest, *[float(number)] * 5], dtype=float)
    assert missing.far_numbers(column) == ({number} if far else set())


def test_one_odd_cell_is_no_spelling():
    assert missing.far_numbers(np.array([*range(50), -999.0])) == set()


def test_a_number_that_is_ordinary_elsewhere_is_in_doubt():
    age, cost = np.array([*range(20, 90), 999.0, 999.0, 999.0]), np.arange(0, 5000, 1.0)
    far = {"age": missing.far_numbers(age), "cost": missing.far_numbers(cost)}
    assert missing.agreed(far, {"age": age, "cost": cost}) == (set(), {"age": {"999"}})


def test_namibia_is_a_country():
    cells = series("DE", "NA", "FR")
    assert missing.words_in(cells, is_place=False) == {"NA"} and missing.words_in(cells, is_place=True) == set()


@pytest.mark.parametrize("word", missing.SOFT_WORDS)
def test_a_word_among_numbers_is_a_missing_number(word):
    draft = judge("reading", [*map(str, range(50)), *[word] * 5])
    assert draft.kind == "integer" and fact(draft, "nullable").seen


# Kinds ------------------------------------------------------------------------------------------------------------

PLAIN = [str(k % 40) for k in range(200)]


@pytest.mark.parametrize(
    ("name", "cells", "kind"),
    [
        ("reading", PLAIN, "integer"),
        ("reading", [f"{k / 8:.3f}" for k in range(200)], "continuous"),
        ("reading", ["true", "false", "TRUE"] * 10, "boolean"),
        ("reading", ["yes", "no"] * 10, "categorical"),
        ("reading", ["2024-05-01", "2024-06-01"] * 10, "date" if "date" in KINDS else "datetime"),
        ("reading", ["2024-05-01 10:00", "2024-06-01 11:30"] * 10, "datetime"),
        ("plz", ["80331", "10115"] * 30, "categorical"),  # the name says that it is a label
        ("reading", ["00331", "10115"] * 30, "categorical"),  # a zero in front says so
        ("reading", ["12345678901234567", "12345678901234568"] * 30, "categorical"),
        ("status", ["1", "2", "3"] * 30, "categorical"),
        ("age_group", ["1", "2", "3"] * 30, "categorical"),
        ("occupancy", ["50 %", "60 %"] * 30, "integer"),
        ("reading", ["20200101", "20200102"] * 30, "integer"),  # eight digits are a date only if the name says so
    ],
)
def test_the_kind_follows_from_cells_and_name(name, cells, kind):
    assert judge(name, cells).kind == kind


@pytest.mark.parametrize(
    ("declared", "cells", "kind"),
    [
        ("whole", PLAIN, "integer"),
        ("number", ["1", "2.5"] * 20, "continuous"),
        ("number", ["1", "2"] * 20, "continuous"),
        ("boolean", ["true", "false"] * 20, "boolean"),
        ("text", PLAIN, "categorical"),  # text of a typed table is never a number
        ("text", ["true", "false"] * 20, "categorical"),
        ("instant", ["2024-05-01 00:00:00"] * 20, "date" if "date" in KINDS else "datetime"),
    ],
)
def test_a_declared_type_decides_first(declared, cells, kind):
    assert judge("reading", cells, declared=declared).kind == kind


def test_bounds_come_from_the_name_and_never_from_the_cells():
    young, old = judge("age", ["3", "4", "5"] * 20), judge("age", ["200", "300"] * 20)
    assert young.facts == old.facts
    assert [(each.key, each.value, each.stated) for each in young.facts] == [("low", 0, True), ("high", 125, True)]
    assert judge("reading", ["3", "4"] * 20).facts == ()


def test_a_bound_in_an_uncertain_unit_is_only_shown():
    assert [each.stated for each in judge("weight", ["70.5", "80.5"] * 20).facts if each.key in ("low", "high")] == [
        False,
        False,
    ]


def test_categories_come_from_the_name_and_are_only_shown():
    values = fact(judge("Geschlecht", ["m", "w"] * 20), "values")
    assert not values.stated and "m" not in values.value


def test_a_missing_cell_or_two_do_not_decide():
    assert fact(judge("reading", [*PLAIN, None, None]), "nullable") is None
    assert fact(judge("reading", [*PLAIN, None, None, None]), "nullable").seen


# What identifies --------------------------------------------------------------------------------------------------


@pytest.mark.parametrize(
    ("name", "cells", "reason"),
    [
        ("mail", [f"p{k}@example.org" for k in range(60)], "the name speaks of e-mail addresses"),
        ("contact", [f"p{k}@example.org" for k in range(60)], "its cells look like e-mail addresses"),
        ("contact", [f"0151/{k:07d}" for k in range(60)], "its cells look like phone numbers"),
        ("contact", [f"+49 89 {k:06d}" for k in range(60)], "its cells look like phone numbers"),
        ("contact", [f"555-123-{k:04d}" for k in range(60)], "its cells look like phone numbers"),
        ("link", [f"https://example.org/{k}" for k in range(60)], "its cells look like addresses on the web"),
        ("u", [f"123e4567-e89b-12d3-a456-{k:012d}" for k in range(60)], "its cells look like identifiers of 128 bits"),
        ("text", [f"the patient of room {k} slept well" for k in range(60)], "its cells look like free text"),
        ("thing", [f"K{k * 7919}" for k in range(60)], "nearly every row has a text of its own, as identifiers have"),
        ("n", [str(k) for k in range(5, 65)], "it counts the rows"),
        ("id", [str(k * k) for k in range(60)], "the name speaks of an identifier"),
        ("Vorname", ["Anna", "Ben"] * 30, "the name speaks of names of people"),
        ("name", [f"Person {k}" for k in range(60)], "the name speaks of names"),
        ("blank", [None] * 60, "no cell of it is filled in the rows that were looked at"),
    ],
)
def test_what_identifies_is_left_out_with_the_reason(name, cells, reason):
    assert judge(name, cells).left_out == reason


@pytest.mark.parametrize(
    ("name", "cells"),
    [
        ("name", ["ann", "bob"] * 60),
        ("income", [str(1000 + 37 * k) for k in range(200)]),
        ("income", [str(k) for k in range(200)]),
        ("reading", [f"{k * 1.37:.4f}" for k in range(200)]),
        ("code", [f"{letter}{k}" for letter in "ABC" for k in range(60)]),
        ("city", ["Ulm", "Bad Homburg vor der Höhe"] * 60),
        ("x", ["a", "b", "c"]),
        ("ratio_index", [f"{k / 7:.6f}" for k in range(200)]),
    ],
)
def test_what_identifies_nobody_is_kept(name, cells):
    assert judge(name, cells).left_out is None


@pytest.mark.parametrize(
    ("name", "cells", "person"),
    [
        ("patient_id", [f"P{k // 2}" for k in range(100)], True),
        ("PatientID", ["1", "1", "2"], True),
        ("customer", ["gold", "silver"] * 50, False),
        ("customer", [f"C{k // 2}" for k in range(100)], True),
        ("patient_weight", ["70.5", "80.5"] * 50, False),
        ("players_id", [f"p{k // 4}" for k in range(200)], True),
        ("ref_id", [f"r{k // 4}" for k in range(200)], True),  # many with some rows each
        ("region_id", [f"r{k % 8}" for k in range(200)], False),
    ],
)
def test_whose_row_it_is_follows_from_the_name(name, cells, person):
    assert judge(name, cells).person == person


# Relations --------------------------------------------------------------------------------------------------------


def test_dates_that_follow_each_other_make_a_chain():
    draw = np.random.default_rng(0)
    born = draw.integers(0, 1000, 200).astype(float)
    admitted = born + draw.integers(1000, 2000, 200)
    discharged = admitted + draw.integers(0, 9, 200)
    found = relations.orders({"born": born, "admitted": admitted, "discharged": discharged})
    assert [str(rule) for rule in found] == ["admitted >= born", "discharged >= admitted"]


def test_an_order_whose_difference_varies_more_than_a_column_is_kept_by_rejection():
    draw = np.random.default_rng(0)
    admitted = draw.integers(17_000, 19_000, 500).astype(float)
    born, discharged = admitted - draw.integers(0, 30_000, 500), admitted + draw.integers(0, 9, 500)
    found = relations.orders({"born": born, "admitted": admitted, "discharged": discharged})
    assert {str(rule): rule.by for rule in found} == {
        "admitted >= born": "rejection",
        "discharged >= admitted": "difference",
    }


def test_dates_without_an_order_make_no_rule():
    draw = np.random.default_rng(0)
    assert relations.orders({name: draw.random(200) for name in "ab"}) == []
    assert relations.orders({"a": np.arange(200.0), "b": np.arange(200.0)}) == []


def test_sums_of_two_and_of_three_are_found():
    draw = np.random.default_rng(0)
    parts = {name: np.round(draw.lognormal(5, 1, 200), 2) for name in ("a", "b", "c d", "e")}
    totals = {"two": parts["a"] + parts["b"], "three": parts["a"] + parts["b"] + parts["e"]}
    assert set(relations.sums(parts | totals)) == {"two = a + b", "three = e + two"}
    assert relations.sums(parts | {"all": parts["a"] + parts["b"] + parts["c d"]}) == ["all = a + b + c d"]


def test_columns_of_zeros_make_no_sums():
    draw = np.random.default_rng(0)
    value = draw.random(200)
    assert relations.sums({"a": value, "b": value.copy(), "zero": np.zeros(200)}) == []
