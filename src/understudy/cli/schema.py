"""The commands about schemas: schema draft and schema check.

The one rule: a draft holds the names and kinds of columns and no value of any cell.
"""

from pathlib import Path

import click

from understudy.cli import options
from understudy.cli.errors import Refused, check_place, check_readable, read_schema
from understudy.cli.options import FILE, count, print_json


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
@click.option("--force", is_flag=True, help="Replace an existing schema.")
@options.as_json
def draft_schema(table: str, output: str, force: bool, as_json: bool) -> None:
    """Drafts a schema for DATA, a file or the URL of a table in a database.

    The draft holds the names and kinds of the columns. Bounds and categories are left for you to fill in: they are
    never taken from the data.

    \b
    Example:
      understudy schema draft people.csv -o people.toml
    """
    check_place(output, table)
    if Path(output).exists() and not force:
        raise Refused(f"{output} exists, and somebody may have edited it. Use --force to replace it.")
    from understudy.core.files import replacing
    from understudy.tables.database_url import is_url
    from understudy.tables.draft import draft
    from understudy.tables.sources import extension, kinds, public_name, title

    if not is_url(table):
        extension(table)  # refuses formats it does not know
        check_readable(table)
    source = public_name(table) if is_url(table) else Path(table).name
    names_and_kinds = kinds(table)
    text = draft(names_and_kinds, name=title(table), source=source)
    with replacing(output) as temporary:
        temporary.write_bytes(text.encode())
    if as_json:
        print_json({"schema": output, "columns": {name: {"kind": kind} for name, kind in names_and_kinds}})
        return
    click.echo(f"{output}: {count(len(names_and_kinds), 'column')}. Check the kinds, and fill in the bounds and")
    click.echo("categories that are public. A fit spends part of its budget on measuring the others. Next:")
    click.echo(f"  understudy plan {output} --epsilon 1")


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
