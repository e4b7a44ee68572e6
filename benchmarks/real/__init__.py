"""The dataset of real servers, and the command that collects their tools: `python -m benchmarks.real`."""
