"""`tools-search-client demo`: the whole chain at work over real, published MCP servers."""
