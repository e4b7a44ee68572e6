"""The command `tools-search-client`: what the library can do, for people and for scripts."""
