"""A gateway for hosts without the extension: each mode is an endpoint of its own, which does not advertise it."""
