"""Upstream servers: connection, supervision, listings, notifications, delegated search."""
