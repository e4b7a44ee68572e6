"""The cost of finding tools by `tools/search`, by a search tool and by listing: `python -m benchmarks.method`."""
