"""A small database of shops, for oracles: customers, their orders in time, and the items of each order."""

import numpy as np
import polars as pl

import understudy as us

SCHEMA = us.DatabaseSchema.parse("""
name = "shops"
unit = "customers"
constraints = ["orders.day >= customers.since", "orders.day >= previous.day"]

[tables.customers]
key = "id"
[tables.customers.columns]
town = { kind = "categorical", values = ["a", "b", "c"] }
since = { kind = "integer", low = 0, high = 100 }

[tables.orders]
key = "order"
parent = "customers"
foreign_key = "id"
max_per_parent = 6
order = "day"
constraints = ["paid <= price"]
[tables.orders.columns]
day = { kind = "integer", low = 0, high = 200 }
kind = { kind = "categorical", values = ["x", "y"] }
price = { kind = "continuous", low = 0, high = 100 }
paid = { kind = "continuous", low = 0, high = 100, nullable = true }

[tables.items]
parent = "orders"
foreign_key = "order"
max_per_parent = 4
[tables.items.columns]
colour = { kind = "categorical", values = ["red", "blue"] }
""")


def shops(customers: int, seed: int) -> dict[str, pl.DataFrame]:
    """Customers of town a order often, and what is ordered first is ordered again; rows in random order."""
    draw = np.random.default_rng(seed)
    town = draw.choice(["a", "b", "c"], customers)
    since = draw.integers(0, 5, customers)
    orders, items = [], []
    for place in range(customers):
        day, kind = int(since[place]), str(draw.choice(["x", "y"]))
        for _ in range(draw.integers(0, 7 if town[place] == "a" else 3)):
            price = float(draw.integers(1, 5)) + (10.0 if kind == "x" else 0.0)
            orders.append(
                (f"o{len(orders)}", f"c{place}", day, kind, price, None if draw.random() < 0.2 else price / 2)
            )
            items += [(f"o{len(orders) - 1}", "red" if kind == "x" else "blue")] * int(draw.integers(0, 4))
            day += int(draw.integers(1, 4))
            kind = kind if draw.random() < 0.8 else "y"
    columns = ["order", "id", "day", "kind", "price", "paid"]
    made = {
        "customers": pl.DataFrame({"id": [f"c{n}" for n in range(customers)], "town": town, "since": since}),
        "orders": pl.DataFrame(orders, schema=columns, orient="row"),
        "items": pl.DataFrame(items, schema=["order", "colour"], orient="row"),
    }
    return {name: frame.sample(fraction=1.0, shuffle=True, seed=seed) for name, frame in made.items()}


def histories(frames: dict[str, pl.DataFrame], column: str) -> dict[str, list]:
    """The values of a column of each customer's orders, in the order of their days."""
    found = {key: [] for key in frames["customers"]["id"]}
    for row in frames["orders"].sort("day", maintain_order=True).iter_rows(named=True):
        found[row["id"]].append(row[column])
    return found
