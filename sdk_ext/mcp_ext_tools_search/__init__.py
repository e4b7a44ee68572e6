"""The `tools/search` extension for the Python MCP SDK: experimental and unofficial."""
