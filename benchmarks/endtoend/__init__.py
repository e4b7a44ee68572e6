"""What a search costs beside a request that does nothing, over real transports: `python -m benchmarks.endtoend`."""
