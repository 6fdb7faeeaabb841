"""Which pairs a model may take in next: sizes against the junction tree's own, and what a batch leaves open."""

import itertools

import numpy as np
import pytest

from understudy.graphical.estimation import estimate
from understudy.graphical.junction_tree import model_size
from understudy.graphical.marginals import Domain, Measured
from understudy.synthesizers import pair_candidates
from understudy.synthesizers.pair_candidates import OpenPairs, pair_sums, starts_of


def random_model(seed, columns=8, cliques=7):
    draw = np.random.default_rng(seed)
    domain = Domain({f"c{i}": int(draw.integers(2, 6)) for i in range(columns)})
    pairs = [tuple(domain.ordered(list(draw.choice(domain.names, 2, replace=False)))) for _ in range(cliques)]
    held = [*((name,) for name in domain.names), *pairs]
    measured = [Measured(clique, np.full(domain.shape(clique), 1.0), 1.0) for clique in held]
    return estimate(domain, measured, rows=100.0, iterations=1), set(held)


def opened(model, held, most_joining, most):
    return OpenPairs(model, held, most_joining, most).flags()


@pytest.mark.parametrize("seed", range(10))
def test_open_pairs_of_a_narrow_table_are_those_with_which_the_model_stays_small(seed):
    model, held = random_model(seed)
    domain = model.domain
    now, most_joining, most = model_size(domain, held), 400, 300
    parts = {name: {name} for name in domain.names}
    for clique in held:
        joined = set.union(*(parts[name] for name in clique))
        parts.update(dict.fromkeys(joined, joined))
    flags = opened(model, held, most_joining, most)
    assert flags.diagonal().all()
    for i, j in itertools.combinations(range(len(domain.names)), 2):
        a, b = domain.names[i], domain.names[j]
        if b not in parts[a]:
            assert flags[i, j] == (now + domain.size((a, b)) <= most_joining)
        else:
            after = model_size(domain, [*held, (a, b)])
            assert flags[i, j] == flags[j, i]
            assert flags[i, j] or after > most  # what fits is open
            within = any({a, b} <= set(node.clique) for node in model.nodes)
            assert not flags[i, j] or within or after <= most * 1.5  # a bound fits as well, if not always the same way


@pytest.mark.parametrize("seed", range(10))
def test_without_working_out_a_pair_is_open_only_if_its_loop_can_be_filled(seed, monkeypatch):
    monkeypatch.setattr(pair_candidates, "WIDEST_WORKED_OUT", 0)
    model, held = random_model(seed)
    exact = OpenPairs(model, held, 400, 300)
    names = model.domain.names
    for i, j in np.argwhere(np.triu(exact.flags(), 1)).tolist():
        wider = [
            {*node.clique, names[i]} if k in exact._way(i, j) else {*node.clique} for k, node in enumerate(model.nodes)
        ]
        filled = sum(model.domain.size(tuple(clique)) for clique in wider)
        joins = exact._part[i] != exact._part[j]
        within = exact._added[i, j] == 0
        smaller = model.domain.sizes[names[i]] <= model.domain.sizes[names[j]]
        assert joins or within or not smaller or filled <= 300


@pytest.mark.parametrize("seed", range(6))
def test_a_batch_shares_no_column_and_joins_no_two_parts_twice(seed):
    model, held = random_model(seed, columns=14, cliques=6)
    candidates, taken = OpenPairs(model, held, 1e6, 1e6), []
    draw = np.random.default_rng(seed)
    while (flags := np.triu(candidates.flags(), 1)).any():
        i, j = draw.permutation(np.argwhere(flags))[0].tolist()
        candidates.take(i, j)
        taken.append((model.domain.names[i], model.domain.names[j]))
    columns = [name for pair in taken for name in pair]
    assert len(columns) == len(set(columns)) and len(taken) > 1
    assert model_size(model.domain, [*held, *taken]) <= candidates._cells * 1.5


def test_sums_over_pairs_are_those_of_every_block():
    draw, domain = np.random.default_rng(0), Domain({"a": 2, "b": 3, "c": 1})
    cells, weights = draw.random((6, 6)), draw.random(6)
    cells += cells.T
    found = pair_sums(cells, np.sqrt, weights, starts_of(domain))
    at = [slice(0, 2), slice(2, 5), slice(5, 6)]
    expected = [[(np.outer(weights[a], weights[b]) * np.sqrt(cells[a, b])).sum() for b in at] for a in at]
    assert found == pytest.approx(np.array(expected))
