"""What `fit` and `sample` do if the model is that of a database.

The one rule: a folder is written to only if it is new, empty, or holds files of the same names.
"""

from typing import Any

import click

import understudy
from understudy.cli.errors import Refused, argument_errors, check_place, noted
from understudy.cli.options import count, print_json, waiting


def is_model(path: str) -> bool:
    """Whether a file is the model of a database."""
    from understudy.databases.model import holds_database

    return holds_database(path)


def print_fit(model: "understudy.DatabaseModel", output: str, ledger: str | None) -> None:
    """What became `other` in each table, where the charge is, and what to do next."""
    for name, fitted in model.tables.items():
        for column, share in fitted.encoder.other_shares.items():
            if any(each.name == column for each in model.schema[name].columns):
                seen = count(len(fitted.encoder.labels[column]) - 1, "label")
                click.echo(f"{name}.{column} has {seen}, and about {100 * share:.2g} % of the rows became `other`.")
    if ledger is not None:
        click.echo(f"Charged to {model.schema.name!r} in {ledger}.")
    click.echo(f"Model written to {output}. Sampling from it is free, as often as you like:")
    click.echo(f"  understudy sample {output} -n 10000 -o synthetic")


def print_flags(
    schema: "understudy.DatabaseSchema", method: Any, budget: "understudy.Budget", seed: int | None
) -> None:
    """Prints the grave red flags of a fit of a database."""
    from understudy.synthesizers.relational.planning import flags_of

    for flag in flags_of(schema, method, budget, seed=seed):
        if flag.severity != "notice":
            click.echo(str(flag), err=True)


def sample(
    model: str,
    units: int,
    output: str,
    seed: int | None,
    where: tuple[str, ...],
    rules: tuple[str, ...],
    as_json: bool,
    **of_shards: Any,
) -> None:
    """Draws the tables of so many units into a folder, one CSV file each, and a record of where they come from.

    Into a folder that is written with a slash at its end, a folder of Parquet shards each.
    """
    import os
    import secrets
    from pathlib import Path

    from understudy.core.files import sha256
    from understudy.core.randomness import Key
    from understudy.databases.writing import RECORD, write_tables
    from understudy.tables.where import where_from_text

    loaded: Any = understudy.load(model)
    folder = Path(output)
    if loaded.single is not None:
        return _sample_rows(loaded, units, output, seed, where, as_json)
    if rules:
        raise Refused("--rule: expected none for a database. Put the rule into the schema, and fit again.")
    if folder.exists() and not folder.is_dir():
        raise Refused(f"-o {output}: expected a folder, since the model has {count(len(loaded.tables), 'table')}.")
    with argument_errors():
        Key.new(seed)
        if units < 0:
            raise ValueError(f"-n: expected a whole number >= 0, got {units}.")
    root = loaded.schema.root
    conditions = where_from_text(where, root.schema) if where else None
    if output.endswith(os.sep):
        return _sample_shards(loaded, units, output, seed, conditions, as_json, **of_shards)
    for option in ("rows_per_shard", "processes", "address", "engine"):
        if of_shards[option] not in (None, "local"):
            given = option.replace("_", "-")
            raise Refused(f"--{given} is for shards, and -o {output} is a folder of CSV files. Give -o {output}/.")
    seed = secrets.randbits(63) if seed is None else seed
    with waiting(f"drawing {count(units, 'unit')}"):
        tables = loaded.sample(units, seed, where=conditions, kind="polars")
    of_file = sha256(Path(model).read_bytes())
    try:
        record = write_tables(folder, tables, loaded, model_sha256=of_file, units=units, seed=seed, where=where)
    except OSError:
        raise Refused(f"-o {output}: the folder cannot be made. Give another name.") from None
    if as_json:
        print_json({"output": output, **record})
        return
    made = ", ".join(f"{count(frame.height, 'row')} of {name}" for name, frame in tables.items())
    click.echo(f"{count(units, 'unit')} written to {output}: {made}; and where they come from to {RECORD}.")


def _sample_shards(
    loaded: Any,
    units: int,
    output: str,
    seed: int | None,
    where: Any,
    as_json: bool,
    *,
    rows_per_shard: int | None,
    quiet: bool,
    **places: Any,
) -> None:
    """Draws the shards that are missing in a folder."""
    from understudy.databases.shards import UNITS_PER_SHARD
    from understudy.tables.shards import manifest_path

    places |= {"units_per_shard": rows_per_shard or UNITS_PER_SHARD, "progress": False if quiet or as_json else None}
    with noted("The same command goes on with the shards that are missing."):
        found = loaded.sample_to(output, units, seed, where=where, **places)
    record, number = manifest_path(output), found.shards.count
    if as_json:
        made = {"shards": number, "made": found.made, "seed": found.seed}
        return print_json({"output": output, "record": str(record), "units": units, **made})
    there = f" ({number - found.made} existed)" if number > found.made else ""
    click.echo(
        f"{count(units, 'unit')} in {count(number, 'shard')} of every table{there} written to {output}, and where they "
        f"come from to {record.name}."
    )


def _sample_rows(loaded: Any, rows: int, output: str, seed: int | None, where: tuple[str, ...], as_json: bool) -> None:
    """Draws rows of a single table whose units have columns of their own into one file."""
    from understudy.tables.where import where_from_text
    from understudy.tables.writing import write

    check_place(output)
    conditions = where_from_text(where, loaded.schema.root.schema) if where else None
    with argument_errors(), waiting(f"drawing {count(rows, 'row')}"):
        frame = loaded.sample(rows, seed, where=conditions, kind="polars")
    write(frame, output, loaded.single)
    if as_json:
        print_json({"output": output, "rows": rows, "seed": seed})
    else:
        click.echo(f"{count(rows, 'row')} written to {output}.")
