"""Structure: how near a learned graph is to the true one.

Graphs are parents by column, {column: [parents]}, as a model gives them; a column that is not named has none. The one
rule: a ratio of nothing is 1. A graph without edges has no wrong edge, and if there is no true edge none is missed.

Source: structural Hamming distance, Tsamardinos, Brown and Aliferis (2006), Machine Learning 65, for directed graphs.
"""

import dataclasses
from collections.abc import Collection, Hashable, Iterable, Mapping
from typing import TypeVar

Graph = Mapping[str, Iterable[str]]
Edge = TypeVar("Edge", bound=Hashable)


@dataclasses.dataclass(frozen=True, kw_only=True)
class Structure:
    """A learned graph against the true one.

    Attributes:
        precision: Share of the learned edges that are true, direction included.
        recall: Share of the true edges that were learned.
        f1: 2·hits / (learned + true edges): the harmonic mean of the two.
        skeleton_f1: The same without directions.
        hamming: Structural Hamming distance: pairs of columns whose edge has to be added, removed or reversed.
        learned: Number of learned edges.
        true: Number of true edges.
    """

    precision: float
    recall: float
    f1: float
    skeleton_f1: float
    hamming: int
    learned: int
    true: int


def compare(learned: Graph, truth: Graph) -> Structure:
    """Compares learned parents with the true ones.

    Raises:
        ValueError: A column is its own parent, or the learned graph names a column that the truth does not.
    """
    found, right = _edges(learned, "learned"), _edges(truth, "truth")
    known = set(truth) | {name for edge in right for name in edge}
    strays = sorted((set(learned) | {name for edge in found for name in edge}) - known)
    if strays:
        raise ValueError(f"learned: expected columns of the true graph, got {strays[0]!r}.")
    hits = len(found & right)
    joined, truly_joined = ({frozenset(edge) for edge in edges} for edges in (found, right))
    return Structure(
        precision=_ratio(hits, len(found)),
        recall=_ratio(hits, len(right)),
        f1=_f1(found, right),
        skeleton_f1=_f1(joined, truly_joined),
        hamming=len({frozenset(edge) for edge in found ^ right}),
        learned=len(found),
        true=len(right),
    )


def _edges(graph: Graph, word: str) -> set[tuple[str, str]]:
    edges = {(parent, child) for child, parents in graph.items() for parent in parents}
    for parent, child in edges:
        if parent == child:
            raise ValueError(f"{word}: expected no column to be its own parent, got {child!r}.")
    return edges


def _f1(found: Collection[Edge], right: Collection[Edge]) -> float:
    return _ratio(2 * len(set(found) & set(right)), len(found) + len(right))


def _ratio(part: int, whole: int) -> float:
    return part / whole if whole else 1.0
