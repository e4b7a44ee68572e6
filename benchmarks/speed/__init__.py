"""The speed of a ranking compared with other engines: `python -m benchmarks.speed`."""
