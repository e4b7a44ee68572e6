"""A run: which checks, in which cells, and what came of each."""
