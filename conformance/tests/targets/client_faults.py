"""Clients with one rule broken, in modules named as the checks that find them.

The fault `circle-followed` is the class `CircleFollowed`, which overrides one decision of the miniature client. Where
that is one expression, it is one of many such classes that a function makes: `cursor-trimmed` is `cursor_trimmed`. With
`@prompts` after its name a fault is one where prompts are searched alone.
"""

from __future__ import annotations

import importlib

from .client_library import Client, Federation

_MODULES = ("caching", "federation", "negotiation", "paging", "requests", "results", "transports")


def find_client_fault(name: str) -> type[Client] | type[Federation]:
    """Return the client, or the federation of clients, that has the fault `name`."""
    name, _, member = name.partition("@")
    if member == "several":
        return _of_several(find_client_fault(name))
    if member:
        return type("Elsewhere", (Client,), {"others_types": {member: find_client_fault(name)}})
    names = ("".join(part.capitalize() for part in name.split("-")), name.replace("-", "_"))
    for module in _MODULES:
        defined = vars(importlib.import_module(f".client_faults_of_{module}", __package__))
        for each in names:
            if each in defined:
                return defined[each]
    raise LookupError(f"no client has the fault {name}")


def _of_several(fault: type[Client] | type[Federation]) -> type[Federation]:
    class OfSeveral(Federation):
        def __init__(self, clients: dict[str, Client]) -> None:
            super().__init__(clients)
            for client in clients.values():
                object.__setattr__(client, "__class__", fault)

    return OfSeveral
