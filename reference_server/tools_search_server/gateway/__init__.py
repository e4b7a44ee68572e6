"""The gateway: tools of all upstream servers under public names, search, relay, changes."""
