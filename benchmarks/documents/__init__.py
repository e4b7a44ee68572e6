"""How well resources are found by name and by content: `python -m benchmarks.documents`."""
