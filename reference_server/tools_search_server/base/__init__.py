"""Shared code: errors for callers, limits, paging, redaction."""
