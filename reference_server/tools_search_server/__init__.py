"""The reference server: makes a catalog, or all MCP servers of a configuration, searchable."""
