"""The self-test: small fits as a user would make them, on simulated people."""

import time
from collections.abc import Iterator

import polars as pl

import understudy
from understudy import datasets
from understudy.cli.doctor.finding import REINSTALL, Finding

ROWS = 300
"""The size of the simulated table: small, so that a fit takes a moment."""
_SLOW = 30.0
"""A self-test that takes more seconds than this is worth a note; it usually takes about five."""


def check_fit() -> Iterator[Finding]:
    start = time.perf_counter()
    people, schema = datasets.example(ROWS), datasets.example_schema()
    asked = understudy.Budget(epsilon=1.0, delta=1e-6)

    def fit(seed: int | None = None) -> understudy.Model:
        return understudy.fit(people, schema, epsilon=asked.epsilon, delta=asked.delta, seed=seed, progress=False)

    model = fit()
    yield Finding(name="fit", state="ok", fact=f"{model.method.name} fitted to {ROWS} simulated rows")
    yield receipt_finding(model.receipt, asked)
    yield sample_finding(model.sample(50), schema, 50)
    yield repetition_finding(*(fit(seed=7).sample(50, 7) for _ in range(2)), other=fit(seed=8).sample(50, 7))
    yield time_finding(time.perf_counter() - start)


def receipt_finding(receipt: understudy.Receipt, asked: understudy.Budget) -> Finding:
    """Whether no more was spent than was asked for, by both accountants, and with noise from real entropy."""
    promised = receipt.budget == asked and receipt.delta <= asked.delta
    spent = receipt.epsilon <= min(asked.epsilon, receipt.rdp_epsilon)
    if promised and spent and receipt.charges and receipt.seed is None:
        fact = f"epsilon = {receipt.epsilon:.4g} of {asked.epsilon:g} spent, in {len(receipt.charges)} charges"
        return Finding(name="receipt", state="ok", fact=fact)
    fact = f"epsilon = {receipt.epsilon:.6g}, delta = {receipt.delta:g} on the receipt of a fit that asked for "
    fact += f"epsilon = {asked.epsilon:g}, delta = {asked.delta:g}"
    return Finding(name="receipt", state="problem", fact=fact, advice=f"Fit nothing here. {REINSTALL}")


def sample_finding(rows: pl.DataFrame, schema: understudy.Schema, asked: int) -> Finding:
    """Whether a sample has the schema's columns, and as many rows as were asked for."""
    if tuple(rows.columns) == schema.names and len(rows) == asked:
        return Finding(name="sample", state="ok", fact=f"{asked} rows with the {len(schema)} columns of the schema")
    fact = f"{len(rows)} rows of {len(rows.columns)} columns were drawn; {asked} of {len(schema)} were asked for"
    return Finding(name="sample", state="problem", fact=fact, advice=REINSTALL)


def repetition_finding(one: pl.DataFrame, again: pl.DataFrame, *, other: pl.DataFrame) -> Finding:
    """Whether the same seed gives the same rows, and another seed others."""
    if one.equals(again) and not one.equals(other):
        return Finding(name="repetition", state="ok", fact="the same seed gives the same rows, another seed others")
    fact = "another seed gives the same rows" if one.equals(again) else "the same seed gives different rows"
    return Finding(name="repetition", state="problem", fact=fact, advice=REINSTALL)


def time_finding(seconds: float) -> Finding:
    """A note if small fits take long."""
    fact = f"four small fits took {seconds:.1f} s"
    if seconds <= _SLOW:
        return Finding(name="speed", state="ok", fact=fact)
    return Finding(name="speed", state="note", fact=fact, advice="About five are usual. Is the machine busy?")
