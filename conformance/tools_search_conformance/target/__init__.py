"""The server under test: how it is reached, what it lists, and queries made from its tools."""
