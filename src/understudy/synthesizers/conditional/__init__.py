"""Conditional densities: the columns of a row of children, each drawn given its context and the columns before it.

The one rule: rows are read by `measuring` alone, through mechanisms. Everything else is made of what these released.
"""
