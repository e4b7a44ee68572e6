"""Many servers as one: configuration, fan-out, fusion, names."""
