"""A first table: made-up members of a library, a model of them, its receipt, and members who do not exist.

    python examples/01_first_table.py

The members are drawn by chance here, so it is safe to look at them, and the last lines do. Of a table of yours, only
what comes out of the model is covered by the promise.
"""

import numpy as np
import polars as pl

import understudy as us


def members(n: int) -> pl.DataFrame:
    """Made-up members of a library: the older borrow more, and a quarter have not told their age."""
    draw = np.random.default_rng(1)
    age = np.clip(draw.normal(44, 17, n), 6, 99).round().astype(int)
    loans = draw.poisson(3 + age / 8)
    branch = np.where(draw.random(n) < 0.004 * age + 0.2, "market square", "station")
    told = draw.random(n) < 0.75
    return pl.DataFrame({"age": pl.Series(age).set(pl.Series(~told), None), "loans": loans, "branch": branch})


# What anyone knows of such a table without having seen it. None of these numbers was read off the rows.
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

    synthetic = model.sample(5_000)  # free, as often as you like; the true number of rows is private
    print("\nFive members who do not exist:")
    print(synthetic.head(5))

    print("\nReal members beside synthetic ones (made-up people, so we may look; no budget covers this):")
    for name, look in LOOKS.items():
        print(f"  {name:<34}{real.select(look).item():>8.2f}{synthetic.select(look).item():>8.2f}")


LOOKS = {
    "mean number of loans": pl.col("loans").mean(),
    "share of members without an age": pl.col("age").is_null().mean(),
    "share at the market square": (pl.col("branch") == "market square").mean(),
    "correlation of age and loans": pl.corr("age", "loans"),
}


if __name__ == "__main__":
    main()
