"""Which order of many servers' answers is best: `python -m benchmarks.federation`."""
