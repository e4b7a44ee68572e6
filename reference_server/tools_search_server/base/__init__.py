"""What the other folders share: errors for callers, limits, paging, redaction."""
