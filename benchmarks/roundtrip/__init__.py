"""A search from the wire to the wire, next to a request that does nothing: `python -m benchmarks.roundtrip`."""
