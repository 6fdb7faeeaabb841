"""A draft as the describing page needs it: what it suggests of each column, why, and what it leaves open.

The one rule: it holds no cell, like the draft itself.
"""

import dataclasses
from collections.abc import Iterable
from pathlib import Path
from typing import TYPE_CHECKING, Any

from understudy.core.files import replacing
from understudy.studio.projects import Project

if TYPE_CHECKING:
    from understudy.tables.drafting.database import DatabaseDraft
    from understudy.tables.drafting.draft import Draft


def start(project: Project, table: Path, shown: str) -> None:
    """Drafts the schema of a table or of a folder of tables into a project, as `understudy schema draft` does.

    Raises:
        TableError: A table cannot be read, has no rows, or has two columns of the same name; or none of several leads
            to another.
    """
    from understudy.tables.drafting.database import draft_database, is_database
    from understudy.tables.drafting.database_writing import written_database
    from understudy.tables.drafting.draft import draft_of
    from understudy.tables.drafting.questions import questions
    from understudy.tables.drafting.writing import written

    if is_database(table):
        several = draft_database(str(table))
        text, notes = written_database(several), notes_of_database(several)
    else:
        made = draft_of(str(table))
        text, notes = written(made), notes_of(made) | {"questions": _texts(questions(made))}
    with replacing(project.schema) as temporary:
        temporary.write_bytes(text.encode())
    project.remember(table=shown, draft=notes)


def notes_of_database(made: "DatabaseDraft") -> dict[str, Any]:
    """What a draft of several tables says of each of them, and its open questions."""
    from understudy.tables.drafting.database_questions import database_questions

    return {
        "tables": {table.name: notes_of(table.draft) for table in made.tables},
        "left_out": list(made.left_out),
        "questions": _texts(database_questions(made)),
    }


def _texts(asked: Iterable[Any]) -> list[str]:
    return [question.text for question in asked]


def notes_of(made: "Draft") -> dict[str, Any]:
    """What a draft says of each column, in types that JSON has."""
    return {
        "columns": {
            each.name: {
                "kind": each.kind,
                "left_out": each.left_out,
                "notes": list(each.notes),
                "facts": [_fact(fact) for fact in each.facts],
            }
            for each in made.columns
        },
        "rows_per_unit": made.max_rows_per_unit,
        "constraints": list(made.constraints),
        "missing": list(made.missing),
    }


def _fact(fact: Any) -> dict[str, Any]:
    shown = "\n".join(map(str, fact.value)) if isinstance(fact.value, list) else str(fact.value)
    return dataclasses.asdict(fact) | {"value": shown}
