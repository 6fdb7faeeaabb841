"""Settings that all ways of training share: what they may be, and what their steps cost.

The one rule: nothing here is heavy. A method must be configured and planned without JAX.
"""

import math
from collections.abc import Sequence
from typing import Any

from understudy.privacy.accounting import PlannedMechanism
from understudy.tables.schema import Schema

ROWS = 10_000
"""Taken for the number of rows where the schema does not give it: the sampling rate must be public."""
LARGEST_BATCH = 2.0
"""Of the wanted batch size, however many rows there turn out to be."""


def sampling_rate(method: Any, schema: Schema) -> float:
    """The chance that a row is drawn into a batch, a function of public facts."""
    return min(1.0, method.batch_size / (schema.rows or ROWS))


def drawn_rate(method: Any, schema: Schema, rows: float) -> float:
    """The chance that a row is drawn with, once their number is known: batches of twice the wanted size at most.

    It is never above the rate that was paid for. A schema that does not give the number of rows pays for the rate of a
    small table; a large one is then trained on in batches that end within the day, at more noise than need be.
    """
    return min(sampling_rate(method, schema), LARGEST_BATCH * method.batch_size / max(rows, 1.0))


def check_training(method: Any) -> None:
    """Refuses settings of adversarial training that make no sense."""
    for field in ("critic_steps", "batch_size", "generator_every"):
        check_whole(method, field)
    check_flag(method, "decay")
    if method.fakes is not None:
        check_whole(method, "fakes")
    if method.critic_steps % method.generator_every:
        raise ValueError(
            f"{type(method).__name__}.critic_steps: expected a multiple of generator_every = "
            f"{method.generator_every}, got {method.critic_steps}."
        )
    for field in ("clip_norm", "critic_rate", "generator_rate", "clamp"):
        _check(method, field, "a number > 0", lambda x: _is_number(x) and x > 0)
    if method.noise_multiplier is not None:
        _check(method, "noise_multiplier", "a number > 0 or None", lambda x: _is_number(x) and x > 0)
    lowest = 0.0 if getattr(method, "standardised", False) else 1e-6
    _check(method, "encoding_share", "a number in (0, 1)", lambda x: _is_number(x) and lowest <= x < 1)
    _check(method, "average", "a number in [0, 1]", lambda x: _is_number(x) and 0 <= x <= 1)
    check_choice(method, "lipschitz", ("penalty", "clamp"))
    if method.critic_widths is not None:
        check_widths(method, "critic_widths")


def check_widths(method: Any, field: str) -> None:
    """Refuses what are not widths of layers; a list becomes a tuple."""
    if isinstance(widths := getattr(method, field), list):
        object.__setattr__(method, field, tuple(widths))
    _check(method, field, "a tuple of whole numbers >= 1", _are_widths)


def _are_widths(widths: Any) -> bool:
    whole = isinstance(widths, tuple) and all(isinstance(w, int) and not isinstance(w, bool) for w in widths)
    return whole and bool(widths) and min(widths) >= 1


def check_whole(method: Any, field: str) -> None:
    """Refuses what is not a whole number of at least 1."""
    _check(method, field, "a whole number >= 1", lambda x: isinstance(x, int) and x >= 1)


def check_flag(method: Any, field: str) -> None:
    """Refuses what is neither true nor false."""
    if not isinstance(value := getattr(method, field), bool):
        raise ValueError(f"{type(method).__name__}.{field}: expected True or False, got {value!r}.")


def check_number(method: Any, field: str, least: float) -> None:
    """Refuses what is not a number of at least so much."""
    _check(method, field, f"a number >= {least:g}", lambda x: _is_number(x) and x >= least)


def check_choice(method: Any, field: str, known: Sequence[str]) -> None:
    """Refuses what is none of the words."""
    _check(method, field, f"one of {', '.join(known)}", lambda x: x in known)


def _check(method: Any, field: str, rule: str, holds: Any) -> None:
    value = getattr(method, field)
    if isinstance(value, bool) or not holds(value):
        raise ValueError(f"{type(method).__name__}.{field}: expected {rule}, got {value!r}.")


def _is_number(value: Any) -> bool:
    return isinstance(value, int | float) and not isinstance(value, bool) and math.isfinite(value)


def critic_item(method: Any, schema: Schema, name: str, share: float) -> PlannedMechanism:
    """The private steps of one training."""
    return PlannedMechanism(
        name=name,
        mechanism="sampled gaussian",
        share=share,
        times=method.critic_steps,
        sampling_rate=sampling_rate(method, schema),
        noise_multiplier=method.noise_multiplier,
    )
