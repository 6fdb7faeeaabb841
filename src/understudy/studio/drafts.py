"""A draft as the describing page needs it: what it suggests of each column, why, and what it leaves open.

The one rule: it holds no cell, like the draft itself.
"""

import dataclasses
from pathlib import Path
from typing import Any

from understudy.core.files import replacing
from understudy.studio.projects import Project


def start(project: Project, table: Path, shown: str) -> None:
    """Drafts the schema of a table into a project, as `understudy schema draft` does.

    Raises:
        TableError: The table cannot be read, has no rows, or has two columns of the same name.
    """
    from understudy.tables.drafting.draft import draft_of
    from understudy.tables.drafting.writing import written

    made = draft_of(str(table))
    with replacing(project.schema) as temporary:
        temporary.write_bytes(written(made).encode())
    project.remember(table=shown, draft=notes_of(made))


def notes_of(made: Any) -> dict[str, Any]:
    """What a draft says of each column, and its open questions, in types that JSON has."""
    from understudy.tables.drafting.questions import questions

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
        "questions": [question.text for question in questions(made)],
        "rows_per_unit": made.max_rows_per_unit,
        "constraints": list(made.constraints),
        "missing": list(made.missing),
    }


def _fact(fact: Any) -> dict[str, Any]:
    shown = "\n".join(map(str, fact.value)) if isinstance(fact.value, list) else str(fact.value)
    return dataclasses.asdict(fact) | {"value": shown}
