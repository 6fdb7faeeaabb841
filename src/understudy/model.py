"""What is left after a fit: the encoder, the recipe and the receipt. It holds no row.

The one rule: a model file is an allow-list. It is a zip of `model.json` and `arrays.npz`; nothing in it is pickled, and
nothing is read from it that is not named here.
"""

import dataclasses
import io
import json
import os
import zipfile
from collections.abc import Mapping
from pathlib import Path
from typing import Any

import numpy as np
from numpy.typing import NDArray

import understudy
from understudy import table
from understudy.budget import Receipt
from understudy.distributions import Distribution
from understudy.encoding import ColumnMap, Encoder, Given
from understudy.files import reason, replacing
from understudy.randomness import Key
from understudy.schema import Schema
from understudy.synthesizers import METHODS, RECIPES

FORMAT = 1
_LARGEST_FILE = 2**32  # of what a model file may unpack to


class ModelError(ValueError):
    """A model file cannot be read or written."""


@dataclasses.dataclass(frozen=True, eq=False)
class Model:
    """A fitted synthesizer. Sampling from it is free, for ever: nothing more is learned about anyone.

    Attributes:
        receipt: What was spent, on what.
        method: The configuration it was fitted with.
    """

    encoder: Encoder
    recipe: Any
    receipt: Receipt
    method: Any
    kind: str = "polars"

    @property
    def schema(self) -> Schema:
        return self.encoder.schema

    @property
    def parents(self) -> dict[str, list[str]]:
        """The Bayes network: for every column, the earlier ones it is made from."""
        return self.recipe.parents(self.schema)

    @property
    def strengths(self) -> dict[str, dict[str, float]]:
        """How much every column takes from each earlier one, where the method measures it; else empty.

        For the sequential generators it is the norm of the earlier column's weights: in deviations, how far the column
        moves at most when the earlier one moves by one, up to a factor of two.
        """
        return self.recipe.strengths() if hasattr(self.recipe, "strengths") else {}

    def sample(self, n: int, seed: int | None = None) -> Any:
        """`n` synthetic rows, in the kind of frame that was fitted.

        The number is always given: the true number of rows is private.
        """
        if isinstance(n, bool) or not isinstance(n, int | np.integer) or n < 0:
            raise ValueError(f"n: expected a whole number >= 0, got {n!r}.")
        levels = self.recipe.sample(int(n), key=Key.new(seed))
        return table.to_frame(self.encoder.decode(levels), self.schema, self.encoder.labels, self.kind)

    def save(self, path: str | os.PathLike[str]) -> None:
        """Writes the model to one file, whole or not at all."""
        document = {
            "format": FORMAT,
            "understudy": understudy.__version__,
            "schema": self.schema.to_toml(),
            "method": {"name": self.method.name, **dataclasses.asdict(self.method)},
            "kind": self.kind,
            "rows": self.encoder.rows,
            "columns": {
                name: {
                    "missing": m.missing,
                    "integer": m.distribution.integer,
                    "labels": m.labels,
                    "given": isinstance(m, Given),
                }
                for name, m in self.encoder.maps.items()
            },
            "receipt": json.loads(self.receipt.to_json()),
        }
        arrays = {f"recipe/{name}": array for name, array in self.recipe.arrays().items()}
        for position, m in enumerate(self.encoder.maps.values()):
            arrays[f"column/{position}"] = np.stack([m.distribution.values, m.distribution.cdf])
        packed = io.BytesIO()
        np.savez_compressed(packed, allow_pickle=False, **arrays)
        try:
            with replacing(path) as temporary, zipfile.ZipFile(temporary, "w", zipfile.ZIP_DEFLATED) as archive:
                archive.writestr("model.json", json.dumps(document, indent=1))
                archive.writestr("arrays.npz", packed.getvalue())
        except OSError as error:
            raise ModelError(f"{os.fspath(path)} cannot be written: {reason(error)}.") from None

    def __repr__(self) -> str:
        spent = f"epsilon={self.receipt.budget.epsilon:g}, delta={self.receipt.budget.delta:g}"
        return f"Model({self.schema.name!r}, {self.method.name}, {spent}, {len(self.schema)} columns)"


def load(path: str | os.PathLike[str]) -> Model:
    """Reads a model that `Model.save` wrote.

    Raises:
        ModelError: It is not one, or not all of one.
    """
    name = os.fspath(path)
    try:
        with zipfile.ZipFile(Path(path)) as archive:
            if sum(entry.file_size for entry in archive.infolist()) > _LARGEST_FILE:
                raise ModelError(f"{name} unpacks to more than a model can be; it was not read.")
            document = json.loads(archive.read("model.json"))
            packed = io.BytesIO(archive.read("arrays.npz"))
        with np.load(packed, allow_pickle=False) as arrays:
            return _rebuild(name, document, {key: arrays[key] for key in arrays.files})
    except OSError as error:
        raise ModelError(f"{name} cannot be read: {reason(error)}.") from None
    except ModelError:
        raise
    except Exception:
        raise ModelError(
            f"{name} is not a whole understudy model. Was it cut short, or made by another program?"
        ) from None


def _rebuild(name: str, document: Mapping[str, Any], arrays: Mapping[str, NDArray]) -> Model:
    if document["format"] != FORMAT:
        raise ModelError(f"{name} has format {document['format']}, and this version reads format {FORMAT}.")
    schema = Schema.parse(document["schema"], "the model's schema")
    maps = {}
    for position, column in enumerate(schema):
        facts = document["columns"][column.name]
        values, cdf = arrays[f"column/{position}"]
        labels = tuple(facts["labels"]) if facts["labels"] is not None else None
        kind = Given if facts["given"] else ColumnMap
        maps[column.name] = kind(column, Distribution(values, cdf, facts["integer"]), facts["missing"], labels)
    settings = dict(document["method"])
    method = settings.pop("name")
    settings = {key: tuple(value) if isinstance(value, list) else value for key, value in settings.items()}
    prefix = "recipe/"
    recipe_arrays = {key.removeprefix(prefix): array for key, array in arrays.items() if key.startswith(prefix)}
    return Model(
        Encoder(schema, maps, float(document["rows"])),
        RECIPES[method].from_arrays(recipe_arrays),
        Receipt.from_json(json.dumps(document["receipt"])),
        METHODS[method](**settings),
        document["kind"],
    )
