"""A client to copy: negotiate, search or fall back, federate."""
