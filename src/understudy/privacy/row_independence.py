"""Row independence: the proof that a program makes of each row what it would make of it alone.

The one rule: a program is accepted only if the rows can be followed through every operation as an axis of their own,
along which nothing is summed, sorted, shifted or looked up. An operation that is not known here is refused.

`None` stands for the axis of an array that does not depend on rows.
"""

# JAX leaves the types of programs open, so what comes out of it is not checked here.
# pyright: reportUnknownMemberType=false, reportUnknownVariableType=false, reportUnknownArgumentType=false

import math
from collections.abc import Collection, Mapping, Sequence
from typing import Any

from jax.extend import core

# fmt: off
ELEMENTWISE = {
    "abs", "add", "add_any", "and", "atan2", "ceil", "clamp", "convert_element_type", "copy", "cos", "div", "eq", "erf",
    "erf_inv", "exp", "exp2", "expm1", "floor", "ge", "gt", "integer_pow", "is_finite", "le", "log", "log1p",
    "logistic", "lt", "max", "min", "mul", "ne", "neg", "not", "one_minus_square", "or", "pow", "reduce_precision",
    "rem", "round", "rsqrt", "select_n", "sign", "sin", "sqrt", "square", "stop_gradient", "sub", "tan", "tanh", "xor",
}
"""Operations on every number by itself, or with its counterparts in arrays of the same shape."""
REDUCTIONS = {"argmax", "argmin", "reduce_and", "reduce_max", "reduce_min", "reduce_or", "reduce_prod", "reduce_sum"}
CALLS = {"jit", "pjit", "closed_call", "custom_jvp_call", "custom_vjp_call"}
"""Operations that run a program inside the program."""
# fmt: on

RowAxis = int | None
"""Which axis of an array the rows are; None if the array does not depend on them."""
Shape = tuple[int, ...]
Parameters = Mapping[str, Any]


class RowsMixed(ValueError):
    """A program in which one row might influence what is made of another."""


def prove_row_independence(program: core.ClosedJaxpr) -> None:
    """Proves that no row influences what a program makes of another.

    Rows are the last axis of the program's last argument, and must be the last axis of every result.

    Raises:
        RowsMixed: There is no proof.
    """
    *state, rows = program.in_avals
    axes = _row_axes(program.jaxpr, [*(None for _ in state), rows.ndim - 1])
    for axis, made in zip(axes, program.out_avals, strict=True):
        if made.ndim == 0 or made.shape[-1] != rows.shape[-1] or axis not in (None, made.ndim - 1):
            raise RowsMixed(f"expected rows to be the last axis of every result, got shape {made.shape}.")


def _row_axes(program: core.Jaxpr, of_arguments: Sequence[RowAxis]) -> list[RowAxis]:
    """The row axis of every result of a program, given that of every argument."""
    axes: dict[core.Var, RowAxis] = dict.fromkeys(program.constvars)
    axes.update(zip(program.invars, of_arguments, strict=True))

    def axis_of(variable: Any) -> RowAxis:
        return None if isinstance(variable, core.Literal) else axes[variable]

    for equation in program.eqns:
        of_operands = [axis_of(variable) for variable in equation.invars]
        of_results: Sequence[RowAxis] = [None] * len(equation.outvars)
        if any(axis is not None for axis in of_operands):
            of_results = _axes_after(equation, of_operands)
        axes.update(zip(equation.outvars, of_results, strict=True))
    return [axis_of(variable) for variable in program.outvars]


def _axes_after(equation: core.JaxprEqn, axes: Sequence[RowAxis]) -> Sequence[RowAxis]:
    """The row axis of every result of one operation that is given some rows."""
    name: str = equation.primitive.name
    parameters: Parameters = equation.params
    if equation.effects:
        raise RowsMixed(f"{name}: an operation with side effects may not be given rows.")
    if name in CALLS:
        called = parameters["call_jaxpr"] if "call_jaxpr" in parameters else parameters["jaxpr"]
        return _row_axes(called.jaxpr, axes)
    shapes = [_shape(variable) for variable in equation.invars]
    if name in ELEMENTWISE:
        return [_common_axis(name, axes)]
    if name == "concatenate":
        return [_not_among(name, _common_axis(name, axes), [parameters["dimension"]])]
    if name == "stack":
        return [_after_insertion(_common_axis(name, axes), parameters["axis"])]
    if name == "dot_general":
        return [_axis_of_product(parameters["dimension_numbers"], shapes, axes)]
    axis = axes[0]
    if axis is None or any(other is not None for other in axes[1:]):
        raise RowsMixed(f"{name}: a row may not say where to look, or how far.")
    if name == "split":
        return [_not_among(name, axis, [parameters["axis"]])] * len(equation.outvars)
    return [_axis_of_one_operand(name, parameters, axis, shapes[0], _shape(equation.outvars[0]))]


def _shape(variable: Any) -> Shape:
    return variable.aval.shape


def _axis_of_one_operand(name: str, parameters: Parameters, axis: int, shape: Shape, out: Shape) -> int:
    """The row axis after an operation whose first operand alone depends on rows."""
    if name in REDUCTIONS:
        return _after_removal(_not_among(name, axis, parameters["axes"]), parameters["axes"])
    if name == "squeeze":
        return _after_removal(_not_among(name, axis, parameters["dimensions"]), parameters["dimensions"])
    if name == "transpose":
        return parameters["permutation"].index(axis)
    if name == "broadcast_in_dim":
        return parameters["broadcast_dimensions"][axis]
    if name == "reshape":
        return _axis_of_reshaped(axis, shape, out)
    if name in ("slice", "dynamic_slice") and out[axis] == shape[axis]:
        return axis
    if name == "pad" and parameters["padding_config"][axis] == (0, 0, 0):
        return axis
    if name == "gather":
        return _axis_of_gathered(parameters, axis, shape)
    raise RowsMixed(f"{name}: rows cannot be followed through this operation.")


def _common_axis(name: str, axes: Sequence[RowAxis]) -> int:
    """The one axis that the rows are in every operand that depends on them."""
    found = {axis for axis in axes if axis is not None}
    if len(found) != 1:
        raise RowsMixed(f"{name}: rows are another axis in one operand than in the other.")
    return found.pop()


def _not_among(name: str, axis: int, axes: Collection[int]) -> int:
    if axis in tuple(axes):
        raise RowsMixed(f"{name}: goes along the axis of the rows.")
    return axis


def _after_removal(axis: int, removed: Collection[int]) -> int:
    """The row axis when other axes are removed."""
    return axis - sum(other < axis for other in removed)


def _after_insertion(axis: int, inserted: int) -> int:
    """The row axis when another axis is inserted."""
    return axis + (inserted <= axis)


def _axis_of_product(numbers: Any, shapes: Sequence[Shape], axes: Sequence[RowAxis]) -> int:
    """The row axis of a product: rows may be a free axis of one operand, or a batch axis of both."""
    contracted, batch = numbers
    of_rows = [(side, axis) for side, axis in enumerate(axes) if axis is not None]
    for side, axis in of_rows:
        _not_among("dot_general", axis, contracted[side])
    if any(axis in batch[side] for side, axis in of_rows):
        return _common_axis("dot_general", [_index(batch[side], axis) for side, axis in of_rows])
    if len(of_rows) > 1:
        raise RowsMixed("dot_general: multiplies every row with every other.")
    free = [
        [axis for axis in range(len(shape)) if axis not in (*contracted[side], *batch[side])]
        for side, shape in enumerate(shapes)
    ]
    side, axis = of_rows[0]
    return len(batch[0]) + side * len(free[0]) + _index(free[side], axis)


def _index(axes: Sequence[int], axis: int) -> int:
    """The position of an axis among others; -1 if it is not one of them."""
    return list(axes).index(axis) if axis in axes else -1


def _axis_of_reshaped(axis: int, shape: Shape, out: Shape) -> int:
    """The axis of the same length with as many numbers before it."""
    before = math.prod(shape[:axis])
    for other, length in enumerate(out):
        if length == shape[axis] and math.prod(out[:other]) == before:
            return other
    raise RowsMixed("reshape: the axis of the rows is broken up.")


def _axis_of_gathered(parameters: Parameters, axis: int, shape: Shape) -> int:
    """The row axis after looking something up along other axes: the rows come whole, as an axis of what is found."""
    numbers = parameters["dimension_numbers"]
    looked_up = {*numbers.collapsed_slice_dims, *numbers.start_index_map, *numbers.operand_batching_dims}
    if axis in looked_up or parameters["slice_sizes"][axis] != shape[axis]:
        raise RowsMixed("gather: looks something up along the axis of the rows.")
    removed = {*numbers.collapsed_slice_dims, *numbers.operand_batching_dims}
    return numbers.offset_dims[sum(other not in removed for other in range(axis))]
