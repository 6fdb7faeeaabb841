"""Objects as bytes: what comes out is what went in, and nothing else goes in."""

import datetime

import numpy as np
import pytest

from conftest import MIXED
from understudy.core import wire
from understudy.core.randomness import Key
from understudy.privacy.piecewise import Distribution, LevelScale
from understudy.privacy.row_maps import NormalScore

PLAIN = [
    *(None, True, -(2**70), 0.1, float("inf"), "é\n", b"\x00\xff", [], (1, (2,)), {"a": [1], 2: ()}, {1, 2}),
    *(frozenset({"x"}), datetime.date(1999, 12, 31), datetime.datetime(2004, 2, 29, 1, 2, 3, 4), MIXED, Key.new(7)),
]


@pytest.mark.parametrize("value", PLAIN, ids=lambda value: type(value).__name__)
def test_what_comes_out_is_what_went_in(value):
    found = wire.unpack(wire.pack(value))
    assert type(found) is type(value) and found == value


@pytest.mark.parametrize("kind", ["?", "i1", "<i8", "<u8", "<f4", "<f8"])
@pytest.mark.parametrize("shape", [(), (0,), (3,), (2, 3)])
def test_arrays_keep_their_bits_and_their_order(kind, shape):
    first, second = np.ones(shape, kind), np.zeros((2, *shape), kind).swapaxes(0, -1)
    found = wire.unpack(wire.pack({"a": first, "b": (second, first)}))
    for one, other in ((found["a"], first), (found["b"][0], second), (found["b"][1], first)):
        assert one.dtype == other.dtype and one.shape == other.shape and one.tobytes() == other.tobytes()


def test_a_map_of_rows_is_the_same_map():
    scale = LevelScale(Distribution(np.array([0.0, 1.0]), np.array([0.0, 1.0])))
    row_map = NormalScore("x", scale, np.float64(0.1), False, True, Key.new(1))
    found = wire.unpack(wire.pack(row_map))
    x, uniforms = np.linspace(0, 1, 5), np.full((2, 5), 0.25)
    assert type(found) is NormalScore and found.key == row_map.key and type(found.edge) is np.float64
    np.testing.assert_array_equal(found.apply([x], uniforms), row_map.apply([x], uniforms))


@pytest.mark.parametrize(
    "value", [object(), len, np.array([object()]), [lambda: 0], pytest], ids=lambda value: type(value).__name__
)
def test_nothing_that_could_act_goes_in(value):
    with pytest.raises(TypeError, match="pack: expected"):
        wire.pack(value)


@pytest.mark.parametrize("name", ["os.system", "understudy.core.wire.pack", "understudy.core.wire._PACKAGE"])
def test_bytes_that_name_something_else_are_not_followed(name):
    module, _, attribute = name.rpartition(".")
    described = f'["dataclass", ["{module}", "{attribute}", {{}}]]'.encode()
    with pytest.raises(TypeError, match="unpack: expected"):
        wire.unpack(len(described).to_bytes(8, "little") + described)
