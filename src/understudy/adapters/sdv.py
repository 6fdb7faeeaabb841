"""SDV's calls: a synthesizer that takes SDV's metadata, `fit`s a pandas table and `sample`s one of the same columns.

The one rule: nothing is learned outside the budget. SDV's synthesizers learn bounds, categories and missing values from
the table at no cost; here they are measured. What type a synthetic column gets follows from the metadata and from what
was released, never from the table: that a column of whole numbers has one missing cell makes pandas store floats.

Sources: https://docs.sdv.dev/sdv (single-table synthesizers),
https://docs.sdv.dev/sdgym/customization/synthesizers/custom-synthesizers (the two functions of SDGym).

Departures:
    - `epsilon` has to be given, and `sample` takes an explicit number of rows.
    - Keys are numbered anew. Identifiers, personal details and columns of unknown type are missing in synthetic rows;
      SDV invents some.
    - Ranges, values and nullability in the metadata of SDV 2 are found in the cells, so they are not used.
    - A fit is a release. Fitting again costs again; a ledger file adds it up.
"""

import dataclasses
import json
import os
import re
from collections.abc import Callable, Iterable, Mapping, Sequence
from pathlib import Path
from typing import Any, Self

from understudy.core.files import reason, replacing
from understudy.model import Model, ModelError, load
from understudy.pipeline import fit
from understudy.privacy.receipt import Receipt
from understudy.synthesizers import DEFAULT
from understudy.synthesizers.base import Method
from understudy.tables.column import Column
from understudy.tables.metadata import content_of, one_table
from understudy.tables.schema import Schema
from understudy.tables.structure import TableError
from understudy.tables.values import SchemaError

Metadata = Mapping[str, Any]
BESIDE = ".json"
"""What a model file's name is followed by in the name of the file beside it, which holds the metadata."""
OTHER = "other"
"""The category of values that were not seen often enough."""
_TIMES = ("%H", "%I", "%M", "%S")


class Synthesizer:
    """A synthesizer with SDV's calls, under differential privacy.

        synthesizer = Synthesizer(metadata, epsilon=1.0)
        synthesizer.fit(data)
        synthetic = synthesizer.sample(num_rows=1000)

    Attributes:
        schema: The public facts that the metadata amounts to. What it does not say is measured.
        model: What was fitted, with its `receipt`, `report` and all; None before the first fit.
    """

    def __init__(
        self,
        metadata: Any,
        *,
        epsilon: float,
        delta: float = 1e-6,
        method: str | Method = DEFAULT,
        nullable: Iterable[str] | None = None,
        max_rows_per_unit: int | None = None,
        name: str | None = None,
        ledger: str | os.PathLike[str] | None = None,
    ) -> None:
        """Reads the metadata. No data is needed yet.

        Args:
            metadata: SDV's `Metadata` or `SingleTableMetadata` of one table, the same as a dictionary, or the path of
                its JSON file.
            epsilon, delta: The budget of a fit, for everything.
            method: A name from `understudy.METHODS`, or one of them configured.
            nullable: The columns whose cells may be missing. None: all of them, as metadata does not say.
            max_rows_per_unit: How many rows of one sequence are used at most; needed if there is a sequence key.
            name: The name of the table in a ledger file; None: the metadata's, if it has one.
            ledger: A ledger file, which every fit is charged to.

        Raises:
            SchemaError: It is no such metadata, or describes several tables.
        """
        self._metadata = _as_mapping(metadata)
        self._budget = {"epsilon": epsilon, "delta": delta}
        self._method, self._ledger = method, ledger
        self.schema = _schema(self._metadata, nullable=nullable, max_rows_per_unit=max_rows_per_unit, name=name)
        self.model: Model | None = None

    @property
    def receipt(self) -> Receipt:
        """What the fit spent, on what, and what is promised for it."""
        return self._fitted().receipt

    def get_metadata(self) -> Metadata:
        """The metadata, as a dictionary."""
        return self._metadata

    def fit(self, data: Any) -> None:
        """Learns a model of a pandas table. This spends the budget, each time it is called.

        Privacy:
            (epsilon, delta)-differentially private for adding or removing one row, or one sequence if there is a
            sequence key; see `understudy.fit`.

        Raises:
            TableError: It is no pandas table, or its columns are not those of the metadata.
            BudgetExceeded: The ledger file's cap does not allow it.
        """
        if type(data).__module__.partition(".")[0] != "pandas" or not hasattr(data, "columns"):
            raise TableError(f"fit: expected a pandas DataFrame, as SDV takes, got {type(data).__name__}.")
        options = {**self._budget, "ledger": self._ledger, "progress": False}
        self.model = fit(data, self.schema, self._method, **options)

    def sample(self, num_rows: int, seed: int | None = None) -> Any:
        """So many synthetic rows, as a pandas table with the columns of the metadata. Free, as often as you like."""
        model = self._fitted()
        drawn, facts = model.sample(num_rows, seed), _columns(self._metadata)
        for column in drawn.columns:
            labels = model.encoder.labels.get(column, ())
            drawn[column] = _as_sdv_has_it(drawn[column], labels, facts.get(column, {}))
        for column in [name for name in facts if name not in drawn.columns]:
            drawn[column] = _numbered(num_rows, facts[column]) if column in _keys(self._metadata) else None
        return drawn[[*facts]] if facts else drawn

    def save(self, filepath: str | os.PathLike[str]) -> None:
        """Writes the model to a file that every command of understudy reads, and the metadata beside it, as .json."""
        self._fitted().save(filepath)
        try:
            with replacing(_beside(filepath)) as temporary:
                temporary.write_text(json.dumps({"metadata": self._metadata}, indent=1), "utf-8")
        except OSError as error:
            raise ModelError(f"{_beside(filepath)} cannot be written: {reason(error)}.") from None

    @classmethod
    def load(cls, filepath: str | os.PathLike[str]) -> Self:
        """Reads what `save` wrote. Without the file beside it, only the columns that were learned are sampled.

        Raises:
            ModelError: It is no model, or the file beside it is not what `save` wrote.
        """
        model = load(filepath)
        made = cls.__new__(cls)
        made._metadata, made._ledger = _kept_beside(_beside(filepath)), None
        made._budget = {"epsilon": model.receipt.budget.epsilon, "delta": model.receipt.budget.delta}
        made._method, made.schema, made.model = model.method, model.schema, model
        return made

    def __repr__(self) -> str:
        spent = ", ".join(f"{name}={value:g}" for name, value in self._budget.items())
        return f"Synthesizer({'fitted' if self.model else 'not fitted'}, {spent}, {len(self.schema)} columns)"

    def _fitted(self) -> Model:
        if self.model is None:
            raise RuntimeError("Synthesizer: expected a fitted one, got one without a fit. Call fit(data) first.")
        return self.model


def for_sdgym(**settings: Any) -> tuple[Callable[[Any, Any], Synthesizer], Callable[[Synthesizer, int], Any]]:
    """The two functions that SDGym's custom synthesizers are made of: one that fits, and one that samples.

    Args:
        settings: Those of `Synthesizer`, such as epsilon=1.0.
    """

    def get_trained_synthesizer(data: Any, metadata: Any) -> Synthesizer:
        made = Synthesizer(metadata, **settings)
        made.fit(data)
        return made

    def sample_from_synthesizer(synthesizer: Synthesizer, n_rows: int) -> Any:
        return synthesizer.sample(n_rows)

    return get_trained_synthesizer, sample_from_synthesizer


# Metadata -----------------------------------------------------------------------------------------------------------


def _as_mapping(metadata: Any) -> Metadata:
    """Metadata as a dictionary: of SDV's classes by their `to_dict`, of a path by its file."""
    if hasattr(metadata, "to_dict"):
        metadata = metadata.to_dict()
    if not isinstance(metadata, Mapping | str | os.PathLike):
        raise SchemaError(f"metadata: expected SDV's, a dictionary or a path, got {type(metadata).__name__}.")
    return content_of(metadata)


def _schema(
    metadata: Metadata, *, nullable: Iterable[str] | None, max_rows_per_unit: int | None, name: str | None
) -> Schema:
    """The schema, with the formats of dates that the metadata states."""
    made = Schema.from_sdv(metadata, max_rows_per_unit=max_rows_per_unit)
    made = Schema.from_sdv(
        metadata, nullable=made.names if nullable is None else nullable, max_rows_per_unit=max_rows_per_unit
    )
    columns = tuple(_dated(column, _columns(metadata)[column.name]) for column in made)
    return dataclasses.replace(made, columns=columns, **({"name": name} if name else {}))


def _dated(column: Column, facts: Mapping[str, Any]) -> Column:
    """A column of instants with the format that the metadata states; without a time of day, a column of dates."""
    form = facts.get("datetime_format")
    if column.kind != "datetime" or not isinstance(form, str):
        return column
    kind = "datetime" if any(sign in form for sign in _TIMES) else "date"
    try:
        return dataclasses.replace(column, kind=kind, format=form)
    except SchemaError:  # a format that we cannot read matters for text alone, and is refused there
        return dataclasses.replace(column, kind=kind)


def _columns(metadata: Metadata) -> Mapping[str, Mapping[str, Any]]:
    return one_table(metadata)[1].get("columns", {})


def _keys(metadata: Metadata) -> set[str]:
    """The columns of keys; a primary key may have several."""
    facts = one_table(metadata)[1]
    stated = [facts.get("primary_key"), facts.get("sequence_key")]
    return {name for key in stated for name in (key if isinstance(key, list) else [key]) if name is not None}


def _kept_beside(path: Path) -> Metadata:
    """The metadata in the file beside a model; empty without one."""
    if not path.exists():
        return {}
    try:
        metadata = json.loads(path.read_text("utf-8"))["metadata"]
        _keys(metadata)
        return metadata
    except (OSError, ValueError, KeyError, TypeError, AttributeError, RecursionError):
        raise ModelError(f"{path} is not what Synthesizer.save writes. Move it away to load the model.") from None


def _beside(filepath: str | os.PathLike[str]) -> Path:
    return Path(os.fspath(filepath) + BESIDE)


# Cells --------------------------------------------------------------------------------------------------------------


def _as_sdv_has_it(cells: Any, labels: Sequence[str], facts: Mapping[str, Any]) -> Any:
    """Cells as an SDV user has them: codes as numbers, dates in their format, plain types if none is missing."""
    import pandas as pd

    form = facts.get("datetime_format")
    if facts.get("sdtype") == "datetime" and isinstance(form, str):
        moments: Any = pd.to_datetime(cells)
        return moments.dt.strftime(form)
    if labels and all(re.fullmatch(r"-?\d{1,15}", label) for label in labels if label != OTHER):
        numbers: Any = pd.to_numeric(cells, errors="coerce")
        cells = numbers.astype("Int64")  # a category that is not known becomes a missing cell
    plain = {"Int64": "int64", "boolean": "bool"}.get(str(cells.dtype))
    return cells if plain is None or cells.isna().any() else cells.astype(plain)


def _numbered(count: int, facts: Mapping[str, Any]) -> list[int] | list[str]:
    """New keys: whole numbers, as text if the metadata has a format of text for them."""
    return [str(number) for number in range(count)] if facts.get("regex_format") else list(range(count))
