"""The miniature over Streamable HTTP: JSON in the modern era, event streams and sessions in the legacy one."""

from __future__ import annotations

import json
import secrets
import select
import socket
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from typing import TYPE_CHECKING, Any, Final

from .faults import RefusalError, caller, member
from .faults import session as session_name
from .miniature import LEGACY, META, MODERN

if TYPE_CHECKING:
    from .miniature import Json, Miniature

_STATUS: Final = {-32601: 404, -32602: 400, -32600: 400, -32700: 400, -32020: 400, -32021: 400, -32022: 400}


class Endpoint(BaseHTTPRequestHandler):
    """Answers the requests of one connection."""

    protocol_version = "HTTP/1.1"
    disable_nagle_algorithm = True
    wbufsize = -1
    miniature: Miniature
    sessions: dict[str, Json]

    def do_POST(self) -> None:
        body = self.miniature.fault.body(self.rfile, int(self.headers.get("Content-Length", 0)))
        try:
            message: Json = json.loads(body)
        except ValueError:
            self._send(400, {"jsonrpc": "2.0", "id": None, "error": {"code": -32700, "message": "no JSON"}})
            return
        if f"{META}protocolVersion" in member(member(message, "params"), "_meta"):
            self._modern(message)
        else:
            self._legacy(message)

    def do_DELETE(self) -> None:
        self.sessions.pop(self.headers.get("Mcp-Session-Id", ""), None)
        self._send(200, None)

    def _modern(self, message: Json) -> None:
        response: Json | None
        try:
            self.miniature.fault.headers(message, dict(self.headers.items()))
            response = self.miniature.respond(message, {"token": self._token()})
        except RefusalError as refusal:
            response = {
                "jsonrpc": "2.0",
                "id": message.get("id"),
                "error": {"code": refusal.code, "message": refusal.message},
            }
        code: int | None = member(response or {}, "error").get("code")
        status = 202 if response is None else _STATUS.get(code or 0, 200)
        self._send(self.miniature.fault.status(code, status), response, streamed=self.miniature.streams(MODERN))

    def _legacy(self, message: Json) -> None:
        name = self.headers.get("Mcp-Session-Id", "")
        if message.get("method") == "initialize":
            self.sessions[name := secrets.token_hex(8)] = {}
        session_name.set(name)
        session = self.sessions.get(name, {})
        session["token"] = self._token()
        response = self.miniature.respond(message, session)
        if response is None:
            self._send(self.miniature.fault.status(None, 202), None)
            return
        self._send(200, response, {"Mcp-Session-Id": name}, streamed=self.miniature.streams(LEGACY))

    def _token(self) -> str:
        token = self.miniature.fault.token(self.headers.get("Authorization", "").removeprefix("Bearer "))
        caller.set(token)
        return token

    def _send(
        self, status: int, message: Json | None, headers: dict[str, str] | None = None, *, streamed: bool = False
    ) -> None:
        if select.select([self.connection], [], [], 0)[0] and not self.connection.recv(1, socket.MSG_PEEK):
            self.miniature.fault.abandoned()
        body, kind = b"", "application/json"
        if message is not None:
            body = self.miniature.fault.bytes({}, self.miniature.line(message))
        if streamed and message is not None and status == 200:
            body, kind = b": a comment\n\nevent: message\ndata: " + body + b"\n\n", "text/event-stream"
        self.send_response(status)
        if message is not None:
            self.send_header("Content-Type", self.miniature.fault.content_type(kind))
        for header, value in {**(headers or {}), "Content-Length": str(len(body))}.items():
            self.send_header(header, value)
        self.end_headers()
        self.wfile.write(body)
        self.wfile.flush()

    def log_message(self, format: str, *args: Any) -> None:  # noqa: A002 - the base class names it so
        """Say nothing."""


def serve_http(miniature: Miniature, endpoint: type[Endpoint] = Endpoint) -> None:
    """Serve on a free port, whose address is the first line on stdout."""
    endpoint.miniature, endpoint.sessions = miniature, {}
    ThreadingHTTPServer.request_queue_size = 64
    server = ThreadingHTTPServer(("127.0.0.1", 0), endpoint)
    server.daemon_threads = True
    print(json.dumps({"url": f"http://127.0.0.1:{server.server_port}/mcp"}), flush=True)  # noqa: T201
    server.serve_forever()
