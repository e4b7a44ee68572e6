"""Every client check. Importing this package declares them, in the order of the reports."""

from __future__ import annotations

from tools_search_conformance.clients.bench import CLIENT_CHECKS
from tools_search_conformance.clients.checks import (
    caching,
    concurrency,
    federation,
    negotiation,
    paging,
    requests,
    results,
    transports,
)

__all__ = ["CLIENT_CHECKS", "MODULES"]

MODULES = (caching, concurrency, federation, negotiation, paging, requests, results, transports)
"""The modules that declare the checks."""
