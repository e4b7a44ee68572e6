"""The command `tools-search-client`."""
