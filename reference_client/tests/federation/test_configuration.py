"""Which servers: the hosts' file, an address, a command; and what is said of mistakes."""

from __future__ import annotations

import json
import math
import re
from collections.abc import Awaitable, Callable, Sequence
from contextlib import AbstractAsyncContextManager
from dataclasses import fields, replace
from inspect import isawaitable, signature
from pathlib import Path
from types import ModuleType
from typing import Any, cast

import pytest
import tools_search_hosts
from mcp_ext_tools_search.ranking import SimpleRanker
from tools_search_client.conversation.conversation import Conversation
from tools_search_client.conversation.messages import ToolCall, TurnStart
from tools_search_client.conversation.sources import FederationSource, ListedSource
from tools_search_client.errors import ConfigurationError, LocalError
from tools_search_client.federation.configuration import (
    Configuration,
    RankerName,
    ToolDiscovery,
    command_server,
    load_configuration,
    url_server,
)
from tools_search_client.federation.federation import (
    FederationOptions,
    connection_stated_in,
    open_federation,
    ranker_of,
)
from tools_search_client.found import FoundTool
from tools_search_client.providers import ChatCompletions
from tools_search_client.providers.results import result_parts, result_text
from tools_search_client.reranking import Reranking
from tools_search_client.servers.connection import ConnectionOptions, open_server
from tools_search_client.servers.discovery_options import DiscoveryOptions
from tools_search_client.servers.oauth import FileTokenStore, OAuth, loopback_redirect
from tools_search_client.servers.supervision import Backoff
from tools_search_hosts import (
    HttpTarget,
    Rule,
    ServerEntry,
    StdioTarget,
    Toolset,
    inspect_host_file,
    load_host_file,
    writers_warning,
)
from tools_search_hosts.configuration import _Entry  # pyright: ignore[reportPrivateUsage] - every member of an entry
from tools_search_hosts.locations import HOSTS, project_paths
from tools_search_ranking.semantic import minilm, universal


def load(tmp_path: Path, document: object, **environment: str) -> Configuration:
    path = tmp_path / "mcp.json"
    path.write_text(json.dumps(document))
    return load_configuration(path, environment=environment)


def with_discovery(**members: object) -> dict[str, object]:
    return {"mcpServers": {"a": {"command": "x"}}, "tool_discovery": members}


def with_tool_set(stated: object) -> dict[str, object]:
    return {"mcpServers": {"a": {"command": "x"}}, "tool_sets": {"research": stated}}


def test_a_hosts_file_is_read_as_it_is(tmp_path: Path):
    configuration = load(
        tmp_path,
        {
            "mcpServers": {
                "files": {"command": "files", "args": ["${HOME_OF_FILES}"], "env": {"A": "1"}, "defer_loading": True},
                "off": {"command": "off", "disabled": True},
                "far": {"url": "https://example.com/mcp", "headers": {"Authorization": "Bearer ${KEY:-none}"}},
                "old": {"url": "https://example.com/sse", "transport": "sse"},
                "cline": {"command": "cline", "transportType": "stdio"},
            }
        },
        HOME_OF_FILES="/data",
    )
    assert configuration.servers == (
        ServerEntry("files", StdioTarget("files", ("/data",), {"A": "1"}), defer_loading=True),
        ServerEntry("far", HttpTarget("https://example.com/mcp", {"Authorization": "Bearer none"})),
        ServerEntry("old", HttpTarget("https://example.com/sse", {}, "sse")),
        ServerEntry("cline", StdioTarget("cline")),
    )


def test_tool_discovery_is_kept_for_hosts(tmp_path: Path):
    section = {"enabled": True, "defer_all": True, "max_search_results": 7}
    configuration = load(tmp_path, {"servers": {"a": {"command": "a"}}, "tool_discovery": section})
    assert configuration.tool_discovery == ToolDiscovery(enabled=True, defer_all=True, max_search_results=7)


def test_a_configuration_with_tool_discovery_is_read_as_written(tmp_path: Path):
    document = {
        "clients": {"openai": {"provider": "openai"}},
        "models": {"gpt-4.1": {"client": "openai", "model": "gpt-4.1"}},
        "servers": {
            "core-tools": {"command": "python", "args": ["servers/core.py"]},
            "research-tools": {"command": "python", "args": ["servers/research.py"], "defer_loading": True},
            "data-tools": {"url": "http://localhost:9000", "transport": "streamable-http", "defer_loading": True},
        },
        "tool_discovery": {"enabled": True, "defer_all": False, "max_search_results": 5},
    }
    configuration = load(tmp_path, document)
    assert [(server.name, server.defer_loading) for server in configuration.servers] == [
        ("core-tools", False),
        ("research-tools", True),
        ("data-tools", True),
    ]
    assert configuration.tool_discovery == ToolDiscovery(enabled=True)


def test_a_toolset_with_descriptions_is_read_as_written(tmp_path: Path):
    servers = {name: {"command": name} for name in ("weather", "words", "fetch", "math")}
    research = {
        "description": "Research tools for weather and words",
        "servers": {"weather": True, "words": {"exclude": ["random_word"]}, "fetch": ["fetch_page"], "math": False},
    }
    (toolset,) = load(tmp_path, {"mcpServers": servers, "tool_sets": {"research": research}}).tool_sets.values()
    assert (toolset.name, toolset.description) == ("research", "Research tools for weather and words")
    shown = {server: rule and rule.shows("random_word") for server in servers for rule in [toolset.rule(server)]}
    assert shown == {"weather": True, "words": False, "fetch": False, "math": None}


def test_what_goes_beyond_the_documents_is_read_as_well(tmp_path: Path):
    members = {"auto": True, "context_share": 0.1, "context_window": 200_000, "max_tools": 128, "search_tool": False}
    document = {
        "mcpServers": {"a": {"command": "x", "delegate": "turn"}},
        "tool_discovery": {**members, "somebody_elses_member": 5},
    }
    configuration = load(tmp_path, document)
    assert configuration.tool_discovery == ToolDiscovery(
        auto=True, context_share=0.1, context_window=200_000, max_tools=128, search_tool=False
    )
    assert configuration.servers[0].delegate == "turn"


OTHER_OPTIONS: dict[str, Any] = {
    "ranker": "plain", "deadline": 1, "grace": 2, "rest": 3, "longest_rest": 4, "connect_timeout": 5,
    "request_timeout": 6, "call_timeout": 7, "listing_ttl": 8, "retry_after": 9, "busy_patience": 10,
    "search_again_after": 11, "era": "legacy", "follow_changes": False,
}  # fmt: skip


def page() -> str:
    return (Path(__file__).parents[2] / "docs" / "configuration.md").read_text(encoding="utf-8")


def rows_below(heading: str) -> dict[str, str]:
    """Return the second cell of each row by the first one, down to the next heading."""
    section = page().partition(heading)[2].partition("\n## ")[0]
    return dict(re.findall(r"^\| (`\w[^|]*`) \| ([^|]+?) \|", section, re.MULTILINE))


def names_in(text: str) -> list[str]:
    return re.findall(r"`(\w+)`", text)


@pytest.mark.parametrize("owner", [FederationOptions, ConnectionOptions, DiscoveryOptions, Conversation])
def test_an_option_can_be_stated_in_the_file_or_the_page_says_that_it_cannot(owner: type[object]):
    options = set(signature(owner).parameters) - {
        "connection",
        "discovery",
        "source",
    }  # which have options of their own
    in_file = {each.name for each in fields(ToolDiscovery)} | {"tool_sets"}
    assert sorted(options - in_file) == sorted(
        names_in(rows_below("## What is an option of the library alone")[f"`{owner.__name__}`"])
    )


def test_what_the_file_states_of_a_connection_has_an_effect(tmp_path: Path):
    stated = connection_stated_in(load(tmp_path, with_discovery(**OTHER_OPTIONS)).tool_discovery, SimpleRanker())
    default = connection_stated_in(ToolDiscovery(), SimpleRanker())
    assert (stated.era, stated.follow_changes) == ("legacy", False)
    for each in fields(DiscoveryOptions):
        if each.name not in {"ranker", "authorization"}:
            values = [getattr(options.discovery, each.name) for options in (stated, default)]
            assert len({None, *values}) == 3, f"{each.name} has no effect"


def test_the_page_on_the_configuration_has_every_member_of_an_entry_with_its_default():
    rows = rows_below("## The entry of a server")
    shown = [pair for names, values in rows.items() for pair in zip(names_in(names), values.split(", "), strict=False)]
    entry = json.loads(json.dumps({each.alias or name: each.default for name, each in _Entry.model_fields.items()}))
    assert {name for names in rows for name in names_in(names)} == set(entry)
    assert all(json.loads(value) == entry[name] for name, value in shown)


def test_the_page_on_the_configuration_has_every_member_with_its_default():
    defaults = {f"`{each.name}`": json.dumps(getattr(ToolDiscovery(), each.name)) for each in fields(ToolDiscovery)}
    assert rows_below("## `tool_discovery`") == defaults


def test_the_page_on_the_configuration_has_every_known_host_and_file_of_a_project():
    assert sorted(rows_below("## Hosts whose files")) == [f"`{name}`" for name in sorted(HOSTS)]
    assert all(f"`{place.path}`" in page() for place in project_paths(Path()))


@pytest.mark.parametrize(("model", "ranker"), [(minilm, "semantic"), (universal, "multilingual")])
def test_a_ranking_whose_extra_is_missing_says_what_to_install(
    model: ModuleType, ranker: RankerName, monkeypatch: pytest.MonkeyPatch
):
    monkeypatch.setattr(model, "_PACKAGE", "not_installed")
    with pytest.raises(ConfigurationError, match=ranker):
        ranker_of(ToolDiscovery(ranker=ranker))


def test_tool_discovery_is_off_where_nothing_is_said(tmp_path: Path):
    assert not load(tmp_path, {"mcpServers": {"a": {"command": "a"}}}).tool_discovery.enabled


@pytest.mark.parametrize(
    ("document", "told"),
    [
        ([], "must be an object"),
        ({}, "neither `mcpServers` nor `servers`"),
        ({"mcpServers": {"a": {}}}, "needs `command`"),
        ({"mcpServers": {"a": {"url": "ftp://x"}}}, "`url` must be like"),
        ({"mcpServers": {"a": {"command": "x", "args": ["${NOWHERE}"]}}}, "NOWHERE is not set"),
        ({"mcpServers": {"a": {"command": "x"}}, "tool_discovery": 5}, "`tool_discovery` must be an object"),
        ({"mcpServers": {"a": {"command": "x"}}, "tool_discovery": {"enabled": 1}}, "true or false"),
        ({"mcpServers": {"a": {"command": "x"}}, "tool_discovery": {"max_search_results": 0}}, "at least 1"),
        (with_discovery(max_search_results=True), "`max_search_results` must be a whole number of at least 1"),
        (with_discovery(max_tools="128"), "`max_tools` must be a whole number of at least 1"),
        (with_discovery(context_share=5), "`context_share` must be a number above 0 and at most 1, such as 0.05"),
        (with_discovery(context_share="5 %"), "`context_share` must be a number above 0 and at most 1, such as 0.05"),
        (with_discovery(least_confidence=1.5), "`least_confidence` must be a number from 0 to 1, such as 0.04"),
        (with_discovery(least_confidence=True), "`least_confidence` must be a number from 0 to 1, such as 0.04"),
        (with_discovery(defer_al=True), "`defer_al` is unknown: did you mean `defer_all`?"),
        (with_tool_set(5), '`tool_sets.research` must be like {"description": "…", "servers": {"its name": true}}'),
        (with_tool_set({"servers": ["a"]}), "`tool_sets.research` must be like"),
        (with_tool_set({"description": 5, "servers": {}}), "`tool_sets.research` must be like"),
        (with_tool_set({"servers": {"b": True}}), "`tool_sets.research.servers.b`: there is no such server"),
        (with_tool_set({"servers": {"a": {"exclude": 5}}}), "`tool_sets.research.servers.a` must be true, a list of"),
        ({"mcpServers": {"a": {"command": "x"}}, "tool_sets": []}, "`tool_sets` must be an object"),
        ({"mcpServers": {"a": {"command": "x", "delegate": True}}}, '`delegate` must be "turn"'),
    ],
)
def test_a_mistake_in_the_file_is_named_with_its_remedy(tmp_path: Path, document: object, told: str):
    with pytest.raises(ConfigurationError) as error:
        load(tmp_path, document)
    assert told in str(error.value)
    assert "mcp.json" in str(error.value)


@pytest.mark.anyio
@pytest.mark.parametrize("entries", [{}, {"a": {"command": "x", "disabled": True}}])
async def test_a_file_whose_user_removed_the_last_server_is_a_federation_to_which_servers_can_be_added(
    tmp_path: Path, liar: Any, entries: dict[str, Any]
):
    configuration = load(tmp_path, {"mcpServers": entries, "tool_discovery": {"enabled": True}})
    async with open_federation(configuration) as servers:
        conversation = Conversation(servers)
        begun = await conversation.begin_turn("make a note")
        assert (begun, conversation.offer().tools) == (TurnStart(), ())
        servers.add(ServerEntry("added", liar().target))
        await conversation.begin_turn()
        assert "added__make_alpha" in [tool.name for tool in conversation.offer().tools]
    with pytest.raises(tools_search_hosts.ConfigurationError, match="no server that is switched on: add one under"):
        load_host_file(tmp_path / "mcp.json")  # a gateway to nothing is a mistake


def test_every_problem_of_a_file_is_told_at_once(tmp_path: Path):
    document = {
        "mcpServers": {"a": {"comand": "x"}, "b": {"command": "${NOWHERE}"}, "c": {"command": "x"}},
        "tool_discovery": {"enabled": 1, "maxTools": 0},
        "tool_sets": {"some": {"servers": {"d": True}}},
    }
    with pytest.raises(ConfigurationError) as error:
        load(tmp_path, document)
    places = ["server 'a': needs `command`", "server 'a': `comand` is unknown", "server 'b': `command`"]
    places += ["`tool_discovery`: `enabled`", "`tool_discovery`: `max_tools`", "`tool_sets.some.servers.d`"]
    assert [problem[: len(place)] for problem, place in zip(error.value.problems, places, strict=True)] == places


def test_tool_discovery_is_understood_in_camel_case(tmp_path: Path):
    document = {
        "mcpServers": {"a": {"command": "x", "deferLoading": True}},
        "toolDiscovery": {"enabled": True, "maxSearchResults": 7},
        "toolSets": {"some": {"servers": {"a": ["b"]}}},
    }
    configuration = load(tmp_path, document)
    assert configuration.servers[0].defer_loading
    assert configuration.tool_discovery == ToolDiscovery(enabled=True, max_search_results=7)
    assert list(configuration.tool_sets) == ["some"]


def test_a_file_that_is_not_there_is_named(tmp_path: Path):
    with pytest.raises(LocalError, match="cannot be read"):
        load_configuration(tmp_path / "nowhere.json")


def test_two_servers_cannot_share_a_name():
    server = ServerEntry("a", StdioTarget("a"))
    with pytest.raises(LocalError, match="have the same name"):
        Configuration((server, server))


def test_a_command_is_split_into_words_without_a_shell():
    assert command_server("run 'two words' $HOME").servers[0].target == StdioTarget("run", ("two words", "$HOME"))
    assert command_server(["run", "two words"]).servers[0].target == StdioTarget("run", ("two words",))


@pytest.mark.parametrize("line", ["", "  ", "run 'unclosed", []])
def test_a_command_that_cannot_be_split_is_refused(line: str | list[str]):
    with pytest.raises(ConfigurationError):
        command_server(line)


def test_an_address_has_its_headers():
    target = url_server("http://127.0.0.1:1/mcp", {"X-Key": "1"}).servers[0].target
    assert target == HttpTarget("http://127.0.0.1:1/mcp", {"X-Key": "1"})


@pytest.mark.parametrize(
    ("url", "name"),
    [
        ("https://mcp.example.com/v1", "mcp-example-com"),
        ("http://ann:secret@127.0.0.1:8000/mcp", "at-127-0-0-1-8000"),
        ("http://[::1]:1/", "at-1-1"),
    ],
)
def test_a_server_without_a_name_is_called_after_its_host_or_its_program(url: str, name: str):
    assert url_server(url).servers[0].name == name
    assert url_server(url, name="mine").servers[0].name == "mine"
    assert command_server("/opt/my_server.py --fast").servers[0].name == "my-server"


def test_an_address_that_is_none_is_refused():
    with pytest.raises(ConfigurationError, match="https://host/mcp"):
        url_server("localhost")


def test_a_path_can_be_text_wherever_a_public_function_takes_one(tmp_path: Path):
    document = {"mcpServers": {"a": {"command": "x", "cwd": "${workspaceFolder}"}}}
    (tmp_path / "mcp.json").write_text(json.dumps(document))
    file, folder = f"{tmp_path}/mcp.json", str(tmp_path)
    expected = [StdioTarget("x", cwd=folder, expanded={})]
    assert [entry.target for entry in load_configuration(file, workspace=folder).servers] == expected
    assert [entry.target for entry in load_host_file(file).servers] == expected
    assert [entry.target for entry in inspect_host_file(file, workspace=folder)[0].servers] == expected
    assert writers_warning(file) is None
    assert FileTokenStore(folder).folder == tmp_path


async def made(attempt: Callable[[], Any]) -> None:
    if isawaitable(begun := attempt()):
        await begun


@pytest.mark.anyio
async def test_an_argument_that_is_taken_for_another_is_refused_with_what_to_pass(tmp_path: Path):
    entry, path = ServerEntry("a", HttpTarget("http://127.0.0.1:9/mcp")), tmp_path / "mcp.json"
    configuration, wrong = Configuration((entry,)), cast("Any", path)
    conversation = Conversation(ListedSource(()))
    adapter = ChatCompletions(conversation, "a-model")

    def entered(opened: AbstractAsyncContextManager[object]) -> Awaitable[object]:
        return opened.__aenter__()

    async with open_federation(configuration) as federation:
        mistaken: list[tuple[str, Callable[[], Any]]] = [
            ("a `Configuration`: use `load_configuration`", lambda: entered(open_federation(wrong))),
            ("a `FederationOptions`: ", lambda: entered(open_federation(configuration, wrong))),
            ("a `StdioTarget` or `HttpTarget`", lambda: entered(open_server(wrong))),
            ("a `ConnectionOptions`", lambda: entered(open_server(entry.target, wrong))),
            ("an `httpx2.Auth` or a function", lambda: ConnectionOptions(auth=wrong)),
            ("the text that `save` returned", lambda: conversation.restore(wrong)),
            ("a `ServerEntry`, ", lambda: federation.add(wrong)),
            ("a tuple of `ServerEntry` objects", lambda: Configuration(wrong)),
            ("a `ServerEntry`", lambda: Configuration((wrong,))),
            ("a `ToolDiscovery`", lambda: Configuration((), wrong)),
            ("a `Federation` (see `open_federation`)", lambda: Conversation(wrong)),
            ("a `ToolDiscovery`", lambda: Conversation(federation, wrong)),
            ("a `Federation`: see `open_federation`", lambda: FederationSource(wrong)),
            ("a `ToolDiscovery`", lambda: FederationSource(federation, wrong)),
            ("a `Conversation`", lambda: ChatCompletions(wrong, "a-model")),
            ("an address, or the `HttpTarget`", lambda: OAuth().sign_in(wrong, wrong)),
            ("an address, or the `HttpTarget`", lambda: OAuth().sign_out(wrong)),
            ("a `ConnectionOptions`", lambda: FederationOptions(connection=wrong)),
            ("a `Reranking` of your function", lambda: FederationOptions(reranking=wrong)),
            ("a function of a server's entry", lambda: FederationOptions(connection_to=wrong)),
            ("a function", lambda: DiscoveryOptions(ranker=wrong)),
            ("a function", lambda: DiscoveryOptions(authorization=wrong)),
            ("a function", lambda: ConnectionOptions(elicitation_callback=wrong)),
            ("`True` or `False`", lambda: ConnectionOptions(follow_changes=wrong)),
            ("a `DiscoveryOptions`", lambda: ConnectionOptions(discovery=wrong)),
            ("an `mcp_types.Implementation`", lambda: ConnectionOptions(client_info=wrong)),
            ("a `WireObserver`, with", lambda: ConnectionOptions(observer=wrong)),
            ("an `mcp_types.SamplingCapability`", lambda: ConnectionOptions(sampling_capabilities=wrong)),
            ("a text", lambda: OAuth(client_name=wrong)),
            ("an `mcp.shared.auth.OAuthClientInformationFull`", lambda: OAuth(client=wrong)),
            ("an HTTPS URL with a path", lambda: OAuth(client_metadata_url=wrong)),
            ("a function that shows", lambda: entered(loopback_redirect(wrong))),
            ("a function of a query and tools", lambda: Reranking(wrong)),
            ("a `StdioTarget` or `HttpTarget` (see", lambda: Configuration((ServerEntry("a", wrong),))),
            ("an address", lambda: url_server(wrong)),
            ("a mapping of names to values", lambda: url_server("http://127.0.0.1:9/mcp", wrong)),
            ("a program and its arguments", lambda: command_server(wrong)),
            ("a text that describes the need", lambda: federation.search(wrong)),
            ("a text that describes the need", lambda: federation.search_resources(wrong)),
            ("a whole number", lambda: federation.search("add", limit=wrong)),
            ("a collection of names", lambda: federation.search("add", servers=wrong)),
            ("the name of a server", lambda: federation.search("add", servers=[wrong])),
            ("a number of seconds", lambda: federation.list(deadline=wrong)),
            ("the name of a tool, such as the `name` of a `FoundTool`", lambda: federation.call(wrong)),
            ("the name of a tool, such as the `name` of a `FoundTool`", lambda: federation.resolve(wrong)),
            ("the name of a server", lambda: federation.remove(wrong)),
            ("the name of a server", lambda: federation.read_resource(wrong, "file:///a")),
            ("a `Reranking` of your function", lambda: Conversation(federation, reranking=wrong)),
            ("an async function", lambda: Conversation(federation, delegate=wrong)),
            ("a `Ranker`; ", lambda: Conversation(federation, ranker=wrong)),
            ("a function that counts", lambda: Conversation(federation, count_tokens=wrong)),
            ("a mapping of names to `Toolset`s", lambda: Conversation(federation, tool_sets=wrong)),
            ("a `Toolset`", lambda: Conversation(federation, tool_sets={"some": wrong})),
            ("a sequence of `SyntheticTool`s", lambda: Conversation(federation, synthetic_tools=wrong)),
            ("a `SyntheticTool`, with", lambda: Conversation(federation, synthetic_tools=[wrong])),
            ("the user's text", lambda: conversation.begin_turn(wrong)),
            ("a `Toolset` or the name of one", lambda: conversation.begin_turn(toolset=wrong)),
            ("a `ToolCall`, ", lambda: conversation.take(wrong)),
            ("the name of a tool", lambda: ToolCall(wrong)),
            ("a mapping: parse JSON text", lambda: ToolCall("search_tools", wrong)),
            ("the `Forward` that `take` returned", lambda: conversation.refused(wrong)),
            ("the `Forward` that `take` returned", lambda: conversation.failed(wrong, LocalError())),
            ("a collection of names", lambda: conversation.forget_unless(wrong)),
            ("a number of tools, or `None`", lambda: conversation.limit(wrong)),
            ("a `ServerOffer`: `ListedSource.of` takes tools", lambda: ListedSource([wrong])),
            ("a `FoundTool`", lambda: ListedSource((), [wrong])),
            ("a collection of names", lambda: ListedSource.of({}, deferred=wrong)),
            ("a collection of names", lambda: ListedSource.by_prefix((), wrong)),
            ("a collection of names", lambda: ListedSource.by_prefix((), (), deferred=wrong)),
            ("a collection of names", lambda: ChatCompletions(conversation, "a-model", reads=wrong)),
            ("the user's text, which attachments follow", lambda: adapter.say(wrong)),
            ("an `Attachment`", lambda: adapter.say("Look!", wrong)),
            ("one of the calls that `read` returned", lambda: adapter.answer(wrong, wrong)),
            ("the result of `Federation.call`, or a `Reply`", lambda: adapter.answer(ToolCall("add"), wrong)),
            ("a number of turns", lambda: adapter.compact(wrong)),
            ("what `Federation.call` returned", lambda: result_text(wrong)),
            ("what `Federation.call` returned", lambda: result_parts(wrong)),
        ]
        for remedy, attempt in mistaken:
            problem = re.escape(f"is of type `{type(path).__name__}`, but must be {remedy}")
            with pytest.raises(LocalError, match=problem):
                await made(attempt)
    with pytest.raises(LocalError, match="`era` is 'new', but must be one of 'auto', 'legacy'"):
        ConnectionOptions(era=cast("Any", "new"))
    with pytest.raises(LocalError, match="`log_level` is 'loud', but must be one of 'debug', 'info'"):
        ConnectionOptions(log_level=cast("Any", "loud"))
    with pytest.raises(LocalError, match=re.escape(f"FileTokenStore({str(path)!r})")):
        OAuth(wrong)
    with pytest.raises(LocalError, match="`path` is of type `dict`, but must be a file's path"):
        load_configuration(cast("Any", {"mcpServers": {}}))
    with pytest.raises(ValueError, match="`always_allow` must be a set of names"):
        ServerEntry("a", entry.target, always_allow=cast("Any", "git_log"))
    with pytest.raises(ValueError, match="`delegate` must be None or 'turn'"):
        ServerEntry("a", entry.target, delegate=cast("Any", "Turn"))
    with pytest.raises(ValueError, match="`era` must be None or 'auto' or 'legacy'"):
        ServerEntry("a", entry.target, era=cast("Any", "modern"))
    for transport in ("SSE", "sse ", "http+sse", None, ["sse"]):
        with pytest.raises(ValueError, match="`transport` must be 'streamable-http' or 'sse'"):
            HttpTarget("http://127.0.0.1:9/mcp", {}, cast("Any", transport))
    not_of_texts: dict[str, Callable[[], Any]] = {
        "command": lambda: StdioTarget(wrong),
        "args": lambda: StdioTarget("program", wrong),
        "env": lambda: StdioTarget("program", (), {"PORT": cast("Any", 80)}),
        "cwd": lambda: StdioTarget("program", (), {}, wrong),
        "url": lambda: HttpTarget(wrong),
        "headers": lambda: HttpTarget("http://127.0.0.1:9/mcp", {"X-Limit": cast("Any", 5)}),
    }
    for member, create in not_of_texts.items():
        with pytest.raises(ValueError, match=f"`{member}` must contain texts only"):
            create()
    with pytest.raises(ValueError, match="`args` must be a tuple"):
        StdioTarget("program", cast("Any", "--fast"))
    with pytest.raises(LocalError, match="call `begin_turn`, or `restore`, first"):
        conversation.offer()


@pytest.mark.anyio
@pytest.mark.parametrize("wrong", [math.nan, -1, 0, True, "soon"])
async def test_every_time_that_a_host_states_is_a_number_of_seconds_above_0(wrong: Any):
    entry = ServerEntry("a", HttpTarget("http://127.0.0.1:9/mcp"))
    mistaken: dict[str, Callable[[], Any]] = {
        "request_timeout": lambda: DiscoveryOptions(request_timeout=wrong),
        "call_timeout": lambda: DiscoveryOptions(call_timeout=wrong),
        "connect_timeout": lambda: FederationOptions(connect_timeout=wrong),
        "deadline": lambda: ToolDiscovery(deadline=wrong),
        "seconds": lambda: loopback_redirect(seconds=wrong).__aenter__(),
    }
    async with open_federation(Configuration((entry,))) as federation:
        mistaken |= {
            "start_seconds": lambda: federation.add(replace(entry, name="b", start_seconds=wrong)),
            "call_seconds": lambda: federation.add(replace(entry, name="b", call_seconds=wrong)),
        }
        mistaken["deadline"] = lambda: FederationOptions(deadline=wrong)
        for name, attempt in mistaken.items():
            with pytest.raises(LocalError, match=f"`{name}` is .*, but must be a number of seconds above 0"):
                await made(attempt)


@pytest.mark.anyio
@pytest.mark.parametrize("wrong", [math.nan, True, "soon"])
async def test_the_deadline_of_a_request_is_a_number(wrong: Any):
    entry = ServerEntry("a", HttpTarget("http://127.0.0.1:9/mcp"))
    async with open_federation(Configuration((entry,))) as federation:
        mistaken: list[Callable[[], Any]] = [
            lambda: federation.search("add", deadline=wrong),
            lambda: federation.search_resources("add", deadline=wrong),
            lambda: federation.list(deadline=wrong),
            lambda: federation.prompts(deadline=wrong),
            lambda: federation.describe(deadline=wrong),
            lambda: federation.resolve("add", deadline=wrong),
            lambda: federation.resolve("a__add", deadline=wrong),
        ]
        for attempt in mistaken:
            with pytest.raises(LocalError, match=r"`deadline` is .*, but must be a number of seconds"):
                await made(attempt)


@pytest.mark.parametrize("wrong", [math.nan, -1, True, "soon"])
def test_a_pause_can_be_0_seconds_and_not_less(wrong: Any):
    FederationOptions(grace=0, rest=Backoff(0, 0))
    pauses = dict.fromkeys(("listing_ttl", "retry_after", "busy_patience", "search_again_after"), 0)
    DiscoveryOptions(**pauses)
    ToolDiscovery(**pauses, grace=0, rest=0, longest_rest=0)
    mistaken: list[Callable[[], Any]] = [
        lambda: FederationOptions(grace=wrong),
        lambda: ToolDiscovery(grace=wrong),
        lambda: Backoff(wrong),
        lambda: Backoff(most_seconds=wrong),
        lambda: DiscoveryOptions(listing_ttl=wrong),
        lambda: DiscoveryOptions(retry_after=wrong),
        lambda: DiscoveryOptions(busy_patience=wrong),
        lambda: DiscoveryOptions(search_again_after=wrong),
    ]
    for attempt in mistaken:
        with pytest.raises(LocalError, match="but must be a number of seconds from 0 on"):
            attempt()


def test_what_is_wrong_with_tool_discovery_is_said_of_each_member_in_code_as_in_a_file(tmp_path: Path):
    wrong: dict[str, Any] = {"enabled": 1, "max_search_results": True, "max_tools": 0, "ranker": "best", "deadline": -1}
    kinds = {
        "enabled": "true or false",
        "max_search_results": "a whole number of at least 1",
        "max_tools": "a whole number of at least 1",
        "ranker": '"fielded", "plain", "semantic" or "multilingual"',
        "deadline": "a number of seconds above 0",
    }
    with pytest.raises(LocalError) as raised:
        ToolDiscovery(**wrong)
    assert str(raised.value).split("; ") == [
        f"`{name}` is {wrong[name]!r}, but must be {kind}" for name, kind in kinds.items()
    ]
    with pytest.raises(ConfigurationError) as refused:
        load(tmp_path, with_discovery(**wrong))
    assert list(refused.value.problems) == [
        f"`tool_discovery`: `{name}` must be {kind}" for name, kind in kinds.items()
    ]


@pytest.mark.parametrize("number", [0, -1, True, "5"])
@pytest.mark.anyio
async def test_every_number_that_a_host_states_is_a_whole_one_of_at_least_1(number: Any):
    conversation = Conversation(ListedSource(()))
    async with open_federation(Configuration(())) as federation:
        mistaken: list[Callable[[], Any]] = [
            lambda: federation.search("add", limit=number),
            lambda: conversation.limit(number),
            lambda: ChatCompletions(conversation, "a-model").compact(number),
            lambda: Reranking(_as_they_are, pool=number),
            lambda: ToolDiscovery(max_tools=number),
        ]
        for attempt in mistaken:
            with pytest.raises(LocalError, match="but must be a"):
                await made(attempt)


async def _as_they_are(_: str, tools: Sequence[FoundTool]) -> Sequence[str]:
    return [tool.name for tool in tools]


@pytest.mark.anyio
async def test_an_empty_mapping_in_place_of_a_toolset_does_not_show_every_tool():
    nothing = cast("Any", {})
    conversation = Conversation(ListedSource(()))
    with pytest.raises(LocalError, match="a `Toolset` or the name of one"):
        await conversation.begin_turn(toolset=nothing)
    with pytest.raises(LocalError, match="a `Toolset` or the name of one"):
        await conversation.restore(conversation.save(), toolset=nothing)


def test_a_toolset_is_made_of_rules_and_a_rule_of_whole_names():
    with pytest.raises(ValueError, match="`rules` must map each server to a `Rule`"):
        Toolset("some", cast("Any", {"git": True}))
    with pytest.raises(ValueError, match="`names` must be a set of names"):
        Rule(cast("Any", "pay_all"), excludes=False)


def test_a_rule_that_names_tools_has_to_say_whether_it_hides_them():
    with pytest.raises(TypeError, match="excludes"):
        Rule(frozenset({"pay"}))  # pyright: ignore[reportCallIssue] - a type checker says so, too
    assert [Rule(frozenset({"pay"}), excludes=excludes).shows("pay") for excludes in (True, False)] == [False, True]
    assert [Rule(excludes=excludes).shows_all for excludes in (True, False)] == [True, False]
