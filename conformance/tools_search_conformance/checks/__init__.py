"""Every server check, in the order of the draft's sections. Importing this package registers them."""

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
from tools_search_conformance.run.registry import registered, select

__all__ = [
    "callers",
    "cancelling",
    "changes",
    "concurrency",
    "consistency",
    "cursors",
    "errors",
    "limits",
    "matching",
    "messages",
    "negotiation",
    "paging",
    "parameters",
    "registered",
    "results",
    "select",
    "sequences",
    "stdio",
    "transport",
]
