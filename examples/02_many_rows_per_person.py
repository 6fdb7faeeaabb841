"""Many rows per person, and a budget that ends: the unit, a ledger with a cap, one fit, and one that is refused.

    python examples/02_many_rows_per_person.py

A patient comes to a clinic again and again. Protecting a visit would not protect the patient, so the schema says which
column tells patients apart. The ledger adds up what all fits of the table may have told of anyone.
"""

import dataclasses
import tempfile
from pathlib import Path

import numpy as np
import polars as pl

import understudy as us


def visits(patients: int) -> pl.DataFrame:
    """Made-up visits: most patients come once or twice, a few come dozens of times."""
    draw = np.random.default_rng(2)
    times = 1 + draw.geometric(0.5, patients) + 40 * (draw.random(patients) < 0.005)
    patient = np.repeat(np.arange(patients), times)
    age = np.repeat(np.clip(draw.normal(50, 20, patients), 0, 105).round(), times)
    minutes = draw.gamma(4.0, 3.0 + age / 20)
    return pl.DataFrame({"patient": patient, "age": age.astype(int), "minutes": minutes.round(1)})


SCHEMA = us.Schema(
    name="visits",  # what the ledger knows the table by
    unit="patient",  # all rows of one patient are protected together
    max_rows_per_unit=3,  # and no more of them are used, so that the noise can be small
    columns=(
        us.Column(name="age", kind="integer", low=0, high=120),
        us.Column(name="minutes", kind="continuous", low=0.0, high=240.0),
    ),
)


def main() -> None:
    table = visits(3_000)
    by_visit = dataclasses.replace(SCHEMA, unit=None, max_rows_per_unit=None, ignore=("patient",))
    for schema, whom in ((by_visit, "one visit"), (SCHEMA, "one patient, with up to three visits")):
        line = next(line for line in us.plan(schema, epsilon=1.0).charges if line.name == "moments")
        noise = line.noise_multiplier * (schema.max_rows_per_unit or 1)
        print(f"To hide {whom}: noise on the correlations {noise:.1f} times what one row can change.")

    with tempfile.TemporaryDirectory() as folder:
        ledger = Path(folder) / "budget.jsonl"
        us.LedgerFile(ledger).set_cap("visits", epsilon=1.5, delta=1e-5)

        model = us.fit(table, SCHEMA, epsilon=1.0, ledger=ledger)
        print(f"\nFirst fit: {model}. Whom it protects: {model.receipt.unit!r}, all rows together.")
        print(model.sample(3))  # the unit is an identifier, so no synthetic row has one

        print("\nSecond fit:")
        try:
            us.fit(table, SCHEMA, epsilon=1.0, ledger=ledger)
        except us.BudgetExceeded as refusal:
            print(f"  refused: {refusal}")

        print("\nThe ledger:")
        print(us.LedgerFile(ledger).show())


if __name__ == "__main__":
    main()
