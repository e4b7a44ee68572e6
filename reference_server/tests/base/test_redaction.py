"""What the configuration keeps secret is in nothing that a gateway logs or passes on of a server's words."""

from __future__ import annotations

import base64
import json
import re
import sys
import time
from pathlib import Path
from typing import Any
from urllib.parse import quote

import anyio
import anyio.to_thread
import pytest
from mcp import Client, MCPError
from mcp.shared.message import SessionMessage
from mcp_types import ErrorData, JSONRPCError
from tools_search_hosts import HttpTarget, StdioTarget, Target, load_host_file
from tools_search_server.base.redaction import Secrets, printable, quoted

pytestmark = pytest.mark.anyio

TELLTALE = Path(__file__).parents[1] / "servers" / "telltale.py"
SECRET = "s3cret-and-long-enough"  # noqa: S105
BASIC = base64.b64encode(b"me:pass/word1").decode()


@pytest.mark.rotating
@pytest.mark.parametrize("transport", ["stdio", "http", "sse"])
@pytest.mark.parametrize("mode", ["auto", "legacy"])
async def test_a_key_that_a_server_repeats_reaches_no_log_no_error_and_no_progress(
    configuration: Any, servers: Any, unused_tcp_port: int, tmp_path: Path, transport: str, mode: str
) -> None:
    environment = {"KEY": SECRET}
    if transport == "stdio":
        entry: dict[str, Any] = {"command": sys.executable, "args": [str(TELLTALE), "stdio"], "env": environment}
    else:
        servers.start(str(TELLTALE), transport, str(unused_tcp_port), env=environment)
        url = f"http://127.0.0.1:{unused_tcp_port}/mcp"
        entry = {"url": url, "headers": {"Authorization": f"Bearer {SECRET}"}, "type": transport}
    passed_on: list[str | None] = []
    heard = anyio.Event()

    async def hear(progress: float, total: float | None, message: str | None) -> None:
        passed_on.append(message)
        heard.set()

    log = tmp_path / "log"
    with anyio.fail_after(90), log.open("w") as stderr:
        file = str(configuration(telling=entry))
        at = await anyio.to_thread.run_sync(lambda: servers.start_http("--config", file, stderr=stderr))
        async with Client(at, mode=mode) as client:
            while not (await client.session.list_tools()).tools:  # noqa: ASYNC110 - it may have been asked too early
                await anyio.sleep(0.1)
            with pytest.raises(MCPError) as refused:
                await client.session.call_tool("telling__refuse", {})
            failed = await client.session.call_tool("telling__fail", {}, progress_callback=hear)
            await heard.wait()
            answered = await client.session.call_tool("telling__answer", {})
        async with Client(at, mode=mode) as client:  # greeted when the server is there for certain
            said = client.instructions
    assert refused.value.message == "boom … end"
    assert refused.value.data["all"] == ["…"]
    assert SECRET not in str(refused.value.error)
    assert failed.is_error
    assert [block.model_dump()["text"] for block in failed.content] == ["401 for …"]
    assert failed.structured_content == {"key": "…"}
    assert passed_on == ["half of …"]
    assert "Connected with …." in (said or "")
    # What was asked for is the caller's, in any wording.
    assert [block.model_dump()["text"] for block in answered.content] == [f"401 for {SECRET}"]
    assert SECRET[:8] not in log.read_text()
    assert transport != "stdio" or "telling: asked with …" in log.read_text()


@pytest.mark.parametrize(
    ("target", "text", "shown"),
    [
        (StdioTarget("x", ("--key=abcdefgh", "abcd"), {"KEY": "ijklmnop"}), "abcdefgh ijklmnop abcd", "… … abcd"),
        (HttpTarget("https://me:password1@host/mcp?k=abcd%20efg"), "password1 abcd efg abcd%20efg mcp", "… … … mcp"),
        (HttpTarget("https://host", {"Authorization": "Bearer abcdefgh"}), "key abcdefgh; Bearer abcdefgh", "key …; …"),
        (HttpTarget("https://h", {"Authorization": f"Basic {BASIC}"}), f"{BASIC} pass/word1 pass%2Fword1", "… … …"),
        (HttpTarget("https://me:pass%2Fword1@h/mcp"), f"pass/word1 {BASIC}", "… …"),
        (HttpTarget("https://h/k/0123456789abcdefXYZ/mcp"), "GET /k/0123456789abcdefXYZ/mcp", "GET /k/…/mcp"),
        (StdioTarget("x", (), {"DB_PASSWORD": "abc1"}), "no abc1, abc123", "no …, abc123"),
        (StdioTarget("x", ("--api-key", "plainkey", "--root", "/srv/data")), "plainkey at /srv/data", "… at /srv/data"),
        (StdioTarget("x", ("--header", "Authorization: Bearer abc!defg")), "sent abc!defg", "sent …"),
        (StdioTarget("x", ("postgres://me:passw0rd@db/sales",)), "passw0rd of sales", "… of sales"),
        (StdioTarget("x", ("-e", "TOKEN=abcdefgh")), "abcdefgh", "…"),
        (StdioTarget("x", ("0123456789abcdefXYZ",)), "0123456789abcdefXYZ", "…"),
        (StdioTarget("x", (), {"URL": "redis://:hunter22@h:1/0"}), "hunter22 at redis://:hunter22@h", "… at redis://…@h"),
        (StdioTarget("x", (), {"PEM_KEY": "--BEGIN--\nMIIEvQIBADANBgkqhkiG\n--END--"}), "MIIEvQIBADANBgkqhkiG", "…"),
        (StdioTarget("x", (), {"V": 'a"bc\u00fc12345'}), '{"v": "a\\"bc\\u00fc12345"}', '{"v": "…"}'),
        (StdioTarget("x", (), {"V": "a b+c/12345x"}), f"?v={quote('a b+c/12345x', safe='')}", "?v=…"),
        (StdioTarget("x", expanded={"NAME": "abc123def"}), "abc123def", "…"),
        (StdioTarget("x"), "as sk-proj-0123456789abcdefg", "as …"),
        (StdioTarget("x"), "Authorization: Bearer 0123456789abcdefg", "Authorization: Bearer …"),
        (StdioTarget("x"), "at https://me:word@host/x", "at https://…@host/x"),
    ],
)  # fmt: skip
def test_what_the_configuration_keeps_secret_is_masked_however_it_is_written(
    target: Target, text: str, shown: str
) -> None:
    assert Secrets(target).masked(text) == shown


@pytest.mark.parametrize(
    "value",
    ["1", "true", "production", "us-east-1", "/home/me/projects", "~/notes.md", "info", "en_US.UTF-8", "8000",
     "http://127.0.0.1:8000/mcp", "@modelcontextprotocol/server-git", "2025-06-18", "me@example.com"],
)  # fmt: skip
def test_words_numbers_and_places_are_no_secrets(value: str) -> None:
    text = f"cannot use {value} here"
    assert Secrets(StdioTarget("x", (value, f"--root={value}"), {"SETTING": value})).masked(text) == text


def test_variables_that_an_entry_refers_to_are_kept_secret(tmp_path: Path) -> None:
    entry = {"command": "run", "args": ["--note", "by ${NAME} and ${OTHER:-someone}"]}
    (tmp_path / "mcp.json").write_text(json.dumps({"mcpServers": {"one": entry}}))
    file = load_host_file(tmp_path / "mcp.json", environment={"NAME": SECRET})
    [server] = file.servers
    assert isinstance(server.target, StdioTarget)
    assert server.target.expanded == {"NAME": SECRET, "OTHER": "someone"}
    assert Secrets(server.target).masked(f"{SECRET} or someone") == "… or someone"


def test_a_server_keeps_the_secrets_of_no_other() -> None:
    """Otherwise callers who do not see the other could find out by what is masked."""
    assert Secrets(StdioTarget("x", (), {"KEY": "another-one"})).masked(SECRET) == SECRET


def test_the_words_of_another_are_quoted_on_one_short_line() -> None:
    assert printable("a\x1b[2J\n\u202eb") == "a [2J b"
    assert quoted('Say "yes"\n\x1b[31mnow') == "\"Say 'yes' [31mnow\""
    assert quoted("x" * 500) == '"' + "x" * 300 + ' …"'


async def test_a_server_that_repeats_its_token_of_progress_tells_nothing_of_how_much_others_ask(
    gateway: Any,
) -> None:
    source = (
        "import json, sys\n"
        "tools = {'tools': [{'name': 'echo', 'inputSchema': {'type': 'object'}}]}\n"
        "greeting = {'protocolVersion': '2025-11-25', 'capabilities': {'tools': {}},\n"
        "            'serverInfo': {'name': 'e', 'version': '1'}}\n"
        "for line in sys.stdin:\n"
        "    m = json.loads(line)\n"
        "    if 'id' not in m: continue\n"
        "    if m['method'] == 'server/discover':\n"
        "        a = {'error': {'code': -32601, 'message': 'no'}}\n"
        "    else:\n"
        "        meta = m.get('params', {}).get('_meta', {})\n"
        "        text = {'content': [{'type': 'text', 'text': str(meta.get('progressToken'))}]}\n"
        "        a = {'result': {'initialize': greeting, 'tools/list': tools}.get(m['method'], text)}\n"
        "    print(json.dumps({'jsonrpc': '2.0', 'id': m['id'], **a}), flush=True)\n"
    )
    with anyio.fail_after(30):
        async with gateway("legacy", echo={"command": sys.executable, "args": ["-c", source]}) as client:
            answers = [await client.session.call_tool("echo__echo", {}) for _ in range(3)]
    tokens = [answer.content[0].model_dump()["text"] for answer in answers]
    assert len(set(tokens)) == 3
    assert all(re.fullmatch("[0-9a-f]{32}", token) for token in tokens), tokens


@pytest.mark.parametrize("piece", ["eyJ-", "eyJaaaaaaaa.", "1", "Failed to parse ", "://a:", "xoxb-", "bearer ", "a"])
def test_no_text_of_a_server_takes_longer_than_its_length_says(piece: str) -> None:
    text = piece * (500_000 // len(piece))
    failure = SessionMessage(JSONRPCError(jsonrpc="2.0", id=1, error=ErrorData(code=1, message=text)))
    secrets = Secrets(StdioTarget("x", (), {f"KEY_{number}": f"{SECRET}/{number}" for number in range(20)}))
    began = time.process_time()
    secrets.masked_message(failure)
    assert time.process_time() - began < 5
