"""Whether a ranking says nothing where nothing fits: `python -m benchmarks.nothing`."""
