"""What more processes of one catalogue give: `python -m benchmarks.replicas`."""
