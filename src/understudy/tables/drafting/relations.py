"""Relations between columns: one date that follows another, one number that is the sum of two or three.

The one rule: what is found is a rule between names. It is seen in the cells, so the owner decides whether it is public.
"""

import itertools
from collections.abc import Mapping

import numpy as np

from understudy.tables.rules import Inequality, quoted

_HOLDS = 0.99  # A rule holds if so many of the rows keep it that have all its cells.
_FEWEST_ROWS = 30
_STRICT = 0.05  # In so many rows a date must come later than another, and a part of a sum must not be zero.
_MOST_COLUMNS_FOR_PAIRS, _MOST_COLUMNS_FOR_TRIPLES = 40, 12
_ROWS = 5000


def orders(dates: Mapping[str, np.ndarray]) -> list[Inequality]:
    """Rules "b >= a" for dates that follow each other, without those that follow from two others."""
    after = {(b, a) for a, b in itertools.permutations(dates, 2) if _follows(dates[a], dates[b])}
    direct = [(b, a) for b, a in after if not any((b, between) in after and (between, a) in after for between in dates)]
    places = {name: place for place, name in enumerate(dates)}
    direct.sort(key=lambda pair: (places[pair[1]], places[pair[0]]))
    ways = {pair: "rejection" if is_loose(dates[pair[1]], dates[pair[0]]) else "difference" for pair in direct}
    return [Inequality(b, ">=", a, ways[b, a]) for b, a in direct]


def _follows(first: np.ndarray, second: np.ndarray) -> bool:
    both = np.isfinite(first) & np.isfinite(second)
    gap = second[both] - first[both]
    return len(gap) >= _FEWEST_ROWS and float((gap >= 0).mean()) >= _HOLDS and float((gap > 0).mean()) >= _STRICT


def is_loose(first: np.ndarray, second: np.ndarray) -> bool:
    """Whether the difference of two dates varies more than one of them, as from births to admissions.

    Then a model of the difference would tell less about that column than a model of the column itself.
    """
    both = np.isfinite(first) & np.isfinite(second)
    return _spread(second[both] - first[both]) > min(_spread(first[both]), _spread(second[both]))


def _spread(values: np.ndarray) -> float:
    """The distance from the first to the last tenth, which a few odd dates do not change."""
    low, high = np.quantile(values, [0.1, 0.9]) if len(values) else (0.0, 0.0)
    return float(high - low)


def sums(numbers: Mapping[str, np.ndarray]) -> list[str]:
    """Rules "total = a + b" or "total = a + b + c", one for each total at most."""
    heads = {name: values[:_ROWS] for name, values in numbers.items() if _varies(values[:_ROWS])}
    found: list[str] = []
    totals: set[str] = set()
    sizes = [2] if len(heads) > _MOST_COLUMNS_FOR_TRIPLES else [2, 3]
    if len(heads) > _MOST_COLUMNS_FOR_PAIRS:
        return []
    for size in sizes:
        for parts in itertools.combinations(heads, size):
            if set(parts) & totals and size > 2:
                continue
            total_of = np.sum([heads[name] for name in parts], axis=0)
            for name in heads:
                if name not in parts and name not in totals and _equal(heads[name], total_of):
                    totals.add(name)
                    found.append(f"{quoted(name)} = {' + '.join(map(quoted, parts))}")
    return found


def _varies(values: np.ndarray) -> bool:
    finite = values[np.isfinite(values)]
    return len(finite) >= _FEWEST_ROWS and float((finite != 0).mean()) >= _STRICT and len(np.unique(finite)) > 2


def _equal(total: np.ndarray, parts: np.ndarray) -> bool:
    both = np.isfinite(total) & np.isfinite(parts)
    if both.sum() < _FEWEST_ROWS:
        return False
    near = np.isclose(total[both], parts[both], rtol=1e-9, atol=1e-6)
    return float(near.mean()) >= _HOLDS
