"""Models of databases: one conditional model a table, each drawn given its parent and its earlier siblings.

The one rule: a unit is one row of the root with everything that hangs on it, and every mechanism counts it as one.
"""
