"""Tables to experiment with: simulated people whose network is known, public tables, and simulators."""

from understudy.datasets.people import EXAMPLE_PARENTS, example, example_schema
from understudy.datasets.public import TABLES, DatasetError, adult_parts, checksum, load, schema, split

__all__ = [
    "EXAMPLE_PARENTS",
    "TABLES",
    "DatasetError",
    "adult_parts",
    "checksum",
    "example",
    "example_schema",
    "load",
    "schema",
    "split",
]
