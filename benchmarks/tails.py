"""Long tails: how far mean and 99 % quantile of costs are off, over many seeds, with and without smooth tails.

python benchmarks/tails.py --method prada --seeds 30
python benchmarks/tails.py --method prada --seeds 30 --rows-per-unit 4
"""

import argparse

import numpy as np

from understudy.core.randomness import Key
from understudy.encoding import distributions, fit
from understudy.encoding.consistency import Round
from understudy.privacy.ledger import Ledger
from understudy.privacy.plan import Budget
from understudy.privacy.rows import lock
from understudy.synthesizers import resolve
from understudy.synthesizers.planning import planned_mechanisms
from understudy.tables.column import Column
from understudy.tables.schema import Schema

ROWS, COLUMNS, HIGH = 20_000, 10, 100_000.0
LEVELS = (np.arange(200_000) + 0.5) / 200_000


def costs(kind: str, draw: np.random.Generator) -> np.ndarray:
    """Costs of one kind: at most `HIGH`, in cents."""
    usual = draw.lognormal(6.0, 1.2, ROWS)
    drawn = {
        "lognormal(6, 1.2)": lambda: usual,
        "lognormal(6, 1.6)": lambda: draw.lognormal(6.0, 1.6, ROWS),
        "80 % zeros, else lognormal": lambda: np.where(draw.random(ROWS) < 0.8, 0.0, usual),
        "95 % zeros, else lognormal": lambda: np.where(draw.random(ROWS) < 0.95, 0.0, usual),
        "Pareto, shape 1.8": lambda: 100.0 * (1.0 + draw.pareto(1.8, ROWS)),
        "60 % zeros, else a part of a cost": lambda: usual * draw.beta(1.0, 6.0, ROWS) * (draw.random(ROWS) >= 0.6),
    }[kind]()
    return np.round(np.minimum(drawn, HIGH), 2)


KINDS = (
    "lognormal(6, 1.2)",
    "lognormal(6, 1.6)",
    "80 % zeros, else lognormal",
    "95 % zeros, else lognormal",
    "60 % zeros, else a part of a cost",
    "Pareto, shape 1.8",
)


def errors(kind: str, method: str, seed: int, rows_per_unit: int) -> tuple[float, float]:
    """Relative errors of mean and q99, of one of `COLUMNS` columns at epsilon = 1; units have so many rows at most."""
    column = Column(name="x", kind="continuous", low=0.0, high=HIGH, decimals=2)
    others = tuple(Column(name=f"c{i}", kind="continuous") for i in range(COLUMNS - 1))
    schema, budget = Schema(columns=(column, *others)), Budget(epsilon=1.0, delta=1e-6)
    planned = planned_mechanisms(schema, resolve(method), budget)
    ledger = Ledger(budget, planned, seed=seed, unit="unit", max_rows_per_unit=rows_per_unit)
    exact = costs(kind, np.random.default_rng(seed))
    unit = np.arange(ROWS) // rows_per_unit
    rows = lock({"x": exact}, {}, unit=unit, max_rows_per_unit=rows_per_unit, key=Key.new(seed))
    root = Round(np.array([float(ROWS)]), (ledger.noise("rows") * rows_per_unit) ** 2, np.zeros(1, int))
    rounds = fit._Numeric(column, root, ledger, rows.max_rows_per_unit)
    fit._count(rows, schema, {}, {"x": rounds}, ledger, Key.new(seed))
    encoder, _ = rounds.fitted()
    drawn = encoder.values(LEVELS)
    return drawn.mean() / exact.mean() - 1, np.quantile(drawn, 0.99) / np.quantile(exact, 0.99) - 1


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--method", default="prada")
    parser.add_argument("--seeds", type=int, default=30)
    parser.add_argument("--rows-per-unit", type=int, default=1)
    asked = parser.parse_args()
    smooth = distributions.long_tail
    print("| column | mean, rms | q99, rms | mean off by more than 15 % | q99 off by more than 15 % |")
    print("| --- | --- | --- | --- | --- |")
    for kind in KINDS:
        found = []
        for tail in (lambda *_, **__: None, smooth):
            distributions.long_tail = tail
            found.append(
                np.array([errors(kind, asked.method, seed, asked.rows_per_unit) for seed in range(asked.seeds)])
            )
        rms = [np.sqrt((each**2).mean(axis=0)) for each in found]
        off = [100 * (np.abs(each) > 0.15).mean(axis=0) for each in found]
        figures = [f"{rms[0][i]:.3f} → {rms[1][i]:.3f}" for i in (0, 1)]
        figures += [f"{off[0][i]:.0f} % → {off[1][i]:.0f} %" for i in (0, 1)]
        print(f"| {kind} | {' | '.join(figures)} |", flush=True)


if __name__ == "__main__":
    main()
