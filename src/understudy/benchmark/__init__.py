"""Grids, the runner, results, the scoreboard and figures."""
