"""Tokens, requests and tools found when a model loads tools on demand: `python -m benchmarks.context`."""
