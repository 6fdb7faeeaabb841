"""The three regression tables of the paper, as the benchmarks read them."""

from understudy.datasets import load, schema, split

__all__ = ["load", "schema", "split"]
