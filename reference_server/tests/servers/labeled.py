"""A legacy MCP server that says what its tools are about: groups, tags, related tools, examples. Standard library only.

Calls answer with themselves.
"""

from __future__ import annotations

import json
from typing import Any

from jsonrpc import requests, send, send_unknown

ID = "io.github.tools-search/tools-search"
LABELS: dict[str, dict[str, Any]] = {
    "scrape_url": {
        "group": "scraping",
        "tags": ["web", "html", "http"],
        "related": ["save_page", "unheard_of", "scrape_url"],
        "examples": [{"arguments": {"url": "https://example.com"}}],
    },
    "scrape_with_js": {"group": "scraping", "tags": ["web", "html", "async"]},
    "fetch_feed": {"group": "scraping", "tags": ["news"]},
    "extract_links": {"group": "parsing", "tags": ["html", "links"]},
    "save_page": {"group": "storage", "tags": 7, "aliases": ["bookmark"]},
    "odd": {"group": ["no text"], "category": {}, "related": "none", "examples": 3},
}
DESCRIPTIONS = {
    "scrape_url": "Scrape a webpage at an address",
    "scrape_with_js": "Scrape a webpage that needs JavaScript",
    "fetch_feed": "Fetch the latest items",
    "extract_links": "Extract all links from a text",
    "save_page": "Keep a copy for later",
    "odd": "Has labels of no use",
}
SCHEMA: dict[str, Any] = {
    "type": "object",
    "properties": {"url": {"type": "string"}, "depth": {"type": "integer", "maximum": 3}},
    "required": ["url"],
    "additionalProperties": False,
}


def answer(method: str, params: dict[str, Any]) -> dict[str, Any]:
    if method == "initialize":
        info = {"name": "labeled", "version": "1"}
        return {"protocolVersion": params["protocolVersion"], "capabilities": {"tools": {}}, "serverInfo": info}
    if method == "ping":
        return {}
    if method == "tools/list":
        return {
            "tools": [
                {"name": name, "description": DESCRIPTIONS[name], "inputSchema": SCHEMA, "_meta": {ID: labels}}
                for name, labels in LABELS.items()
            ]
        }
    call = {"name": params["name"], "arguments": params["arguments"]}
    return {"content": [{"type": "text", "text": json.dumps(call)}], "structuredContent": call}


for own, asked, given in requests():
    if asked == "server/discover":
        send_unknown(own)
    else:
        send(id=own, result=answer(asked, given))
