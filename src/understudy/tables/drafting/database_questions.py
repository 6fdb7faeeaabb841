"""Questions that the draft of a database leaves open: its unit, its links, and then those of its tables.

The one rule: a question names tables, columns and public choices, never a cell.
"""

import dataclasses
from collections.abc import Callable, Iterator
from typing import Any

from understudy.tables.drafting import questions as single
from understudy.tables.drafting.database import DatabaseDraft, TableDraft

NO_ORDER = "none"
"""The answer that rows of one parent have no order."""


@dataclasses.dataclass(frozen=True, kw_only=True)
class DatabaseQuestion:
    """One thing for the owner to decide; as `questions.Question`, of a database."""

    text: str
    default: bool | int | str
    answered: Callable[[DatabaseDraft, Any], DatabaseDraft]
    choices: tuple[str, ...] = ()
    applies: Callable[[DatabaseDraft], bool] = lambda draft: True


def database_questions(made: DatabaseDraft) -> list[DatabaseQuestion]:
    """The questions that a draft leaves open, in the order in which they are asked."""
    links = [question for table in made.tables for question in _links(table)]
    return [_unit(made), *links, *(each for table in made.tables for each in _of_table(table))]


def _unit(made: DatabaseDraft) -> DatabaseQuestion:
    def answered(made: DatabaseDraft, answer: bool) -> DatabaseDraft:
        return dataclasses.replace(made, unit_confirmed=answer)

    text = f"Is one row of {made.unit!r}, with everything that hangs on it, what has to be protected?"
    return DatabaseQuestion(text=text, default=True, answered=answered)


def _links(table: TableDraft) -> Iterator[DatabaseQuestion]:
    name = table.name
    if table.public:
        text = f"May everybody know the table {name!r} in full? (if not, its key becomes a column that is learned)"
        yield DatabaseQuestion(text=text, default=True, answered=lambda made, answer: _public(made, name, answer))
    if table.lead is None:
        return
    parent, column = table.lead.parent, table.lead.column
    text = f"Does {column!r} of {name!r} hold the key of {parent!r}? (if not, {name!r} is left out)"
    yield DatabaseQuestion(text=text, default=True, answered=lambda made, answer: _linked(made, name, answer))
    yield DatabaseQuestion(
        text=f"How many rows of {name!r} of one row of {parent!r} are used at most? (the noise grows with it)",
        default=table.most,
        answered=lambda made, answer: _changed(made, name, "max_per_parent", most=answer),
        applies=lambda made: _has(made, name),
    )
    if table.times:
        yield DatabaseQuestion(
            text=f"By which column are the rows of {name!r} of one row of {parent!r} a history?",
            default=table.order or NO_ORDER,
            choices=(*table.times, NO_ORDER),
            answered=lambda made, answer: _changed(made, name, "order", order=None if answer == NO_ORDER else answer),
            applies=lambda made: _has(made, name),
        )


def _has(made: DatabaseDraft, name: str) -> bool:
    return any(each.name == name for each in made.tables)


def _changed(made: DatabaseDraft, name: str, what: str, **fields: Any) -> DatabaseDraft:
    table = made[name]
    return made.with_table(dataclasses.replace(table, confirmed=(*table.confirmed, what), **fields))


def _linked(made: DatabaseDraft, name: str, answer: bool) -> DatabaseDraft:
    """The draft with a link confirmed; or without the table, and without what hangs on it."""
    if answer:
        return _changed(made, name, "parent")
    gone = {name}
    for table in made.tables:
        if table.lead is not None and table.lead.parent in gone:
            gone.add(table.name)
    tables = tuple(each for each in made.tables if each.name not in gone)
    return dataclasses.replace(made, tables=tables, left_out=(*made.left_out, *sorted(gone)))


def _public(made: DatabaseDraft, name: str, answer: bool) -> DatabaseDraft:
    if answer:
        return _changed(made, name, "public")
    tables = []
    for each in made.tables:
        kept = {column: other for column, other in each.references.items() if other != name}
        tables.append(dataclasses.replace(each, references=kept))
    remaining = tuple(each for each in tables if each.name != name)
    return dataclasses.replace(made, tables=remaining, left_out=(*made.left_out, name))


def _of_table(table: TableDraft) -> Iterator[DatabaseQuestion]:
    """The questions of a single table, each about that table of the database."""
    name = table.name
    for question in single.questions(table.draft):

        def answered(made: DatabaseDraft, answer: Any, question: single.Question = question) -> DatabaseDraft:
            own = made[name]
            return made.with_table(dataclasses.replace(own, draft=question.answered(own.draft, answer)))

        def applies(made: DatabaseDraft, question: single.Question = question) -> bool:
            return _has(made, name) and question.applies(made[name].draft)

        yield DatabaseQuestion(
            text=f"Table {name!r}. {question.text}",
            default=question.default,
            choices=question.choices,
            answered=answered,
            applies=applies,
        )
