"""The command `login`, and what other commands do with the tokens."""

from __future__ import annotations

import json
import socket
import sys
import webbrowser
from collections.abc import Generator
from contextlib import contextmanager
from functools import partial
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from pathlib import Path
from resource import RLIMIT_FSIZE, getrlimit, setrlimit
from subprocess import PIPE, Popen
from threading import Thread
from unittest.mock import Mock

import httpx2
import pytest

from .conftest import Run

FOLLOWING = "import sys, httpx2; httpx2.get(sys.argv[1], follow_redirects=True)"


@contextmanager
def refusing_server() -> Generator[str]:
    """Serve nothing but 401, and say nothing of OAuth."""

    class Refusing(BaseHTTPRequestHandler):
        def do_POST(self) -> None:
            self.rfile.read(int(self.headers["Content-Length"]))
            self.do_GET()

        def do_GET(self) -> None:
            self.send_response(401)
            self.send_header("Content-Length", "0")
            self.end_headers()

        def log_message(self, format: str, *args: object) -> None:  # noqa: A002 - the name of the base class
            """Print nothing."""

    with ThreadingHTTPServer(("127.0.0.1", 0), Refusing) as server:
        thread = Thread(target=server.serve_forever)
        thread.start()
        try:
            yield f"http://127.0.0.1:{server.server_port}/mcp"
        finally:
            server.shutdown()
            thread.join(timeout=30)


@pytest.fixture(scope="module")
def url() -> Generator[str]:
    server = Path(__file__).parents[1] / "fixtures" / "servers" / "oauth.py"
    with Popen([sys.executable, str(server)], stdout=PIPE) as started:
        assert started.stdout is not None
        yield json.loads(started.stdout.readline())["url"]
        started.kill()


def test_a_server_that_asks_for_a_sign_in_is_searched_after_login_until_it_is_forgotten(
    run: Run, url: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
):
    browser = tmp_path / "browser"
    browser.write_text(f"#!{sys.executable}\n{FOLLOWING}\n")
    browser.chmod(0o700)
    monkeypatch.setenv("BROWSER", f"{browser} %s")
    monkeypatch.setenv("XDG_STATE_HOME", str(tmp_path))
    before = run("search", "create an invoice", "--url", url)
    assert before.code == 1
    assert "sign in with OAuth (`tools-search-client login` with the same options)" in before.errors
    done = run("login", "--url", url, "--wait", "20", "--json")
    assert done.code == 0
    assert done.json == {"servers": [{"server": url, "status": "signedIn", "failure": None}]}
    assert "Sign in at http://127.0.0.1:" in done.errors
    assert f"{url}: signed in" in done.errors
    assert run("call", "create_invoice", "{}", "--url", url, "--yes").output == "done\n"
    forgotten = run("login", "--url", url, "--forget", "--json")
    assert forgotten.json == {"servers": [{"server": url, "status": "signedOut", "failure": None}]}
    assert list((tmp_path / "tools-search-client" / "tokens").iterdir()) == []
    again = run("login", "--url", url, "--forget", "--json")
    assert again.json == {"servers": [{"server": url, "status": "notSignedIn", "failure": None}]}
    assert (again.code, again.errors) == (0, f"{url}: was not signed in\n")
    assert run("search", "create an invoice", "--url", url).code == 1


def test_more_is_granted_and_a_registered_client_is_used_where_the_options_say_so(
    run: Run, url: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
):
    monkeypatch.setattr(webbrowser, "open", partial(httpx2.get, follow_redirects=True))
    monkeypatch.setenv("XDG_STATE_HOME", str(tmp_path))
    monkeypatch.setenv("MY_SECRET", "s3cret")
    mine = ("--client-id", "own", "--client-secret-env", "MY_SECRET")
    assert run("login", "--url", url, "--wait", "20", *mine).code == 0
    done = run("login", "--url", url, "--wait", "20", "--scope", "invoices:write", *mine)
    assert f"{url}: signed in" in done.errors
    (file,) = (tmp_path / "tools-search-client" / "tokens").iterdir()
    kept = json.loads(file.read_text())
    assert (kept["client"]["client_id"], kept["tokens"]["scope"]) == ("own", "tools:search invoices:write")


def test_a_command_that_cannot_store_refreshed_tokens_goes_on_and_warns(
    run: Run, url: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
):
    monkeypatch.setattr(webbrowser, "open", partial(httpx2.get, follow_redirects=True))
    monkeypatch.setenv("XDG_STATE_HOME", str(tmp_path))
    assert run("login", "--url", url, "--wait", "20").code == 0
    (file,) = (tmp_path / "tools-search-client" / "tokens").iterdir()
    kept = json.loads(file.read_text())
    file.write_text(json.dumps(kept | {"tokens": kept["tokens"] | {"access_token": "rejected"}}))
    usual = getrlimit(RLIMIT_FSIZE)
    setrlimit(RLIMIT_FSIZE, (0, usual[1]))  # as on a full disk
    try:
        outcome = run("search", "create an invoice", "--url", url)
    finally:
        setrlimit(RLIMIT_FSIZE, usual)
    assert outcome.code == 0, outcome.errors
    assert "create_invoice" in outcome.output
    warning = "Warning: cannot store refreshed tokens, so another process may have to sign in again: "
    assert outcome.errors.count(warning) == 1, outcome.errors


def test_login_with_a_client_says_what_is_missing(run: Run, tmp_path: Path):
    config = tmp_path / "mcp.json"
    config.write_text(json.dumps({"mcpServers": {name: {"url": "http://127.0.0.1:9/mcp"} for name in "ab"}}))
    for options, told in (
        (("--client-secret-env", "MINE"), "--client-secret-env requires --client-id"),
        (("--client-id", "me", "--client-secret-env", "MINE"), "the environment variable 'MINE' is not set"),
        (("--scope", "more"), "name a server"),
    ):
        outcome = run("login", "--config", config, *options, *(["a"] if "MINE" in options else []))
        assert (outcome.code, told in outcome.errors) == (2, True), outcome.errors


@pytest.mark.parametrize("opens", [True, False])
def test_login_says_where_nobody_comes_back_and_before_that_where_no_browser_opens(
    run: Run, url: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch, opens: bool
):
    monkeypatch.setattr("webbrowser.open", Mock(return_value=opens))  # a browser that shows nothing, or none
    monkeypatch.setenv("XDG_STATE_HOME", str(tmp_path))
    outcome = run("login", "--url", url, "--wait", "0.1")
    assert (outcome.code, outcome.output) == (1, "")
    assert "the sign-in failed: nobody signed in within 0.1 seconds: run the command again; --wait" in outcome.errors
    assert ("\nno browser could be opened; to sign in, open the address yourself" in outcome.errors) is not opens


def test_login_says_what_to_do_where_the_port_or_the_client_or_oauth_itself_is_of_no_use(
    run: Run, url: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
):
    monkeypatch.setattr(webbrowser, "open", partial(httpx2.get, follow_redirects=True))
    monkeypatch.setenv("XDG_STATE_HOME", str(tmp_path))
    with socket.create_server(("127.0.0.1", 0)) as taken:
        port = str(taken.getsockname()[1])
        busy = run("login", "--url", url, "--port", port)
    assert (busy.code, f"cannot listen on port {port}: " in busy.errors) == (2, True), busy.errors
    secretive = run("login", "--url", url, "--wait", "20", "--client-id", "own")  # it has a secret
    assert (secretive.code, "--client-secret-env" in secretive.errors) == (1, True), secretive.errors
    with refusing_server() as address:
        foreign = run("login", "--url", address)
        assert (foreign.code, "with --client-id. A server that does not use OAuth" in foreign.errors) == (1, True)
        assert "or --header for --url" in run("tools", "--url", address).errors


def test_login_wants_a_server_with_an_address(run: Run, config: Path):
    outcome = run("login", "one", "--config", config)
    assert outcome.code == 2
    assert "no such HTTP server" in outcome.errors
