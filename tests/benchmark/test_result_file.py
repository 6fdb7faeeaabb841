"""The result file: a whole line stays, half a line never was."""

import json
import multiprocessing

import pytest

from understudy.benchmark.result_file import ResultError, open_results, read


def line(name, value=1.0):
    return {"id": name, "dataset": "adult", "label": "copula", "seed": 0, "scores": {"wd": value}}


def test_lines_are_there_after_the_file_is_closed(tmp_path):
    with open_results(tmp_path / "deep" / "folder", "name = 'g'") as results:
        results.append(line("a"))
        results.append(line("b"))
        assert results.done == {"a", "b"}
    assert [found["id"] for found in read(tmp_path / "deep" / "folder")] == ["a", "b"]
    assert (tmp_path / "deep" / "folder" / "grid.toml").read_text() == "name = 'g'"


@pytest.mark.parametrize("cut", [1, 5, 20])
def test_half_a_line_is_dropped_and_made_again(tmp_path, cut):
    with open_results(tmp_path, "") as results:
        results.append(line("a"))
    whole = (tmp_path / "runs.jsonl").read_bytes()
    (tmp_path / "runs.jsonl").write_bytes(whole + json.dumps(line("b")).encode()[:cut])
    assert [found["id"] for found in read(tmp_path)] == ["a"]
    with open_results(tmp_path, "") as results:
        assert results.done == {"a"}
        results.append(line("b"))
    assert (tmp_path / "runs.jsonl").read_bytes() == whole + json.dumps(line("b")).encode() + b"\n"


def test_sorting_follows_the_grid_and_loses_nothing(tmp_path):
    with open_results(tmp_path, "") as results:
        for name in ("c", "old", "a"):
            results.append(line(name))
        results.sort(["a", "b", "c"])
    assert [found["id"] for found in read(tmp_path)] == ["a", "c", "old"]


def test_what_a_killed_rewrite_left_is_cleared_away(tmp_path):
    (tmp_path / ".0123.tmp").write_text("half")
    with open_results(tmp_path, ""):
        pass
    assert sorted(path.name for path in tmp_path.iterdir()) == [".lock", "grid.toml", "runs.jsonl"]


@pytest.mark.parametrize("content", [b"{}\n", b"[1]\n", b"not json\n", b'{"id": 3, "scores": {}}\n', b"\n"])
def test_a_line_that_is_no_run_is_named(tmp_path, content):
    (tmp_path / "runs.jsonl").write_bytes(json.dumps(line("a")).encode() + b"\n" + content)
    with pytest.raises(ResultError, match=r"runs.jsonl, line 2: expected"):
        read(tmp_path)
    with pytest.raises(ResultError, match="line 2"), open_results(tmp_path, ""):
        pass


def test_a_folder_without_results_is_refused(tmp_path):
    with pytest.raises(ResultError, match=r"cannot be read: no such file.*understudy bench"):
        read(tmp_path)


def test_a_file_in_the_place_of_the_folder_is_refused(tmp_path):
    (tmp_path / "results").write_text("mine")
    with pytest.raises(ResultError, match="cannot be written"), open_results(tmp_path / "results", ""):
        pass
    assert (tmp_path / "results").read_text() == "mine"


def _hold(folder, held, release):
    with open_results(folder, ""):
        held.set()
        release.wait(60)


def test_two_at_once_are_refused(tmp_path):
    context = multiprocessing.get_context("spawn")
    held, release = context.Event(), context.Event()
    other = context.Process(target=_hold, args=(tmp_path, held, release))
    other.start()
    try:
        assert held.wait(60)
        with pytest.raises(ResultError, match="another benchmark is running there"), open_results(tmp_path, ""):
            pass
    finally:
        release.set()
        other.join()
    with open_results(tmp_path, ""):
        pass
