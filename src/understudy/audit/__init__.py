"""The audit of a method: replay, noise and account on tables made from a schema, and attacks from end to end."""
