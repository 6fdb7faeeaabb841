"""A first table: made-up library members, a model of them, its receipt, and members who do not exist.

    python examples/01_first_table.py

The members are random, so it is safe to look at them, and the last lines do. For a table of your own, only what comes
out of the model is covered by the privacy promise.
"""

import numpy as np
import polars as pl

import understudy as us


def members(n: int) -> pl.DataFrame:
    """Made-up library members: older ones borrow more, and a quarter have not given their age."""
    draw = np.random.default_rng(1)
    age = np.clip(draw.normal(44, 17, n), 6, 99).round().astype(int)
    loans = draw.poisson(3 + age / 8)
    branch = np.where(draw.random(n) < 0.004 * age + 0.2, "market square", "station")
    given = draw.random(n) < 0.75
    return pl.DataFrame({"age": pl.Series(age).set(pl.Series(~given), None), "loans": loans, "branch": branch})


# What anyone knows about such a table without having seen it. None of these numbers was read off the rows.
SCHEMA = us.Schema(
    name="members",
    columns=(
        us.Column(name="age", kind="integer", low=0, high=120, nullable=True),
        us.Column(name="loans", kind="integer", low=0, high=200),
        us.Column(name="branch", kind="categorical", values=("market square", "station")),
    ),
)


def main() -> None:
    real = members(5_000)
    model = us.fit(real, SCHEMA, epsilon=1.0, delta=1e-6)
    print(model.receipt)

    synthetic = model.sample(5_000)  # sampling costs no budget; pass a number, because the true one is private
    print("\nFive members who do not exist:")
    print(synthetic.head(5))

    print("\nReal and synthetic members side by side (made-up people, so we may look; no budget covers this):")
    for name, statistic in STATISTICS.items():
        print(f"  {name:<34}{real.select(statistic).item():>8.2f}{synthetic.select(statistic).item():>8.2f}")


STATISTICS = {
    "mean number of loans": pl.col("loans").mean(),
    "share of members without an age": pl.col("age").is_null().mean(),
    "share at the market square": (pl.col("branch") == "market square").mean(),
    "correlation of age and loans": pl.corr("age", "loans"),
}


if __name__ == "__main__":
    main()
