"""The cost of the gateway: `python -m benchmarks.overhead`."""
