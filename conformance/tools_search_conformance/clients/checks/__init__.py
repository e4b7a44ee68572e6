"""Every client check, in the order of the draft's sections. Importing this package declares them."""

from __future__ import annotations

from tools_search_conformance.clients.checks import (
    advertisement,
    caching,
    concurrency,
    cursors,
    declaring,
    failures,
    fallback,
    federation,
    pages,
    requests,
    results,
    transport,
)
from tools_search_conformance.clients.registry import declared_client_checks as client_checks
from tools_search_conformance.clients.registry import select_client_checks

__all__ = [
    "advertisement",
    "caching",
    "client_checks",
    "concurrency",
    "cursors",
    "declaring",
    "failures",
    "fallback",
    "federation",
    "pages",
    "requests",
    "results",
    "select_client_checks",
    "transport",
]
