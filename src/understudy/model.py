"""What is left after a fit: the encoder, the fitted generator and the receipt. It holds no row.

The one rule: a model file is an allow-list. It is a zip of `model.json` and `arrays.npz`; nothing in it is pickled, and
nothing is read from it that is not named here.
"""

import abc
import dataclasses
import functools
import json
import os
from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Any

import numpy as np
from numpy.typing import NDArray

from understudy.core import archive, ray_tasks
from understudy.core.files import reason, replacing, sha256
from understudy.core.network_drawing import network
from understudy.core.notebooks import card
from understudy.core.processors import one_thread_each
from understudy.core.progress import progress as shown
from understudy.core.randomness import Key
from understudy.core.svg import Picture, standalone
from understudy.core.text import did_you_mean
from understudy.core.version import __version__
from understudy.encoding.encoder import Encoder, EncoderFacts
from understudy.privacy.receipt import Receipt
from understudy.synthesizers import FITTED, METHODS
from understudy.synthesizers.base import DensityModel, Fitted, Method, WeightedParents
from understudy.synthesizers.sampling import Sampler
from understudy.tables import rejection
from understudy.tables.column_drawing import draw_column
from understudy.tables.differences import Difference, differences, measured, modelled
from understudy.tables.joint_columns import modelled_joints
from understudy.tables.rejection import Acceptance, SamplingError
from understudy.tables.schema import Schema, with_rules
from understudy.tables.shards import ROWS_PER_SHARD, SampledShards, Shards, open_shards
from understudy.tables.table import read
from understudy.tables.where import read_where
from understudy.tables.writing import to_frame, write

# A model file says which format it has; only this one is read. Version 0.1.0 wrote format 1.
FORMAT = 2
# The arrays of the fitted generator have this before their names in the file.
GENERATOR = "generator/"
ROWS_PLOTTED = 4_000
"""Rows that are drawn for the picture of a column."""


class ModelError(ValueError):
    """A model file cannot be read or written."""


class Savable(abc.ABC):
    """What has a model file: a model of one table, or of a database."""

    @abc.abstractmethod
    def to_bytes(self) -> bytes:
        """The content of a model file. The same model gives the same bytes, whenever it is saved."""

    @property
    def sha256(self) -> str:
        """The SHA-256 of the file that `save` writes, in hexadecimal."""
        return sha256(self.to_bytes())

    def save(self, path: str | os.PathLike[str]) -> None:
        """Writes the model to one file, whole or not at all."""
        try:
            with replacing(path) as temporary:
                temporary.write_bytes(self.to_bytes())
        except OSError as error:
            raise ModelError(f"{os.fspath(path)} cannot be written: {reason(error)}.") from None


@dataclasses.dataclass(frozen=True, eq=False)
class Model(Savable):
    """A fitted synthesizer. Sampling from it is free, for ever: nothing more is learned about anyone.

    Attributes:
        encoder: The columns' distributions: values to levels and back.
        generator: Draws the levels of whole rows.
        receipt: What was charged, for what.
        method: The configuration it was fitted with.
        kind: The kind of frame that was fitted and that `sample` gives: "polars", "pandas" or "pyarrow".
        stated: The schema as its owner wrote it; None if it is the encoder's. The encoder's has differences in place of
            columns that an inequality ties to another (tables/differences.py).
        acceptance: Of the last `sample`: how many rows were drawn, and how many kept the constraints and conditions.
            None before the first.
    """

    encoder: Encoder
    generator: Fitted
    receipt: Receipt
    method: Method
    kind: str = "polars"
    stated: Schema | None = None
    acceptance: Acceptance | None = dataclasses.field(default=None, init=False, repr=False)

    @property
    def schema(self) -> Schema:
        return self.encoder.schema if self.stated is None else self.stated

    @property
    def differences(self) -> tuple[Difference, ...]:
        """The columns that are modelled by how far they lie from another one."""
        found = differences(self.schema)
        return found if all(self.encoder.columns[each.column].column == each.gap for each in found) else ()

    @property
    def parents(self) -> dict[str, list[str]]:
        """The Bayes network: for every column, the earlier ones it is made from."""
        flags = {each.flag: each.column for each in self.differences}
        found: dict[str, list[str]] = {}
        for name, earlier in self.generator.parents(self.encoder.schema).items():
            found.setdefault(flags.get(name, name), []).extend(flags.get(each, each) for each in earlier)
        return {name: [each for each in dict.fromkeys(own) if each != name] for name, own in found.items()}

    @property
    def strengths(self) -> dict[str, dict[str, float]]:
        """How much every column takes from each earlier one, if the method measures it; else empty.

        For the sequential generators it is the norm of the earlier column's weights: in deviations, how far the column
        moves at most when the earlier one moves by one, up to a factor of two.
        """
        found = self.generator.strengths() if isinstance(self.generator, WeightedParents) else {}
        flags = {each.flag for each in self.differences}
        return {
            name: {each: weight for each, weight in own.items() if each not in flags}
            for name, own in found.items()
            if name not in flags
        }

    def sample(
        self,
        n: int,
        seed: int | None = None,
        *,
        where: Mapping[str, Any] | None = None,
        rules: Sequence[Any] = (),
    ) -> Any:
        """`n` synthetic rows, in the kind of frame that was fitted. Each keeps the constraints of the schema.

        The number is always given: the true number of rows is private.

        Args:
            seed: The same one gives the same rows.
            where: Conditions on the rows, by column: a value; a pair (low, high) of numbers or dates, both included,
                None for no bound; several categories; or None for a missing cell.
            rules: Further constraints that these rows keep, in the forms that a schema has, such as "a >= b".

        Privacy:
            Costs nothing: constraints and conditions are public, and so is the model.

        Raises:
            ConstraintError: A rule or a condition does not fit the schema.
            SamplingError: Fewer than one drawn row in a hundred keeps the constraints, or so few meet the conditions
                that some 20 million rows would have to be drawn.
        """
        _check_count("n", n, 0)
        key, conditions = Key.new(seed), read_where(where, self.schema, self.encoder.labels)
        schema = with_rules(self.schema, rules)
        columns, acceptance = self._sampler.kept(schema, conditions, int(n), key)
        object.__setattr__(self, "acceptance", acceptance)
        return to_frame(columns, self.schema, self._sampler.labels, self.kind)

    def sample_to(
        self,
        folder: str | os.PathLike[str],
        n: int,
        seed: int | None = None,
        *,
        where: Mapping[str, Any] | None = None,
        rules: Sequence[Any] = (),
        rows_per_shard: int = ROWS_PER_SHARD,
        processes: int | None = None,
        engine: str = "local",
        address: str | None = None,
        progress: bool | None = None,
    ) -> SampledShards:
        """Writes `n` synthetic rows to Parquet files of a folder, each drawn by itself, in memory that does not grow.

        Shard i is drawn with a key of its own, so the rows are the same for any number of processes and both engines.
        A start that was stopped goes on with the shards that are missing. Rows are stratified within each shard.

        Args:
            folder: Made if it is missing; what the sample is stands in FOLDER.json beside it. On a cluster, all nodes
                must see it.
            seed: The same one gives the same rows; None takes that of the folder, or draws one that is kept there.
            where, rules: As of `sample`.
            rows_per_shard: Of every file but the last. Other sizes give other rows.
            processes: How many of this machine; None for one a core.
            engine: "local", or "ray" for tasks on a cluster.
            address: Of the cluster; None for the one that RAY_ADDRESS names, or else one of this machine alone.
            progress: Whether to show a bar; None shows one on a terminal, and elsewhere prints a line now and then.

        Privacy:
            Costs nothing, like `sample`. The seed that is kept is no secret: whoever has the model can draw any rows.

        Raises:
            ShardError: The folder holds another sample or something else, or cannot be written.
            SamplingError: A shard cannot be drawn. The others are there, and the same call goes on.
        """
        request = self._request(n, rows_per_shard, where, rules)
        ray_tasks.check(engine, address)
        Key.new(seed)
        with open_shards(folder, {**self._manifest(request), "seed": seed}) as manifest:
            shards = dataclasses.replace(request.shards, folder=Path(os.path.realpath(folder)))
            request = dataclasses.replace(request, seed=manifest["seed"], shards=shards)
            work, found = shards.missing(), []
            there = shards.rows - sum(map(shards.rows_of, work))
            with shown(self.schema.name or "sample", shards.rows, there, "rows", wanted=progress) as advance:
                places: Any = {"processes": processes, "engine": engine, "address": address}
                for shard, made, error in ray_tasks.spread_over(
                    functools.partial(write_shard, request), work, **places
                ):
                    if made is None:
                        raise SamplingError(f"{shards.path(shard).name} was not written: {error}")
                    found.append(made)
                    advance(shards.path(shard).name, shards.rows_of(shard))
        acceptance = rejection.in_all(found) if found else None
        return SampledShards(shards=shards, made=len(work), seed=request.seed, acceptance=acceptance)

    def sample_dataset(
        self,
        n: int,
        seed: int | None = None,
        *,
        where: Mapping[str, Any] | None = None,
        rules: Sequence[Any] = (),
        rows_per_shard: int = ROWS_PER_SHARD,
    ) -> Any:
        """A Ray dataset of `n` synthetic rows, those that `sample_to` writes with this seed, drawn when they are used.

        Raises:
            ImportError: Ray is not installed.
            ConstraintError: A rule or a condition does not fit the schema.
        """
        request = dataclasses.replace(self._request(n, rows_per_shard, where, rules), seed=Key.new(seed).entropy)
        data, shards = ray_tasks.datasets(), request.shards.count
        numbers = data.range(shards, override_num_blocks=shards)
        draw = functools.partial(_arrow_shard, request)
        variables = {"env_vars": ray_tasks.one_thread_variables()}
        return numbers.map_batches(draw, batch_size=1, runtime_env=variables)

    def _request(self, n: int, rows_per_shard: int, where: Mapping[str, Any] | None, rules: Sequence[Any]):
        _check_count("n", n, 0)
        _check_count("rows_per_shard", rows_per_shard, 1)
        read_where(where, self.schema, self.encoder.labels)
        with_rules(self.schema, rules)
        shards = Shards(folder=Path(), rows=int(n), rows_per_shard=int(rows_per_shard))
        return ShardRequest(self.to_bytes(), shards, 0, dict(where or {}), tuple(rules))

    def _manifest(self, request: "ShardRequest") -> dict[str, Any]:
        """What makes a sample the one it is, but for its seed."""
        conditions = read_where(request.where, self.schema, self.encoder.labels)
        return {
            "understudy": __version__,
            "fit": self.receipt.id,
            "model_sha256": sha256(request.content),
            "rows": request.shards.rows,
            "rows_per_shard": request.shards.rows_per_shard,
            "where": [repr(each) for each in conditions],
            "rules": [repr(each) for each in request.rules],
        }

    @property
    def _sampler(self) -> Sampler:
        joints = modelled_joints(self.schema, self.encoder.columns)
        return Sampler(self.encoder, self.generator, self.schema, self.differences, joints)

    def log_density(self, frame: Any) -> NDArray[np.float64]:
        """The log density of every row of a table under the model, in nats: higher is more typical.

        It is the density of the row's features: the normal scores of its numbers, within the columns' own
        distributions, and the probabilities of its categories and missing cells. It leaves out what belongs to the
        columns' own distributions, the density of a value relative to that of its score, which is the same for every
        model with this encoder. So differences between rows say how columns depend on each other and how far out scores
        lie. A repeated value counts at the middle of its interval of levels. Values out of bounds are clamped, and a
        value that is missing against the schema counts as the median.

        Privacy:
            None. What it says about a table that is not public is not covered by the budget.

        Raises:
            TypeError: The method has no densities.
            TableError: The table's structure is not the schema's.
        """
        if not isinstance(self.generator, DensityModel):
            having = ", ".join(name for name, fitted in FITTED.items() if issubclass(fitted, DensityModel))
            raise TypeError(f"log_density: {self.method.name} has no densities. Fit one of {having}.")
        given = read(frame, self.schema)
        columns = measured(given.columns, self.differences)
        return self.generator.log_density(self.encoder, columns, self.encoder.as_labelled(given.labels))

    def plot(self, column: str | None = None) -> Picture:
        """A picture of the network, with the strongest arrows; or of one column in rows drawn from the model.

        Raises:
            ValueError: The schema has no such column.
        """
        budget, title = self.receipt.budget, f"{self.schema.name}: {column or 'what each column is made from'}"
        said = f"{self.method.name}, epsilon = {budget.epsilon:g}, delta = {budget.delta:g}"
        above = ["VOID: the guarantee does not hold."] * bool(self.receipt.void) + [title, said]
        if column is None:
            return standalone(network(self.parents, "network", title, strengths=self.strengths, above=above))
        if column not in self.schema.names:
            raise ValueError(f"plot: the schema has no column {column!r}.{did_you_mean(column, self.schema.names)}")
        rows = dataclasses.replace(self, kind="polars").sample(ROWS_PLOTTED, seed=0)
        return standalone(draw_column(rows[column], above))

    def to_bytes(self) -> bytes:
        """The content of a model file. The same model gives the same bytes, whenever it is saved."""
        document = {
            "format": FORMAT,
            "understudy": __version__,
            "schema": self.schema.to_toml(),
            "method": {"name": self.method.name, **dataclasses.asdict(self.method)},
            "kind": self.kind,
            "differences": bool(self.differences),
            **self.encoder.facts(),
            "receipt": json.loads(self.receipt.to_json()),
        }
        own = {f"{GENERATOR}{name}": array for name, array in self.generator.arrays().items()}
        return archive.pack(document, {**self.encoder.arrays(), **own})

    def __repr__(self) -> str:
        spent = f"epsilon={self.receipt.budget.epsilon:g}, delta={self.receipt.budget.delta:g}"
        return f"Model({self.schema.name!r}, {self.method.name}, {spent}, {len(self.schema)} columns)"

    def _repr_html_(self) -> str:
        spent = f"epsilon = {self.receipt.budget.epsilon:g}, delta = {self.receipt.budget.delta:g}"
        parents = {name: ", ".join(earlier) or "nothing" for name, earlier in self.parents.items()}
        rows = [(column.name, column.kind, parents.get(column.name, "")) for column in self.schema]
        notes = [f"In every row: {each}." for each in self.schema.constraints]
        notes += [
            f"About {100 * share:.2g} % of the rows became other in {name!r}."
            for name, share in self.encoder.other_shares.items()
        ]
        title = f"{self.schema.name}: {self.method.name} with {spent}"
        return card(title, ("column", "kind", "is made from"), rows, notes)


@dataclasses.dataclass(frozen=True)
class ShardRequest:
    """What a process needs to draw any shard of a sample: the content of a model file, and what is asked of it."""

    content: bytes
    shards: Shards
    seed: int
    where: Mapping[str, Any]
    rules: Sequence[Any]

    def draw(self, shard: int) -> tuple[Any, Acceptance]:
        """The rows of a shard as a polars frame. They depend on nothing but the request and the shard's number."""
        model, key = _rebuilt(self.content), Key.new(self.seed).child(f"shard {shard}")
        conditions = read_where(self.where, model.schema, model.encoder.labels)
        with one_thread_each():
            rules, rows = with_rules(model.schema, self.rules), self.shards.rows_of(shard)
            columns, acceptance = model._sampler.kept(rules, conditions, rows, key)
            return to_frame(columns, model.schema, model.encoder.labels), acceptance


def write_shard(request: ShardRequest, shard: int) -> Acceptance:
    """Draws a shard and writes its file, whole or not at all."""
    frame, acceptance = request.draw(shard)
    write(frame, request.shards.path(shard), level=1)  # numbers hardly shrink at any level, and 1 is the fastest
    return acceptance


def _arrow_shard(request: ShardRequest, batch: Mapping[str, NDArray]) -> Any:
    """The shard whose number a batch of one holds, for Ray."""
    return request.draw(int(batch["id"][0]))[0].to_arrow()


@functools.lru_cache(maxsize=1)
def _rebuilt(content: bytes) -> Model:
    """The model of a file with this content; a process draws many shards from one."""
    return _rebuild("the model", *archive.unpack(content))


def _check_count(name: str, value: Any, least: int) -> None:
    if isinstance(value, bool) or not isinstance(value, int | np.integer) or value < least:
        raise ValueError(f"{name}: expected a whole number >= {least}, got {value!r}.")


def load(path: str | os.PathLike[str]) -> Model:
    """Reads a model that `Model.save` wrote.

    Raises:
        ModelError: It is not one, or not all of one.
    """
    name = os.fspath(path)
    try:
        document, arrays = archive.unpack(path)
        return _rebuild(name, document, arrays)
    except OSError as error:
        raise ModelError(f"{name} cannot be read: {reason(error)}.") from None
    except (ModelError, MemoryError):
        raise
    except archive.Oversized:
        raise ModelError(f"{name} unpacks to more than a model can be; it was not read.") from None
    except archive.Changed:
        raise ModelError(f"{name} was changed after it was written. Take another copy, or fit again.") from None
    except Exception:
        raise ModelError(
            f"{name} is not a whole understudy model. Was it cut short, or made by another program?"
        ) from None


def _rebuild(name: str, document: Mapping[str, Any], arrays: Mapping[str, NDArray]) -> Model:
    if document["format"] != FORMAT:
        raise ModelError(f"{name} has format {int(document['format'])}, and this version reads format {FORMAT}.")
    archive.check(document, arrays)
    schema = Schema.parse(document["schema"], "the model's schema")
    method = document["method"]["name"]
    settings = {key: value for key, value in document["method"].items() if key != "name"}
    settings = {key: tuple(value) if isinstance(value, list) else value for key, value in settings.items()}
    generator = {key.removeprefix(GENERATOR): array for key, array in arrays.items() if key.startswith(GENERATOR)}
    fitted = modelled(schema) if document.get("differences") else schema
    return Model(
        Encoder.from_arrays(fitted, EncoderFacts(rows=document["rows"], columns=document["columns"]), arrays),
        FITTED[method].from_arrays(generator),
        Receipt.from_json(json.dumps(document["receipt"])),
        METHODS[method](**settings),
        document["kind"],
        schema,
    )
