"""Encoders that tests share: fitted to small tables, or made from a known distribution."""

import functools

import numpy as np
import polars as pl

from conftest import MIXED, mixed_table
from understudy import encoding
from understudy.core.randomness import Key
from understudy.encoding import Encoder, NumericEncoder
from understudy.privacy.ledger import Ledger
from understudy.privacy.piecewise import Distribution
from understudy.privacy.plan import Budget
from understudy.privacy.rows import PrivateRows, lock
from understudy.tables.column import Column
from understudy.tables.schema import Schema
from understudy.tables.table import read

HUGE = 1e6


def locked(table: pl.DataFrame, schema: Schema) -> PrivateRows:
    """A table behind the lock."""
    arrived = read(table, schema)
    return lock(arrived.columns, arrived.labels, key=Key.new(0))


def fitted(table: pl.DataFrame, schema: Schema, epsilon: float = HUGE, seed: int = 0) -> Encoder:
    """The encoder that the whole budget gives."""
    ledger = Ledger(Budget(epsilon=epsilon, delta=1e-6), encoding.plan(schema, share=1.0, delta=1e-6))
    return encoding.fit_encoder(locked(table, schema), schema, ledger=ledger, key=Key.new(seed))


@functools.cache
def mixed_rows() -> PrivateRows:
    """Locked rows of the mixed table."""
    return locked(mixed_table(2000), MIXED)


@functools.cache
def mixed_encoder() -> Encoder:
    """The encoder of the mixed table, almost without noise."""
    return fitted(mixed_table(2000), MIXED)


def one(kind, values, /, **facts) -> tuple[pl.DataFrame, Schema]:
    """A table and a schema of one column, "x"."""
    return pl.DataFrame({"x": values}), Schema(columns=(Column(name="x", kind=kind, **facts),))


def generate(encoder: Encoder, n: int = 4000, seed: int = 1) -> np.ndarray:
    """Values of the column "x" at random levels."""
    return encoder.columns["x"].values(np.random.default_rng(seed).random(n))


def known_encoder(distribution: Distribution) -> Encoder:
    """An encoder of one number column, "x", with this distribution."""
    column = Column(name="x", kind="integer" if distribution.integer else "continuous")
    return Encoder(Schema(columns=(column,)), {"x": NumericEncoder(column, distribution)}, 5000.0)
