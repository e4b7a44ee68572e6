"""Every server check, in the order of the draft's sections. Importing this package registers them."""

from __future__ import annotations

from tools_search_conformance.checks import (
    consistency,
    cursors,
    errors,
    limits,
    matching,
    negotiation,
    paging,
    parameters,
    results,
    sequences,
    transport,
)
from tools_search_conformance.registry import registered, select

__all__ = [
    "consistency",
    "cursors",
    "errors",
    "limits",
    "matching",
    "negotiation",
    "paging",
    "parameters",
    "registered",
    "results",
    "select",
    "sequences",
    "transport",
]
