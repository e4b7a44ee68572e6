"""The reference server: a catalog of tools, or all the MCP servers of one configuration, searchable."""
