"""Whether one bad server costs a gateway more than that server: `python -m benchmarks.hostile`."""
