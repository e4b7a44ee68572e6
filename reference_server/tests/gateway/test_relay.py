"""What passes through the gateway, both ways, in both eras: real upstream processes, the gateway in this one."""

from __future__ import annotations

from collections.abc import Callable
from pathlib import Path
from typing import Any

import anyio
import pytest
from clients import text_of
from mcp import Client, MCPError
from mcp_ext_tools_search.client import search_tools
from mcp_ext_tools_search.types import EXTENSION_ID
from mcp_types import (
    INTERNAL_ERROR,
    INVALID_PARAMS,
    AudioContent,
    CallToolResult,
    ElicitRequestParams,
    ElicitResult,
    ImageContent,
    ListRootsResult,
    ResourceLink,
    TextContent,
)

pytestmark = pytest.mark.anyio

both_eras = pytest.mark.parametrize("mode", ["2026-07-28", "legacy"])


@pytest.fixture
def served(gateway: Any, versatile: Callable[[Path], dict[str, Any]], tmp_path: Path) -> Any:
    """Connect to a gateway in front of the versatile server and a legacy one."""

    def connect(mode: str, **options: Any) -> Any:
        # "auto" is the in-process way to speak the modern revision and learn what is offered.
        return gateway("auto" if mode == "2026-07-28" else mode, busy=versatile(tmp_path), **options)

    return connect


async def call(client: Client, name: str, arguments: dict[str, Any] | None = None, **options: Any) -> CallToolResult:
    send: Any = client.session.call_tool  # the options choose among its overloads
    result = await send(f"busy__{name}", arguments, **options)
    assert isinstance(result, CallToolResult)
    return result


@both_eras
async def test_tools_of_all_pages_are_offered_under_their_servers_name_in_the_eras_that_allow_them(
    served: Any, mode: str
) -> None:
    with anyio.fail_after(60):
        async with served(mode) as client:
            tools = {tool.name: tool for tool in (await client.list_tools()).tools}
            found = {tool.name for tool in (await search_tools(client, "busy__numbers")).tools}
    assert {"busy__echo", "busy__wait", "busy__grow"} <= tools.keys()
    assert tools["busy__grow"].meta == {"com.example/mine": 1, EXTENSION_ID: {"group": "busy"}}
    assert ("busy__numbers" in tools) == ("busy__numbers" in found) == (mode != "legacy")


@both_eras
async def test_content_and_meta_pass_both_ways_and_errors_keep_their_kind(served: Any, mode: str) -> None:
    with anyio.fail_after(60):
        async with served(mode) as client:
            echoed = await call(client, "echo", {"a": [1, None]}, meta={"com.example/asked": "yes"})
            picture = await call(client, "picture")
            failed = await call(client, "fail")
            no_result = await call(client, "malformed")
            with pytest.raises(MCPError) as refused:
                await call(client, "refuse")
            with pytest.raises(MCPError) as misleading:
                await call(client, "unheard_of")
    assert echoed.structured_content is not None
    assert echoed.structured_content["arguments"] == {"a": [1, None]}
    assert echoed.structured_content["meta"]["com.example/asked"] == "yes"
    assert echoed.meta is not None
    assert echoed.meta["com.example/answered"] is True
    assert "versatile" not in str(echoed.meta)
    assert [type(content) for content in picture.content] == [ImageContent, AudioContent, ResourceLink]
    assert failed.is_error
    assert text_of(failed) == "it went wrong"
    assert no_result.is_error
    assert "'busy'" in text_of(no_result)
    assert (refused.value.code, refused.value.data) == (INVALID_PARAMS, {"field": "x"})
    # "Method not found" would say that the gateway has no tools/call.
    assert misleading.value.code == INTERNAL_ERROR
    assert "'busy'" in misleading.value.message


async def test_a_call_that_takes_too_long_is_given_up_and_cancelled(served: Any, until: Any, tmp_path: Path) -> None:
    with anyio.fail_after(60):
        async with served("legacy", call_timeout=0.5) as client:
            with pytest.raises(MCPError) as late:
                await call(client, "wait")
            await until((tmp_path / "cancelled").exists)
    assert "did not answer in time" in late.value.message


async def test_a_question_of_a_modern_server_reaches_a_modern_caller_and_the_answer_goes_back(served: Any) -> None:
    async def answer(_: Any, params: ElicitRequestParams) -> ElicitResult:
        assert params.message == "Your name?"
        return ElicitResult(action="accept", content={})

    with anyio.fail_after(60):
        async with served("2026-07-28", client={"elicitation_callback": answer}) as client:
            result = await client.call_tool("busy__ask")
    assert text_of(result) == "thanks"


async def test_a_question_that_a_legacy_caller_cannot_be_asked_is_refused_with_the_reason(served: Any) -> None:
    with anyio.fail_after(60):
        async with served("legacy") as client:
            result = await call(client, "ask")
    assert result.is_error
    assert "does not declare the capability 'elicitation'" in text_of(result)


async def test_a_modern_caller_declares_for_itself_what_it_can_be_asked(served: Any) -> None:
    with anyio.fail_after(60):
        asking = {"elicitation_callback": ElicitResult, "list_roots_callback": ListRootsResult}
        async with served("2026-07-28", client=asking) as client:
            echoed = await call(client, "echo")
    assert echoed.structured_content is not None
    declared = echoed.structured_content["meta"]["io.modelcontextprotocol/clientCapabilities"]
    # The extension is the gateway's own: it may search a server itself.
    assert declared.keys() == {"elicitation", "extensions", "roots"}
    assert declared["roots"] == {}  # the gateway forwards no changes of roots


async def test_what_only_the_newer_revision_knows_of_a_result_is_left_out_for_a_legacy_caller(served: Any) -> None:
    with anyio.fail_after(60):
        async with served("legacy") as client:
            result = await call(client, "numbers")
    content, note = (block.text for block in result.content if isinstance(block, TextContent))
    assert content == "[1]"
    assert "2025-11-25" in note
    assert "structuredContent" in note
    assert result.structured_content is None
    assert not result.is_error


@both_eras
async def test_a_legacy_server_is_found_and_called_from_either_era(gateway: Any, raw: Any, mode: str) -> None:
    with anyio.fail_after(60):
        async with gateway("auto" if mode != "legacy" else mode, old=raw("good")) as client:
            [tool] = (await search_tools(client, "plain tool")).tools
            result = await client.session.call_tool(tool.name, {})
    assert tool.name == "old__plain"
    assert text_of(result).startswith("tools/call by ")


@both_eras
@pytest.mark.parametrize(
    ("code", "message"),
    [(-32000, "Out of stock"), (-32001, "Quota used up"), (-32000, "Session 7 is not open"), (-32600, "No session")],
)
async def test_an_error_with_a_code_of_the_sdk_stays_the_answer_of_a_server_that_lives_on(
    gateway: Any, raw: Any, mode: str, code: int, message: str
) -> None:
    with anyio.fail_after(60):
        async with gateway(mode, shop=raw("refusing")) as client:
            before = await client.session.call_tool("shop__plain", {})
            with pytest.raises(MCPError) as refused:
                await client.session.call_tool("shop__plain", {"code": code, "message": message})
            after = await client.session.call_tool("shop__plain", {})
    assert message in refused.value.message
    assert refused.value.code == (INTERNAL_ERROR if code == -32600 else code)
    assert text_of(before) == text_of(after)  # which names the process that answered
