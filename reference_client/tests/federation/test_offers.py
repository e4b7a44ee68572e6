"""Prompts, resources and templates of many servers."""

from __future__ import annotations

from typing import Any

import anyio
import pytest
from mcp import Client
from mcp.server import Server, ServerRequestContext
from mcp.server.mcpserver import MCPServer
from mcp_types import (
    Completion,
    ListPromptsResult,
    PaginatedRequestParams,
    Prompt,
    PromptReference,
    ResourceTemplateReference,
    TextContent,
    TextResourceContents,
)
from tools_search_client import Configuration, ConnectedServer, LocalError, ServerRefusedError, open_federation
from tools_search_hosts import ServerEntry, StdioTarget

pytestmark = pytest.mark.anyio


def notes(owner: str) -> MCPServer:
    server = MCPServer(owner)

    @server.prompt()
    def summary(length: str) -> str:  # pyright: ignore[reportUnusedFunction]
        """Sum up the notes."""
        return f"Sum up what {owner} wrote in {length} words."

    @server.resource("notes://today")
    def today() -> str:  # pyright: ignore[reportUnusedFunction]
        """The notes of today."""
        return f"{owner} slept."

    @server.resource("notes://{day}/all")
    def on_day(day: str) -> str:  # pyright: ignore[reportUnusedFunction]
        """The notes of one day."""
        return f"{owner} slept on {day}."

    @server.completion()
    async def suggest(ref: Any, argument: Any, context: Any) -> Completion:  # pyright: ignore[reportUnusedFunction]
        return Completion(values=[f"{argument.value}day"])

    return server


@pytest.mark.parametrize("mode", ["auto", "legacy"])
async def test_what_servers_offer_besides_tools_is_listed_and_read_by_server(mode: str):
    with anyio.fail_after(20):
        async with Client(notes("ann"), mode=mode) as ann, Client(notes("bob"), mode=mode) as bob:
            gone = ServerEntry("gone", StdioTarget("/nowhere/program"))
            own = (ConnectedServer("ann", connection=ann), ConnectedServer("bob", connection=bob))
            async with open_federation(Configuration((*own, gone))) as federation:
                prompts = await federation.prompts()
                resources = await federation.resources()
                templates = await federation.resource_templates()
                prompt = await federation.get_prompt("bob", "summary", {"length": "ten"})
                read = await federation.read_resource("ann", "notes://today")
                of_day = await federation.read_resource("bob", "notes://monday/all")
                argument = {"name": "length", "value": "mon"}
                suggested = await federation.complete("ann", PromptReference(name="summary"), argument)
                template = ResourceTemplateReference(uri="notes://{day}/all")
                day = await federation.complete("bob", template, {"name": "day", "value": "sun"})
                with pytest.raises(ServerRefusedError):
                    await federation.get_prompt("ann", "other")
    assert [(each.name, each.server, each.item.name) for each in prompts.items] == [
        ("ann__summary", "ann", "summary"),
        ("bob__summary", "bob", "summary"),
    ]
    assert [(each.server, str(each.item.uri)) for each in resources.items] == [
        ("ann", "notes://today"),
        ("bob", "notes://today"),
    ]
    assert [each.item.uri_template for each in templates.items] == ["notes://{day}/all"] * 2
    for listing in (prompts, resources, templates):
        assert {server: failure.kind for server, failure in listing.failed.items()} == {"gone": "unavailable"}
        assert [report.hits for report in listing.servers] == [1, 1, 0]
    (message,) = prompt.messages
    assert isinstance(message.content, TextContent)
    assert message.content.text == "Sum up what bob wrote in ten words."
    contents = [each for result in (read, of_day) for each in result.contents]
    assert [each.text for each in contents if isinstance(each, TextResourceContents)] == [
        "ann slept.",
        "bob slept on monday.",
    ]
    assert (suggested.values, day.values) == (["monday"], ["sunday"])


@pytest.mark.parametrize(("count", "told"), [(1, "cursor"), (3_000, "no end after 12000 prompts")])
async def test_a_listing_without_end_fails_its_server_alone(count: int, told: str):
    asked = 0

    async def page(context: ServerRequestContext[Any, Any], params: PaginatedRequestParams | None) -> ListPromptsResult:
        nonlocal asked
        asked += 1
        cursor = "again" if count == 1 else str(asked)
        return ListPromptsResult(prompts=[Prompt(name=f"p{asked}-{n}") for n in range(count)], next_cursor=cursor)

    with anyio.fail_after(20):
        async with Client(Server("endless", on_list_prompts=page)) as endless, Client(notes("ann")) as ann:
            own = (ConnectedServer("endless", connection=endless), ConnectedServer("ann", connection=ann))
            async with open_federation(Configuration(own)) as federation:
                listing = await federation.prompts()
    assert [each.server for each in listing.items] == ["ann"]
    failure = listing.failed["endless"]
    assert failure.kind == "invalid-result"
    assert told in failure.message
    assert asked < 10


async def test_a_server_that_is_not_there_is_a_mistake_that_names_the_closest():
    federation_of_notes = Configuration((ConnectedServer("notes", connection=lambda: None),))
    with anyio.fail_after(10):
        async with open_federation(federation_of_notes) as federation:
            reference = PromptReference(name="summary")
            for ask in (
                federation.get_prompt("nots", "summary"),
                federation.read_resource("nots", "notes://today"),
                federation.complete("nots", reference, {"name": "length", "value": "t"}),
                federation.search("sum up", servers=["notes", "nots"]),
                federation.search_resources("sum up", servers=["nots"]),
                federation.search_resource_templates("sum up", servers=["nots"]),
                federation.search_prompts("sum up", servers=["nots"]),
                federation.resolve("summary", servers=["nots"]),
                federation.find("summary", servers=["nots"]),
                federation.list(servers=["nots"]),
            ):
                with pytest.raises(LocalError, match="no server is named 'nots'; the closest is 'notes'"):
                    await ask


async def test_a_server_without_prompts_is_not_asked_for_them():
    with anyio.fail_after(20):
        async with Client(Server("bare")) as bare:
            configuration = Configuration((ConnectedServer("bare", connection=bare),))
            async with open_federation(configuration) as federation:
                listing = await federation.prompts()
    assert (listing.items, listing.failed) == ((), {})
