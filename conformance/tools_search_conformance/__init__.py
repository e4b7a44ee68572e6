"""The judge of `tools/search` implementations: raw JSON-RPC, and no knowledge but the draft's."""
