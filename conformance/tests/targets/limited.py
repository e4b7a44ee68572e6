"""The miniature behind a proxy that limits the rate of requests and knows nothing of JSON-RPC.

    target.py limited [--every N] [--after N] [--retry-after TEXT] [--status N] [--fault NAME]

It refuses every so many requests, or all after so many, and serves the catalog that TOOLS_SEARCH_CATALOG names.
"""

from __future__ import annotations

import argparse
import json
import os
from itertools import count
from pathlib import Path
from typing import TYPE_CHECKING

from .faults import find_fault
from .miniature_features import Fixture
from .miniature_http import Endpoint, serve_http

if TYPE_CHECKING:
    from collections.abc import Iterator


class Limited(Endpoint):
    """Refuses requests before they are read."""

    arguments: argparse.Namespace
    requests: Iterator[int] = count(1)

    def do_POST(self) -> None:
        number = next(self.requests)
        if number % self.arguments.every and number <= self.arguments.after:
            super().do_POST()
            return
        self.rfile.read(int(self.headers.get("Content-Length", 0)))
        body = json.dumps({"error": "Too Many Requests"}).encode()
        self.send_response(self.arguments.status)
        if self.arguments.retry_after:
            self.send_header("Retry-After", self.arguments.retry_after)
        self.send_header("Content-Type", "application/json")
        self.send_header("Content-Length", str(len(body)))
        self.end_headers()
        self.wfile.write(body)


def main() -> None:
    parser = argparse.ArgumentParser()
    parser.add_argument("--every", type=int, default=10**9)
    parser.add_argument("--after", type=int, default=10**9)
    parser.add_argument("--retry-after", default="")
    parser.add_argument("--status", type=int, default=429)
    parser.add_argument("--fault", default="none")
    Limited.arguments = parser.parse_args()
    serve_http(Fixture(Path(os.environ["TOOLS_SEARCH_CATALOG"]), find_fault(Limited.arguments.fault)), Limited)
