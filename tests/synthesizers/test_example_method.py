"""The method of docs/adding-a-method.md keeps the contract of all others.

The contract's tests are imported, and so collected here a second time, with the one method below in place of all of
`METHODS`.
"""

import re
from pathlib import Path
from typing import Any
from unittest import mock

import pytest
from test_contract import *  # noqa: F403

from understudy.synthesizers import FITTED, METHODS

PAGE = Path(__file__).parents[2] / "docs" / "adding-a-method.md"
NAME = "chain"
pytestmark = pytest.mark.parametrize("method", [NAME])  # in place of the contract's own


@pytest.fixture(scope="module")
def entries() -> tuple[Any, Any]:
    """What the page enters into `METHODS` and `FITTED` under the method's name; both are then as they were."""
    names: dict[str, Any] = {"__name__": "page"}
    with mock.patch.dict(METHODS), mock.patch.dict(FITTED):
        for text in re.findall(r"^```python\n(.*?)^```$", PAGE.read_text(), re.MULTILINE | re.DOTALL):
            exec(compile(text, PAGE.name, "exec"), names)
        found = METHODS[NAME], FITTED[NAME]
    assert NAME not in METHODS and NAME not in FITTED
    return found


@pytest.fixture(autouse=True)
def entered(entries, monkeypatch):
    """The method as if it were one of the library's."""
    monkeypatch.setitem(METHODS, NAME, entries[0])
    monkeypatch.setitem(FITTED, NAME, entries[1])


def test_wrong_settings_are_refused(method):
    with pytest.raises(ValueError, match="most_"):
        METHODS[method](**{name: 1 for name in ("most_cells", "most_bins") if hasattr(METHODS[method], name)})
