"""Resources, prompts and completions of all servers as one: real upstream processes of both eras, callers of both."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

import anyio
import pytest
from clients import library, server_entry
from mcp import Client, MCPError
from mcp_ext_tools_search.client import TOOLS_SEARCH
from mcp_types import (
    EmbeddedResource,
    PaginatedRequestParams,
    PromptReference,
    ResourceLink,
    ResourceTemplateReference,
    TextResourceContents,
)
from tools_search_server.base.limits import Limits
from tools_search_server.gateway.gateway import GatewayOptions
from tools_search_server.programs.gateway import gateway_program

pytestmark = pytest.mark.anyio

both_eras = pytest.mark.parametrize("mode", ["auto", "legacy"])


@pytest.fixture
def two() -> dict[str, Any]:
    return {"new": library("modern", "new"), "old one": library("legacy", "old")}


async def read(client: Client, uri: str) -> tuple[str, str]:
    [contents] = (await client.session.read_resource(uri)).contents
    assert isinstance(contents, TextResourceContents)
    return contents.uri, contents.text


async def refusal(client: Client, uri: str) -> MCPError:
    with pytest.raises(MCPError) as refused:
        await client.session.read_resource(uri)
    return refused.value


@pytest.mark.rotating
@pytest.mark.parametrize(("transport", "mode"), [("stdio", "auto"), ("http", "legacy")])
async def test_every_resource_of_every_server_is_listed_once_and_can_be_read(
    connect: Any, configuration: Any, two: Any, transport: str, mode: str
) -> None:
    with anyio.fail_after(60):
        async with connect(transport, mode, "--config", str(configuration(**two)), "--page-size", "3") as client:
            listed: list[Any] = []
            page = await client.session.list_resources()
            sizes = [len(page.resources)]
            while listed.extend(page.resources) or page.next_cursor:
                page = await client.session.list_resources(params={"cursor": page.next_cursor})  # pyright: ignore[reportArgumentType]
                sizes.append(len(page.resources))
            texts = dict([await read(client, resource.uri) for resource in listed])
            templates = (await client.session.list_resource_templates()).resource_templates
            filled_in = templates[1].uri_template.replace("{topic}", "a%20b")
            filled = await read(client, filled_in)
    assert sizes == [3, 3, 2]
    assert [resource.uri for resource in listed] == list(texts)
    assert texts["gateway://new/file:///shared.txt"] == "file:///shared.txt of new"
    assert texts["gateway://old%20one/file:///shared.txt"] == "file:///shared.txt of old"
    assert listed[0].meta == {"com.example/mine": "new"}
    assert filled == ("gateway://old%20one/note://old/a%20b", "note://old/a%20b of old")


@both_eras
async def test_a_servers_own_uri_is_understood_where_it_can_be_of_one_server_only(
    gateway: Any, two: Any, mode: str
) -> None:
    with anyio.fail_after(60):
        async with gateway(mode, **two) as client:
            listed = await read(client, "memo:old:2")
            templated = await read(client, "note://new/x")
            ambiguous = await refusal(client, "file:///shared.txt")
            unknown = await refusal(client, "file:///unheard-of")
            unknown_there = await refusal(client, "gateway://old%20one/file:///unheard-of")
            unfilled = await refusal(client, "gateway://new/file:///{topic}")
    assert listed == ("memo:old:2", "memo:old:2 of old")
    assert templated == ("note://new/x", "note://new/x of new")
    assert "gateway://new/file:///shared.txt, gateway://old%20one/file:///shared.txt" in ambiguous.message
    assert (ambiguous.code, ambiguous.data) == (-32602, {"uri": "file:///shared.txt"})
    expected = -32602 if mode == "auto" else -32002
    assert (unknown.code, unknown.data) == (expected, {"uri": "file:///unheard-of"})
    assert unknown_there.data == {"uri": "gateway://old%20one/file:///unheard-of"}
    assert unknown_there.code == expected
    for error in unknown, unknown_there, unfilled:
        assert error.message.count("or of a listed template with its {variables} replaced") == 1


@both_eras
async def test_a_web_address_of_several_servers_is_read_from_the_first(gateway: Any, mode: str, tmp_path: Path) -> None:
    address, entries = "https://example.com/a", dict[str, Any]()
    for name in "one", "two":
        file = tmp_path / f"{name}.json"
        file.write_text(json.dumps({"resources": [{"uri": address, "name": name}], "texts": {address: name}}))
        entries[name] = server_entry("archive.py", file)
    with anyio.fail_after(60):
        async with gateway(mode, **entries) as client:
            assert await read(client, address) == (address, "one")


@both_eras
@pytest.mark.parametrize("is_legacy", [False, True])
async def test_only_an_error_about_the_uri_itself_becomes_that_of_an_unknown_resource(
    gateway: Any, mode: str, is_legacy: bool, tmp_path: Path
) -> None:
    advice = ". Use the URI of a listed resource, or of a listed template with its {variables} replaced"
    faults = {
        "a:gone": {"code": -32602, "message": "It is gone", "data": {"uri": "a:gone", "more": 1}},
        "a:legacy": {"code": -32002, "message": "It is gone" + advice},  # as another gateway says
        "a:refused": {"code": -32602, "message": "It is refused", "data": {"uri": "a:other"}},
        "a:broken": {"code": -32603, "message": "It is broken", "data": {"uri": "a:broken"}},
    }
    spec = {"legacy": is_legacy, "faults": {uri: {"error": error} for uri, error in faults.items()}}
    (tmp_path / "shelf.json").write_text(json.dumps(spec))
    with anyio.fail_after(60):
        async with gateway(mode, shelf=server_entry("archive.py", tmp_path / "shelf.json")) as client:
            errors = [await refusal(client, f"gateway://shelf/{uri}") for uri in faults]
    unknown = -32602 if mode == "auto" else -32002
    assert [(error.code, error.message, error.data) for error in errors] == [
        (unknown, "It is gone" + advice, {"uri": "gateway://shelf/a:gone", "more": 1}),
        (unknown, "It is gone" + advice, None),
        (-32602, "It is refused", {"uri": "a:other"}),
        (-32603, "It is broken", {"uri": "gateway://shelf/a:broken"}),
    ]


@both_eras
async def test_what_a_result_links_to_can_be_read_by_its_link(gateway: Any, two: Any, mode: str) -> None:
    with anyio.fail_after(60):
        async with gateway(mode, **two) as client:
            result: Any = await client.session.call_tool("old_one__link_3e63c983c9cc", {})
            link, embedded, web = result.content
            unlisted = await read(client, link.uri)
    assert isinstance(link, ResourceLink)
    assert isinstance(embedded, EmbeddedResource)
    assert unlisted == ("gateway://old%20one/note://old/unlisted", "note://old/unlisted of old")
    assert embedded.resource.uri == "gateway://old%20one/file:///shared.txt"
    assert web.uri == "https://example.com/a"


@both_eras
async def test_prompts_have_unique_names_and_are_got_from_their_server(gateway: Any, two: Any, mode: str) -> None:
    with anyio.fail_after(60):
        async with gateway(mode, **two) as client:
            prompts = {prompt.name: prompt for prompt in (await client.session.list_prompts()).prompts}
            got = {name: await client.session.get_prompt(name, {"who": "Ada"}) for name in prompts}
            with pytest.raises(MCPError) as unknown:
                await client.session.get_prompt("new__great")
    assert len(prompts) == 4
    assert {"new__greet"} < prompts.keys()
    assert [result.description for result in got.values()] == ["from new", "from new", "from old", "from old"]
    greeting, link = got["new__greet"].messages
    assert greeting.content.text == "greet Ada"
    assert link.content.uri == "gateway://new/file:///shared.txt"
    assert "new__greet" in unknown.value.message


@both_eras
async def test_completions_come_from_the_server_of_the_prompt_or_template(
    gateway: Any, two: Any, raw: Any, mode: str
) -> None:
    about_prompt = PromptReference(type="ref/prompt", name="new__greet")
    template = ResourceTemplateReference(type="ref/resource", uri="gateway://old%20one/note://old/{topic}")
    without = PromptReference(type="ref/prompt", name="plain__only")
    with anyio.fail_after(60):
        async with gateway(mode, plain=raw("failing"), **two) as client:
            none = await client.complete(without, {"name": "who", "value": "A"})
            prompt = await client.complete(about_prompt, {"name": "who", "value": "A"}, context_arguments={"a": "b"})
            topic = await client.complete(template, {"name": "topic", "value": "x"})
    assert none.completion.values == []
    assert prompt.completion.values == ["greet:A", json.dumps({"arguments": {"a": "b"}})]
    assert topic.completion.values[0] == "note://old/{topic}:x"


@both_eras
async def test_a_template_that_matches_nothing_is_known_by_itself_and_costs_no_other_request(
    gateway: Any, mode: str, tmp_path: Path
) -> None:
    tree = "tree://{path*}"  # of a kind that the SDK does not match
    (tmp_path / "tree.json").write_text(json.dumps({"resourceTemplates": [{"uriTemplate": tree, "name": "tree"}]}))
    entries = {"tree": server_entry("archive.py", tmp_path / "tree.json"), "new": library("modern", "new")}
    with anyio.fail_after(60):
        async with gateway(mode, **entries) as client:
            reference = ResourceTemplateReference(type="ref/resource", uri=tree)
            completed = await client.complete(reference, {"name": "path", "value": "a"})
            unknown = await refusal(client, "tree://a")
            templated = await read(client, "note://new/x")
    assert completed.completion.values == []
    assert unknown.message.startswith("Resource not found")
    assert templated == ("note://new/x", "note://new/x of new")


@pytest.mark.parametrize("asked", ["call", "read", "follow", "prompt", "complete"])
async def test_the_first_request_waits_for_servers_that_are_still_starting(gateway: Any, asked: str) -> None:
    # Pinned to a revision, the client sends nothing before the request.
    async with gateway("2026-07-28", new=library("modern", "new")) as client:
        with anyio.fail_after(30):
            match asked:
                case "call":
                    await client.session.call_tool("new__seen", {})
                case "read":
                    await read(client, "memo:new:1")
                case "follow":
                    async with client.listen(resource_subscriptions=["memo:new:1"]) as followed:
                        assert followed.honored.resource_subscriptions == ["memo:new:1"]
                case "prompt":
                    await client.session.get_prompt("new__greet", {"who": "Ada"})
                case _:
                    greet = PromptReference(type="ref/prompt", name="new__greet")
                    await client.complete(greet, {"name": "who", "value": "A"})


@both_eras
async def test_completions_of_a_template_wait_for_a_lazy_server_that_has_not_started_yet(
    gateway: Any, mode: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("XDG_CACHE_HOME", str(tmp_path))
    template = ResourceTemplateReference(type="ref/resource", uri="gateway://new/note://new/{topic}")
    with anyio.fail_after(60):
        async with gateway(mode, start_deadline=0, new={**library("modern", "new"), "lazy": True}) as client:
            completed = await client.complete(template, {"name": "topic", "value": "x"})
    assert completed.completion.values[0] == "note://new/{topic}:x"


@both_eras
async def test_completions_of_a_template_whose_server_was_never_reached_fail_as_reading_does(
    gateway: Any, raw: Any, mode: str
) -> None:
    template = ResourceTemplateReference(type="ref/resource", uri="gateway://broken/note://{topic}")
    with anyio.fail_after(60):
        async with gateway(mode, broken=raw("crashing")) as client:
            with pytest.raises(MCPError, match="'broken' is down since"):
                await client.complete(template, {"name": "topic", "value": "x"})


@both_eras
async def test_a_gateway_declares_no_more_than_its_servers_do(
    gateway: Any, raw: Any, two: Any, mode: str, tmp_path: Path
) -> None:
    silent = tmp_path / "silent.json"
    silent.write_text("{}")
    with anyio.fail_after(60):
        async with gateway(mode, plain=raw("good")) as client:
            without = client.server_capabilities
        async with gateway(mode, silent=server_entry("archive.py", silent)) as client:
            unannounced = client.server_capabilities
        async with gateway(mode, plain=raw("good"), **two) as client:
            with_both = client.server_capabilities
    assert without.tools is not None
    assert (without.resources, without.prompts, without.completions) == (None, None, None)
    assert unannounced.resources is not None
    assert not unannounced.resources.subscribe
    assert with_both.resources is not None
    assert with_both.resources.subscribe
    assert with_both.resources.list_changed
    assert with_both.prompts is not None
    assert with_both.completions is not None


@both_eras
async def test_a_server_that_is_down_costs_only_its_own(gateway: Any, two: Any, raw: Any, mode: str) -> None:
    with anyio.fail_after(60):
        async with gateway(mode, broken=raw("crashing"), **two) as client:
            resources = (await client.session.list_resources()).resources
            prompts = (await client.session.list_prompts()).prompts
            down = await refusal(client, "gateway://broken/file:///a")
            with pytest.raises(MCPError) as prompt:
                await client.session.get_prompt("broken__greet")
    assert (len(resources), len(prompts)) == (8, 4)
    assert "'broken' is down since" in down.message
    assert "'broken' is down since" in prompt.value.message


@both_eras
async def test_a_server_that_never_lists_is_waited_for_once_and_costs_only_its_own(
    gateway: Any, two: Any, mode: str, monkeypatch: pytest.MonkeyPatch, caplog: pytest.LogCaptureFixture
) -> None:
    monkeypatch.setattr("tools_search_server.upstreams.listing._LIST_SECONDS", 0.3)
    # The other requests must come while the failed list is remembered, however slow the machine is.
    monkeypatch.setattr("tools_search_server.upstreams.listing._FAILED_SECONDS", 60)
    with anyio.fail_after(60):
        async with gateway(mode, mute=library("modern", "mute", "mute"), **two) as client:
            listed = [(await client.session.list_resources()).resources]
            for _ in range(2):
                await client.session.call_tool("mute__change", {"what": ["resources"]})
                listed.append((await client.session.list_resources()).resources)
            result: Any = await client.session.call_tool("mute__seen", {})
            unlisted = await read(client, "gateway://mute/file:///shared.txt")
    assert [len(resources) for resources in listed] == [8, 8, 8]
    assert caplog.text.count("mute: its list of resources failed: it took more than") == 1
    assert not result.is_error
    assert unlisted[1] == "file:///shared.txt of mute"


@both_eras
async def test_a_toolset_shows_resources_and_prompts_of_the_servers_that_it_shows_whole(
    tmp_path: Path, two: Any, mode: str
) -> None:
    toolset = {"new": ["seen"], "old one": {"exclude": ["ask"]}}
    servers = {**two, "hidden": library("modern", "hidden")}
    file = tmp_path / "mcp.json"
    file.write_text(json.dumps({"mcpServers": servers, "toolsets": {"some": toolset}}))
    program = gateway_program(file, Limits(), GatewayOptions(20, 20, "some"))
    with anyio.fail_after(60):
        async with program.lifespan(), Client(program.server, mode=mode, extensions=[TOOLS_SEARCH]) as client:
            uris = [resource.uri for resource in (await client.session.list_resources()).resources]
            names = [prompt.name for prompt in (await client.session.list_prompts()).prompts]
            templates = [
                entry.uri_template for entry in (await client.session.list_resource_templates()).resource_templates
            ]
            single = await refusal(client, "gateway://new/file:///shared.txt")
            hidden = await refusal(client, "gateway://hidden/file:///shared.txt")
            bare = await refusal(client, "memo:hidden:1")
            program.on_stop()
    assert len(uris) == 4
    assert all(uri.startswith("gateway://old%20one/") for uri in uris)
    assert len(names) == 2
    assert templates == ["gateway://old%20one/note://old/{topic}"]
    assert "toolset" in single.message
    assert (single.code, single.data) == (-32600, {"uri": "gateway://new/file:///shared.txt"})
    assert hidden.message == bare.message
    assert bare.message.startswith("Resource not found. Use the URI of a listed resource")


@both_eras
async def test_a_page_of_large_resources_stays_below_what_clients_accept(
    gateway: Any, mode: str, tmp_path: Path
) -> None:
    large = [{"uri": f"x:{number}", "name": f"{number}", "description": "x" * 300_000} for number in range(8)]
    (tmp_path / "large.json").write_text(json.dumps({"resources": large}))
    pages: list[Any] = []
    with anyio.fail_after(60):
        async with gateway(mode, large=server_entry("archive.py", tmp_path / "large.json")) as client:
            while not pages or pages[-1].next_cursor:
                cursor = pages[-1].next_cursor if pages else None
                pages.append(await client.session.list_resources(params=PaginatedRequestParams(cursor=cursor)))
            with pytest.raises(MCPError, match="Invalid cursor"):
                await client.session.list_resources(params=PaginatedRequestParams(cursor="after-nothing"))
    assert all(len(page.model_dump_json()) < 1 << 20 for page in pages)
    assert [item.name for page in pages for item in page.resources] == [item["name"] for item in large]


@both_eras
async def test_a_toolset_of_single_tools_declares_nothing_else(tmp_path: Path, two: Any, mode: str) -> None:
    file = tmp_path / "mcp.json"
    file.write_text(json.dumps({"mcpServers": two, "toolsets": {"some": {"new": ["seen"]}}}))
    program = gateway_program(file, Limits(), GatewayOptions(20, 20, "some"))
    with anyio.fail_after(60):
        async with program.lifespan(), Client(program.server, mode=mode) as client:
            declared = client.server_capabilities
            program.on_stop()
    assert declared.tools is not None
    assert (declared.resources, declared.prompts, declared.completions) == (None, None, None)


@pytest.mark.rotating
@pytest.mark.parametrize(("compat", "mode"), [("meta-tools", "auto"), ("list-changed", "legacy")])
async def test_hosts_that_cannot_search_get_them_too(
    connect: Any, configuration: Any, two: Any, compat: str, mode: str
) -> None:
    tool = "old_one__link_3e63c983c9cc"
    call: tuple[str, dict[str, Any]] = (tool, {})
    if compat == "meta-tools":
        call = "call_tool", {"name": tool, "arguments": {}}
    with anyio.fail_after(60):
        async with connect("stdio", mode, "--compat", compat, "--config", str(configuration(**two))) as client:
            page = await client.session.list_resources()
            listed, ttl_ms = page.resources, page.ttl_ms
            prompts = (await client.session.list_prompts()).prompts
            result: Any = await client.session.call_tool(*call)
            followed = await read(client, result.content[0].uri)
    assert len(listed) == 8
    assert len(prompts) == 4
    assert ttl_ms == (5000 if mode == "auto" else 0)
    assert followed == ("gateway://old%20one/note://old/unlisted", "note://old/unlisted of old")
