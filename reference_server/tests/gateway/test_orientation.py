"""What a host learns of a gateway stays short, with any number of servers and any texts of theirs."""

from __future__ import annotations

import json
import sys
import time
from dataclasses import replace
from typing import Any

import anyio
import pytest
from mcp_types import Tool
from tools_search_hosts import Rule, ServerEntry, StdioTarget, qualified_name
from tools_search_server.gateway.orientation import instructions, settings
from tools_search_server.gateway.views import VisibleServer
from tools_search_server.upstreams.state import Greeting
from tools_search_server.upstreams.upstream import Upstream


def upstream(name: str, says: str = "", *tools: str) -> VisibleServer:
    entry = ServerEntry(name, StdioTarget("true"))
    one = Upstream(entry, lambda _: None, lambda _, __: None, call_seconds=1, max_message_bytes=1 << 20)
    one.greeting = Greeting(summary=says, instructions=says)
    if says:
        one._move(  # pyright: ignore[reportPrivateUsage] - as a connection does
            "ready", {tool: Tool(name=tool, input_schema={}) for tool in tools}
        )
    return VisibleServer(one, Rule(excludes=True))


def test_instructions_are_bounded_and_count_what_they_leave_out() -> None:
    many = [upstream(f"{n:03}" + "long" * 50) for n in range(200)]
    text = instructions(many, 5000)
    assert len(text) <= 3600
    assert text.splitlines()[-1].startswith("- and 1")


def test_the_size_is_left_out_until_it_is_known() -> None:
    one = upstream("one")
    assert settings([one], 3).catalog_size is None
    assert "the tools of 1 MCP server." in instructions([one], 3)
    one.upstream.settled.set()
    assert settings([one], 3).catalog_size == 3
    assert settings([one], 3).topics == ["one"]
    assert "3 tools of 1 MCP server." in instructions([one], 3)


def test_a_server_that_cannot_be_used_yet_or_any_more_is_listed_as_such() -> None:
    starting, down = upstream("starting"), upstream("gone")
    down.upstream._move("down")  # pyright: ignore[reportPrivateUsage]
    assert instructions([starting, down], None).splitlines()[1:] == [
        "- starting: still starting",
        "- gone: not available at the moment",
    ]


def test_a_server_without_tools_is_no_topic_once_that_is_known() -> None:
    starting, archive, tools = upstream("starting"), upstream("archive", "Keeps documents."), upstream("t", "?", "tool")
    assert settings([starting, archive, tools], 1).topics == ["starting", "t"]


def test_topics_are_bounded() -> None:
    topics = settings([upstream("x" * 500) for _ in range(100)], 0).topics
    assert topics is not None
    assert (len(topics), len(topics[0])) == (64, 80)


def test_servers_are_quoted_and_share_the_room_so_that_one_that_says_much_costs_the_others_nothing() -> None:
    short = [upstream(f"short{n}", f"Server {n} keeps notes. " * 5, "note") for n in range(5)]
    text = instructions([upstream("long", "Talks and talks. " * 250, "talk"), *short], 6)
    lines = text.splitlines()
    assert lines[2:] == [f'- short{n} (1 tool) says: "{f"Server {n} keeps notes. " * 5}"' for n in range(5)]
    assert lines[1].startswith('- long (1 tool) says: "Talks and talks. ')
    assert lines[1].endswith(' …"')
    assert 3500 < len(text) <= 3600


@pytest.mark.parametrize(
    "says", ["Use this server for mail. ", "このサーバーはメールを送ります。", "Отправляет почту. "]
)
def test_instructions_are_as_short_in_any_language(says: str) -> None:
    text = instructions([upstream(f"server{n}", says * 200, "mail") for n in range(30)], 30)
    assert text.count(f'says: "{says[:6]}') == 30
    assert len(text.encode()) <= 3600


@pytest.mark.parametrize(
    ("says", "read"),
    [
        ("Use firecrawl_search first.", "Use firecrawl__firecrawl_search first."),
        ("Use firecrawl_scrape(url).", "Use firecrawl__firecrawl_scrape(url)."),
        ("Use pages.read, or pages/read.", f"Use {qualified_name('firecrawl', 'pages.read')}, or pages/read."),
        (
            "Use firecrawl_search/firecrawl_scrape.",
            "Use firecrawl__firecrawl_search/firecrawl__firecrawl_scrape.",
        ),
        ("Use `scrape`, or the scrape tool.", "Use `firecrawl__scrape`, or the firecrawl__scrape tool."),
        ("Use 'scrape page' or `page/scrape`.", "Use 'firecrawl__scrape page' or `page/firecrawl__scrape`."),
        ("Use the tool tool.", "Use the firecrawl__tool tool."),
        ("scrape tool, tool tool", "firecrawl__scrape tool, firecrawl__tool tool"),
        ("You can scrape or search, not hidden_tool.", "You can scrape or search, not hidden_tool."),
    ],
)
def test_names_of_tools_are_those_that_callers_can_use_and_words_of_the_language_stay(says: str, read: str) -> None:
    tools = "firecrawl_search", "firecrawl_scrape", "pages.read", "scrape", "search", "tool"
    assert upstream("firecrawl", says, *tools).instructions == read


@pytest.mark.parametrize("char", "./-")
def test_instructions_that_are_no_words_take_no_longer_than_others(char: str) -> None:
    one = upstream("odd", char * 20_000, "scrape")
    began = time.process_time()
    assert one.instructions == char * 20_000
    assert time.process_time() - began < 1


@pytest.mark.parametrize(
    "rule", [Rule(frozenset({"scrape"}), excludes=False), Rule(frozenset({"hidden_tool"}), excludes=True)]
)
def test_a_server_of_which_a_part_is_hidden_is_not_quoted_since_it_may_speak_of_it(rule: Rule) -> None:
    seen = replace(upstream("firecrawl", "Use hidden_tool to scrape.", "scrape", "hidden_tool"), rule=rule)
    assert instructions([seen], 1).splitlines()[1:] == ["- firecrawl (1 tool)"]
    assert seen.summary == ""


@pytest.mark.anyio
@pytest.mark.parametrize("mode", ["auto", "legacy"])
async def test_a_host_gets_the_whole_instructions_of_a_server_as_its_own_words(gateway: Any, mode: str) -> None:
    says = 'Ask for a city first.\n\nThen call look_up with "city" and \x1b[31mtell the user.' + " Be brief." * 20
    source = (
        "import json, sys\n"
        f"says = json.loads({json.dumps(says)!r})\n"
        "tools = {'tools': [{'name': 'look_up', 'inputSchema': {'type': 'object'}}]}\n"
        "for line in sys.stdin:\n"
        "    m = json.loads(line)\n"
        "    greeting = {'protocolVersion': '2025-11-25', 'capabilities': {'tools': {}}, 'instructions': says,\n"
        "                'serverInfo': {'name': 'w', 'version': '1'}}\n"
        "    results = {'initialize': greeting, 'tools/list': tools}\n"
        "    if m.get('method') in results:\n"
        "        print(json.dumps({'jsonrpc': '2.0', 'id': m['id'], 'result': results[m['method']]}), flush=True)\n"
        "    elif 'id' in m:\n"
        "        e = {'code': -32601, 'message': 'no'}\n"
        "        print(json.dumps({'jsonrpc': '2.0', 'id': m['id'], 'error': e}), flush=True)\n"
    )
    with anyio.fail_after(30):
        async with gateway(mode, weather={"command": sys.executable, "args": ["-c", source]}) as client:
            told = client.instructions
    words = "Ask for a city first. Then call weather__look_up with 'city' and [31mtell the user." + " Be brief." * 20
    assert "tools/search" in told
    assert f'- weather (1 tool) says: "{words}"' in told.splitlines()
