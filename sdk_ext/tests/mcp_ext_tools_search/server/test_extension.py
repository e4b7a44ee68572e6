"""Making a server searchable, and what is refused."""

from __future__ import annotations

import re
from collections.abc import Awaitable, Callable
from contextlib import AbstractAsyncContextManager, nullcontext
from typing import Any, cast

import pytest
from mcp import Client, MCPError
from mcp.server import MCPServer, Server
from mcp_ext_tools_search import EXTENSION_ID, METHOD, ServerSettings
from mcp_ext_tools_search.client import search_tools, server_settings
from mcp_ext_tools_search.ranking import SimpleRanker
from mcp_ext_tools_search.server import Answer, ToolsSearch, extension, install
from mcp_types import RequestParams

pytestmark = pytest.mark.anyio

Connect = Callable[..., AbstractAsyncContextManager[Client]]
Send = Callable[..., Awaitable[dict[str, Any]]]
MakeServer = Callable[..., Server[Any]]


async def test_install_returns_what_serves_the_search(billing: MCPServer[Any], connect: Connect) -> None:
    search = install(billing)
    assert isinstance(search, ToolsSearch)
    async with connect(billing) as client:
        assert (await search_tools(client, "invoice")).tools


async def test_an_extension_given_to_the_server_is_installed_the_same_way(connect: Connect) -> None:
    search = ToolsSearch()
    mcp = MCPServer[Any]("billing", extensions=[search])
    mcp.add_tool(lambda: "sent", name="send_invoice")
    search.install(mcp)
    async with connect(mcp) as client:
        assert server_settings(client) is not None
        assert [tool.name for tool in (await search_tools(client, "invoice")).tools] == ["send_invoice"]


async def test_one_extension_serves_several_servers(
    billing: MCPServer[Any], make_server: MakeServer, connect: Connect
) -> None:
    search = install(billing)
    empty = make_server([])
    search.install(empty)
    async with connect(billing) as full_client, connect(empty) as empty_client:
        assert (await search_tools(full_client, "invoice")).tools
        assert (await search_tools(empty_client, "invoice")).tools == []


def test_the_middleware_goes_first(billing: MCPServer[Any]) -> None:
    before = list(billing.middleware)
    install(billing)
    assert billing.middleware[1:] == before


def test_installing_twice_is_refused(billing: MCPServer[Any]) -> None:
    search = install(billing)
    for again in (search, ToolsSearch()):
        with pytest.raises(ValueError, match="searchable already"):
            again.install(billing)


def test_a_server_that_lists_no_tools_is_refused_with_what_to_do() -> None:
    with pytest.raises(ValueError, match="pass on_list_tools"):
        install(Server("bare"))


def test_a_server_that_answers_the_method_itself_is_refused(make_server: MakeServer) -> None:
    async def handler(_ctx: object, _params: RequestParams) -> dict[str, Any]:
        return {}

    server = make_server([])
    server.add_request_handler(METHOD, RequestParams, handler)
    with pytest.raises(ValueError, match="another tools/search handler"):
        install(server)
    assert EXTENSION_ID not in server.extensions


@pytest.mark.parametrize(
    ("arguments", "words"),
    [
        ({"default_limit": 0}, "default_limit must be from 1 to 20, not 0"),
        ({"default_limit": 21}, "default_limit must be from 1 to 20, not 21"),
        ({"default_limit": "5"}, "default_limit must be from 1 to 20, not '5'"),
        ({"max_limit": 0}, "max_limit must be an integer of at least 1, not 0"),
        ({"max_limit": 2.5}, "max_limit must be an integer of at least 1, not 2.5"),
        ({"max_query_chars": 1023}, "max_query_chars must be an integer of at least 1024, not 1023"),
        ({"max_concurrency": 0}, "max_concurrency must be an integer of at least 1, not 0"),
        ({"max_searches": 0}, "max_searches must be an integer of at least 1, not 0"),
        ({"max_searches": True}, "max_searches must be an integer of at least 1, not True"),
        ({"cursor_key": b"short"}, "at least 32 bytes, not 5"),
    ],
)
def test_an_argument_out_of_bounds_is_refused(arguments: dict[str, Any], words: str) -> None:
    with pytest.raises(ValueError, match=words):
        ToolsSearch(**arguments)


async def _settings_of_a_coroutine() -> ServerSettings:
    return ServerSettings()


@pytest.mark.parametrize(
    ("arguments", "words"),
    [
        ({"ranker": "bm25"}, "ranker must be a Ranker, such as SimpleRanker(), not 'bm25'"),
        ({"ranker": ""}, "ranker must be a Ranker, such as SimpleRanker(), not ''"),
        ({"ranker": SimpleRanker}, "ranker must be a Ranker, such as SimpleRanker(), not <class"),
        ({"ranker": SimpleRanker()([])}, "ranker must be a Ranker, such as SimpleRanker(), not <"),
        (
            {"settings": {}},
            "settings must be a ServerSettings(...), or an ordinary function that returns one, not dict",
        ),
        ({"settings": lambda: None}, "what the settings function returns must be a ServerSettings(...), or an"),
        ({"search": "bm25"}, "search must be an async function that returns an Answer, not str"),
        ({"page_search": SimpleRanker()}, ""),  # an object that can be called may be a function
        ({"page_search": {}}, "page_search must be an async function that returns an Answer, not dict"),
        ({"cursor_key": "k" * 40}, "cursor_key must be bytes, as from secrets.token_bytes(32), not str"),
        ({"resources": None}, "resources must be True, False or ResourcesSearch(...), not None"),
        ({"resources": {}}, "resources must be True, False or ResourcesSearch(...), not {}"),
        ({"prompts": ""}, "prompts must be True, False or PromptsSearch(...), not ''"),
    ],
)
def test_an_argument_of_a_wrong_type_is_refused_with_what_to_pass(
    arguments: dict[str, Any], words: str, billing: MCPServer[Any]
) -> None:
    with pytest.raises(TypeError, match=re.escape(words)) if words else nullcontext():
        install(billing, ToolsSearch(**arguments))


@pytest.mark.parametrize(
    ("arguments", "words"),
    [
        (
            (ToolsSearch(), MCPServer[Any]("swapped")),
            "second argument of install must be a ToolsSearch(...), not MCPServer",
        ),
        (
            (MCPServer[Any]("x"), SimpleRanker()),
            "second argument of install must be a ToolsSearch(...), not SimpleRanker",
        ),
        ((MCPServer[Any]("x"), ToolsSearch), "second argument of install must be a ToolsSearch(...), not type"),
        ((MCPServer[Any]("x"), dict[str, Any]()), "second argument of install must be a ToolsSearch(...), not dict"),
        ((MCPServer[Any]("x"), False), "second argument of install must be a ToolsSearch(...), not bool"),
        (("server",), "server must be an MCPServer or a low-level Server, not str"),
        ((MCPServer[Any],), "server must be an MCPServer or a low-level Server, not "),
    ],
)
def test_swapped_or_wrong_arguments_of_install_are_refused_with_what_to_pass(
    arguments: tuple[Any, ...], words: str
) -> None:
    with pytest.raises(TypeError, match=re.escape(words)):
        install(*arguments)


async def test_a_settings_function_that_is_a_coroutine_is_refused(billing: MCPServer[Any]) -> None:
    stated = _settings_of_a_coroutine()
    with pytest.raises(TypeError, match="an ordinary function that returns one, not coroutine"):
        install(billing, ToolsSearch(settings=cast("Any", lambda: stated)))
    await stated


@pytest.mark.parametrize("argument", ["search", "page_search"])
async def test_a_search_that_is_not_async_or_returns_no_answer_is_named_in_the_log(
    argument: str, connect: Connect, caplog: pytest.LogCaptureFixture
) -> None:
    async def nothing(*_: Any) -> None: ...

    def no_coroutine(*_: Any) -> Answer:
        return Answer([], {})

    for wrong in (nothing, no_coroutine):
        server = MCPServer[Any]("billing")
        install(server, ToolsSearch(**{argument: cast("Any", wrong)}))
        async with connect(server) as client:
            with pytest.raises(MCPError, match="Internal server error"):
                await search_tools(client, "invoice")
        assert "a search must be an async function that returns an Answer" in caplog.text
        caplog.clear()


def test_an_install_that_fails_leaves_the_server_as_it_was(make_server: MakeServer) -> None:
    server = make_server([])
    before = list(server.middleware)
    with pytest.raises(ZeroDivisionError):
        install(server, ToolsSearch(settings=lambda: ServerSettings(catalog_size=1 // 0)))
    assert (server.middleware, server.extensions, server.get_request_handler(METHOD)) == (before, {}, None)


async def test_an_sdk_that_defines_the_method_itself_is_left_to_it(
    billing: MCPServer[Any], connect: Connect, monkeypatch: pytest.MonkeyPatch, caplog: pytest.LogCaptureFixture
) -> None:
    monkeypatch.setattr(extension, "SPEC_CLIENT_METHODS", frozenset({METHOD}))
    search = ToolsSearch()
    mcp = MCPServer[Any]("billing", extensions=[search])
    for server in (billing, mcp):
        search.install(server)
        async with connect(server) as client:
            assert server_settings(client) is None
            assert (await client.list_tools()).tools or server is mcp
    assert "stands aside" in caplog.text
