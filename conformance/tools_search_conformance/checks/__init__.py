"""Every server check; importing this package declares them."""

from __future__ import annotations

from tools_search_conformance.checks import (
    callers,
    cancelling,
    changes,
    concurrency,
    consistency,
    cursors,
    errors,
    limits,
    matching,
    messages,
    negotiation,
    paging,
    parameters,
    results,
    sequences,
    stdio,
    transport,
)
from tools_search_conformance.target.bench import SERVER_CHECKS

__all__ = ["MODULES", "SERVER_CHECKS"]

MODULES = (
    callers,
    cancelling,
    changes,
    concurrency,
    consistency,
    cursors,
    errors,
    limits,
    matching,
    messages,
    negotiation,
    paging,
    parameters,
    results,
    sequences,
    stdio,
    transport,
)
"""The modules that declare the checks."""
