"""Ground for the other folders: configuration errors, limits, paging, redaction."""
