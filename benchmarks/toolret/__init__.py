"""Parts of the ToolRet benchmark as data sets of this project: `python -m benchmarks.toolret`."""
