"""A simulated hospital whose truth is known: patients, their visits in order, and the prescriptions of each visit.

The one rule: everything follows from the seed and from the tables of this module, so that whatever a synthetic hospital
gets wrong can be computed. `broken_rules` says how many of its rows no patient of this hospital could have.

    patients       sex, region and birth are independent.
    visits         A patient has Poisson(VISITS · e^(age / 40)) of them, age being that at the end of 2010, and at most
                   12. The first is in 2010 to 2013, at a uniform time; a gap is exponential, and its mean a third
                   of the usual one after a chronic diagnosis. A stay is geometric, its mean by ward.
    diagnoses      A Markov chain, `NEXT`. Chronic diagnoses are absorbing: diabetes stays or becomes kidney failure;
                   kidney failure and heart failure stay. The first depends on the age, `FIRST`.
    outcome        Home, care or death. Care is absorbing, and death ends the history.
    prescriptions  Poisson by diagnosis, at most 5; the drug by diagnosis, the days by the stay.
"""

import importlib.resources

import numpy as np
import polars as pl
from numpy.typing import NDArray

from understudy.tables.database_schema import DatabaseSchema

DIAGNOSES = ("fracture", "infection", "pneumonia", "diabetes", "heart failure", "kidney failure")
CHRONIC = ("diabetes", "heart failure", "kidney failure")
NEXT = np.array(
    [
        [0.30, 0.30, 0.15, 0.15, 0.10, 0.00],
        [0.15, 0.45, 0.20, 0.12, 0.08, 0.00],
        [0.10, 0.20, 0.35, 0.15, 0.20, 0.00],
        [0.00, 0.00, 0.00, 0.85, 0.00, 0.15],
        [0.00, 0.00, 0.00, 0.00, 1.00, 0.00],
        [0.00, 0.00, 0.00, 0.00, 0.00, 1.00],
    ]
)
"""The chance of the next diagnosis (column) after each (row)."""
FIRST = np.array([[0.45, 0.40, 0.12, 0.02, 0.01, 0.00], [0.15, 0.20, 0.20, 0.20, 0.20, 0.05]])
"""The chance of the first diagnosis below and from the age of 60."""
WARDS = ("surgery", "medicine", "cardiology")
WARD = np.array(
    [[0.9, 0.1, 0.0], [0.1, 0.9, 0.0], [0.0, 0.95, 0.05], [0.05, 0.9, 0.05], [0.0, 0.1, 0.9], [0.1, 0.8, 0.1]]
)
"""The chance of each ward, by diagnosis."""
STAY_DAYS = np.array([4.0, 6.0, 9.0])
"""The mean stay in each ward."""
DRUGS = ("painkiller", "antibiotic", "insulin", "diuretic")
DRUG = np.array(
    [
        [0.90, 0.10, 0.00, 0.00],
        [0.15, 0.85, 0.00, 0.00],
        [0.10, 0.85, 0.00, 0.05],
        [0.05, 0.05, 0.85, 0.05],
        [0.05, 0.05, 0.05, 0.85],
        [0.10, 0.10, 0.20, 0.60],
    ]
)
"""The chance of each drug, by diagnosis."""
PRESCRIPTIONS = np.array([0.8, 1.0, 1.4, 1.8, 2.0, 2.5])
"""The mean number of prescriptions of a visit, by diagnosis, before it is cut to 5."""
DOSE = np.array([400.0, 500.0, 20.0, 40.0])
"""The median dose of each drug."""
OUTCOMES = ("home", "care", "died")
VISITS, GAP_DAYS, CHRONIC_GAP = 0.8, 180.0, 1 / 3
MOST_VISITS, MOST_PRESCRIPTIONS = 12, 5
REGIONS, REGION_SHARES = ("north", "south", "east", "west"), (0.4, 0.3, 0.2, 0.1)
_EPOCH = np.datetime64("1970-01-01")

Floats = NDArray[np.float64]
Whole = NDArray[np.int64]


def hospital_schema_text() -> str:
    """The TOML of the hospital: what its owner would know without looking at a row."""
    return importlib.resources.files("understudy.datasets").joinpath("data", "hospital.toml").read_text()


def hospital_schema() -> DatabaseSchema:
    """The schema of the hospital."""
    return DatabaseSchema.parse(hospital_schema_text(), "hospital.toml")


def hospital(patients: int, seed: int = 0) -> dict[str, pl.DataFrame]:
    """The tables `patients`, `visits` and `prescriptions` of so many simulated patients."""
    draw = np.random.default_rng(seed)
    births = _day("1920-01-01") + draw.integers(0, 90 * 365, patients)
    people = pl.DataFrame(
        {
            "patient_id": [f"p{number:06d}" for number in range(1, patients + 1)],
            "sex": draw.choice(["f", "m"], patients),
            "birth": _dates(births),
            "region": draw.choice(REGIONS, patients, p=REGION_SHARES),
        }
    )
    visits, diagnoses, stays = _visits(people["patient_id"].to_numpy(), births, draw)
    return {"patients": people, "visits": visits, "prescriptions": _prescriptions(visits, diagnoses, stays, draw)}


def _visits(people: NDArray, births: Whole, draw: np.random.Generator) -> tuple[pl.DataFrame, Whole, Whole]:
    """The visits of all patients, one after another, with the codes of diagnoses and the stays."""
    age = np.maximum((_day("2010-12-31") - births) / 365.25, 0)
    wanted = np.minimum(draw.poisson(VISITS * np.exp(age / 40), len(births)), MOST_VISITS)
    here = np.flatnonzero(wanted)  # patients who come (again)
    earliest = np.maximum(births[here], _day("2010-01-01"))
    admission = earliest + np.floor(draw.random(len(here)) * (_day("2013-12-31") - earliest)).astype(np.int64)
    old = (admission - births[here]) >= 60 * 365.25
    diagnosis = _choose(FIRST[old.astype(np.int64)], draw)
    outcome = np.zeros(len(here), dtype=np.int64)
    rounds = []
    for number in range(1, MOST_VISITS + 1):
        ward = _choose(WARD[diagnosis], draw)
        stay = draw.geometric(1 / STAY_DAYS[ward])
        outcome = np.maximum(outcome, _outcomes(admission - births[here], diagnosis, draw))
        cost = np.exp(draw.normal(6.5 + 0.3 * ward, 0.3)) * stay
        rounds.append(np.column_stack([here, admission, stay, ward, diagnosis, outcome, cost]))
        again = (wanted[here] > number) & (outcome < 2)
        mean = GAP_DAYS * np.where(np.isin(diagnosis, [DIAGNOSES.index(each) for each in CHRONIC]), CHRONIC_GAP, 1.0)
        gap = 1 + np.floor(draw.exponential(mean)).astype(np.int64)
        here, admission, outcome = here[again], (admission + stay + gap)[again], outcome[again]
        diagnosis = _choose(NEXT[diagnosis[again]], draw)
    found = np.concatenate(rounds)
    found = found[np.lexsort([found[:, 1], found[:, 0]])]
    place, admission, stay, ward, diagnosis, outcome = found[:, :6].T.astype(np.int64)
    frame = pl.DataFrame(
        {
            "visit_id": [f"v{number:07d}" for number in range(1, len(found) + 1)],
            "patient_id": people[place],
            "admission": _dates(admission),
            "discharge": _dates(admission + stay),
            "age": _years(births[place], admission),
            "ward": np.array(WARDS)[ward],
            "diagnosis": np.array(DIAGNOSES)[diagnosis],
            "outcome": np.array(OUTCOMES)[outcome],
            "cost": found[:, 6].round(2),
        }
    )
    return frame, diagnosis, stay


def _outcomes(days_old: Whole, diagnosis: Whole, draw: np.random.Generator) -> Whole:
    """0 home, 1 care, 2 died: the older and the sicker, the worse."""
    years = days_old / 365.25
    worse = np.array([0.0, 0.0, 0.5, 0.3, 1.0, 1.2])[diagnosis]
    died = draw.random(len(years)) < 1 / (1 + np.exp(-(years / 12 + worse - 10)))
    care = draw.random(len(years)) < 1 / (1 + np.exp(-(years / 10 + worse - 10)))
    return np.where(died, 2, care.astype(np.int64))


def _prescriptions(visits: pl.DataFrame, diagnosis: Whole, stay: Whole, draw: np.random.Generator) -> pl.DataFrame:
    counts = np.minimum(draw.poisson(PRESCRIPTIONS[diagnosis]), MOST_PRESCRIPTIONS)
    place = np.repeat(np.arange(len(visits)), counts)
    drug = _choose(DRUG[diagnosis[place]], draw)
    return pl.DataFrame(
        {
            "visit_id": visits["visit_id"].to_numpy()[place],
            "drug": np.array(DRUGS)[drug],
            "days": np.minimum(draw.poisson(3 + stay[place] / 2) + 1, 90),
            "dose": (DOSE[drug] * np.exp(draw.normal(0, 0.25, len(place)))).round(1),
        }
    )


def broken_rules(frames: dict[str, pl.DataFrame]) -> dict[str, float]:
    """By rule, the share of the rows that it speaks of which break it: 0 for every rule in the simulated hospital.

    Rows that have no parent count as broken in `referential integrity`, and in nothing else.
    """
    people, visits = frames["patients"], frames["visits"]
    joined = visits.join(people.select("patient_id", "birth"), on="patient_id", how="inner")
    history = joined.sort("patient_id", "admission", "discharge", maintain_order=True)
    before, same = history.shift(1), history["patient_id"] == history["patient_id"].shift(1)
    chronic, follows = before["diagnosis"].is_in(CHRONIC), same.fill_null(value=False)
    stays = (history["diagnosis"] == before["diagnosis"]) | (
        (before["diagnosis"] == "diabetes") & (history["diagnosis"] == "kidney failure")
    )
    orphans = [len(visits) - len(joined)]
    orphans.append(len(frames["prescriptions"].join(visits, on="visit_id", how="anti")))
    births, admissions = (_days(joined[name]) for name in ("birth", "admission"))
    return {
        "referential integrity": sum(orphans) / max(len(visits) + len(frames["prescriptions"]), 1),
        "discharge follows admission": _share(visits["discharge"] < visits["admission"]),
        "admission follows birth": _share(joined["admission"] < joined["birth"]),
        "age agrees with birth": _share(pl.Series(joined["age"].to_numpy() != _years(births, admissions))),
        "visits do not overlap": _share((history["admission"] < before["discharge"]).filter(follows)),
        "chronic diagnoses stay": _share((chronic & ~stays).filter(follows)),
        "care stays": _share(((before["outcome"] == "care") & (history["outcome"] == "home")).filter(follows)),
        "death is the end": _share((before["outcome"] == "died").filter(follows)),
    }


def _share(broken: pl.Series) -> float:
    return float(broken.fill_null(value=False).sum()) / len(broken) if len(broken) else 0.0


def _choose(chances: Floats, draw: np.random.Generator) -> Whole:
    """One code for each row of chances."""
    return np.minimum((draw.random(len(chances))[:, None] >= chances.cumsum(axis=1)).sum(axis=1), chances.shape[1] - 1)


def _day(text: str) -> int:
    return int((np.datetime64(text) - _EPOCH).astype(np.int64))


def _dates(days: Whole) -> pl.Series:
    return pl.Series(days.astype(np.int32), dtype=pl.Int32).cast(pl.Date)


def _days(dates: pl.Series) -> Whole:
    return dates.cast(pl.Date).cast(pl.Int32).to_numpy().astype(np.int64)


def _years(births: Whole, days: Whole) -> Whole:
    """Whole years between two days, as people count their age."""
    born, now = (_dates(np.asarray(each)) for each in (births, days))
    days_of_year = [each.dt.month().cast(pl.Int32) * 100 + each.dt.day().cast(pl.Int32) for each in (born, now)]
    return (
        (now.dt.year() - born.dt.year() - (days_of_year[1] < days_of_year[0]).cast(pl.Int32))
        .to_numpy()
        .astype(np.int64)
    )
