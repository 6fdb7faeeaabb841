"""Networks as programs: what is done with rows is a traced list of array operations, never a Python function.

The one rule: a network's Python function is traced on shapes alone, before anything is charged or read, and never
called again. What runs on rows is the traced program, which must consist of JAX's own array operations. A program that
calls back into Python, prints, or has any other side effect is refused, wherever in it that happens.

A network gets all rows of a batch at once, as the last axis of an array, which is what computers are fast at. It runs
on all at once only if its program is proved to keep rows independent (row_independence.py). Otherwise it is traced for
a single row and run on one row after the other (in parallel, but several times as slow).
"""

# JAX leaves many types open, so what comes out of it is not checked here.
# pyright: reportUnknownMemberType=false, reportUnknownVariableType=false, reportUnknownArgumentType=false

import dataclasses
import functools
import math
from collections.abc import Callable, Iterator, Sequence
from typing import Any, TypeVar, cast

import jax
import jax.numpy as jnp
from jax.extend import core
from jax.extend.core import primitives

from understudy.privacy.row_independence import RowsMixed, prove_row_independence

Array = jax.Array
State = TypeVar("State")
Network = Callable[[State, Array], Sequence[Array]]

DERIVATIVE_RULES = (primitives.custom_jvp_call_p, primitives.custom_vjp_call_p)
"""Operations that hold Python functions as derivative rules; nothing is differentiated here, so none is called."""
# Random keys are left out, since the implementation of a key may be anybody's Python.
ARRAY_OPERATIONS = frozenset(
    operation
    for module in (jax.lax, primitives)
    for operation in vars(module).values()
    if isinstance(operation, core.Primitive) and not operation.name.startswith("random_")
)
"""JAX's own operations from arrays to arrays, compared by identity: another one of the same name is refused."""


class SideEffects(ValueError):
    """A program that could carry a row out: it calls Python, prints, or does something that is not array arithmetic."""


@dataclasses.dataclass(frozen=True, eq=False, repr=False)
class RowProgram:
    """A network as a program that is safe to run on rows; holds nothing of the network's Python.

    Attributes:
        traced: The program, from the leaves of the state and some rows to arrays whose last axis is the rows.
        rows_at_once: How many rows it takes.
    """

    traced: core.ClosedJaxpr
    rows_at_once: int


def row_program(network: "Network[State]", state: State, *, columns: int, rows: int) -> RowProgram:
    """The program of a network, traced on shapes: for so many rows at once if they stay independent, else for one.

    Args:
        state: Shapes, or arrays, of which only the shapes are used.
        columns: The length of a row.

    Privacy:
        Reads nothing. `network` is called here, with abstract values, and never again.

    Raises:
        SideEffects: The program does something other than array operations.
    """
    traced = _traced(network, state, columns, rows)
    try:
        prove_row_independence(traced)
    except RowsMixed:
        return RowProgram(_traced(network, state, columns, 1), 1)
    return RowProgram(traced, rows)


def shapes_of(state: State) -> State:
    """The same tree with the shape and type of every array in its place."""

    def same(given: State) -> State:
        return given

    return jax.eval_shape(same, state)


def _traced(network: "Network[State]", state: State, columns: int, rows: int) -> core.ClosedJaxpr:
    traced = jax.make_jaxpr(network)(shapes_of(state), jax.ShapeDtypeStruct((columns, rows), jnp.float32))
    refuse_side_effects(traced.jaxpr)
    for made in traced.out_avals:
        if made.ndim == 0 or made.shape[-1] != rows:
            raise ValueError(f"factors: expected rows to be the last axis of every result, got {made.shape}.")
    return traced


def refuse_side_effects(program: core.Jaxpr) -> None:
    """Raises SideEffects unless a program, with all programs inside it, consists of JAX's own array operations."""
    for equation in program.eqns:
        operation = equation.primitive
        if operation not in ARRAY_OPERATIONS or equation.effects:
            raise SideEffects(
                f"factors: expected array operations alone, got {operation.name}, which could carry rows out. "
                "Nothing was charged or read. Leave callbacks, prints and random draws out of `factors`."
            )
        for part in _flat(list(equation.params.values())):
            if isinstance(part, core.ClosedJaxpr):
                refuse_side_effects(part.jaxpr)
            elif isinstance(part, core.Jaxpr):
                refuse_side_effects(part)
            elif callable(part) and operation not in DERIVATIVE_RULES and not isinstance(part, jax.sharding.Mesh):
                raise SideEffects(f"factors: expected array operations alone, got {operation.name} with a function.")


def _flat(value: Any) -> Iterator[Any]:
    if isinstance(value, tuple | list):
        for part in cast(Sequence[Any], value):
            yield from _flat(part)
    else:
        yield value


def apply_row_wise(program: RowProgram, state: Any, rows: Array) -> list[Array]:
    """What a network makes of each row, given the state; rows are the last axis of all that goes in and comes out.

    Rows beyond `program.rows_at_once` are taken in blocks of that many, each by itself.

    Privacy:
        Releases nothing. Column r of every result depends on the state and on row r alone.
    """
    run = functools.partial(_run, program, state)
    count, at_once = rows.shape[-1], program.rows_at_once
    if count == at_once:
        return run(rows)
    blocks = math.ceil(count / at_once)
    padded = jnp.pad(rows, ((0, 0), (0, blocks * at_once - count))).reshape(len(rows), blocks, at_once)
    made = jax.vmap(run, in_axes=1, out_axes=-2)(padded)  # (..., blocks, rows at once)
    return [each.reshape(*each.shape[:-2], blocks * at_once)[..., :count] for each in made]


def _run(program: RowProgram, state: Any, rows: Array) -> list[Array]:
    return core.jaxpr_as_fun(program.traced)(*jax.tree.leaves((state, rows)))
