"""OpenTelemetry: what a collector receives from a gateway that is started as OpenTelemetry says, without any code."""

from __future__ import annotations

import sys
from collections.abc import Generator
from contextlib import contextmanager
from http.server import BaseHTTPRequestHandler, HTTPServer
from pathlib import Path
from queue import SimpleQueue
from threading import Thread
from typing import Any

import anyio
import anyio.to_thread
import pytest
from mcp import Client
from mcp_ext_tools_search.client import TOOLS_SEARCH, search_tools
from opentelemetry.proto.collector.trace.v1.trace_service_pb2 import ExportTraceServiceRequest

pytestmark = pytest.mark.anyio

SECRET = "what nobody else is to know"  # noqa: S105
INSTRUMENTED = "from opentelemetry.instrumentation.auto_instrumentation import run; run()"


@contextmanager
def collector() -> Generator[tuple[str, SimpleQueue[bytes]]]:
    """Collect what is exported over OTLP."""
    received: SimpleQueue[bytes] = SimpleQueue()

    class Handler(BaseHTTPRequestHandler):
        def do_POST(self) -> None:
            received.put(self.rfile.read(int(self.headers["Content-Length"])))
            self.send_response(200)
            self.send_header("Content-Length", "0")
            self.end_headers()

        def log_message(self, format: str, *args: Any) -> None:  # noqa: A002 - of the base class
            pass

    with HTTPServer(("127.0.0.1", 0), Handler) as server:
        thread = Thread(target=server.serve_forever)
        thread.start()
        try:
            yield f"http://127.0.0.1:{server.server_port}", received
        finally:
            server.shutdown()
            thread.join()


async def test_a_collector_receives_a_span_for_each_request_and_no_query(
    servers: Any, configuration: Any, raw: Any
) -> None:
    with anyio.fail_after(40), collector() as (endpoint, received):
        env = {
            "OTEL_EXPORTER_OTLP_ENDPOINT": endpoint,
            "OTEL_EXPORTER_OTLP_PROTOCOL": "http/protobuf",
            "OTEL_METRICS_EXPORTER": "none",
            "OTEL_LOGS_EXPORTER": "none",
        }
        serving = [
            str(Path(sys.executable).with_name("tools-search-server")),
            "--http",
            "127.0.0.1:0",
            "--config",
            str(configuration(good=raw("good"))),
        ]
        process = servers.start("-c", INSTRUMENTED, "--", *serving, env=env)
        line = await anyio.to_thread.run_sync(process.stdout.readline)
        async with Client(line.split('"')[3], extensions=[TOOLS_SEARCH]) as client:
            await search_tools(client, SECRET)
            await client.session.call_tool("good__plain", {"text": SECRET})
        process.terminate()
        assert await anyio.to_thread.run_sync(process.wait, 30) == 0
    exported = b"".join(received.get() for _ in range(received.qsize()))
    spans = [
        span
        for resource in ExportTraceServiceRequest.FromString(exported).resource_spans
        for scope in resource.scope_spans
        for span in scope.spans
    ]
    assert {"tools/search", "tools/call good__plain", "MCP send tools/list"} <= {span.name for span in spans}
    assert SECRET.encode() not in exported
