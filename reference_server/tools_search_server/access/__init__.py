"""Access to a gateway: principals, tokens, toolsets, rates."""
