"""Teeth: the audit catches every mutant, and passes the original."""

import re

import pytest

from mutants import BEGIN, END, MUTANTS, PACKAGE, PAGE, Mutant, audited, caught


def test_there_are_enough_mutants_and_each_is_one_patch():
    assert len(MUTANTS) >= 20 and len({mutant.name for mutant in MUTANTS}) == len(MUTANTS)
    lost = [each.name for each in MUTANTS if (PACKAGE / each.file).read_text().count(each.old) != 1]
    assert lost == []


def test_the_table_of_the_page_lists_every_mutant_with_its_check():
    inside = PAGE.read_text().split(BEGIN)[1].split(END)[0]
    rows = re.findall(r"^\| (.+?) \| `(.+?)` \| `(.+?)` \| \*\*([\w ]+)\*\*", inside, re.MULTILINE)
    assert rows == [(each.name, each.file, each.method, each.check) for each in MUTANTS], (
        "docs/audit.md is out of date: run `python tests/audit/mutants.py`"
    )


@pytest.mark.slow
@pytest.mark.parametrize("mutant", MUTANTS, ids=lambda mutant: mutant.name.replace(" ", "-"))
def test_the_audit_catches_every_mutant(mutant: Mutant):
    assert mutant.check in caught(mutant)


@pytest.mark.slow
@pytest.mark.parametrize("method", sorted({mutant.method for mutant in MUTANTS}))
def test_the_audit_passes_the_original(method, tmp_path):
    assert audited(PACKAGE.parent, method, tmp_path) == []
