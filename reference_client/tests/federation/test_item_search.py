"""Resources, templates and prompts of many real servers are found as one, by search or by list."""

from __future__ import annotations

import json
import math
import sys
from collections.abc import AsyncGenerator, Callable
from contextlib import asynccontextmanager
from pathlib import Path
from typing import Any

import anyio
import pytest
from mcp_types import Prompt, Resource, ResourceTemplate
from tools_search_client import (
    Configuration,
    Federation,
    FederationOptions,
    FoundItem,
    HttpTarget,
    LocalError,
    ServerEntry,
    StdioTarget,
    open_federation,
)
from tools_search_client.servers.connection import ConnectionOptions
from tools_search_client.servers.discovery_options import DiscoveryOptions

pytestmark = pytest.mark.anyio

ARCHIVE = Path(__file__).parents[3] / "reference_server" / "tests" / "servers" / "archive.py"
EXTENSION = "io.github.tools-search/tools-search"

HANDBOOK: dict[str, Any] = {
    "resources": [
        {"uri": "docs://returns.md", "name": "returns.md", "title": "Returns and losses"},
        {"uri": "docs://travel.md", "name": "travel.md", "description": "How trips are paid back."},
    ],
    "resourceTemplates": [{"uriTemplate": "docs://{year}/report", "name": "report", "description": "A yearly report."}],
    "prompts": [{"name": "answer", "description": "Drafts a reply.", "arguments": [{"name": "complaint"}]}],
}
"""A server that only lists."""

LIBRARY: dict[str, Any] = {
    "resources": [{"uri": f"book:{number}", "name": f"book {number}"} for number in range(4)],
    "prompts": [{"name": "review", "description": "Reviews a book."}, {"name": "answer"}],
    "settings": {"resources": {"contents": True}, "prompts": {}},
    "found": {
        "resources/search": [
            {"uri": "book:2", "name": "book 2", "_meta": {EXTENSION: {"score": 1, "matched": ["contents"]}}},
            {"uri": "book:0", "name": "book 0"},
            {"name": "of which nobody knows where it is"},
        ],
        "prompts/search": [{"name": "review"}],
        "resources/templates/search": [{"uriTemplate": "book:{number}", "name": "books"}],
    },
}
"""A server that searches."""


@pytest.fixture
def write(tmp_path: Path) -> Callable[[str, dict[str, Any]], ServerEntry]:
    """Write what a server has, and return its entry."""

    def entry(name: str, spec: dict[str, Any]) -> ServerEntry:
        file = tmp_path / f"{name}.json"
        file.with_suffix(".new").write_text(json.dumps(spec))
        file.with_suffix(".new").rename(file)
        return ServerEntry(name, StdioTarget(sys.executable, (str(ARCHIVE), str(file))))

    return entry


@pytest.fixture
def opened(write: Any) -> Callable[..., Any]:
    """Open a federation over servers that have what is given."""

    @asynccontextmanager
    async def federation(**specs: Any) -> AsyncGenerator[Federation]:
        configuration = Configuration(tuple(write(name, spec) for name, spec in specs.items()))
        async with open_federation(configuration) as servers:
            yield servers

    return federation


@pytest.fixture
def asked(tmp_path: Path) -> Callable[[str], list[str]]:
    """Return the methods of the requests to a server, in order."""
    return lambda name: [line.split()[0] for line in (tmp_path / f"{name}.json.log").read_text().splitlines()]


def keys(found: tuple[FoundItem[Any], ...]) -> list[tuple[str, str]]:
    return [(item.server, item.key) for item in found]


async def test_contents_count_as_not_searched_while_a_server_says_that_it_has_not_read_them(opened: Any) -> None:
    unread: dict[str, Any] = {
        "resultType": "complete",
        "resources": [],
        "_meta": {"io.github.tools-search/unread": True},
    }
    with anyio.fail_after(60):
        async with opened(
            library=LIBRARY, gateway=LIBRARY | {"faults": {"resources/search": {"result": unread}}}
        ) as servers:
            found = await servers.search_resources("a book", deadline=math.inf)
    assert {report.server: report.contents for report in found.servers} == {"library": True, "gateway": False}


MAIL: dict[str, Any] = {
    "resources": [{"uri": f"mail:{number}", "name": f"parcel {number}"} for number in range(12)],
}
"""A server that only lists, more than a page of resources with one word of a query."""


@pytest.mark.parametrize("legacy", [True, False])
async def test_a_document_found_by_what_it_says_comes_before_names_that_share_a_word_with_the_query(
    opened: Any, legacy: bool
) -> None:
    policy = {"uri": "docs://parcel-losses", "name": "Who pays for a lost parcel"}
    with anyio.fail_after(60):
        async with opened(mail=MAIL | {"legacy": legacy}, library=LIBRARY | {"legacy": legacy}) as servers:
            found = await servers.search_resources("who pays when a parcel is lost", deadline=math.inf)
        async with opened(
            mail={**MAIL, "resources": [*MAIL["resources"], policy]}, library=LIBRARY | {"legacy": legacy}
        ) as servers:
            with_policy = await servers.search_resources("who pays when a parcel is lost", deadline=math.inf)
    assert keys(found.items)[0] == ("library", "book:2")
    assert {item.server for item in found.items} == {"mail", "library"}
    assert keys(with_policy.items)[:2] == [("mail", "docs://parcel-losses"), ("library", "book:2")]


@pytest.mark.parametrize("legacy", [True, False])
async def test_a_document_is_found_through_three_servers_of_which_one_cannot_search(opened: Any, legacy: bool) -> None:
    with anyio.fail_after(60):
        async with opened(
            handbook=HANDBOOK | {"legacy": legacy},
            library=LIBRARY | {"legacy": legacy},
            shop=LIBRARY | {"legacy": not legacy, "found": {}},
        ) as servers:
            found = await servers.search_resources("travel trips", deadline=math.inf)
            templates = await servers.search_resource_templates("yearly report", deadline=math.inf)
            prompts = await servers.search_prompts("reviews", deadline=math.inf)
    assert set(keys(found.items)) == {("handbook", "docs://travel.md"), ("library", "book:2"), ("library", "book:0")}
    by_key = {item.key: item for item in found.items}
    travel, book = by_key["docs://travel.md"], by_key["book:2"]
    assert isinstance(travel.item, Resource)
    assert (travel.mode, travel.own_rank) == ("list", 1)
    assert (book.mode, book.own_rank, book.hit.matched) == ("search", 1, ["contents"])
    assert [report.contents for report in found.servers] == [False, True, True]
    assert {report.contents for report in (*templates.servers, *prompts.servers)} == {None}
    assert [(report.server, report.mode, report.hits, report.left_out) for report in found.servers] == [
        ("handbook", "list", 1, 0),
        ("library", "search", 2, 0),
        ("shop", "search", 0, 0),
    ]
    assert not found.failed
    assert keys(templates.items)[0] == ("handbook", "docs://{year}/report")
    assert isinstance(templates.items[0].item, ResourceTemplate)
    assert ("library", "review") in keys(prompts.items)
    assert isinstance(prompts.items[0].item, Prompt)


async def test_a_server_that_does_not_offer_a_search_is_not_sent_one(opened: Any, asked: Any) -> None:
    with anyio.fail_after(60):
        async with opened(handbook=HANDBOOK, tools_only=HANDBOOK | {"settings": {"resources": True}}) as servers:
            found = await servers.search_resources("returns")
    assert len(found.items) == 2
    for name in ("handbook", "tools_only"):
        assert not [method for method in asked(name) if method.endswith("/search")]


@pytest.mark.parametrize(
    ("fault", "why"),
    [
        (-32601, "was refused"),
        (-32021, "was refused"),
        ({"result": {"resultType": "complete", "resources": "none"}}, "returned an invalid result"),
    ],
)
async def test_a_server_that_cannot_search_after_all_is_listed(opened: Any, fault: Any, why: str) -> None:
    spec = LIBRARY | {"faults": {"resources/search": fault}}
    with anyio.fail_after(60):
        async with opened(library=spec) as servers:
            found = await servers.search_resources("book 3", limit=1)
    (report,) = found.servers
    assert keys(found.items) == [("library", "book:3")]
    assert report.mode == "list"
    assert why in (report.fallback or "")


async def test_what_a_list_does_not_hold_is_reported_missing(opened: Any) -> None:
    settings = {"resources": {"unlisted": True}}
    spec = LIBRARY | {"settings": settings, "faults": {"resources/search": -32601}}
    with anyio.fail_after(60):
        async with opened(library=spec) as servers:
            found = await servers.search_resources("book")
    assert "items that the server does not list are missing" in (found.servers[0].fallback or "")


async def test_servers_that_fail_are_named_and_the_others_answer_in_time(opened: Any) -> None:
    busy = {"error": {"code": -32603, "message": "busy", "data": {"retryAfterMs": 60_000}}}
    with anyio.fail_after(60):
        async with opened(
            handbook=HANDBOOK,
            mute=LIBRARY | {"faults": {"resources/search": "mute"}},
            busy=LIBRARY | {"faults": {"resources/search": busy}},
            refused=HANDBOOK | {"faults": {"resources/list": -32603}},
            wrong=HANDBOOK | {"faults": {"resources/list": {"result": {"resources": {}}}}},
            looping=HANDBOOK | {"faults": {"resources/list": {"result": {"resources": [], "nextCursor": "again"}}}},
            gone=LIBRARY | {"faults": {"resources/search": "exit"}},
        ) as servers:
            found = await servers.search_resources("returns", deadline=3)
    assert keys(found.items) == [("handbook", "docs://returns.md")]
    assert {name: failure.kind for name, failure in found.failed.items()} == {
        "mute": "timeout",
        "busy": "busy",
        "refused": "refused",
        "wrong": "invalid-result",
        "looping": "invalid-result",
        "gone": "unavailable",
    }


LONG: dict[str, Any] = {
    "page": 2,
    "tools": [{"name": f"send_letter_{number}", "inputSchema": {"type": "object"}} for number in range(6)],
    "resources": [{"uri": f"letter:{number}", "name": f"letter {number}"} for number in range(6)],
    "resourceTemplates": [{"uriTemplate": f"letter:{number}/{{page}}", "name": "letter"} for number in range(6)],
    "prompts": [{"name": f"letter_{number}"} for number in range(6)],
}
"""A server that lists in pages."""

IMPATIENT = ConnectionOptions(discovery=DiscoveryOptions(request_timeout=2))

SEARCHES: dict[str, Callable[[Federation], Any]] = {
    "tools/list": lambda servers: servers.search("letter"),
    "resources/list": lambda servers: servers.search_resources("letter"),
    "resources/templates/list": lambda servers: servers.search_resource_templates("letter"),
    "prompts/list": lambda servers: servers.search_prompts("letter"),
}
LISTS: dict[str, Callable[[Federation], Any]] = {
    "tools/list": lambda servers: servers.list(),
    "resources/list": lambda servers: servers.resources(),
    "resources/templates/list": lambda servers: servers.resource_templates(),
    "prompts/list": lambda servers: servers.prompts(),
}


@pytest.mark.parametrize("method", LISTS)
@pytest.mark.parametrize(
    ("fault", "kind", "options"),
    [
        (-32603, "refused", FederationOptions()),
        ({"result": {"resultType": "complete"}}, "invalid-result", FederationOptions()),
        ("exit", "unavailable", FederationOptions()),
        ("mute", "timeout", FederationOptions(deadline=math.inf, connection=IMPATIENT)),
        ("mute", "timeout", FederationOptions(deadline=2)),
    ],
)
@pytest.mark.parametrize("legacy", [True, False])
async def test_what_a_server_listed_before_a_later_page_failed_is_kept_and_reported_as_incomplete(
    write: Any, legacy: bool, method: str, fault: Any, kind: str, options: FederationOptions
) -> None:
    # With searches that are refused, so that it is listed in their place.
    refused = {f"{name.removesuffix('list')}search": -32601 for name in LISTS}
    spec: dict[str, Any] = LONG | {"legacy": legacy, "settings": {"resources": {}, "prompts": {}}}
    configuration = Configuration((write("long", spec | {"faults": {f"{method} 4": fault, **refused}}),))
    answers: list[Any] = []
    with anyio.fail_after(60):
        for asks in (LISTS, SEARCHES):
            async with open_federation(configuration, options) as servers:
                await servers.supervised["long"].tools()  # so that the deadline is spent on the list alone
                answers.append(await asks[method](servers))
    for answer in answers:
        assert len(answer.tools if method == "tools/list" else answer.items) == 4
        (report,) = answer.servers
        assert report.hits == 4
        assert (report.failure.kind, report.failure.listed) == (kind, 4)
        assert report.failure.message.startswith("its list broke off after 4 entries: ")


@pytest.mark.parametrize("method", LISTS)
async def test_a_list_that_broke_off_is_read_again_by_the_next_request(write: Any, method: str) -> None:
    with anyio.fail_after(60):
        async with open_federation(Configuration((write("long", LONG | {"faults": {f"{method} 2": -1}}),))) as servers:
            first = await LISTS[method](servers)
            write("long", LONG)
            second = await LISTS[method](servers)
    assert [answer.servers[0].hits for answer in (first, second)] == [2, 6]
    assert (len(first.failed), len(second.failed)) == (1, 0)


async def test_what_the_query_identifies_comes_first_and_equal_uris_of_two_servers_stay_apart(opened: Any) -> None:
    notes = {"resources": [{"uri": "docs://returns.md", "name": "notes"}, {"uri": "x:1", "name": "docs://returns.md"}]}
    with anyio.fail_after(60):
        async with opened(handbook=HANDBOOK, notes=notes, library=LIBRARY) as servers:
            by_uri = await servers.search_resources(" docs://returns.md\n")
            one = await servers.search_resources("docs://returns.md", limit=1)
            by_name = await servers.search_resources("travel.md")
            prompts = await servers.search_prompts("answer")
    assert set(keys(by_uri.items)[:2]) == {("handbook", "docs://returns.md"), ("notes", "docs://returns.md")}
    assert keys(by_uri.items)[2] == ("notes", "x:1")
    assert len(one.items) == 1
    assert keys(by_name.items)[0] == ("handbook", "docs://travel.md")
    assert keys(prompts.items)[0] == ("handbook", "answer")
    assert prompts.items[0].name == "handbook__answer"


async def test_definitions_that_are_invalid_or_repeated_are_left_out_and_counted(opened: Any) -> None:
    spec = HANDBOOK | {"resources": [7, {"uri": "a:b"}, *HANDBOOK["resources"], HANDBOOK["resources"][0]]}
    with anyio.fail_after(60):
        async with opened(handbook=spec) as servers:
            found = await servers.search_resources("returns")
    assert keys(found.items) == [("handbook", "docs://returns.md")]
    assert found.servers[0].left_out == 3


async def test_a_server_without_prompts_resources_or_templates_has_none(plain_server: HttpTarget) -> None:
    with anyio.fail_after(60):
        async with open_federation(Configuration((ServerEntry("plain", plain_server),))) as servers:
            for search in (servers.search_resources, servers.search_resource_templates, servers.search_prompts):
                found = await search("anything")
                assert not found.items
                assert not found.failed


async def test_a_server_that_is_configured_twice_offers_each_thing_once(write: Any) -> None:
    entry = write("library", HANDBOOK)
    with anyio.fail_after(60):
        async with open_federation(Configuration((entry, ServerEntry("again", entry.target)))) as servers:
            found = await servers.search_resources("returns travel", limit=2)
    assert set(keys(found.items)) == {("library", "docs://returns.md"), ("library", "docs://travel.md")}


@pytest.mark.parametrize("legacy", [True, False])
@pytest.mark.parametrize("spec", [HANDBOOK, LIBRARY])
async def test_a_list_that_changed_is_read_and_searched_again(
    opened: Any, write: Any, legacy: bool, spec: dict[str, Any]
) -> None:
    new = {"uri": "docs://new.md", "name": "zeppelins"}
    kept = {"ttlMs": 60_000, "cacheScope": "public", "resultType": "complete"}
    first: dict[str, Any] = {"result": {"resources": [], **kept}}
    with anyio.fail_after(60):
        faults: dict[str, Any] = {"resources/search": first, "resources/list": first}
        async with opened(one=spec | {"legacy": legacy, "faults": faults}) as servers:
            assert not (await servers.search_resources("zeppelins")).items
            changed = {"resources": [new], "found": {"resources/search": [new]}}
            write("one", spec | {"legacy": legacy} | changed)
            await servers.call("announce", {})
            while not (found := await servers.search_resources("zeppelins")).items:  # noqa: ASYNC110
                await anyio.sleep(0.02)  # a search is the only thing to look at
    assert keys(found.items) == [("one", "docs://new.md")]


async def test_a_blank_query_is_refused_before_anything_is_sent(opened: Any) -> None:
    async with opened(handbook=HANDBOOK) as servers:
        with pytest.raises(LocalError, match="blank"):
            await servers.search_prompts(" ")
        with pytest.raises(LocalError, match="limit"):
            await servers.search_resources("returns", limit=0)


async def test_servers_are_asked_in_the_era_that_is_wanted(write: Any) -> None:
    spec = LIBRARY | {"legacy": True}
    options = FederationOptions(connection=ConnectionOptions(era="legacy"))
    with anyio.fail_after(60):
        async with open_federation(Configuration((write("library", spec),)), options) as servers:
            found = await servers.search_resources("anything", limit=1)
    assert keys(found.items) == [("library", "book:2")]
    assert found.servers[0].era == "legacy"
