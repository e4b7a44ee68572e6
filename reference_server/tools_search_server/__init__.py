"""The reference server: a catalogue of tools, or all the MCP servers of one configuration, searchable."""
