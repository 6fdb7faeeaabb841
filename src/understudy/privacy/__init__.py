"""The trusted base: everything that reads exact rows, and everything that accounts for it."""
