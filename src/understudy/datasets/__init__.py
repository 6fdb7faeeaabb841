"""Tables and databases to experiment with: simulated ones whose truth is known, public ones, and simulators."""

from understudy.datasets.databases import DATABASES, database_schema, database_schema_text, load_database, split_units
from understudy.datasets.hospital import broken_rules, hospital, hospital_schema, hospital_schema_text
from understudy.datasets.people import EXAMPLE_PARENTS, example, example_schema
from understudy.datasets.public import TABLES, DatasetError, adult_parts, checksum, load, schema, split

__all__ = [
    "DATABASES",
    "EXAMPLE_PARENTS",
    "TABLES",
    "DatasetError",
    "adult_parts",
    "broken_rules",
    "checksum",
    "database_schema",
    "database_schema_text",
    "example",
    "example_schema",
    "hospital",
    "hospital_schema",
    "hospital_schema_text",
    "load",
    "load_database",
    "schema",
    "split",
    "split_units",
]
