"""Databases: fits of many tables at once, and what is left after them.

The one rule: a unit is one row of the root with everything that hangs on it, and one promise covers all tables.
"""
