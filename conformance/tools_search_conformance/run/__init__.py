"""Runs: declaring and choosing checks, options, baselines, judging one check, and the frame of a whole run."""
