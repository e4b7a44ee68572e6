"""HTTPS with a certificate authority of its own, as companies have them."""

from __future__ import annotations

import json
import ssl
from collections.abc import Callable, Generator
from contextlib import aclosing
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from pathlib import Path
from threading import Thread
from typing import Any

import pytest
import trustme
from click.testing import CliRunner
from tools_search_conformance.cli.cli import cli
from tools_search_conformance.wire.http import HttpTransport
from tools_search_conformance.wire.http_client import authorities

pytestmark = pytest.mark.anyio

REQUEST: dict[str, Any] = {"jsonrpc": "2.0", "id": 1, "method": "ping"}


class _Handler(BaseHTTPRequestHandler):
    def do_POST(self) -> None:
        self.rfile.read(int(self.headers["Content-Length"]))
        body = json.dumps({"jsonrpc": "2.0", "id": 1, "result": {}}).encode()
        self.send_response(200)
        self.send_header("Content-Length", str(len(body)))
        self.end_headers()
        self.wfile.write(body)

    def log_message(self, format: str, *args: Any) -> None:  # noqa: A002 - the base class names it so
        """Say nothing."""


@pytest.fixture
def ca_file(tmp_path: Path) -> Path:
    return tmp_path / "ca.pem"


@pytest.fixture
def url(ca_file: Path) -> Generator[str]:
    authority = trustme.CA()
    authority.cert_pem.write_to_path(ca_file)
    context = ssl.SSLContext(ssl.PROTOCOL_TLS_SERVER)
    authority.issue_cert("127.0.0.1").configure_cert(context)  # pyright: ignore[reportUnknownMemberType] - untyped
    with ThreadingHTTPServer(("127.0.0.1", 0), _Handler) as server:
        server.socket = context.wrap_socket(server.socket, server_side=True)
        thread = Thread(target=server.serve_forever)
        thread.start()
        yield f"https://127.0.0.1:{server.server_port}/mcp"
        server.shutdown()
        thread.join()


@pytest.mark.parametrize("given", ["option", "variable"])
async def test_an_authority_that_was_named_is_trusted(
    given: str, url: str, ca_file: Path, monkeypatch: pytest.MonkeyPatch
):
    authorities.cache_clear()
    if given == "variable":
        monkeypatch.setenv("SSL_CERT_FILE", str(ca_file))
    async with aclosing(HttpTransport(url, ca_file=str(ca_file) if given == "option" else None)) as transport:
        assert (await transport.request(REQUEST, {}, 10)).message is not None
    authorities.cache_clear()


async def test_an_unknown_authority_is_not_trusted_and_the_way_to_trust_it_is_named(url: str):
    async with aclosing(HttpTransport(url)) as transport:
        answer = await transport.request(REQUEST, {}, 10)
    assert answer.message is None
    assert "--ca-file FILE" in str(answer.fault)


def test_a_file_without_certificates_is_wrong_usage(tmp_path: Path):
    (tmp_path / "none.pem").write_text("none")
    arguments = ["server", "--url", "https://127.0.0.1:1/", "--ca-file", str(tmp_path / "none.pem")]
    ended = CliRunner().invoke(cli, arguments)
    assert ended.exit_code == 2
    assert "cannot read certificate authorities from" in ended.output


async def test_a_variable_that_names_no_authorities_is_named_where_they_are_needed(
    url: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
):
    authorities.cache_clear()
    monkeypatch.setenv("SSL_CERT_FILE", str(tmp_path / "missing.pem"))
    async with aclosing(HttpTransport(url)) as transport:
        answer = await transport.request(REQUEST, {}, 10)
    assert f"cannot read certificate authorities from '{tmp_path / 'missing.pem'}'" in str(answer.fault)


def test_a_server_on_stdio_needs_no_authorities(target: Callable[..., tuple[str, ...]], tmp_path: Path):
    authorities.cache_clear()
    arguments = ["server", "--only", "query-blank", "--era", "2026-07-28", "--out", str(tmp_path), "--"]
    missing = {"SSL_CERT_FILE": str(tmp_path / "missing.pem")}
    ended = CliRunner().invoke(cli, [*arguments, *target("miniature")], env=missing)
    assert ended.exit_code == 0, ended.output
    assert authorities.cache_info().misses == 0
