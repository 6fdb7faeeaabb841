"""Files: replaced as a whole or not at all, and locked for one process at a time."""

import contextlib
import os

import pytest

from understudy.core.files import lock, replacing


@contextlib.contextmanager
def opened(path):
    descriptor = os.open(path, os.O_RDWR | os.O_CREAT)
    try:
        yield descriptor
    finally:
        os.close(descriptor)


def test_an_exclusive_lock_keeps_everybody_else_out_until_it_is_closed(tmp_path):
    path = tmp_path / "file"
    with opened(path) as first, opened(path) as second:
        lock(first)
        for shared in (False, True):
            with pytest.raises(BlockingIOError):
                lock(second, shared=shared, patience=0.02)
    with opened(path) as third:
        lock(third)


def test_readers_share_a_lock_and_keep_writers_out(tmp_path):
    path = tmp_path / "file"
    with opened(path) as first, opened(path) as second, opened(path) as writer:
        lock(first, shared=True)
        lock(second, shared=True)
        with pytest.raises(BlockingIOError):
            lock(writer)


def test_a_file_is_replaced_when_the_block_ends_and_kept_when_it_fails(tmp_path):
    path = tmp_path / "file"
    path.write_text("old")
    with pytest.raises(RuntimeError), replacing(path) as temporary:
        temporary.write_text("half")
        raise RuntimeError
    assert path.read_text() == "old"
    with replacing(path) as temporary:
        temporary.write_text("new")
    assert path.read_text() == "new" and os.listdir(tmp_path) == ["file"]
