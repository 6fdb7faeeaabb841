"""Arrays of different shapes as two flat ones, for model files."""

from collections.abc import Mapping, Sequence

import numpy as np
from numpy.typing import NDArray


def flat(name: str, arrays: Sequence[NDArray]) -> dict[str, NDArray]:
    """The entries of all arrays, one after the other, and their shapes: (arrays, axes)."""
    axes = arrays[0].ndim
    shapes = np.array([each.shape for each in arrays], np.int64).reshape(len(arrays), axes)
    return {name: np.concatenate([each.ravel() for each in arrays]), f"{name} shapes": shapes}


def ragged(name: str, saved: Mapping[str, NDArray]) -> list[NDArray]:
    """The arrays that `flat` wrote down."""
    shapes = saved[f"{name} shapes"]
    ends = np.cumsum(shapes.prod(axis=1)) if len(shapes) else np.zeros(0, np.int64)
    parts = np.split(saved[name], ends[:-1])
    return [part.reshape(shape) for part, shape in zip(parts, shapes.tolist(), strict=True)]
