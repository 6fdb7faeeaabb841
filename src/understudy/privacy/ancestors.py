"""Ancestors of categories: a public rule that gives a label its group, such as a diagnosis its chapter.

The one rule: an ancestor is a function of the label alone. It holds a length or a table of texts and no function, so
that no code outside this folder is ever handed a private label.
"""

# pyright: strict

import dataclasses
from collections.abc import Iterable


@dataclasses.dataclass(frozen=True, slots=True)
class Ancestor:
    """The group of a label: its first `length` characters, or what a table of parents gives after `steps` steps.

    Attributes:
        length: Of the prefix; 0 if there is a table.
        parents: Pairs (child, parent).
        steps: How often the table is asked; a label that it does not list is its own group.
    """

    length: int = 0
    parents: tuple[tuple[str, str], ...] = ()
    steps: int = 1

    def of(self, labels: Iterable[str]) -> list[str]:
        """The group of every label."""
        if self.length:
            return [label[: self.length] for label in labels]
        parents, found = dict(self.parents), list(labels)
        for _ in range(self.steps):
            found = [parents.get(label, label) for label in found]
        return found


def check(ancestors: Iterable[object]) -> None:
    """Makes sure that all are exactly of the type above and hold whole numbers and text, not something that acts so.

    Raises:
        TypeError: They are not, or do not.
    """
    for each in ancestors:
        if type(each) is not Ancestor:
            raise TypeError(f"expected an Ancestor, got a {type(each).__name__}.")
        texts = [text for pair in each.parents for text in pair]
        if not (type(each.length) is int and type(each.steps) is int and all(type(text) is str for text in texts)):
            raise TypeError("Ancestor: expected whole numbers and text.")
