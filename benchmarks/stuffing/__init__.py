"""What stuffing a description gains: `python -m benchmarks.stuffing`."""
