"""The cost of finding tools with `tools/search`, with a search tool and by listing: `python -m benchmarks.method`."""
