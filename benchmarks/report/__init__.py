"""All tables and pictures from one command: `python -m benchmarks`."""
