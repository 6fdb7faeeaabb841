"""Ray datasets: their blocks as pieces of a table.

The one rule: a block stays where Ray has it. Here it is known by its reference; a task of the cluster is given the
block, and the process that fits asks for one only if it sums itself.
"""

import dataclasses
from collections.abc import Sequence
from typing import Any, Self

from understudy.core import ray_tasks
from understudy.tables.files import library_errors
from understudy.tables.pyarrow_table import column_of_pyarrow
from understudy.tables.schema import Schema
from understudy.tables.structure import Source, check_names

NAME = "the Ray dataset"


def is_dataset(source: object) -> bool:
    """Whether a source is a Ray dataset; Ray is not imported to find out."""
    return any(kind.__module__.startswith("ray.data.") and kind.__name__ == "Dataset" for kind in type(source).__mro__)


@dataclasses.dataclass(frozen=True, eq=False, repr=False)
class BlockPiece:
    """A block of a Ray dataset, which is a pyarrow table.

    Attributes:
        block: The reference to it; in a task the block itself; None on the way there.
    """

    rows: int
    block: Any = None
    name: str = NAME

    @property
    def reference(self) -> Any:
        """What a task of the cluster needs beside this piece."""
        return self.block

    def with_block(self, block: Any) -> Self:
        return dataclasses.replace(self, block=block)

    def load(self, schema: Schema, names: Sequence[str]) -> Source:
        ray = ray_tasks.imported()
        with library_errors(self.name, "a table"):
            block = ray.get(self.block) if isinstance(self.block, ray.ObjectRef) else self.block
            columns = {each: column_of_pyarrow(each, block.column(each)) for each in names}
        return Source(columns=columns, kind="polars", name=self.name)


def block_pieces(dataset: Any, schema: Schema) -> list[BlockPiece]:
    """The blocks of a dataset in order, those without rows left out. It is computed once, and Ray keeps the blocks.

    Raises:
        TableError: Its columns are not the schema's, or it cannot be computed.
    """
    ray_tasks.datasets()
    with library_errors(NAME, "a table"):
        names = list(dataset.schema().names)
    check_names(names, schema, NAME)
    ray = ray_tasks.imported()
    with library_errors(NAME, "a table"):
        blocks = dataset.materialize().to_arrow_refs()
        rows = ray.get([ray.remote(_rows).remote(block) for block in blocks])
    return [BlockPiece(count, block) for block, count in zip(blocks, rows, strict=True) if count]


def _rows(block: Any) -> int:
    return int(block.num_rows)
