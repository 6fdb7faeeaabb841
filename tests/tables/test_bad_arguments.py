"""Bad arguments: refused in one line, before anything is read, spent or written."""

import pytest

from bad_input import HEADER, assert_refused

# Arguments --------------------------------------------------------------------------------------------------------


@pytest.mark.parametrize("epsilon", ["0", "-1", "nan", "inf", "1e400"])
def test_an_epsilon_that_is_none_is_refused(place, epsilon):
    with place.untouched():
        assert_refused(place.fit("--ledger", place.folder / "budget.jsonl", epsilon=epsilon), "epsilon: expected")
        assert_refused(place.run("plan", place.schema, "--epsilon", epsilon), "epsilon: expected")


@pytest.mark.parametrize("delta", ["0", "1", "2", "-1e-6", "nan"])
def test_a_delta_that_is_none_is_refused(place, delta):
    with place.untouched():
        assert_refused(place.fit("--ledger", place.folder / "budget.jsonl", "--delta", delta), "delta: expected")
        assert_refused(place.run("plan", place.schema, "--epsilon", 1, "--delta", delta), "delta: expected")


@pytest.mark.parametrize(
    ("arguments", "words"),
    [
        (["--method", "copla"], ["'copla'", "Did you mean 'copula'?"]),
        (["--set", "encoding_shar=0.5"], ["'encoding_shar'", "Did you mean 'encoding_share'?"]),
        (["--set", "encoding_share=2"], ["encoding_share", "got 2"]),
        (["--set", "encoding_share=half"], ["Copula.encoding_share", "expected a finite number", "'half'"]),
        (["--seed", "-1"], ["seed: expected"]),
    ],
)
def test_a_wrong_argument_is_refused(place, arguments, words):
    with place.untouched():
        assert_refused(place.fit("--ledger", place.folder / "budget.jsonl", *arguments), *words)


def test_a_table_in_the_place_of_the_schema_is_refused_unread(place):
    with place.untouched():
        options = ("--epsilon", 1, "-o", place.model)
        assert_refused(place.run("fit", place.schema, place.data, *options), "expected a .toml file", "swapped")
        assert_refused(place.run("plan", place.data, "--epsilon", 1), "expected a .toml file")


@pytest.mark.parametrize(
    ("output", "words"),
    [
        ("gone/m.understudy", ["there is no folder", "Make it first"]),
        ("people.csv/m.understudy", ["there is no folder"]),
        (".", ["is a folder"]),
        ("people.csv", ["another name"]),
        ("people.toml", ["another name"]),
        ("budget.jsonl", ["another name"]),
        ("m" * 300, ["file name too long"]),
    ],
)
def test_an_unwritable_output_is_refused_before_anything_is_spent(place, output, words):
    with place.untouched():
        result = place.fit("--ledger", place.folder / "budget.jsonl", output=place.folder / output)
        assert_refused(result, *words)


def test_an_output_that_is_no_regular_file_is_refused(place):
    with place.untouched():
        assert_refused(place.fit(output="/dev/null"), "not a regular file")


def test_a_full_or_closed_folder_is_refused(place):
    with place.untouched():
        assert_refused(place.fit(output="/proc/m.understudy"), "cannot be written")


@pytest.mark.parametrize("name", ["gone/out.csv", "out.xlsx", "out", "m.understudy"])
def test_sample_refuses_an_unwritable_output(place, name):
    assert place.fit("--quiet")[0] == 0
    with place.untouched():
        assert_refused(place.run("sample", place.model, "-n", 5, "-o", place.folder / name), name)


@pytest.mark.parametrize("name", ["gone/s.toml", "people.csv"])
def test_draft_refuses_an_unwritable_output(place, name):
    with place.untouched():
        assert_refused(place.run("schema", "draft", place.data, "-o", place.folder / name), name)


@pytest.mark.parametrize("text", ["", HEADER, "\n"], ids=["empty", "header only", "blank"])
def test_draft_refuses_a_table_without_columns(place, text):
    place.data.write_text(text)
    with place.untouched():
        assert_refused(place.run("schema", "draft", place.data, "-o", place.folder / "s.toml"), "people.csv")
