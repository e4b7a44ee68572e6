"""Reports as the JSON that `--json` prints: camelCase, complete definitions, nothing shortened or cleaned.

Escaping is left to the JSON encoder, which writes every character beyond ASCII, and so every character that a terminal
would obey, as an escape.
"""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

from mcp_types import Tool

from tools_search_client.found import (
    FederatedListing,
    FederatedSearch,
    FoundTool,
    ServerDescription,
    ServerReport,
)

__all__ = ["definition_json", "description_json", "error_json", "listing_json", "search_json"]


def search_json(query: str, limit: int, answer: FederatedSearch) -> dict[str, Any]:
    """Return what `search --json` prints."""
    ranked = [_hit_json(rank, tool) for rank, tool in enumerate(answer.tools, start=1)]
    return {"query": query, "limit": limit, "tools": ranked, "servers": [_report_json(r) for r in answer.servers]}


def listing_json(listing: FederatedListing, status: Mapping[str, str] | None = None) -> dict[str, Any]:
    """Return what `tools --json` prints, with the status of each tool where there is one."""
    tools = [_named_json(tool) | ({"status": status[tool.name]} if status else {}) for tool in listing.tools]
    return {"tools": tools, "servers": [_report_json(report) for report in listing.servers]}


def description_json(description: ServerDescription) -> dict[str, Any]:
    """Return one server of what `servers --json` prints."""
    report = _report_json(description.report)
    del report["hits"]
    info = description.info
    return report | {
        "serverInfo": None if info is None else info.model_dump(by_alias=True, mode="json", exclude_none=True),
        "protocolVersion": description.protocol_version,
        "settings": description.settings,
        "tools": description.tools,
    }


def definition_json(tool: Tool) -> dict[str, Any]:
    """Return a definition as it was on the wire, as far as the protocol knows its members."""
    return tool.model_dump(by_alias=True, mode="json", exclude_none=True)


def error_json(error: Exception, message: str) -> dict[str, Any]:
    """Return what is printed instead of an answer."""
    return {"error": {"type": type(error).__name__, "message": message}}


def _named_json(tool: FoundTool) -> dict[str, Any]:
    return {"name": tool.name, "server": tool.server, "tool": definition_json(tool.tool)}


def _hit_json(rank: int, tool: FoundTool) -> dict[str, Any]:
    return (
        {"rank": rank}
        | _named_json(tool)
        | {
            "foundBy": tool.mode,
            "weight": round(tool.weight, 6),
            "score": tool.hit.score,
            "matched": tool.hit.matched,
            "group": tool.hit.group,
        }
    )


def _report_json(report: ServerReport) -> dict[str, Any]:
    failure = report.failure
    return {
        "server": report.server,
        "mode": report.mode,
        "era": report.era,
        "milliseconds": report.milliseconds,
        "hits": report.hits,
        "leftOut": report.left_out,
        "fallback": report.fallback,
        "failure": None
        if failure is None
        else {"kind": failure.kind, "message": failure.message, "code": failure.code},
    }
