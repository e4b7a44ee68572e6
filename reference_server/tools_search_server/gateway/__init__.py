"""The gateway: all upstream servers' tools under public names, search, relay, change notifications."""
