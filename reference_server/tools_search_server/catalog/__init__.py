"""The server of a single catalog: its definitions and canned answers."""
