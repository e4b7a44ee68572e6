"""What a search costs next to a request that does nothing, over real transports: `python -m benchmarks.endtoend`."""
