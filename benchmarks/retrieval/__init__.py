"""How well a ranking finds the right tools: `python -m benchmarks.retrieval`."""
