"""The reference server: makes a catalog, or all MCP servers in a configuration, searchable."""
