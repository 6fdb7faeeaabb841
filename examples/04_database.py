"""A database: patients, their visits and the prescriptions of each visit, with the patient protected across all tables.

    python examples/04_database.py

The hospital is simulated, so its laws are known: which of them do the synthetic tables break, and how much of the
families do they keep? The method is `mst`, which is fitted in seconds; `prada`, the default, keeps more.
"""

import understudy as us
from understudy.datasets import broken_rules, hospital, hospital_schema

PATIENTS, METHOD = 600, "mst"


def main() -> None:
    schema, tables, kept = hospital_schema(), hospital(PATIENTS, seed=1), hospital(PATIENTS, seed=2)
    print(schema)
    print({name: len(table) for name, table in tables.items()}, "rows\n")

    model = us.fit(tables, schema, METHOD, epsilon=5.0, delta=1e-6)
    print(model.receipt.promise, "\n")

    made = model.sample(PATIENTS)
    print(made["visits"].head(5))
    for law, share in broken_rules(made).items():
        print(f"{law}: broken by {share:.1%} of the rows")

    found = us.evaluate(kept, made, schema, train=tables)
    print(f"\n{found.verdict}")
    for row in found.filter(columns="").iter_rows(named=True):
        if row["metric"] in ("children", "parent_child", "siblings"):
            print(f"{row['metric']}, {row['table']}: {row['value']:.3f}, real patients {row['floor']:.3f}")


if __name__ == "__main__":
    main()
