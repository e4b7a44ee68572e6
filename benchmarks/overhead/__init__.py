"""The gateway's overhead: `python -m benchmarks.overhead`."""
