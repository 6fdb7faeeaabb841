"""`dp_accounting`, loaded without the parts of SciPy that it imports and hardly uses.

Its import loads `scipy.stats`, `scipy.signal` and `scipy.optimize`: a second, for one normal distribution and one
convolution. While it loads, stand-ins take their places. A stand-in has what Gaussian accounting calls, made from
`scipy.special` and `scipy.fft` as SciPy itself makes it, so that every number is the same to the last bit
(tests/privacy/test_accountants.py); asked for anything else, it loads the real module and passes the question on. If
the real modules are loaded already, nothing stands in for them.
"""

# SciPy and dp_accounting have no type stubs.
# pyright: reportMissingTypeStubs=false, reportUnknownVariableType=false, reportUnknownMemberType=false
# pyright: reportUnknownArgumentType=false

import functools
import importlib
import sys
import threading
from types import ModuleType
from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    import numpy as np
    from numpy.typing import NDArray

    Floats = NDArray[np.float64]

_LOADING = threading.Lock()


@functools.cache
def load() -> ModuleType:
    """The package `dp_accounting`, with its accountants."""
    with _LOADING:
        if "dp_accounting" in sys.modules:
            return sys.modules["dp_accounting"]
        light = [
            _StandIn("scipy.stats", norm=_Norm()),
            _StandIn("scipy.signal", fftconvolve=_fftconvolve),
            _StandIn("scipy.optimize"),
        ]
        light = [module for module in light if module.__name__ not in sys.modules]
        sys.modules.update({module.__name__: module for module in light})
        try:
            return importlib.import_module("dp_accounting")
        finally:
            for module in light:
                module.step_aside()


class _StandIn(ModuleType):
    """A module of SciPy, of which a few names are here already."""

    def __init__(self, name: str, **ready: object):
        super().__init__(name)
        self.__dict__.update(ready)

    def step_aside(self) -> None:
        """Leaves the place to the real module, for whoever imports it from now on."""
        if sys.modules.get(self.__name__) is self:
            del sys.modules[self.__name__]

    def __getattr__(self, name: str) -> Any:
        if name.startswith("__"):  # the import system's own questions
            raise AttributeError(name)
        self.step_aside()
        return getattr(importlib.import_module(self.__name__), name)


class _Norm:
    """`scipy.stats.norm` with a scale, as far as accountants ask: its functions are those of `scipy.special`."""

    def __init__(self, scale: float = 1.0):
        self.scale = scale

    def __call__(self, scale: float = 1.0) -> "_Norm":
        return _Norm(scale)

    def cdf(self, x: "Floats") -> "Floats":
        from scipy.special import ndtr

        return ndtr(x / self.scale)

    def logcdf(self, x: "Floats") -> "Floats":
        from scipy.special import log_ndtr

        return log_ndtr(x / self.scale)

    def ppf(self, q: "Floats") -> "Floats":
        from scipy.special import ndtri

        return ndtri(q) * self.scale

    def __getattr__(self, name: str) -> Any:
        if name.startswith("__"):
            raise AttributeError(name)
        from scipy.stats import norm

        return getattr(norm(scale=self.scale), name)


def _fftconvolve(one: "Floats", other: "Floats") -> "Floats":
    """`scipy.signal.fftconvolve` of two arrays of real numbers, in full."""
    import numpy as np
    from scipy import fft

    one, other = np.asarray(one, np.float64), np.asarray(other, np.float64)
    if 1 in (len(one), len(other)):  # SciPy multiplies then, too
        return one * other
    length = len(one) + len(other) - 1
    fast = fft.next_fast_len(length, True)
    forth: Any = fft.rfftn
    back: Any = fft.irfftn
    return back(forth(one, [fast], axes=[0]) * forth(other, [fast], axes=[0]), [fast], axes=[0])[:length]
