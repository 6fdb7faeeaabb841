"""The three regression tables of the paper, with its columns and transforms, and their committed schemas."""

import dataclasses
import os
from pathlib import Path

import numpy as np
import polars as pl

from understudy import Schema

HERE = Path(__file__).parent
DROPPED = {"california": ["HouseAge"], "house_16h": [], "cpu_act": ["lread", "lwrite"]}
LOGGED = {"california": "MedHouseVal", "house_16h": "price"}


def load(name: str) -> pl.DataFrame:
    """One table from the folder that UNDERSTUDY_DATA names."""
    folder = os.environ.get("UNDERSTUDY_DATA")
    if not folder:
        raise SystemExit("UNDERSTUDY_DATA: expected the folder with california.csv, house_16h.csv and cpu_act.csv.")
    frame = pl.read_csv(Path(folder) / f"{name}.csv").drop(DROPPED[name])
    return frame.with_columns(pl.col(LOGGED[name]).log1p()) if name in LOGGED else frame


def schema(name: str, *, bounds: bool) -> Schema:
    """The committed schema, with its round-number bounds or with none at all."""
    written = Schema.read(HERE / "schemas" / f"{name}.toml")
    if bounds:
        return written
    free = tuple(dataclasses.replace(column, low=None, high=None) for column in written)
    return dataclasses.replace(written, columns=free)


def split(frame: pl.DataFrame, number: int) -> tuple[pl.DataFrame, pl.DataFrame]:
    """Train (60 %) and test (40 %) parts; the number is the seed of the shuffle."""
    order = np.random.default_rng(number).permutation(len(frame))
    cut = round(0.6 * len(frame))
    return frame[order[:cut]], frame[order[cut:]]
