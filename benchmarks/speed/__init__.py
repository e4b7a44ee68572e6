"""Speed of a ranking next to other engines: `python -m benchmarks.speed`."""
