"""How quick a ranking is beside other engines: `python -m benchmarks.speed`."""
