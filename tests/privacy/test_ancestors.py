"""Groups of categories: each row's group follows from its own label, and no group of one unit is named."""

import copy
import itertools

import numpy as np
import pytest
from scipy import stats

from ledgers import KEYS, ledger_for, named
from understudy.privacy.ancestors import Ancestor
from understudy.privacy.counts import popular_categories
from understudy.privacy.exact_counts import ExactCodes

PREFIXES = (Ancestor(length=2), Ancestor(length=1))
TABLE = tuple(Ancestor(parents=(("Aa1", "Aa"), ("Aa", "A"), ("B", "rest")), steps=step) for step in (1, 2))
LABELS = ["Aa1", "Aa2", "Ab1", "B", "Bc"]


def counts(rows):
    """How many rows have each label; a label without one is left out."""
    labels = rows._exact_labels["c"]
    found = ExactCodes(rows._exact).marginal(["c"], [len(labels)])
    return {label: int(number) for label, number in zip(labels, found, strict=True) if number}


def test_a_prefix_and_a_table_give_groups():
    assert PREFIXES[0].of(LABELS) == ["Aa", "Aa", "Ab", "B", "Bc"]
    assert TABLE[0].of(LABELS) == ["Aa", "Aa2", "Ab1", "rest", "Bc"]
    assert TABLE[1].of(LABELS) == ["A", "Aa2", "Ab1", "rest", "Bc"]


def test_rows_are_counted_in_their_group_unless_they_are_seen_already():
    rows = named(LABELS, [0, 0, 1, 2, 3, 4, -1])
    assert counts(rows.coarsen("c", PREFIXES[:1], seen=[])) == {"Aa": 3, "Ab": 1, "B": 1, "Bc": 1}
    assert counts(rows.coarsen("c", PREFIXES[:1], seen=["Aa1", "B"])) == {"Aa": 1, "Ab": 1, "Bc": 1}
    assert counts(rows.coarsen("c", PREFIXES, seen=["Aa"])) == {"A": 1, "B": 2}


def test_a_category_becomes_its_narrowest_group_among_the_labels():
    rows = named(LABELS, [0, 1, 2, 3, 4, -1])
    public = rows.relabel("c", ["A", "Aa1", "Bc", "other"], other=3, ancestors=PREFIXES)
    assert public._exact["c"].tolist() == [1, 0, 0, 3, 2, -1]


@pytest.mark.parametrize("seen", [[], ["Aa1"], ["Aa", "B"]])
@pytest.mark.parametrize("ancestors", [PREFIXES[:1], PREFIXES, TABLE])
def test_one_row_moves_one_group_by_one(ancestors, seen):
    """Brute force over all tables of three rows: the L2 sensitivity of a selection of groups is 1 per row."""
    for codes in itertools.product(range(-1, len(LABELS)), repeat=3):
        whole = counts(named(LABELS, codes).coarsen("c", ancestors, seen=seen))
        for gone in range(3):
            rest = counts(named(LABELS, np.delete(codes, gone)).coarsen("c", ancestors, seen=seen))
            moved = [abs(whole.get(label, 0) - rest.get(label, 0)) for label in {*whole, *rest}]
            assert sum(change**2 for change in moved) <= 1


def test_an_attacker_sees_no_group_that_one_unit_alone_holds():
    """Three rows of one unit share a group that nobody else has; the threshold allows it in 5 % of fits."""
    rows = named(["crowd", "Za1", "Za2", "Zb1"], [0] * 50 + [1, 2, 3], 3)
    ledger, hits, tries = ledger_for("gaussian threshold", noise=1.0, threshold_delta=0.05), 0, 1000
    for i in range(tries):
        own, key = copy.deepcopy(ledger), KEYS["seeded"].child(str(i))
        coarse = rows.coarsen("c", PREFIXES, seen=["crowd"])
        found, _ = popular_categories(coarse, "c", what="", planned="it", ledger=own, key=key)
        hits += "Z" in found
    assert stats.binomtest(hits, tries, 0.05, alternative="greater").pvalue > 1e-6
    assert hits > 5  # the attack would have noticed half of the noise


class Talkative(str):
    pass


FAKES = {
    "function": lambda label: label,
    "text": "prefix",
    "number": Ancestor(length=np.int64(1)),  # pyright: ignore[reportArgumentType]
    "subclass": Ancestor(parents=((Talkative("a"), "b"),)),
}


@pytest.mark.parametrize("fake", FAKES.values(), ids=FAKES)
def test_something_that_only_acts_like_an_ancestor_is_refused(fake):
    with pytest.raises(TypeError):
        named(LABELS, [0]).coarsen("c", [fake], seen=[])
    with pytest.raises(TypeError):
        named(LABELS, [0]).relabel("c", ["other"], other=0, ancestors=[fake])
