"""The judges: how near a synthetic table is to a real one, and how near a learned graph to the true one.

The one rule: judges see the real rows and pay nothing, so whatever they say is not covered by the budget.
"""
