"""Rows kept apart: what is made of one row depends on that row alone, by a proof or by force.

A network gets all rows of a batch at once, as the last axis of an array, which is what computers are fast at. The one
rule: it runs on all at once only if the rows can be followed through every operation of the traced program as an axis
of their own, over which nothing is summed, sorted, shifted or looked up. Otherwise, or where an operation is not known
here, it is run on one row after the other (in parallel, but several times as slow), and never sees a second one.

It is the traced program itself that runs, so there is no other that could do something else.
"""

import functools
import math
from collections.abc import Callable, Sequence
from typing import Any

import jax
from jax.extend import core

# fmt: off
ELEMENTWISE = {
    "abs", "add", "add_any", "and", "atan2", "ceil", "clamp", "convert_element_type", "copy", "cos", "div", "eq", "erf",
    "erf_inv", "exp", "exp2", "expm1", "floor", "ge", "gt", "integer_pow", "is_finite", "le", "log", "log1p",
    "logistic", "lt", "max", "min", "mul", "ne", "neg", "not", "one_minus_square", "or", "pow", "reduce_precision",
    "rem", "round", "rsqrt", "select_n", "sign", "sin", "sqrt", "square", "stop_gradient", "sub", "tan", "tanh", "xor",
}
"""What is done to every number by itself, or with its counterparts in arrays of the same shape."""
REDUCTIONS = {"argmax", "argmin", "reduce_and", "reduce_max", "reduce_min", "reduce_or", "reduce_prod", "reduce_sum"}
CALLS = {"jit", "pjit", "closed_call", "custom_jvp_call", "custom_vjp_call"}
# fmt: on

Place = int | None
"""Which axis the rows are; None for what does not depend on them."""


class RowsMixed(ValueError):
    """A program in which one row could have a say in what is made of another, as far as is known."""


Network = Callable[[Any, jax.Array], Sequence[jax.Array]]


def apart(network: Network, state: Any, rows: jax.Array) -> list[jax.Array]:
    """What a network makes of each row, given the state; rows are the last axis of all that goes in and comes out."""
    try:
        return core.jaxpr_as_fun(proved(network, state, rows))(*jax.tree.leaves((state, rows)))
    except RowsMixed:
        return jax.vmap(functools.partial(_of_one, network, state), in_axes=-1, out_axes=-1)(rows)


def _of_one(network: Network, state: Any, row: jax.Array) -> list[jax.Array]:
    return [made[..., 0] for made in network(state, row[..., None])]


def proved(network: Network, state: Any, rows: jax.Array) -> core.ClosedJaxpr:
    """The program of a network in which no row has a say in what is made of another.

    Raises:
        RowsMixed: One may have.
    """
    traced = jax.make_jaxpr(network)(state, rows)
    known = [None] * len(jax.tree.leaves(state))
    places = _follow(traced.jaxpr, [*known, rows.ndim - 1])
    for place, made in zip(places, traced.out_avals, strict=True):
        if made.ndim == 0 or made.shape[-1] != rows.shape[-1] or place not in (None, made.ndim - 1):
            raise RowsMixed(f"expected rows to be the last axis of all that is made of them, got shape {made.shape}.")
    return traced


def _follow(program: core.Jaxpr, given: Sequence[Place]) -> list[Place]:
    """Where the rows are in what a program gives back, for where they are in what it is given."""
    places: dict[Any, Place] = dict.fromkeys(program.constvars)
    places.update(zip(program.invars, given, strict=True))

    def place_of(variable: Any) -> Place:
        return None if isinstance(variable, core.Literal) else places[variable]

    for equation in program.eqns:
        found = [place_of(variable) for variable in equation.invars]
        made: Sequence[Place] = [None] * len(equation.outvars)
        if any(place is not None for place in found):
            made = _after(equation, found)
        places.update(zip(equation.outvars, made, strict=True))
    return [place_of(variable) for variable in program.outvars]


def _after(equation: Any, found: Sequence[Place]) -> Sequence[Place]:
    """Where the rows are after one operation that sees some."""
    name, given = equation.primitive.name, equation.params
    if equation.effects:
        raise RowsMixed(f"{name}: an operation with side effects may not see rows.")
    if name in CALLS:
        program = given["call_jaxpr"] if "call_jaxpr" in given else given["jaxpr"]
        return _follow(program.jaxpr, found)
    shapes = [variable.aval.shape for variable in equation.invars]
    if name in ELEMENTWISE:
        return [_one(name, found)]
    if name == "concatenate":
        return [_unless(name, _one(name, found), {given["dimension"]})]
    if name == "stack":
        return [_more(_one(name, found), given["axis"])]
    if name == "dot_general":
        return [_product(given["dimension_numbers"], shapes, found)]
    if found[0] is None or any(place is not None for place in found[1:]):
        raise RowsMixed(f"{name}: rows may not say where to look, or how far.")
    place, shape, out = found[0], shapes[0], equation.outvars[0].aval.shape
    if name in REDUCTIONS:
        return [_less(_unless(name, place, given["axes"]), given["axes"])]
    if name == "squeeze":
        return [_less(_unless(name, place, given["dimensions"]), given["dimensions"])]
    if name == "transpose":
        return [given["permutation"].index(place)]
    if name == "broadcast_in_dim":
        return [given["broadcast_dimensions"][place]]
    if name == "reshape":
        return [_reshaped(place, shape, out)]
    if name in ("slice", "dynamic_slice") and out[place] == shape[place]:
        return [place]
    if name == "pad" and given["padding_config"][place] == (0, 0, 0):
        return [place]
    if name == "gather":
        return [_gathered(given, place, shape)]
    if name == "split":
        return [_unless(name, place, {given["axis"]})] * len(equation.outvars)
    raise RowsMixed(f"{name}: rows cannot be followed through this operation.")


def _one(name: str, found: Sequence[Place]) -> Place:
    """The one axis that the rows are in all that sees them."""
    places = {place for place in found if place is not None}
    if len(places) != 1:
        raise RowsMixed(f"{name}: rows are another axis in one operand than in the other.")
    return places.pop()


def _unless(name: str, place: Place, axes: Any) -> Place:
    if place in tuple(axes):
        raise RowsMixed(f"{name}: goes along the axis of the rows.")
    return place


def _less(place: Place, gone: Sequence[int]) -> Place:
    """Where the rows are when axes are gone."""
    assert place is not None
    return place - sum(axis < place for axis in gone)


def _more(place: Place, axis: int) -> Place:
    """Where the rows are when there is a new axis."""
    assert place is not None
    return place + (axis <= place)


def _product(numbers: Any, shapes: Sequence[tuple[int, ...]], found: Sequence[Place]) -> Place:
    """Of a product: rows may be a free axis of one operand, or a batch axis of both."""
    contracted, batch = numbers
    seeing = [side for side, place in enumerate(found) if place is not None]
    for side in seeing:
        _unless("dot_general", found[side], contracted[side])
    if any(found[side] in batch[side] for side in seeing):
        return _one("dot_general", [_index(batch[side], found[side]) for side in seeing])
    if len(seeing) > 1:
        raise RowsMixed("dot_general: multiplies every row with every other.")
    free = [
        [axis for axis in range(len(shape)) if axis not in (*contracted[i], *batch[i])]
        for i, shape in enumerate(shapes)
    ]
    side = seeing[0]
    return len(batch[0]) + side * len(free[0]) + _index(free[side], found[side])


def _index(axes: Sequence[int], place: Place) -> int:
    """Where an axis is among others; -1 where it is not."""
    return -1 if place is None or place not in axes else list(axes).index(place)


def _reshaped(place: int, shape: tuple[int, ...], out: tuple[int, ...]) -> int:
    """The axis of the same length with as many numbers before it."""
    before = math.prod(shape[:place])
    for axis, length in enumerate(out):
        if length == shape[place] and math.prod(out[:axis]) == before:
            return axis
    raise RowsMixed("reshape: the axis of the rows is taken apart.")


def _gathered(given: Any, place: int, shape: tuple[int, ...]) -> int:
    """Of looking something up along other axes: the rows come whole, as an axis of what is found."""
    numbers = given["dimension_numbers"]
    looked_up = {*numbers.collapsed_slice_dims, *numbers.start_index_map, *numbers.operand_batching_dims}
    if place in looked_up or given["slice_sizes"][place] != shape[place]:
        raise RowsMixed("gather: looks something up along the axis of the rows.")
    gone = {*numbers.collapsed_slice_dims, *numbers.operand_batching_dims}
    return numbers.offset_dims[sum(axis not in gone for axis in range(place))]
