"""Compiled programs: those that run once a fit, and those that draw rows chunk by chunk."""

import functools
from collections.abc import Callable
from typing import ParamSpec, TypeVar

import jax
import numpy as np

Array = jax.Array | np.ndarray
"""An array on a device, or one that is about to be."""

P = ParamSpec("P")
R = TypeVar("R")
TreeT = TypeVar("TreeT")

CHUNK = 8192
"""Rows are generated this many at a time: a chunk of 20 columns stays in the cache."""


def runs_once(*static: str) -> Callable[[Callable[P, R]], Callable[P, R]]:
    """Compiles a function that runs once a fit, with these arguments static.

    On a CPU it is compiled with few optimisations, which takes less time than they would save.
    """

    def decorate(function: Callable[P, R]) -> Callable[P, R]:
        @functools.cache
        def program() -> Callable[P, R]:
            options = {"xla_backend_optimization_level": 1} if jax.default_backend() == "cpu" else None
            return jax.jit(function, static_argnames=static, compiler_options=options)

        @functools.wraps(function)
        def run(*args: P.args, **kwargs: P.kwargs) -> R:
            return program()(*args, **kwargs)

        return run

    return decorate


def zeros_like(tree: TreeT) -> TreeT:
    """Arrays of zeros of the shapes in a tree, made without compiling anything."""
    return jax.tree.map(lambda leaf: np.zeros(leaf.shape, leaf.dtype), tree)


def rows_in_chunks(chunk: Callable[[jax.Array], jax.Array], key: jax.Array, n: int, features: int) -> np.ndarray:
    """`n` rows, (n, features), from a program that draws `CHUNK` of them, (CHUNK, features), with the key it is given.

    Fewer rows are the first of more.
    """
    rows = np.empty((n, features), dtype=np.float32)
    for i, start in enumerate(range(0, n, CHUNK)):
        rows[start : start + CHUNK] = np.asarray(chunk(jax.random.fold_in(key, i)))[: n - start]
    return rows
