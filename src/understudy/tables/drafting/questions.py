"""Questions that a draft leaves open, each with what an answer changes.

The one rule: a question names columns and public choices, never a cell. An answer is the owner's word, so what it
confirms is no longer marked as seen.
"""

import dataclasses
from collections.abc import Callable, Iterator
from typing import Any

from understudy.tables.drafting.columns import ColumnDraft, Fact
from understudy.tables.drafting.draft import Draft

CONFIRMED = "confirmed by the owner"


@dataclasses.dataclass(frozen=True, kw_only=True)
class Question:
    """One thing for the owner to decide.

    Attributes:
        text: The question, in words.
        default: The answer that the draft assumes: a truth value, a whole number, or one of `choices`.
        choices: The answers to choose from; empty for yes or no, and for a whole number.
        answered: The draft after an answer.
        applies: Whether a draft still leaves it open.
    """

    text: str
    default: bool | int | str
    answered: Callable[[Draft, Any], Draft]
    choices: tuple[str, ...] = ()
    applies: Callable[[Draft], bool] = lambda draft: True


def questions(draft: Draft) -> list[Question]:
    """The questions that a draft leaves open, in the order in which they are asked."""
    return [*_formats(draft), *_unit(draft), *_left_out(draft), *_missing(draft), *_constraints(draft), *_facts(draft)]


def _with_column(draft: Draft, name: str, change: Callable[[ColumnDraft], ColumnDraft]) -> Draft:
    columns = tuple(change(each) if each.name == name else each for each in draft.columns)
    return dataclasses.replace(draft, columns=columns)


def _formats(draft: Draft) -> Iterator[Question]:
    for column in draft.kept:
        stated = next((fact for fact in column.facts if fact.key == "format"), None)
        if column.other_format is None or stated is None:
            continue
        formats = {"day": stated.value, "month": column.other_format}

        def answered(draft: Draft, answer: str, name: str = column.name, formats: dict[str, str] = formats) -> Draft:
            fact = Fact(key="format", value=formats[answer], why=CONFIRMED)

            def change(each: ColumnDraft) -> ColumnDraft:
                others = [other for other in each.facts if other.key != "format"]
                return dataclasses.replace(each, facts=(fact, *others), notes=(), other_format=None)

            return _with_column(draft, name, change)

        text = f"Dates of {column.name!r} can be read in two ways. Does the day or the month come first?"
        yield Question(text=text, default="day", choices=("day", "month"), answered=answered)


def _unit(draft: Draft) -> Iterator[Question]:
    if draft.unit is None:
        return
    name = draft.unit

    def chosen(draft: Draft, answer: bool) -> Draft:
        if answer:
            return dataclasses.replace(draft, unit_confirmed=True)
        without = dataclasses.replace(draft, unit=None)
        left_out = "it identifies people; the owner says that it is not the unit"
        return _with_column(without, name, lambda each: dataclasses.replace(each, left_out=left_out))

    def counted(draft: Draft, answer: int) -> Draft:
        return dataclasses.replace(draft, max_rows_per_unit=answer, unit_confirmed=True)

    text = f"Does {name!r} say whose row it is, so that all rows of one person are protected together?"
    yield Question(text=text, default=True, answered=chosen)
    yield Question(
        text=f"How many rows of one {name!r} are used at most? (the noise grows in proportion)",
        default=draft.max_rows_per_unit,
        answered=counted,
        applies=lambda draft: draft.unit is not None,
    )


def _left_out(draft: Draft) -> Iterator[Question]:
    for name, reason in draft.ignored.items():

        def answered(draft: Draft, answer: bool, name: str = name) -> Draft:
            return draft if answer else _with_column(draft, name, lambda each: dataclasses.replace(each, left_out=None))

        yield Question(text=f"Leave out {name!r}, because {reason}?", default=True, answered=answered)


def _missing(draft: Draft) -> Iterator[Question]:
    for spelling in draft.missing:

        def answered(draft: Draft, answer: bool, spelling: str = spelling) -> Draft:
            kept = tuple(each for each in draft.missing if answer or each != spelling)
            known = (*draft.confirmed, spelling) if answer else draft.confirmed
            return dataclasses.replace(draft, missing=kept, confirmed=known)

        yield Question(
            text=f"Does {spelling!r} mean a missing value, in every column?", default=True, answered=answered
        )


def _constraints(draft: Draft) -> Iterator[Question]:
    for rule in draft.constraints:

        def answered(draft: Draft, answer: bool, rule: str = rule) -> Draft:
            kept = tuple(each for each in draft.constraints if answer or each != rule)
            known = (*draft.confirmed, rule) if answer else draft.confirmed
            return dataclasses.replace(draft, constraints=kept, confirmed=known)

        yield Question(text=f"Must every row keep {rule!r}, and is that public?", default=True, answered=answered)


def _facts(draft: Draft) -> Iterator[Question]:
    """Bounds and categories of the catalogue, one question a column."""
    for column in draft.columns:
        facts = [fact for fact in column.facts if fact.key in ("low", "high", "values")]
        if not facts:
            continue
        keys = {fact.key for fact in facts}

        def answered(draft: Draft, answer: bool, name: str = column.name, keys: set[str] = keys) -> Draft:
            def change(each: ColumnDraft) -> ColumnDraft:
                facts = (
                    dataclasses.replace(fact, stated=answer, why=CONFIRMED if answer else fact.why)
                    if fact.key in keys
                    else fact
                    for fact in each.facts
                )
                return dataclasses.replace(each, facts=tuple(facts))

            return _with_column(draft, name, change)

        shown = ", ".join(f"{fact.key} = {_shown(fact.value)}" for fact in facts)
        yield Question(
            text=f"Column {column.name!r}: {shown}? ({facts[0].why})",
            default=facts[0].stated,
            answered=answered,
            applies=lambda draft, name=column.name: any(each.name == name for each in draft.kept),
        )


def _shown(value: object) -> str:
    return ", ".join(map(str, value)) if isinstance(value, list) else str(value)
