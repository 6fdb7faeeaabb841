"""The methods, by name. Each is a class of settings; `base` says what methods and fitted generators can do.

`METHODS` and `FITTED` are the only lists of them. They know every name at once and import a class when it is looked
up, so that listing the methods (help, completion, an error message) costs nothing.
"""

import dataclasses
import importlib
from collections.abc import Iterator, Mapping, MutableMapping
from typing import TYPE_CHECKING, Generic, TypeVar

from understudy.core.text import did_you_mean

if TYPE_CHECKING:
    from understudy.synthesizers.base import Fitted, Method, MethodClass

C = TypeVar("C")


class Registry(MutableMapping[str, C], Generic[C]):
    """Classes by name, each imported when it is first looked up."""

    def __init__(self, places: Mapping[str, str]):
        self._places: dict[str, str | None] = dict(places)  # "module:Class", or None for one that was given as a class
        self._classes: dict[str, C] = {}

    def __getitem__(self, name: str) -> C:
        place = self._places[name]
        if place is not None and name not in self._classes:
            module, _, attribute = place.partition(":")
            self._classes[name] = getattr(importlib.import_module(f"understudy.synthesizers.{module}"), attribute)
        return self._classes[name]

    def __setitem__(self, name: str, given: C) -> None:
        self._places[name], self._classes[name] = None, given

    def __delitem__(self, name: str) -> None:
        del self._places[name]
        self._classes.pop(name, None)

    def __iter__(self) -> Iterator[str]:
        return iter(self._places)

    def __len__(self) -> int:
        return len(self._places)

    def __contains__(self, name: object) -> bool:
        return name in self._places

    def __repr__(self) -> str:
        return f"Registry({', '.join(self)})"


METHODS: "Registry[MethodClass]" = Registry(
    {
        "aim": "aim:AIM",
        "gem": "gem.method:GEM",
        "copula": "copula:Copula",
        "independent": "independent:Independent",
        "mst": "mst:MST",
        "prada": "prada.likelihood.method:Prada",
        "prada-gan": "prada.adversarial.method:PradaGAN",
        "dpgan": "prada.adversarial.dpgan:DPGAN",
        "dp-merf": "merf.method:MERF",
        "privbayes": "privbayes.method:PrivBayes",
        "privmrf": "privmrf.method:PrivMRF",
    }
)
FITTED: "Registry[type[Fitted]]" = Registry(
    {
        "aim": "aim:FittedAIM",
        "gem": "gem.fitted:FittedGEM",
        "copula": "copula:FittedCopula",
        "independent": "independent:FittedIndependent",
        "mst": "mst:FittedMST",
        "prada": "prada.likelihood.fitted:FittedDensity",
        "prada-gan": "prada.adversarial.fitted:FittedPrada",
        "dpgan": "prada.adversarial.fitted:FittedDPGAN",
        "dp-merf": "merf.fitted:FittedMERF",
        "privbayes": "privbayes.method:FittedPrivBayes",
        "privmrf": "privmrf.method:FittedPrivMRF",
    }
)
FITTED_FAMILIES: "Registry[type[Fitted]]" = Registry({"prada": "conditional.density:ConditionalDensity"})
"""Of methods that fit tables of children in another way than single tables, what they make of them."""
DEFAULT = "prada"


def resolve(method: "str | Method", settings: Mapping[str, object] | None = None) -> "Method":
    """A configured method, from a name or from itself, with some settings changed.

    Raises:
        ValueError: There is no such method, or it has no such setting, or the setting cannot be that.
    """
    settings = settings or {}
    if not isinstance(method, str):
        if not is_method(method):
            raise ValueError(f"method: expected a name or one of {', '.join(METHODS)}, configured; got {method!r}.")
        return dataclasses.replace(method, **settings)
    if method not in METHODS:
        raise ValueError(
            f"method: expected one of {', '.join(METHODS)}; got {method!r}.{did_you_mean(method, METHODS)}"
        )
    known = [field.name for field in dataclasses.fields(METHODS[method])]
    for key in settings:
        if key not in known:
            has = f"has {', '.join(known)}" if known else "has no settings"
            raise ValueError(f"method {method!r} {has}; got {key!r}.{did_you_mean(key, known)}")
    return METHODS[method](**settings)


def is_method(value: object) -> bool:
    """Whether this is one of the registered methods, configured."""
    name = getattr(value, "name", None)
    return isinstance(name, str) and name in METHODS and type(value) is METHODS[name]
