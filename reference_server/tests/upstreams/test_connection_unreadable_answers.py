"""An answer that cannot be read fails its request at once and says why, on any transport and for any method."""

from __future__ import annotations

from collections.abc import AsyncGenerator, Awaitable, Callable
from contextlib import asynccontextmanager
from typing import Any

import anyio
import pytest
from mcp import MCPError
from mcp_ext_tools_search.client import raw_request
from mcp_types import INTERNAL_ERROR

pytestmark = pytest.mark.anyio

each_way = pytest.mark.parametrize(
    ("way", "era"),
    [
        ("stdio", "legacy"),
        ("stdio", "modern"),
        ("json", "legacy"),
        ("json", "modern"),
        ("events", "legacy"),
        ("events", "modern"),
        ("old-sse", "legacy"),
    ],
)

SURROGATE = "a string in it holds half of a surrogate pair"
UNREADABLE = {
    '{"jsonrpc": "2.0", "id": ID, "result": null}': "its `result` must be an object",
    '{"jsonrpc": "2.0", "id": ID, "result": [1]}': "its `result` must be an object",
    '{"jsonrpc": "2.0", "id": ID, "result": {"text": "\\ud83d"}}': SURROGATE,
    '{"jsonrpc": "2.0", "result": {"a": %s}, "id": ID}' % ("[" * 500 + "]" * 500): "it is nested too deeply",
    '{"jsonrpc": "2.0", "id": ID, "result": {"number": NaN}}': "it holds NaN or an infinite number",
    '{"jsonrpc": "2.0", "id": ID, "result": {"number": %s}}'
    % ("9" * 5000): "it is not valid JSON: number out of range",
    '{"jsonrpc": "2.0", "id": ID, "result": {"cut": "off': "it is not valid JSON: EOF",
    '{"jsonrpc": "2.0", "id": ID, "error": {"code": "EIO", "message": "x"}}': "its `error.code` must be a whole number",
    '{"jsonrpc": "2.0", "id": ID, "error": {"code": -32000}}': "its `error.message` must be given",
    '{"jsonrpc": "2.0", "id": ID, "error": "broken"}': "its `error` must be an object",
    '{"jsonrpc": "2.0", "id": ID}': "it has neither a `result` nor an `error`",
    '{"jsonrpc": "2.0", "id": ID, "result": {}, "error": {"code": 1, "message": "x"}}': "it has both",
    '{"jsonrpc": "2.0", "id": ID.0, "result": {}}': "its `id` is neither an integer nor a string",
    '{"id": ID, "result": {}}': "its `jsonrpc` must be given",
}
"""Texts of an answer that says which request it is for, and what is wrong with each."""

NAMELESS = {
    '{"jsonrpc": "2.0", "id": 12345, "result": {}}': "its `id` is '12345', that of the request is",
    '{"jsonrpc": "2.0", "result": {}}': "its `id` is neither an integer nor a string",
    '{"jsonrpc": "2.0", "id": null, "result": {}}': "its `id` is neither an integer nor a string",
    '[{"jsonrpc": "2.0", "id": ID, "result": {}}]': "it is not a JSON object",
    "Oops": "it is not valid JSON: expected value",
}
"""Answers that do not say which request they are for, which a response over HTTP does."""

READABLE = (
    '{"jsonrpc": "2.0", "id": "ID", "result": {"content": [], "resultType": "complete"}}',
    '{"jsonrpc": "2.0", "id": ID, "result": {"content": [], "resultType": "complete"}, "error": null}',
    ' {"result": {"content": [], "resultType": "complete"}, "id": ID, "jsonrpc": "2.0", "more": [{}]} ',
)


@pytest.fixture
def called(gateway: Any, hostile: Any) -> Callable[..., Any]:
    """Connect to a gateway in front of a hostile server; what is yielded calls its tool."""

    @asynccontextmanager
    async def connected(way: str, era: str) -> AsyncGenerator[Callable[[str], Any]]:
        async with gateway("auto", call_timeout=600, hostile=await hostile(way, era)) as client:

            async def call(answer: str) -> dict[str, Any]:
                params = {"name": "hostile__say", "arguments": {"answer": answer}}
                return await raw_request(client, "tools/call", params, seconds=20)

            yield call

    return connected


async def failure(result: Awaitable[dict[str, Any]]) -> str:
    with pytest.raises(MCPError) as raised:
        await result
    assert raised.value.code == INTERNAL_ERROR
    return raised.value.message


@each_way
async def test_a_call_whose_answer_cannot_be_read_fails_at_once_with_what_is_wrong(
    called: Any, way: str, era: str, caplog: pytest.LogCaptureFixture
) -> None:
    with anyio.fail_after(60):
        async with called(way, era) as call:
            for answer, flaw in UNREADABLE.items():
                message = await failure(call(answer))
                assert message.startswith("The MCP server 'hostile' answered, but its answer is malformed: "), answer
                assert flaw in message, answer
    told = [message for message in caplog.messages if "a message is malformed" in message]
    assert len(told) == 2
    assert "hostile: a message is malformed: its `result` must be an object" in told[0]
    assert "(number 10 on this connection)" in told[1]


@pytest.mark.parametrize("era", ["legacy", "modern"])
@pytest.mark.parametrize("way", ["json", "events"])
async def test_over_http_the_response_says_which_request_an_answer_is_for(called: Any, way: str, era: str) -> None:
    with anyio.fail_after(60):
        async with called(way, era) as call:
            for answer, flaw in NAMELESS.items():
                assert flaw in await failure(call(answer)), answer
            if way == "json":
                assert "it is a request or a notification" in await failure(call('{"jsonrpc": "2.0", "method": "n"}'))


@pytest.mark.parametrize("era", ["legacy", "modern"])
@pytest.mark.parametrize("way", ["json", "events"])
async def test_over_http_an_error_without_id_is_the_answer_to_the_request_of_the_response(
    called: Any, way: str, era: str
) -> None:
    with anyio.fail_after(60):
        async with called(way, era) as call:
            error = '{"jsonrpc": "2.0", "id": null, "error": {"code": -32603, "message": "out of paper"}}'
            assert "out of paper" in await failure(call(error))


@each_way
async def test_an_answer_that_is_odd_but_can_be_read_is_read(called: Any, way: str, era: str) -> None:
    with anyio.fail_after(60):
        async with called(way, era) as call:
            for answer in READABLE:
                assert (await call(answer))["content"] == [], answer


@each_way
@pytest.mark.parametrize(
    ("answer", "flaw"),
    [
        ('{"jsonrpc": "2.0", "id": ID, "result": null}', "its `result` must be an object"),
        ('{"jsonrpc": "2.0", "id": ID, "result": {"serverInfo": "\\udc00"}}', SURROGATE),
    ],
)
async def test_a_server_whose_greeting_cannot_be_read_is_down_at_once_with_what_is_wrong(
    gateway: Any, hostile: Any, way: str, era: str, answer: str, flaw: str
) -> None:
    with anyio.fail_after(30):
        entry = await hostile(way, era, "at-greeting", ANSWER=answer)
        async with gateway("auto", hostile=entry, start_deadline=25) as client:
            result = await raw_request(client, "tools/call", {"name": "hostile__say", "arguments": {}}, seconds=20)
    text = result["content"][0]["text"]
    assert "down since" in text
    assert f"its answer is malformed: {flaw}" in text
