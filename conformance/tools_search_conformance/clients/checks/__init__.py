"""Every client check. Importing this package declares them, in the order of the reports."""

from __future__ import annotations

from tools_search_conformance.clients.checks import (
    caching,
    concurrency,
    federation,
    negotiation,
    paging,
    requests,
    results,
)
from tools_search_conformance.clients.registry import declared_client_checks as client_checks
from tools_search_conformance.clients.registry import select_client_checks

__all__ = [
    "caching", "client_checks", "concurrency", "federation", "negotiation", "paging", "requests", "results",
    "select_client_checks",
]  # fmt: skip
