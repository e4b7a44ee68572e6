"""Endpoints for hosts without the extension: one for each compatibility mode, which does not advertise it."""
