"""The miniature client after the contract of the official suite: `target.py one_shot_client [--fault NAME] URL`."""

from __future__ import annotations

import json
import os
import sys
from typing import Any

from .client_faults import find_client_fault
from .client_library import Client, InvalidError, RefusedError


def main() -> None:
    era, context = os.environ["MCP_CONFORMANCE_PROTOCOL_VERSION"], json.loads(os.environ["MCP_CONFORMANCE_CONTEXT"])
    kind: Any = find_client_fault(sys.argv[sys.argv.index("--fault") + 1]) if "--fault" in sys.argv else Client
    client: Client = kind({"transport": "http", "url": sys.argv[-1]}, era)
    try:
        client.open()
        match os.environ["MCP_CONFORMANCE_SCENARIO"]:
            case "tools-search/search":
                client.search(context["query"], context.get("limit"))
            case "tools-search/search-all":
                client.search_all(context["query"])
            case "tools-search/call":
                client.search_all(context["query"])
                client.call(context["name"], context["arguments"])
            case "tools-search/list-tools":
                client.list_tools()
            case _:
                sys.exit(1)
    except (RefusedError, InvalidError):
        sys.exit(1)
    finally:
        client.close()
