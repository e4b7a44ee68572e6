"""One server: connection, discovery, cache, faults."""
