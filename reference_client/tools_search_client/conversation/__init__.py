"""A conversation that loads tools on demand: state between a host's model and its servers, independent of providers."""
