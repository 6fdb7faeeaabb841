"""The commands about schemas: schema draft and schema check.

The one rule: a draft holds no cell, and what the cells suggest is marked in it.
"""

from collections.abc import Iterable
from pathlib import Path
from typing import TYPE_CHECKING, Any

import click

from understudy.cli import options
from understudy.cli.errors import Refused, check_place, check_readable, check_schema_name, read_schema
from understudy.cli.options import FILE, count, print_json, waiting

if TYPE_CHECKING:
    from understudy.tables.drafting.draft import Draft


@click.group()
def schema() -> None:
    """Public facts about a table.

    \b
    Example:
      understudy schema draft people.csv -o people.toml
      understudy schema check people.toml
    """


@schema.command("draft")
@options.table()
@options.output("the draft")
@click.option("--delimiter", metavar="MARK", help="What separates fields, if the draft should not find it.")
@click.option("--encoding", metavar="NAME", help="How letters are encoded, likewise: utf-8, latin-1, windows-1252, ….")
@click.option("--decimal", metavar="MARK", help="The decimal mark, likewise.")
@click.option("--interactive", is_flag=True, help="Ask what the draft leaves open, one question at a time.")
@click.option("--force", is_flag=True, help="Replace an existing schema.")
@options.as_json
def draft_schema(
    table: str,
    output: str,
    delimiter: str | None,
    encoding: str | None,
    decimal: str | None,
    interactive: bool,
    force: bool,
    as_json: bool,
) -> None:
    """Drafts a schema for DATA: a file, the URL of a table in a database, or several tables together.

    Several tables are a folder with a file for each, or a file of SQLite or DuckDB. Their keys are found by the names
    of columns and confirmed by the cells, and every table is drafted.

    Bounds and categories are suggested from the names of the columns by a catalogue of public knowledge, never from the
    cells. Kinds, formats of dates, spellings of missing values, identifiers to leave out and rules between columns are
    guessed from the first rows, outside any budget, and marked in the draft: look at it before you share it.

    \b
    Example:
      understudy schema draft people.csv -o people.toml
      understudy schema draft people.csv -o people.toml --interactive
      understudy schema draft hospital/ -o hospital.toml
    """
    check_place(output, table)
    check_schema_name(output)
    if Path(output).exists() and not force:
        raise Refused(f"{output} exists, and somebody may have edited it. Use --force to replace it.")
    stated = {"delimiter": delimiter, "encoding": encoding, "decimal": decimal}
    stated = {key: value for key, value in stated.items() if value is not None}
    from understudy.tables.drafting.database import is_database

    if not is_database(table):
        _draft_table(table, output, stated, interactive, as_json)
    elif stated:
        raise Refused(f"--{next(iter(stated))}: expected one file, got several tables. Correct it in the draft.")
    else:
        _draft_database(table, output, interactive, as_json)


def _draft_table(table: str, output: str, stated: dict[str, str], interactive: bool, as_json: bool) -> None:
    """Drafts the schema of a single table."""
    from understudy.core.files import replacing
    from understudy.tables.database_url import is_url
    from understudy.tables.drafting.draft import draft_of
    from understudy.tables.drafting.questions import questions
    from understudy.tables.drafting.writing import written
    from understudy.tables.sources import extension

    if not is_url(table):
        extension(table)  # refuses formats it does not know
        check_readable(table)
    with waiting("looking at the first rows"):
        made = draft_of(table, stated)
    if interactive:
        made = _asked(made, questions(made))
    with replacing(output) as temporary:
        temporary.write_bytes(written(made).encode())
    if as_json:
        print_json(
            {
                "schema": output,
                "columns": {each.name: {"kind": each.kind} for each in made.kept},
                "ignored": made.ignored,
                "unit": made.unit,
                "questions": [] if interactive else [each.text for each in questions(made)],
            }
        )
        return
    _say_what_is_drafted(made, output, 0 if interactive else len(questions(made)))


def _say_what_is_drafted(made: "Draft", output: str, still_open: int) -> None:
    click.echo(f"{output}: {count(len(made.kept), 'column')}. Check the kinds, and fill in the bounds and")
    click.echo("categories that are public. A fit spends part of its budget on measuring the others.")
    if made.ignored:
        click.echo(f"Left out: {', '.join(map(repr, made.ignored))}; the draft says why.")
    if made.unit is not None:
        click.echo(f"Protected together: all rows of one {made.unit!r}, of which {made.max_rows_per_unit} are used.")
    if still_open:
        click.echo(f"{count(still_open, 'question')} open: look for `# seen in the file` and for suggestions, or add")
        click.echo("--interactive to be asked.")
    click.echo("Next:")
    click.echo(f"  understudy plan {output} --epsilon 1")


def _draft_database(tables: str, output: str, interactive: bool, as_json: bool) -> None:
    """Drafts the schema of several tables."""
    from understudy.core.files import replacing
    from understudy.tables.drafting.database import draft_database
    from understudy.tables.drafting.database_questions import database_questions
    from understudy.tables.drafting.database_writing import written_database

    with waiting("looking at the tables"):
        made = draft_database(tables)
    open_questions = database_questions(made)
    if interactive:
        made, open_questions = _asked(made, open_questions), []
    with replacing(output) as temporary:
        temporary.write_bytes(written_database(made).encode())
    if as_json:
        print_json(
            {
                "schema": output,
                "unit": made.unit,
                "tables": {each.name: each.document() for each in made.tables},
                "left_out": list(made.left_out),
                "questions": [each.text for each in open_questions],
            }
        )
        return
    click.echo(f"{output}: {count(len(made.tables), 'table')}. Check keys and kinds, and fill in what is public.")
    click.echo(str(made.schema()))
    if made.left_out:
        click.echo(f"Left out: {', '.join(map(repr, made.left_out))}; no key leads from there to {made.unit!r}.")
    if open_questions:
        click.echo(f"{count(len(open_questions), 'question')} open: look for `# seen in the file` and for suggestions,")
        click.echo("and set every max_per_parent; or add --interactive to be asked.")
    click.echo("Next:")
    click.echo(f"  understudy plan {output} --epsilon 1")


def _asked(made: Any, questions: Iterable[Any]) -> Any:
    """The draft after its questions were asked in the terminal, one at a time; on stderr, so that --json stays JSON."""
    from understudy.tables.values import SchemaError

    for question in questions:
        if not question.applies(made):
            continue
        if isinstance(question.default, bool):
            answer = click.confirm(question.text, default=question.default, err=True)
        elif isinstance(question.default, int):
            answer = click.prompt(question.text, default=question.default, type=click.IntRange(min=1), err=True)
        else:
            answer = click.prompt(
                question.text, default=question.default, type=click.Choice(question.choices), err=True
            )
        changed = question.answered(made, answer)
        try:
            changed.schema()
        except SchemaError as error:
            click.echo(f"That is not possible: {error}", err=True)
        else:
            made = changed
    return made


@schema.command("check")
@click.argument("schema", type=FILE)
@options.as_json
def check_schema(schema: str, as_json: bool) -> None:
    """Reads SCHEMA and prints what it states, or what is wrong with it. Reads no data.

    \b
    Example:
      understudy schema check people.toml
      understudy schema check people.toml --json
    """
    import tomllib

    facts = read_schema(schema)
    if as_json:
        print_json(tomllib.loads(facts.to_toml()))
    else:
        click.echo(str(facts))
