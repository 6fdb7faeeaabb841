"""The generator of DP-MERF, and how it is fitted to an embedding. NumPy alone; no row comes here.

    y = z V + b + U φ(… φ(z)),   z standard normal

gives every column its score and the logits of its categories. It starts as the identity: independent normal scores, and
categories at their shares.
"""

import itertools
import math
from collections.abc import Callable, Mapping, Sequence

import numpy as np
from numpy.typing import NDArray

from understudy.privacy.embedding import EmbeddedColumn, Embedding, first_features
from understudy.synthesizers.merf.fitted import with_layers
from understudy.synthesizers.merf.loss import SMALL, Loss

Params = dict[str, NDArray]


def initial(columns: Sequence[EmbeddedColumn], widths: Sequence[int], noise: int, draw: np.random.Generator) -> Params:
    """The identity: column c's score is the c-th number of the noise."""
    width = sum(column.width for column in columns)
    straight, bias = np.zeros((noise, width)), np.zeros(width)
    for c, (column, start) in enumerate(zip(columns, first_features(columns), strict=True)):
        if column.number:
            straight[c, start] = 1.0
        bias[start + column.number : start + column.width] = np.log(np.maximum(column.shares, 1e-4))
    params = {"straight": straight, "bias": bias}
    sizes = (noise, *widths)
    for i, (a, b) in enumerate(itertools.pairwise(sizes)):
        params[f"weight {i}"] = draw.standard_normal((a, b)) * math.sqrt(1.0 / a)
        params[f"shift {i}"] = draw.standard_normal(b) * 0.5
    params[f"weight {len(widths)}"] = np.zeros((sizes[-1], width))
    return {name: value.astype(np.float32) for name, value in params.items()}


def fit(
    params: Mapping[str, NDArray],
    embedding: Embedding,
    target: NDArray,
    *,
    steps: int,
    rate: float,
    fakes: int,
    part: float,
    emphasis: float,
    margins: float,
    draw: np.random.Generator,
    progress: Callable[[int, int], None] = lambda done, total: None,
) -> Params:
    """Adam on the loss, with fresh fakes in every step and a rate that falls to zero along a cosine.

    Args:
        progress: Told the steps done and the steps in all.
    """
    loss = Loss(embedding, target, emphasis=emphasis, margins=margins, dtype=np.float32)
    params = {name: np.array(value, np.float32) for name, value in params.items()}
    first, second = ({name: np.zeros_like(value) for name, value in params.items()} for _ in range(2))
    noise, keep_first, keep_second = params["straight"].shape[0], 0.9, 0.99
    widest = max(value.size for value in params.values())
    rows = next(rows for rows in range(min(fakes, max(SMALL // widest, 1)), 0, -1) if fakes % rows == 0)
    for step in range(steps):
        z = draw.standard_normal((fakes, noise), dtype=np.float32)
        made, layers = with_layers(params, z.reshape(-1, rows, noise))
        some = draw.permutation(len(loss.waves))[: math.ceil(part * len(loss.waves))].tolist()
        gradient = loss(made.reshape(fakes, -1), some)[1]
        gradients = through(params, layers, gradient.reshape(-1, rows, gradient.shape[1]))
        now = rate * 0.5 * (1 + math.cos(math.pi * step / steps)) / (1 - keep_first ** (step + 1))
        for name, gradient in gradients.items():
            first[name] += (1 - keep_first) * (gradient - first[name])
            second[name] += (1 - keep_second) * (gradient**2 - second[name])
            params[name] -= now * first[name] / (np.sqrt(second[name] / (1 - keep_second ** (step + 1))) + 1e-8)
        progress(step + 1, steps)
    return params


def through(params: Mapping[str, NDArray], layers: Sequence[NDArray], gradient: NDArray) -> Params:
    """The gradient in the parameters from that in the outputs: back through the layers, (parts, rows, width) each."""

    def across(x: NDArray, back: NDArray) -> NDArray:
        return (x.swapaxes(1, 2) @ back).sum(axis=0)

    last = len(layers) - 1
    gradients = {"straight": across(layers[0], gradient), "bias": gradient.sum(axis=(0, 1))}
    gradients[f"weight {last}"] = across(layers[-1], gradient)
    back = gradient @ params[f"weight {last}"].T
    for i in range(last - 1, -1, -1):
        back = back * (1 - layers[i + 1] ** 2)
        gradients[f"weight {i}"], gradients[f"shift {i}"] = across(layers[i], back), back.sum(axis=(0, 1))
        if i:
            back = back @ params[f"weight {i}"].T
    return gradients
