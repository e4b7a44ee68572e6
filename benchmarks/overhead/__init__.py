"""What the gateway costs: `python -m benchmarks.overhead`."""
