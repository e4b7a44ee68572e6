"""`tools-search-client demo`: search, call, fallback and verdict, end to end over published MCP servers."""
