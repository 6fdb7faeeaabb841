"""A fitted database: what is left after a fit of many tables. It holds no row.

`sample(n)` draws n units: n rows of the root, and everything that hangs on them. Keys are generated anew.
"""

import dataclasses
import functools
import json
import os
from collections.abc import Mapping, Sequence
from typing import Any, cast

import numpy as np
from numpy.typing import NDArray

from understudy.core import archive, ray_tasks
from understudy.core.files import sha256
from understudy.core.processors import one_thread_each
from understudy.core.randomness import Key
from understudy.core.version import __version__
from understudy.databases.shards import UNITS_PER_SHARD, write_shards
from understudy.encoding.encoder import Encoder, EncoderFacts
from understudy.model import FORMAT, GENERATOR, Model, ModelError, Savable
from understudy.model import load as load_single
from understudy.privacy.receipt import Receipt
from understudy.synthesizers import FITTED, FITTED_FAMILIES, METHODS
from understudy.synthesizers.base import Method
from understudy.synthesizers.relational.drawing import DrawnTable, draw_children, with_starts
from understudy.synthesizers.relational.fitted import FittedTable
from understudy.synthesizers.relational.matching import matched
from understudy.synthesizers.relational.planning import designs_for
from understudy.tables.column import Column
from understudy.tables.database_design import Design
from understudy.tables.database_schema import DatabaseSchema
from understudy.tables.differences import measured
from understudy.tables.joint_columns import joined, labels_of
from understudy.tables.rejection import Acceptance, SamplingError
from understudy.tables.schema import Schema
from understudy.tables.shards import SampledShards
from understudy.tables.table import Table, read
from understudy.tables.table_schema import TableSchema, generated_keys
from understudy.tables.unit_tables import ROWS, UNITS
from understudy.tables.where import read_where
from understudy.tables.writing import to_frame


@dataclasses.dataclass(frozen=True, eq=False)
class DatabaseModel(Savable):
    """A fitted database. Sampling from it is free, for ever: nothing more is learned about anyone.

    Attributes:
        schema: What is publicly known of the tables, as it was fitted.
        tables: Of every private table, its encoder and what draws its levels; parents first.
        receipt: What was charged, for what: one for all tables.
        method: The configuration that every table was fitted with.
        kind: The kind of frames that `sample` gives: "polars", "pandas" or "pyarrow".
        single: The schema of a single table, if the database is one with an invisible parent; then `sample` gives one
            frame.
        acceptance: Of the last `sample`: how many rows of the root were drawn for the conditions. None before it.
    """

    schema: DatabaseSchema
    tables: Mapping[str, FittedTable]
    receipt: Receipt
    method: Method
    kind: str = "polars"
    single: Schema | None = None
    acceptance: Acceptance | None = dataclasses.field(default=None, init=False, repr=False)

    @property
    def designs(self) -> dict[str, Design]:
        return designs_for(self.schema, self.method, self.receipt.budget.epsilon)

    def sample(
        self,
        n: int,
        seed: int | None = None,
        *,
        where: Mapping[str, Any] | None = None,
        kind: str | None = None,
    ) -> Any:
        """The tables of `n` synthetic units, by name, in the kind of frame that was fitted.

        Of a single table with columns of its units, `n` rows in one frame: those of as many units as it takes, each
        with an id. Of the last unit some rows may be left out.

        Rows stand in the order of their parents and, within one, in the order of their history. Every foreign key is
        the key of a row that is there.

        Args:
            seed: The same one gives the same tables.
            where: Conditions on the rows of the root, as for `Model.sample`.
            kind: The kind of frames, if it is to be another one.

        Privacy:
            Costs nothing: the model and the conditions are public.

        Raises:
            ConstraintError: A condition does not fit the schema.
            SamplingError: Rows that keep the constraints or meet the conditions are too rare.
        """
        if isinstance(n, bool) or not isinstance(n, int | np.integer) or n < 0:
            raise ValueError(f"n: expected a whole number >= 0, got {n!r}.")
        if self.single is not None:
            return self._rows(self.single, int(n), where, Key.new(seed), kind or self.kind)
        return self.tables_of(int(n), where, Key.new(seed), kind or self.kind)

    def sample_to(
        self,
        folder: str | os.PathLike[str],
        n: int,
        seed: int | None = None,
        *,
        where: Mapping[str, Any] | None = None,
        units_per_shard: int = UNITS_PER_SHARD,
        processes: int | None = None,
        engine: str = "local",
        address: str | None = None,
        progress: bool | None = None,
    ) -> SampledShards:
        """Writes the tables of `n` synthetic units to Parquet files of a folder for each table; as `Model.sample_to`.

        A second key that leads to another unit leads to one of the same shard. Numbers in generated keys have gaps
        between shards, since nobody knows how many rows of a table come before one.

        Args:
            where: Conditions on rows of the root.
            units_per_shard: Of every shard but the last. Other sizes give other tables.

        Raises:
            ValueError: The model is that of a single table.
            ShardError: The folder holds another sample or something else, or cannot be written.
            SamplingError: A shard cannot be drawn. The others are there, and the same call goes on.
        """
        if self.single is not None:
            raise ValueError("sample_to: expected a database; rows of a single table's units are drawn at once.")
        for name, value, least in (("n", n, 0), ("units_per_shard", units_per_shard, 1)):
            if isinstance(value, bool) or not isinstance(value, int | np.integer) or value < least:
                raise ValueError(f"{name}: expected a whole number >= {least}, got {value!r}.")
        ray_tasks.check(engine, address)
        Key.new(seed)
        content, root = self.to_bytes(), self.schema.root
        conditions = read_where(where, root.schema, self.tables[root.name].encoder.labels) if where else []
        wanted = {
            "understudy": __version__,
            "fit": self.receipt.id,
            "model_sha256": sha256(content),
            "units": int(n),
            "units_per_shard": int(units_per_shard),
            "where": [repr(each) for each in conditions],
            "seed": seed,
        }
        drawing = ShardDrawing(content, int(units_per_shard), dict(where or {}))
        sizes = {"units": int(n), "units_per_shard": int(units_per_shard), "title": self.schema.name}
        places: dict[str, Any] = {"processes": processes, "engine": engine, "address": address, "progress": progress}
        return write_shards(drawing, folder, wanted, list(self.tables), **sizes, **places)

    def tables_of(
        self, n: int, where: Mapping[str, Any] | None, key: Key, kind: str, *, before: int = 0
    ) -> dict[str, Any]:
        """The tables of some units, with keys that no unit has of which so many come before."""
        firsts = {name: before * self.schema.max_rows(name) for name in self.tables}
        return self._frames(self._draw(n, where, key), kind, key.child("second keys"), firsts)

    def _draw(self, n: int, where: Mapping[str, Any] | None, key: Key) -> dict[str, DrawnTable]:
        drawn: dict[str, DrawnTable] = {}
        for name, design in self.designs.items():
            if not design.ancestors:
                drawn[name] = self._draw_root(design, n, where, key.child(name))
            else:
                drawn[name] = draw_children(self.tables[name], design, drawn, key=key.child(name))
        return drawn

    def _rows(self, schema: Schema, n: int, where: Mapping[str, Any] | None, key: Key, kind: str) -> Any:
        """So many rows of a single table, each with the id and the columns of its unit."""
        units, most = max(n, 1), self.schema.max_rows(ROWS)
        drawn = self._draw(units if n else 0, where, key)
        while len(drawn[ROWS].rank) < n and units < n * most * 100:
            units *= 2
            drawn = self._draw(units, where, key)
        rows = drawn[ROWS]
        if len(rows.rank) < n:
            raise SamplingError(f"{units} units have {len(rows.rank)} rows, of {n} wanted. Ask for fewer.")
        parent = rows.parent[:n]
        columns = {name: cells[:n] for name, cells in rows.values.items()}
        columns |= {column.name: drawn[UNITS].values[column.name][parent] for column in self.schema[UNITS].columns}
        assert schema.unit is not None  # it has columns of its units
        ids = Column(name=schema.unit, kind="categorical")
        labels = {**self.tables[ROWS].encoder.labels, **self.tables[UNITS].encoder.labels}
        labels[ids.name] = generated_keys("unit-000001", units)
        whole = Schema(columns=(ids, *(dataclasses.replace(each, per_unit=False) for each in schema)), name=schema.name)
        columns = {ids.name: parent, **columns}
        return to_frame({name: columns[name] for name in whole.names}, whole, labels, kind)

    def _draw_root(self, design: Design, n: int, where: Mapping[str, Any] | None, key: Key) -> DrawnTable:
        fitted = self.tables[design.table.name]
        own = {*design.counts.values(), *design.starts.values()}
        hidden = [column for column in design.own if column.name in own]
        values = design.values
        stated = design.own if values is None else dataclasses.replace(values, columns=(*values.columns, *hidden))
        if not n:
            nothing = {column.name: np.zeros(0) for column in stated}
            return DrawnTable(nothing, {each.name: np.zeros(0) for each in design.own}, *[np.zeros(0, np.int64)] * 2)
        model = Model(fitted.encoder, fitted.generator, self.receipt, self.method, "polars", stated)
        frame = model.sample(n, int(key.numpy().integers(2**63)), where=where)
        object.__setattr__(self, "acceptance", model.acceptance)
        columns = _as_coded(read(frame, stated), fitted.encoder)
        place = np.arange(n)
        whole = measured(columns, design.differences) | joined(columns, design.joints)
        whole = with_starts({**columns, **whole}, design, key.child("starts"))
        return DrawnTable(columns, whole, place, np.ones_like(place))

    def _frames(
        self, drawn: Mapping[str, DrawnTable], kind: str, key: Key, firsts: Mapping[str, int]
    ) -> dict[str, Any]:
        keys: dict[str, dict[str, list[str]]] = {}
        frames: dict[str, Any] = {}
        for name, rows in drawn.items():
            keys[name] = _keys(self.schema[name], rows, self.schema, keys, firsts[name])
        self._add_second_keys(drawn, keys, key)
        for name, rows in drawn.items():
            table = self.schema[name]
            second = [each for each in table.keys if each not in (*table.key, *table.foreign_key)]
            own = [Column(name=column, kind="categorical", nullable=column in second) for column in table.keys]
            schema = Schema(columns=(*own, *table.columns), name=name)
            columns = {column: np.arange(len(rows.rank)) for column in keys[name]}
            columns |= {
                column: np.where([text is None for text in keys[name][column]], -1, columns[column])
                for column in second
            }
            columns |= rows.values
            labels = {**self.tables[name].encoder.labels, **labels_of(self.designs[name].joints), **keys[name]}
            frames[name] = to_frame({each: columns[each] for each in schema.names}, schema, labels, kind)
        return frames

    def _add_second_keys(self, drawn: Mapping[str, DrawnTable], keys: dict[str, dict[str, Any]], key: Key) -> None:
        """Adds the second keys of all tables to their keys: each leads to a row that is there, or is None."""
        units: dict[str, NDArray[np.int64]] = {}
        for name, design in self.designs.items():
            units[name] = (
                drawn[name].parent if not design.ancestors else units[design.ancestors[-1]][drawn[name].parent]
            )
        for name, design in self.designs.items():
            for second in design.second_keys:
                sides = [(drawn[n], self.tables[n].encoder, units[n]) for n in (name, second.table)]
                pairs = list(zip(second.columns, self.schema[second.table].key, strict=True))
                shared = [(keys[name][own], keys[second.table][other]) for own, other in pairs if own in keys[name]]
                places = matched(second, *sides, key=key.child(name).child(second.name), shared=_groups(shared))
                for own, other in pairs:
                    if own not in keys[name]:
                        texts = keys[second.table][other]
                        keys[name][own] = [None if place < 0 else texts[place] for place in places.tolist()]

    def to_bytes(self) -> bytes:
        """The content of a model file. The same model gives the same bytes, whenever it is saved."""
        arrays: dict[str, NDArray[Any]] = {}
        for place, fitted in enumerate(self.tables.values()):
            own = {f"{GENERATOR}{name}": array for name, array in fitted.generator.arrays().items()}
            arrays |= {f"{place}/{name}": array for name, array in {**fitted.encoder.arrays(), **own}.items()}
        document = {
            "format": FORMAT,
            "understudy": __version__,
            "database": self.schema.to_toml(),
            "single": None if self.single is None else self.single.to_toml(),
            "method": {"name": self.method.name, **dataclasses.asdict(self.method)},
            "kind": self.kind,
            "tables": {name: fitted.encoder.facts() for name, fitted in self.tables.items()},
            "receipt": json.loads(self.receipt.to_json()),
        }
        return archive.pack(document, arrays)

    def __repr__(self) -> str:
        spent = f"epsilon={self.receipt.budget.epsilon:g}, delta={self.receipt.budget.delta:g}"
        return f"DatabaseModel({self.schema.name!r}, {self.method.name}, {spent}, {len(self.tables)} tables)"


@dataclasses.dataclass(frozen=True)
class ShardDrawing:
    """What a process needs to draw any shard: the content of a model file, and what is asked of it."""

    content: bytes
    units_per_shard: int
    where: Mapping[str, Any]

    def draw(self, seed: int, shard: int, units: int) -> tuple[dict[str, Any], Acceptance | None]:
        model, key = _of_content(self.content), Key.new(seed).child(f"shard {shard}")
        with one_thread_each():
            tables = model.tables_of(units, self.where, key, "polars", before=shard * self.units_per_shard)
        return tables, model.acceptance


@functools.lru_cache(maxsize=1)
def _of_content(content: bytes) -> DatabaseModel:
    """The model of a file with this content; a process draws many shards from one."""
    return _rebuild(*archive.unpack(content))


def holds_database(path: str | os.PathLike[str]) -> bool:
    """Whether a file is the model of a database; False if it cannot be read."""
    try:
        return "database" in archive.unpack(path)[0]
    except Exception:
        return False


def load(path: str | os.PathLike[str]) -> Model:
    """Reads a model that `Model.save` or `DatabaseModel.save` wrote; the latter is a `DatabaseModel`.

    Raises:
        ModelError: It is not one, or not all of one.
    """
    try:
        document, arrays = archive.unpack(path)
        if "database" in document:
            return cast(Any, _rebuild(document, arrays))
    except archive.Changed:
        raise ModelError(
            f"{os.fspath(path)} was changed after it was written. Take another copy, or fit again."
        ) from None
    except MemoryError:
        raise
    except Exception:
        pass  # whatever is wrong with it, the other reader says what
    return load_single(path)


def _rebuild(document: Mapping[str, Any], arrays: Mapping[str, NDArray[Any]]) -> DatabaseModel:
    if document["format"] != FORMAT:
        raise ModelError("another format")
    archive.check(document, arrays)
    schema = DatabaseSchema.parse(document["database"], "the model's schema")
    known_as = document["method"]["name"]
    settings = {key: value for key, value in document["method"].items() if key != "name"}
    settings = {key: tuple(value) if isinstance(value, list) else value for key, value in settings.items()}
    method = METHODS[known_as](**settings)
    tables = {}
    receipt = Receipt.from_json(json.dumps(document["receipt"]))
    for place, (name, design) in enumerate(designs_for(schema, method, receipt.budget.epsilon).items()):
        start = f"{place}/"
        own = {key.removeprefix(start): array for key, array in arrays.items() if key.startswith(start)}
        generator = {key.removeprefix(GENERATOR): each for key, each in own.items() if key.startswith(GENERATOR)}
        facts = EncoderFacts(rows=document["tables"][name]["rows"], columns=document["tables"][name]["columns"])
        encoder = Encoder.from_arrays(design.flat, facts, own)
        known = FITTED_FAMILIES if design.ancestors and known_as in FITTED_FAMILIES else FITTED
        tables[name] = FittedTable(encoder, known[known_as].from_arrays(generator))
    single = None if document["single"] is None else Schema.parse(document["single"], "the model's schema")
    return DatabaseModel(schema, tables, receipt, method, document["kind"], single)


def _groups(shared: Sequence[tuple[list[str], list[str]]]) -> tuple[NDArray[np.int64], NDArray[np.int64]] | None:
    """Numbers that are the same for rows and rows they may lead to that agree in every shared column; None without."""
    if not shared:
        return None
    numbers: dict[tuple[str, ...], int] = {}
    sides = [list(zip(*columns, strict=True)) for columns in zip(*shared, strict=True)]
    mine, theirs = (np.array([numbers.setdefault(row, len(numbers)) for row in side], np.int64) for side in sides)
    return mine, theirs


def _as_coded(table: Table, encoder: Encoder) -> dict[str, NDArray[Any]]:
    """The columns of a synthetic table with categories as codes into the encoder's labels."""
    found = dict(table.columns)
    for name, labels in table.labels.items():
        place = {label: code for code, label in enumerate(encoder.labels[name])}
        codes = np.array([*(place[label] for label in labels), -1], dtype=np.int64)
        found[name] = codes[table.columns[name]]
    return found


def _keys(
    table: TableSchema,
    rows: DrawnTable,
    schema: DatabaseSchema,
    keys: Mapping[str, Mapping[str, list[str]]],
    first: int,
) -> dict[str, list[str]]:
    """The generated key columns of a table: its key first, then the foreign key; second keys are added later.

    Of a key of several columns, those that belong to the foreign key too are the parent's, and the first other one
    counts the siblings.
    """
    found: dict[str, list[str]] = {}
    if table.parent is not None:
        for own, other in zip(table.foreign_key, schema[table.parent].key, strict=True):
            texts = keys[table.parent][other]
            found[own] = [texts[int(place)] for place in rows.parent]
    new = [name for name in table.key if name not in found]
    for place, name in enumerate(new):
        if len(new) < len(table.key) or place:
            found[name] = [str(rank) for rank in rows.rank] if not place else ["1"] * len(rows.rank)
        else:
            found[name] = generated_keys(table.key_pattern or f"{table.name}-000001", len(rows.rank), first)
    return {name: found[name] for name in table.keys if name in found}
