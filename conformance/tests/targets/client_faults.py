"""Clients with one rule broken, in modules named as the checks that find them.

The fault `cursor-trimmed` is the class `CursorTrimmed`, which overrides one decision of the miniature client. With
`@prompts` after its name it is one where prompts are searched alone.
"""

from __future__ import annotations

import importlib

from .client_library import Client, Federation

_MODULES = ("caching", "federation", "negotiation", "paging", "requests", "results", "transports")


def find_client_fault(name: str) -> type[Client] | type[Federation]:
    """Return the client, or the federation of clients, that has the fault `name`."""
    name, _, member = name.partition("@")
    if member:
        return type("Elsewhere", (Client,), {"others_types": {member: find_client_fault(name)}})
    class_name = "".join(part.capitalize() for part in name.split("-"))
    for module in _MODULES:
        if found := vars(importlib.import_module(f".client_faults_of_{module}", __package__)).get(class_name):
            return found
    raise LookupError(f"no client has the fault {name}")
