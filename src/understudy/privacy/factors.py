"""What is trained, and its factors as a program that is safe to run on rows.

The one rule: a loop's Python function `factors` is traced on shapes and never called with a row.
"""

# JAX leaves many types open, so what comes out of it is not checked here.
# pyright: reportUnknownMemberType=false, reportUnknownVariableType=false, reportUnknownArgumentType=false

import dataclasses
import functools
import math
from collections.abc import Sequence
from typing import Any, Protocol, TypeVar

import jax
import jax.numpy as jnp
import numpy as np

from understudy.privacy.clipping import Layer, Mask, clipped_sums
from understudy.privacy.row_programs import RowProgram, apply_row_wise, row_program, shapes_of

Array = jax.Array
State = TypeVar("State")
Prepared = TypeVar("Prepared")


class Loop(Protocol[State, Prepared]):
    """What is trained: frozen and hashable, so that equal loops are compiled once.

    `factors` is traced on shapes and never called with a row; what the others are given is public.

    Attributes:
        steps_per_round: Steps between two calls of `finish`; it divides the number of steps.
    """

    @property
    def steps_per_round(self) -> int: ...

    def prepare(self, state: State, key: Array) -> Prepared:
        """What the steps of a round need beforehand: arrays with one entry for each step."""
        ...

    def factors(self, state: State, rows: Array) -> Sequence[Layer]:
        """The factors of every row's gradient; rows are the last axis, (columns, rows). Array operations alone."""
        ...

    def update(self, state: State, gradient: Sequence[Array], prepared: Prepared) -> State:
        """The state after a step, given the noisy sum of gradients of each layer, (in, out) or (..., in, out)."""
        ...

    def finish(self, state: State, key: Array) -> State:
        """The state at the end of a round."""
        ...


@dataclasses.dataclass(frozen=True, eq=False, repr=False)
class FactorProgram:
    """The `factors` of a loop as a program that is safe to run on rows; compared by identity.

    Attributes:
        seen: The mask of each layer; fixed when the program was traced, so no row had an influence on it.
        size: How many numbers a sum of gradients has.
        terms: How many numbers are added up, at most, one after the other for the squared norm of a row.
    """

    program: RowProgram
    seen: tuple[Mask | None, ...]
    size: int
    terms: int

    def __call__(self, state: Any, rows: Array) -> list[Layer]:
        return _layers(apply_row_wise(self.program, state, rows), self.seen)

    def check_norms(self, shape: tuple[int, ...]) -> None:
        """Refuses clipping norms that are not one number, or one for each of the layers side by side."""
        if shape and any(delta.shape[:-2] != shape for delta in self.program.traced.out_avals[1::2]):
            raise ValueError(f"clip_norm: expected one for each layer side by side, got {shape}.")


def traced_factors(loop: Loop[State, Any], state: State, columns: int, rows: int) -> FactorProgram:
    """The factors of a loop as a program for so many rows, the same one for equal loops and shapes.

    Raises:
        SideEffects: The network does something other than array operations.
    """
    leaves, tree = jax.tree.flatten(shapes_of(state))
    return _traced_factors(loop, tree, tuple(leaves), columns, rows)


@functools.lru_cache(maxsize=256)
def _traced_factors(
    loop: Loop[Any, Any], tree: Any, leaves: tuple[jax.ShapeDtypeStruct, ...], columns: int, rows: int
) -> FactorProgram:
    state, seen = jax.tree.unflatten(tree, leaves), list[Mask | None]()

    def pairs(state: Any, rows: Array) -> list[Array]:
        layers = loop.factors(state, rows)
        seen[:] = [layer.seen.copy() if isinstance(layer.seen, np.ndarray) else layer.seen for layer in layers]
        return [factor for layer in layers for factor in (layer.inputs, layer.deltas)]

    program = row_program(pairs, state, columns=columns, rows=rows)
    inside = jax.ShapeDtypeStruct((program.rows_at_once, 1), jnp.bool_)

    def summed(made: list[Array], inside: Array) -> list[Array]:
        return clipped_sums(_layers(made, seen), inside, 1.0)

    sums = jax.eval_shape(summed, program.traced.out_avals, inside)
    inputs, deltas = program.traced.out_avals[::2], program.traced.out_avals[1::2]
    widest = max(a.shape[-2] + delta.shape[-2] for a, delta in zip(inputs, deltas, strict=True))
    terms = widest + sum(math.prod(delta.shape[:-2]) for delta in deltas)
    return FactorProgram(program, tuple(seen), sum(layer.size for layer in sums), terms)


def _layers(made: Sequence[Array], seen: Sequence[Mask | None]) -> list[Layer]:
    return [Layer(a, delta, mask) for a, delta, mask in zip(made[::2], made[1::2], seen, strict=True)]
