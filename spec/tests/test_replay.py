"""Every JSON block of the draft is what the reference server is sent, or what it answers, in both eras."""

from __future__ import annotations

import json
import os
import sys
from collections.abc import AsyncGenerator, Mapping
from contextlib import asynccontextmanager
from pathlib import Path
from subprocess import PIPE
from typing import Any, Final, cast

import anyio
import pytest
from anyio.streams.buffered import BufferedByteReceiveStream
from sentences import fences
from tools_search_spec import EXTENSION_ID, METHOD

pytestmark = pytest.mark.anyio

Json = dict[str, Any]

CATALOG: Final = Path(__file__).with_name("replay_catalog.json")
KEY: Final = "0123456789abcdef" * 2
"""With it, the server issues the cursors that the draft shows."""
META: Final = "io.modelcontextprotocol/"
MODERN: Final = "2026-07-28"
LEGACY: Final = "2025-11-25"
OF_MODERN_RESULTS: Final = frozenset({"resultType", "ttlMs", "cacheScope"})
KIND_ONLY: Final = frozenset({"score", "catalogSize"})
"""Members of which the draft shows a number that stands for any."""
SECONDS: Final = 60
LONGEST: Final = 1024 * 1024
DECLARED: Final[Json] = {"extensions": {EXTENSION_ID: {}}}


class Server:
    """A connection to the reference server in one era."""

    def __init__(self, era: str, process: anyio.abc.Process) -> None:
        assert process.stdin is not None
        assert process.stdout is not None
        self.era = era
        self._input = process.stdin
        self._output = BufferedByteReceiveStream(process.stdout)

    async def send(self, *messages: Json) -> list[Json]:
        """Send messages at once, as this era dresses them, and return as many answers, in the order they come."""
        lines = "".join(json.dumps(dressed(message, self.era)) + "\n" for message in messages)
        await self._input.send(lines.encode())
        return [json.loads(await self._output.receive_until(b"\n", LONGEST)) for message in messages if "id" in message]

    async def opened(self, capabilities: Json) -> Json:
        """Discover the server, or shake hands with it, and return what it says."""
        if self.era == MODERN:
            (answer,) = await self.send(request("discover", "server/discover", {}))
            return answer["result"]
        client = {"name": "example-host", "version": "1.0.0"}
        hello = {"protocolVersion": LEGACY, "clientInfo": client, "capabilities": capabilities}
        (answer,) = await self.send(request("initialize", "initialize", hello))
        await self.send({"jsonrpc": "2.0", "method": "notifications/initialized"})
        return answer["result"]


def request(number: object, method: str, params: Json) -> Json:
    return {"jsonrpc": "2.0", "id": number, "method": method, "params": params}


def dressed(message: Json, era: str) -> Json:
    """Return a message with the `_meta` that each modern request has, or without what only modern ones have."""
    if "params" not in message:
        return message
    own: Mapping[str, Any] = message["params"].get("_meta", {})
    if era == MODERN:
        client = {"name": "example-host", "version": "1.0.0"}
        needed = {"protocolVersion": MODERN, "clientInfo": client, "clientCapabilities": DECLARED}
        return with_meta(message, {**{f"{META}{name}": value for name, value in needed.items()}, **own})
    return with_meta(message, {name: value for name, value in own.items() if not name.startswith(META)})


def with_meta(message: Json, meta: Mapping[str, Any]) -> Json:
    params = {name: value for name, value in message["params"].items() if name != "_meta"}
    return {**message, "params": {**({"_meta": meta} if meta else {}), **params}}


def with_params(message: Json, **params: Any) -> Json:
    return {**message, "params": {**message["params"], **params}}


@asynccontextmanager
async def serving(era: str, *options: str, **env: str) -> AsyncGenerator[Server]:
    command = [sys.executable, "-m", "tools_search_server", "--catalog", str(CATALOG), *options]
    variables = {**os.environ, "TOOLS_SEARCH_CURSOR_KEY": KEY, **env}
    async with await anyio.open_process(command, stdin=PIPE, stdout=PIPE, stderr=None, env=variables) as process:
        yield Server(era, process)
        assert process.stdin is not None
        await process.stdin.aclose()
        await process.wait()


def differences(shown: Any, answered: Any, where: str = "") -> list[str]:
    """Return where the answer lacks something that is shown, or has another value for it."""
    if isinstance(shown, dict):
        members, found = cast("Json", shown), cast("Json", answered if isinstance(answered, dict) else {})
        missing = [f"{where}.{name} is missing" for name in members if name not in found]
        pairs = [(f"{where}.{name}", value, found[name]) for name, value in members.items() if name in found]
        return [difference for place, wanted, got in pairs for difference in differences(wanted, got, place)] + missing
    if isinstance(shown, list):
        items, others = cast("list[Any]", shown), cast("list[Any]", answered if isinstance(answered, list) else [])
        if len(items) != len(others):
            return [f"{where} has {len(others)} items"]
        pairs = [(f"{where}[{n}]", *pair) for n, pair in enumerate(zip(items, others, strict=True))]
        return [difference for place, wanted, got in pairs for difference in differences(wanted, got, place)]
    if where.rpartition(".")[2] in KIND_ONLY:
        numeric = isinstance(answered, int | float) and not isinstance(answered, bool)
        return [] if numeric else [f"{where} is {answered!r}"]
    return [] if type(shown) is type(answered) and shown == answered else [f"{where} is {answered!r}, not {shown!r}"]


def of_era(shown: Json, era: str) -> Json:
    """Return a response as far as it is one of this era."""
    if era == MODERN or "result" not in shown:
        return shown
    return {**shown, "result": {name: v for name, v in shown["result"].items() if name not in OF_MODERN_RESULTS}}


async def provoked(code: int, asked: Json, number: object, server: Server) -> Json:
    """Return the refusal with this code of what was `asked` before."""
    if code == -32602:
        (answer,) = await server.send(with_params(asked, query=" \t"))
        return answer
    if code == -32021:
        undeclared: Json = {f"{META}clientCapabilities": {}}
        (answer,) = await server.send(with_params(asked, _meta=undeclared))
        return answer
    assert code == -32603
    async with serving(server.era, "--searches-at-once", "1", TOOLS_SEARCH_DELAY_MS="500") as other:
        await other.opened(DECLARED)
        first = {name: value for name, value in asked["params"].items() if name != "cursor"}
        answers = await other.send(request("first", METHOD, first), request(number, METHOD, first))
    (refused,) = [answer for answer in answers if answer["id"] == number]
    assert [answer["id"] for answer in answers if "result" in answer] == ["first"]
    return refused


async def replay(
    value: Json, text: str, before: Json | None, server: Server, opening: Json
) -> tuple[Json | None, list[str]]:
    """Return the request that is sent last now, and what differs from the block with this value and text."""
    if "method" in value:
        (answer,) = await server.send(value)
        return value, [] if "result" in answer else [f"it is answered by {answer}"]
    if "capabilities" in value:
        if "initialize" in text and server.era == MODERN:
            return before, []
        if "Client to server" in text:
            async with serving(server.era) as other:
                answered = await other.opened(value["capabilities"])
            return before, [] if "capabilities" in answered else [f"it is answered by {answered}"]
        return before, differences(value, opening)
    if f"{META}clientCapabilities" in value:
        if server.era == LEGACY:  # there, the connection was opened with them
            return before, differences(value[f"{META}clientCapabilities"], DECLARED)
        (answer,) = await server.send(request(0, METHOD, {"_meta": value, "query": "invoice"}))
        return before, [] if "result" in answer else [f"it is answered by {answer}"]
    assert before is not None
    if "result" in value:
        (answer,) = await server.send({**before, "id": value["id"]})
        return before, differences(of_era(value, server.era), answer)
    code: int = value["error"]["code"]
    if code == -32021 and server.era == LEGACY:  # it is not defined there
        (answer,) = await server.send(before)
        return before, [] if "result" in answer else [f"it is answered by {answer}"]
    return before, differences(value, await provoked(code, {**before, "id": value["id"]}, value["id"], server))


@pytest.mark.parametrize("era", [MODERN, LEGACY])
async def test_every_json_block_of_the_draft_replays_against_the_reference_server(era: str, pages: dict[str, str]):
    wrong: dict[str, list[str]] = {}
    with anyio.fail_after(SECONDS):
        async with serving(era) as server:
            opening = await server.opened(DECLARED)
            for page, draft in pages.items():
                before: Json | None = None
                for fence in fences(draft):
                    if fence.language in {"json", "jsonc"}:
                        lines = [line for line in fence.text.splitlines() if not line.startswith("//")]
                        value: Json = json.loads("".join(lines))
                        found = await replay(value, fence.text, before, server, opening)
                        before, wrong[f"draft/{page}:{fence.line}"] = found
    assert not [f"{place}: {what}" for place, found in wrong.items() for what in found]
    assert len(wrong) == sum(draft.count("\n```json") for draft in pages.values())
    assert len(wrong) >= 10


def test_what_is_shown_and_not_answered_is_found():
    shown = {"result": {"tools": [{"name": "a", "score": 0.2}], "ttlMs": 1}}
    assert differences(shown, {"result": {"tools": [{"name": "a", "score": 1, "x": 0}], "ttlMs": 1}, "id": 2}) == []
    assert differences(shown, {"result": {"tools": [{"name": "b", "score": "1"}]}}) == [
        ".result.tools[0].name is 'b', not 'a'",
        ".result.tools[0].score is '1'",
        ".result.ttlMs is missing",
    ]
    assert differences([1], []) == [" has 0 items"]
    assert differences(True, 1) == [" is 1, not True"]
