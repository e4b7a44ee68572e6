"""Tokens, requests and tools found with tools on demand in front of a model: `python -m benchmarks.context`."""
