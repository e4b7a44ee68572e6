"""Runs: registering and selecting checks, options, baselines, judging a check, and conducting a whole run."""
