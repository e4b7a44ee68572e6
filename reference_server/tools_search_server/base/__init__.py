"""What the other folders share: arguments, errors for callers, limits, paging, redaction."""
