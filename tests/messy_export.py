"""A messy export of a hospital, as the world writes them: made up, seeded, and the same for every test.

Latin-1, semicolons, decimal commas, dates like 16.02.1948, -999 for a missing measurement, postal codes with leading
zeros, some 800 diagnosis codes, one column name twice, names and phone numbers, several visits a patient. What is known
of it beforehand: discharge follows admission, the bill is the sum of its two parts, and three texts (`CANARIES`) occur
in it that no answer may ever show.
"""

import datetime
from pathlib import Path

import numpy as np

HEADER = (
    "Patienten_ID;Nachname;Telefon;Geburtsdatum;Geschlecht;PLZ;Aufnahmedatum;Entlassungsdatum;Hauptdiagnose;"
    "Blutdruck_sys;Blutdruck_dia;Gewicht;Station;Kosten_Station;Kosten_Medikamente;Kosten_Gesamt;Auslastung;"
    "Bemerkung;Station"
)
"""The first line; `Station` comes twice, with the same cells."""
DATES = ("Geburtsdatum", "Aufnahmedatum", "Entlassungsdatum")
FORMAT, DELIMITER, DECIMAL, ENCODING = "%d.%m.%Y", ";", ",", "latin-1"
CANARIES = ("Zyzzyva-Müller", "Q99.73", "Kanarienvogel im Befund")
"""A name, a diagnosis and a remark, each in one row only."""
_SURNAMES = ("Müller", "Schäfer", "Groß", "Weiß", "Schröder", "Köhler", "Jäger", "Böhm", "Krämer", "Günther")
_WARDS = ("Chirurgie", "Innere", "Pädiatrie", "Gynäkologie", "Notaufnahme")


def diagnoses(count: int = 800) -> list[str]:
    """So many diagnosis codes, chapters of very different size: I10.1, E11.9, and the like."""
    chapters, codes = "IEJKMCNFGRSZ", []
    for place in range(count):
        codes.append(f"{chapters[place % len(chapters)]}{place // len(chapters) % 90 + 10:02d}.{place % 7}")
    return list(dict.fromkeys(codes))


def _money(cents: int) -> str:
    return f"{cents // 100},{cents % 100:02d}"


def _written(day: datetime.date) -> str:
    return day.strftime(FORMAT)


def lines(patients: int = 1200, *, seed: int = 0) -> list[str]:
    """The lines of the file, header first: one to six visits a patient, about two and a half on average."""
    chance = np.random.default_rng(seed)
    codes = diagnoses()
    weights = 1.0 / np.arange(3, len(codes) + 3)
    weights /= weights.sum()
    made = [HEADER]
    for patient in range(patients):
        born = datetime.date(1930, 1, 1) + datetime.timedelta(days=int(chance.integers(0, 29_000)))
        surname, sex = str(chance.choice(_SURNAMES)), str(chance.choice(["m", "w"], p=[0.46, 0.54]))
        phone = f"0{int(chance.integers(151, 180))}/{int(chance.integers(1_000_000, 9_999_999))}"
        postal = f"{int(chance.integers(1000, 99_999)):05d}"  # one in ten begins with 0
        for _ in range(1 + int(chance.binomial(5, 0.3))):
            admitted = datetime.date(2019, 1, 1) + datetime.timedelta(days=int(chance.integers(0, 1800)))
            stay = int(np.minimum(chance.geometric(0.3) - 1, 60))
            systolic = int(chance.normal(130, 18))
            diastolic = int(systolic * 0.6 + chance.normal(5, 6))
            weight = f"{chance.normal(78, 14):.1f}".replace(".", ",")
            ward, drugs = int(chance.lognormal(6.2, 0.9) * 100), int(chance.lognormal(4.0, 1.1) * 100)
            unknown = chance.random(3) < (0.06, 0.05, 0.1)
            made.append(
                ";".join(
                    [
                        f"P{patient:06d}",
                        surname,
                        phone,
                        _written(born),
                        sex,
                        postal,
                        _written(admitted),
                        _written(admitted + datetime.timedelta(days=stay)),
                        str(chance.choice(codes, p=weights)),
                        "-999" if unknown[0] else str(systolic),
                        "-999" if unknown[0] else str(diastolic),
                        "NA" if unknown[1] else weight,
                        station := str(chance.choice(_WARDS)),
                        _money(ward),
                        _money(drugs),
                        _money(ward + drugs),
                        f"{int(chance.integers(40, 101))} %",
                        ""
                        if unknown[2]
                        else f"Patient {surname} kam am {_written(admitted)} in gutem Zustand auf Station",
                        station,
                    ]
                )
            )
    return _with_canaries(made)


def _with_canaries(made: list[str]) -> list[str]:
    """The same lines with the three texts, each put into one row."""
    for canary, row, column in zip(CANARIES, (3, 17, 40), ("Nachname", "Hauptdiagnose", "Bemerkung"), strict=True):
        cells = made[row].split(";")
        cells[HEADER.split(";").index(column)] = canary
        made[row] = ";".join(cells)
    return made


def write(path: Path, patients: int = 1200, *, seed: int = 0) -> Path:
    """Writes the file in Latin-1 with Windows line ends, and returns its path."""
    path.write_bytes(("\r\n".join(lines(patients, seed=seed)) + "\r\n").encode(ENCODING))
    return path


def write_plain(path: Path, patients: int = 1200, *, seed: int = 0) -> Path:
    """The same table as UTF-8 with commas, decimal points, ISO dates and the second `Station` left out."""
    made = []
    for line in lines(patients, seed=seed):
        cells = line.split(";")[:-1]
        if made:
            for place, name in enumerate(HEADER.split(";")[:-1]):
                if name in DATES:
                    cells[place] = datetime.datetime.strptime(cells[place], FORMAT).date().isoformat()
                elif name in ("Gewicht", "Kosten_Station", "Kosten_Medikamente", "Kosten_Gesamt"):
                    cells[place] = cells[place].replace(",", ".")
        made.append(",".join(cells))
    path.write_text("\n".join(made) + "\n")
    return path
