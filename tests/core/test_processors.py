"""Cores: work on long arrays is spread over threads, work on short ones is not, and the answers are the same."""

import threading

import pytest

from understudy.core import processors
from understudy.core.processors import FEW, in_threads


@pytest.mark.parametrize(("length", "here"), [(None, False), (FEW - 1, True), (FEW, False)])
def test_short_arrays_are_worked_on_here_and_others_in_threads(length, here, monkeypatch):
    monkeypatch.setattr(processors, "cores", lambda: 2)
    found = in_threads(lambda item: (item, threading.current_thread()), range(5), length=length)
    assert [item for item, _ in found] == [0, 1, 2, 3, 4]
    assert all((thread is threading.current_thread()) == here for _, thread in found)
