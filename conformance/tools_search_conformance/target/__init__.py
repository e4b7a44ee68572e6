"""The server under test: how it is reached, its listings and pages, and queries made from its tools."""
