"""What more processes of one catalog give: `python -m benchmarks.replicas`."""
