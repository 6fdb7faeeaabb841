"""A second messy export, in other habits than messy_export.py: a clinic's, with dollars and the month first.

UTF-8 with a byte order mark, bars between fields, `$1,234.50`, dates like 02/16/48, `NULL` and 9999 for a missing
value, ZIP codes with leading zeros, 800 diagnosis codes in a column that comes twice, e-mail addresses, several visits
a patient. Births are decades before admissions, and discharges days after them.
"""

import datetime
from pathlib import Path

import numpy as np

HEADER = "MRN|Name|Email|DOB|Gender|ZIP|AdmitDate|DischargeDate|PrimaryDx|SBP|Occupancy|TotalCharges|PrimaryDx"
FORMAT, DELIMITER, ENCODING = "%m/%d/%y", "|", "utf-8-sig"
DATES = ("DOB", "AdmitDate", "DischargeDate")
_NAMES = ("Smith", "O'Neil", "Núñez", "Lee", "Brown", "Åberg")


def lines(patients: int, *, seed: int = 0) -> list[str]:
    """The lines of the file, header first: one to eight visits a patient, about two on average."""
    chance = np.random.default_rng(seed)
    codes = [f"{'IJKMNSCE'[place % 8]}{place // 10:02d}.{place % 10}" for place in range(800)]
    weights = 1.0 / np.arange(1, 801) ** 1.05
    made = [HEADER]
    for patient in range(patients):
        born = datetime.date(1940, 1, 1) + datetime.timedelta(days=int(chance.beta(2, 2) * 26_000))
        name, sex = str(chance.choice(_NAMES)), "MF"[int(chance.random() < 0.57)]
        code = f"{int(chance.choice([1, 6, 33, 60, 75, 92])) * 1000 + int(chance.integers(0, 30)) * 10:05d}"
        for _ in range(min(1 + int(chance.poisson(1.2)), 8)):
            admitted = datetime.date(2016, 1, 1) + datetime.timedelta(days=int(chance.integers(0, 2500)))
            stay = datetime.timedelta(days=int(min(chance.lognormal(1.1, 0.9), 90)))
            diagnosis = str(chance.choice(codes, p=weights / weights.sum()))
            pressure = "9999" if chance.random() < 0.06 else str(int(chance.normal(132, 19)))
            occupied = "NULL" if chance.random() < 0.05 else f"{chance.uniform(40, 100):.1f} %"
            charges = f"${min(float(chance.lognormal(6.0, 1.2)), 100_000.0):,.2f}"
            days = [day.strftime(FORMAT) for day in (born, admitted, admitted + stay)]
            cells = [f"{100_000 + 7 * patient}", name, f"p{patient}@mail.example", days[0], sex, code, *days[1:]]
            made.append(DELIMITER.join([*cells, diagnosis, pressure, occupied, charges, diagnosis]))
    return made


def write(path: Path, patients: int, *, seed: int = 0) -> Path:
    path.write_bytes(("\r\n".join(lines(patients, seed=seed)) + "\r\n").encode(ENCODING))
    return path
