"""A server of one catalog file: definitions, canned answers."""
