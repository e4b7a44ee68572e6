"""Converts parts of the ToolRet benchmark to this project's datasets: `python -m benchmarks.toolret`."""
