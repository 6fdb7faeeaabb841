"""L-BFGS, in vector operations alone.

SciPy's solves small dense systems at every step, for which a linear algebra library may wake all its threads, and takes
a quarter of a second to import.

Source: Liu and Nocedal (1989), "On the limited memory BFGS method for large scale optimization".
"""

from collections import deque
from collections.abc import Callable, Sequence

import numpy as np
from numpy.typing import NDArray

Floats = NDArray[np.float64]
Function = Callable[[Floats], tuple[float, Floats]]

MEMORY = 20
"""So many steps are remembered."""
HALVINGS = 30
"""A step is halved at most so often."""


def minimise(function: Function, x: Floats, *, iterations: int, tolerance: float) -> Floats:
    """Where a smooth function is smallest, by L-BFGS with a backtracking line search.

    Args:
        function: Its value and its gradient.
        x: Where to begin.
        iterations: The most steps.
        tolerance: It ends when a step gains less than this part of the value, or of 1.
    """
    value, gradient = function(x)
    memory: deque[tuple[Floats, Floats, float]] = deque(maxlen=MEMORY)
    for _ in range(iterations):
        direction = _quasi_newton(gradient, memory)
        slope, length = float(gradient @ direction), 1.0
        for _ in range(HALVINGS):
            ahead, there = function(x + length * direction)
            if ahead <= value + 1e-4 * length * slope:
                break
            length /= 2
        else:
            return x
        step, change = length * direction, there - gradient
        gained, x, value, gradient = value - ahead, x + step, ahead, there
        if (curvature := float(step @ change)) > 1e-12 * float(change @ change):
            memory.append((step, change, curvature))
        if gained <= tolerance * max(abs(value), 1.0) or np.abs(gradient).max() < 1e-7:
            break
    return x


def _quasi_newton(gradient: Floats, memory: Sequence[tuple[Floats, Floats, float]]) -> Floats:
    """The direction of descent, from the gradient and the remembered steps, changes of gradient and curvatures."""
    direction, alphas = -gradient, list[float]()
    for step, change, curvature in reversed(memory):
        alphas.append(float(step @ direction) / curvature)
        direction -= alphas[-1] * change
    if memory:
        _, change, curvature = memory[-1]
        direction *= curvature / float(change @ change)
    for (step, change, curvature), alpha in zip(memory, reversed(alphas), strict=True):
        direction += (alpha - float(change @ direction) / curvature) * step
    return direction
