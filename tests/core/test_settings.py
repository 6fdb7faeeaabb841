"""Settings: every field is held to its constraint, and the error names place, rule and fact."""

import dataclasses
from typing import ClassVar

import numpy as np
import pytest

from understudy.core.settings import Constraints, Each, Flag, Number, OneOf, Optional, Settings, Whole, require


@dataclasses.dataclass(frozen=True, kw_only=True)
class Example(Settings):
    times: int = 1
    share: float = 0.5
    widths: tuple[int, ...] = (3, 4)
    kind: str = "plain"
    fast: bool = False
    limit: float | None = None

    constraints: ClassVar[Constraints] = {
        "times": Whole(least=1, most=9),
        "share": Number(above=0, below=1),
        "widths": Each(Whole(least=1)),
        "kind": OneOf("plain", "fancy"),
        "fast": Flag(),
        "limit": Optional(Number(least=0)),
    }


WIDTHS = "Example.widths: expected a tuple of at least one entry, each a whole number >= 1"


@pytest.mark.parametrize(
    ("field", "value", "message"),
    [
        ("times", 0, "Example.times: expected a whole number >= 1 and <= 9, got 0."),
        ("times", 2.0, "Example.times: expected a whole number >= 1 and <= 9, got 2.0."),
        ("times", True, "Example.times: expected a whole number >= 1 and <= 9, got True."),
        ("share", 1.0, "Example.share: expected a finite number > 0 and < 1, got 1.0."),
        ("share", 1.5000000000000002, "Example.share: expected a finite number > 0 and < 1, got 1.5."),
        ("share", float("nan"), "Example.share: expected a finite number > 0 and < 1, got nan."),
        ("share", "half", "Example.share: expected a finite number > 0 and < 1, got 'half'."),
        ("widths", (), f"{WIDTHS}, got ()."),
        (
            "widths",
            (1, 0),
            f"{WIDTHS}, got (1, 0).",
        ),
        ("widths", 3, f"{WIDTHS}, got 3."),
        ("kind", "odd", "Example.kind: expected one of plain, fancy, got 'odd'."),
        ("fast", 1, "Example.fast: expected True or False, got 1."),
        ("limit", -1, "Example.limit: expected a finite number >= 0, or None, got -1."),
    ],
)
def test_a_field_that_breaks_its_constraint_is_refused_in_one_sentence(field, value, message):
    with pytest.raises(ValueError) as caught:
        Example(**{field: value})
    assert str(caught.value) == message


def test_lists_become_tuples_and_numpy_numbers_python_numbers():
    given = {"times": np.int64(3), "share": np.float32(0.25), "widths": [np.int32(5), 6], "limit": np.float64(0)}
    made = Example(**given)  # pyright: ignore[reportArgumentType]
    assert made == Example(times=3, share=0.25, widths=(5, 6), limit=0.0)
    assert [type(value) for value in (made.times, made.share, *made.widths)] == [int, float, int, int]


def test_what_keeps_its_constraint_passes():
    require("share", 0.5, Number(least=0.5, most=0.5))
    assert Example(limit=3).limit == 3
