"""Every server check; importing this package declares them."""

from __future__ import annotations

from tools_search_conformance.checks import (
    callers,
    changes,
    concurrency,
    consistency,
    matching,
    negotiation,
    paging,
    parameters,
    protocol,
    results,
    sequences,
)
from tools_search_conformance.target.bench import SERVER_CHECKS

__all__ = ["MODULES", "SERVER_CHECKS"]

MODULES = (
    callers, changes, concurrency, consistency, matching, negotiation, paging, parameters,
    protocol, results, sequences,
)  # fmt: skip
"""The modules that declare the checks."""
