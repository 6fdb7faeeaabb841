"""Schemas, constraints, other people's metadata, and tables read from and written to files and frames."""
