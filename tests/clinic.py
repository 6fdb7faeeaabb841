"""A small clinic whose truth is known: patients, their visits in order, and what is prescribed in each."""

import numpy as np
import polars as pl

import understudy as us

SCHEMA = """
name = "clinic"
unit = "patients"
constraints = [
  "visits.age = years(patients.birth, visits.admission)",
  "visits.admission >= previous.discharge",
  "visits.admission >= patients.birth",
]

[tables.patients]
key = "id"
columns.sex = { kind = "categorical", values = ["f", "m"] }
columns.birth = { kind = "date", low = 1930-01-01, high = 2009-12-31 }

[tables.visits]
key = "visit"
key_pattern = "V0001"
parent = "patients"
foreign_key = "patient"
max_per_parent = 4
order = "admission"
constraints = ["discharge >= admission"]
columns.admission = { kind = "date", low = 2010-01-01, high = 2019-12-31 }
columns.discharge = { kind = "date", low = 2010-01-01, high = 2020-12-31 }
columns.age = { kind = "integer", low = 0, high = 120 }
columns.ward = { kind = "categorical", values = ["a", "b", "c"] }

[tables.prescriptions]
parent = "visits"
foreign_key = "visit"
max_per_parent = 2
columns.drug = { kind = "categorical" }
columns.dose = { kind = "integer", low = 0, high = 9, nullable = true }
"""


def clinic_schema() -> us.DatabaseSchema:
    return us.DatabaseSchema.parse(SCHEMA)


def clinic(patients: int, seed: int = 0) -> dict[str, pl.DataFrame]:
    """Women of the clinic come once or twice and men three or four times; a ward stays the same nearly always."""
    draw = np.random.default_rng(seed)
    day = np.datetime64("2010-01-01")
    people = pl.DataFrame(
        {
            "id": np.arange(patients) + 100,
            "sex": draw.choice(["f", "m"], patients),
            "birth": np.datetime64("1930-01-01") + draw.integers(0, 29_000, patients),
        }
    )
    visits, prescriptions = [], []
    for who, sex, birth in people.iter_rows():
        admission = max(day, np.datetime64(birth)) + int(draw.integers(0, 800))
        ward = str(draw.choice(["a", "b", "c"]))
        for _ in range(int(draw.integers(1, 3)) + 2 * (sex == "m")):
            discharge = admission + int(draw.integers(0, 9))
            age = (admission - np.datetime64(birth)).astype(int) // 365.25
            visits.append((len(visits), who, admission.item(), discharge.item(), int(age), ward))
            for _ in range({"a": 0, "b": 1, "c": 2}[ward]):
                prescriptions.append((visits[-1][0], f"drug of {ward}", int(draw.integers(0, 10))))
            admission = discharge + int(draw.integers(5, 60))
            ward = ward if draw.random() < 0.95 else str(draw.choice(["a", "b", "c"]))
    named = ["visit", "patient", "admission", "discharge", "age", "ward"]
    return {
        "patients": people,
        "visits": pl.DataFrame(visits, named, orient="row"),
        "prescriptions": pl.DataFrame(prescriptions, ["visit", "drug", "dose"], orient="row"),
    }
