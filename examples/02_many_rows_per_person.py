"""Many rows per person, and a budget that runs out: a unit, a ledger with a cap, one fit, and one that is refused.

    python examples/02_many_rows_per_person.py

A patient visits a clinic several times. Protecting single visits would not protect the patient, so the schema names the
column that identifies patients. The ledger adds up the privacy cost of all fits of the table. The method is `copula`,
which is fitted in a second; all of this is the same for every method.
"""

import dataclasses
import tempfile
from pathlib import Path

import numpy as np
import polars as pl

import understudy as us


def visits(patients: int) -> pl.DataFrame:
    """Made-up visits: most patients come two or three times, a few come dozens of times."""
    draw = np.random.default_rng(2)
    times = 1 + draw.geometric(0.5, patients) + 40 * (draw.random(patients) < 0.005)
    patient = np.repeat(np.arange(patients), times)
    age = np.repeat(np.clip(draw.normal(50, 20, patients), 0, 105).round(), times)
    minutes = draw.gamma(4.0, 3.0 + age / 20)
    return pl.DataFrame({"patient": patient, "age": age.astype(int), "minutes": minutes.round(1)})


METHOD = "copula"
SCHEMA = us.Schema(
    name="visits",  # the name under which the ledger keeps the table
    unit="patient",  # all rows of one patient are protected together
    max_rows_per_unit=3,  # no more rows of one patient are used, which keeps the noise small
    columns=(
        us.Column(name="age", kind="integer", low=0, high=120),
        us.Column(name="minutes", kind="continuous", low=0.0, high=240.0),
    ),
)


def main() -> None:
    table = visits(3_000)
    by_visit = dataclasses.replace(SCHEMA, unit=None, max_rows_per_unit=None, ignore=("patient",))
    for schema, whom in ((by_visit, "one visit"), (SCHEMA, "one patient, with up to three visits")):
        plan = us.plan(schema, METHOD, epsilon=1.0)
        charge = next(charge for charge in plan.charges if charge.name == "moments")
        noise = charge.noise_multiplier * (schema.max_rows_per_unit or 1)
        print(f"To protect {whom}: noise on the correlations of {noise:.1f} times what one row can change.")

    with tempfile.TemporaryDirectory() as folder:
        ledger = Path(folder) / "budget.jsonl"
        us.LedgerFile(ledger).set_cap("visits", epsilon=1.5, delta=1e-5)

        model = us.fit(table, SCHEMA, METHOD, epsilon=1.0, ledger=ledger)
        print(f"\nFirst fit: {model}. It protects all rows of one {model.receipt.unit!r} together.")
        print(model.sample(3))  # a unit is an identifier, so synthetic rows have none

        print("\nSecond fit:")
        try:
            us.fit(table, SCHEMA, METHOD, epsilon=1.0, ledger=ledger)
        except us.BudgetExceeded as refusal:
            print(f"  refused: {refusal}")

        print("\nThe ledger:")
        print(us.LedgerFile(ledger).show())


if __name__ == "__main__":
    main()
