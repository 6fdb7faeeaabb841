"""Offices whose staff have bosses in the same office, and cases that somebody of the office handles."""

import numpy as np
import polars as pl

import understudy as us

SCHEMA = """
name = "offices"
unit = "offices"

[tables.offices]
key = "office"
columns.size = { kind = "categorical", values = ["small", "large"] }

[tables.staff]
key = "person"
parent = "offices"
foreign_key = "office"
max_per_parent = 6
references = { boss = "staff" }
max_depth = 2
columns.grade = { kind = "integer", low = 1, high = 3 }
columns.skill = { kind = "categorical", values = ["law", "tax", "it"] }

[tables.cases]
key = "case"
parent = "offices"
foreign_key = "office"
max_per_parent = 5
references = { handler = "staff" }
columns.topic = { kind = "categorical", values = ["law", "tax", "it"] }
"""


def offices_schema() -> us.DatabaseSchema:
    return us.DatabaseSchema.parse(SCHEMA)


def offices(count: int, seed: int = 0) -> dict[str, pl.DataFrame]:
    """A boss is one grade above; a case is handled by somebody with its skill, or now and then by the first office."""
    draw = np.random.default_rng(seed)
    staff: list[tuple] = []
    cases: list[tuple] = []
    sizes = draw.choice(["small", "large"], count)
    for office in range(count):
        mine: list[tuple] = []
        for k in range(int(draw.integers(2, 7))):
            depth = min(k, 1) + (k > 2)
            boss = [None, mine[0][0] if mine else None, mine[1][0] if k > 2 else None][depth]
            mine.append((f"p{len(staff) + k}", f"o{office}", boss, 3 - depth, str(draw.choice(["law", "tax", "it"]))))
        staff += mine
        for _ in range(int(draw.integers(0, 6))):
            who = mine[int(draw.integers(len(mine)))] if draw.random() < 0.9 else staff[0]
            cases.append((f"c{len(cases)}", f"o{office}", who[0], who[4]))
    return {
        "offices": pl.DataFrame({"office": [f"o{i}" for i in range(count)], "size": sizes}),
        "staff": pl.DataFrame(staff, ["person", "office", "boss", "grade", "skill"], orient="row"),
        "cases": pl.DataFrame(cases, ["case", "office", "handler", "topic"], orient="row"),
    }
