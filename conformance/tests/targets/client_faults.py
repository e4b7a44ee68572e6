"""Clients with one rule broken: each class overrides one decision of the miniature client."""

from __future__ import annotations

import importlib
from collections.abc import Callable
from typing import Final, TypeVar

from .miniature_client import Client, Federation

_FAULTS: Final[dict[str, type[Client] | type[Federation]]] = {}
_KINDS: Final = (
    "answers",
    "caching",
    "fallback",
    "federation",
    "headers",
    "negotiation",
    "pages",
    "requests",
    "results",
)

Kind = TypeVar("Kind", bound=type[Client] | type[Federation])


def find_client_fault(name: str) -> type[Client] | type[Federation]:
    """Return the client, or the federation of clients, that has the fault `name`."""
    for kind in _KINDS:
        importlib.import_module(f".client_faults_of_{kind}", __package__)  # where they register themselves
    return _FAULTS[name]


def fault(name: str) -> Callable[[Kind], Kind]:
    """Register a class as the fault `name`."""

    def register(kind: Kind) -> Kind:
        _FAULTS[name] = kind
        return kind

    return register
