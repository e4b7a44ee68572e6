from __future__ import annotations

import json
from importlib.util import find_spec
from pathlib import Path
from random import Random
from typing import Any

import anyio
import pytest
from click.testing import CliRunner
from tools_search_client import Conversation, ListedSource, Reply, ToolCall, ToolDiscovery
from tools_search_client.providers import ChatCompletions

from benchmarks.context.__main__ import main
from benchmarks.context.catalog import Catalog, Task, definition, read_catalog
from benchmarks.context.measure import Request, StandIn, TokenCounter, answered, called, measure, user
from benchmarks.context.ways import LISTED, OURS, PACKAGES, WAYS
from benchmarks.datasets import REAL, read_dataset

_INSTALLED = [name for name in WAYS if find_spec(PACKAGES.get(name, "json"))]
_NOUNS = ["invoice", "forecast", "ticket", "mailbox", "playlist", "volcano", "passport", "recipe", "galaxy", "lawyer"]


@pytest.fixture
def directory(tmp_path: Path) -> Path:
    tools: list[dict[str, Any]] = [
        {
            "id": f"{server}::{noun}",
            "server": server,
            "name": f"get_{noun}",
            "description": f"Fetch the {noun} of a {server}. {'It has every detail. ' * 20}",
            "inputSchema": {"type": "object", "properties": {"name": {"type": "string"}}},
        }
        for server in ("Big City", "small_town")
        for noun in _NOUNS
    ]
    queries: list[dict[str, Any]] = [
        {"id": "1", "query": "the volcano of the city", "relevant": ["Big City::volcano"], "split": "test"},
        {"id": "2", "query": "recipe, town", "relevant": ["small_town::recipe"], "split": "test"},
        {"id": "3", "query": "a dev request", "relevant": ["small_town::lawyer"], "split": "dev"},
    ]
    for name, lines in (("tools", tools), ("queries", queries)):
        (tmp_path / f"{name}.jsonl").write_text("".join(json.dumps(line) + "\n" for line in lines), encoding="utf-8")
    return tmp_path


def request(catalog: Catalog, *names: str, searches: int = 0) -> Request:
    keys = [catalog.prefixed[name] for name in names]
    tools = [definition(name, catalog.tools[key]) for name, key in zip(names, keys, strict=True)]
    return Request(tools, [user("the volcano and the recipe")], frozenset(keys), searches)


def test_servers_go_by_names_that_every_peer_can_use(directory: Path):
    catalog, tasks = read_catalog(directory, "test")
    assert list(catalog.servers) == ["Big-City", "small-town"]
    assert [task.needed for task in tasks] == [{("Big-City", "get_volcano")}, {("small-town", "get_recipe")}]


def test_a_sample_has_whole_servers_but_for_the_last(directory: Path):
    sample = read_catalog(directory, "all")[0].sample(13, seed=1)
    assert sorted(map(len, sample.servers.values())) == [3, 10]


def test_the_stand_in_searches_with_the_request_and_then_with_what_nothing_speaks_of(directory: Path):
    catalog, _ = read_catalog(directory, "test")
    needed = frozenset({("Big-City", "get_volcano"), ("Big-City", "get_recipe")})
    model = StandIn(Task("Fetch the volcano and its Recipe", needed), catalog)
    assert model.search_for(request(catalog)) == "Fetch the volcano and its Recipe"
    assert model.search_for(request(catalog, "Big-City_get_volcano", searches=1)) == "and its Recipe"
    assert model.search_for(request(catalog, "Big-City_get_volcano", searches=2)) is None, "it gives up"
    assert len(model.requests) == 3
    assert len(model.search_seconds) == 2


def test_the_stand_in_ends_when_every_tool_is_there(directory: Path):
    catalog, (task, _) = read_catalog(directory, "test")
    assert StandIn(task, catalog).search_for(request(catalog, "Big-City_get_volcano")) is None


def test_what_is_kept_of_a_request_is_what_the_next_begins_with(directory: Path):
    catalog, _ = read_catalog(directory, "test")
    first = request(catalog, "Big-City_get_volcano")
    more = request(catalog, "Big-City_get_volcano", "Big-City_get_recipe")
    other = request(catalog, "Big-City_get_recipe", "Big-City_get_volcano")
    assert first.kept_of(first) == len(first.body)
    assert more.kept_of(first) == len(request(catalog, "Big-City_get_volcano").body.splitlines()[0]) + 1 + len('{"')
    assert other.kept_of(first) == len('{"name":"Big-City_get_')


@pytest.mark.parametrize("name", _INSTALLED)
def test_each_way_finds_the_tools_and_all_but_listing_them_send_few(directory: Path, name: str):
    catalog, tasks = read_catalog(directory, "test")
    got = anyio.run(measure, name, WAYS[name], catalog, tasks, TokenCounter(), 10)
    listed = anyio.run(measure, LISTED, WAYS[LISTED], catalog, tasks, TokenCounter(), None)
    assert got.complete[-1].value == 1.0
    assert got.tokens >= got.new_tokens > 0
    is_everything = name in (LISTED, "ours, automatic")
    assert (got.turns[0].definition_tokens < listed.turns[0].definition_tokens / 1.3) != is_everything


@pytest.mark.parametrize("name", _INSTALLED)
def test_each_way_ends_a_task_that_it_finds_nothing_for(directory: Path, name: str):
    catalog, (task, _) = read_catalog(directory, "test")
    got = anyio.run(measure, name, WAYS[name], catalog, [Task("那座城市的火山", task.needed)], TokenCounter(), 10)
    assert got.complete[-1].value == float(name in (LISTED, "ours, automatic"))


def test_the_command_prints_tables_and_writes_the_figures(directory: Path, tmp_path: Path):
    report = tmp_path / "context.json"
    options = ["--data", str(directory), "--way", "ours, delegated", "--samples", "2", "--json", str(report)]
    outcome = CliRunner().invoke(main, options)
    assert outcome.exit_code == 0, outcome.output
    assert "20 tools of 2 servers, 2 requests" in outcome.output
    written = json.loads(report.read_text())["datasets"][0]
    assert [way["way"] for way in written["ways"]] == [LISTED, OURS, "ours, delegated"]
    assert [way["requests"] for way in written["ways"]] == [1.0, 2.0, 1.0]
    assert {size["tools"] for size in written["sizes"]} == {10, 20}


def test_lists_of_tools_are_weighed_by_bytes_and_tokens(directory: Path, tmp_path: Path):
    report = tmp_path / "listing.json"
    options = ["--data", str(directory), "--listing", "10", "--listing", "30", "--json", str(report)]
    outcome = CliRunner().invoke(main, options, catch_exceptions=False)
    assert outcome.exit_code == 0, outcome.output
    few, many = json.loads(report.read_text())
    assert (few["tools"], many["tools"]) == (10, 30)
    assert few["tokens"] < few["bytes"] < many["bytes"]
    assert f"| 10 | {few['bytes']:,} | {few['tokens']:,} |" in outcome.output


@pytest.mark.anyio
@pytest.mark.parametrize("natively", [True, False])
async def test_five_searches_of_ten_real_tools_cost_no_more_than_listing_them(natively: bool):
    """Counted by a vocabulary, where the client estimates."""
    tools, counter, random = read_dataset(REAL, "all").tools, TokenCounter(), Random(11)  # noqa: S311 - the same in every run
    for _ in range(40):
        ten = random.sample(tools, 10)
        source, costs, said = ListedSource.of({"srv": ten}), list[int](), list[dict[str, Any]]()
        everything = Conversation(source)
        await everything.begin_turn()
        listed = counter.tokens(definition.to_json() for definition in everything.definitions)
        conversation = Conversation(source, ToolDiscovery(enabled=True, defer_all=True))
        if natively:
            ChatCompletions(conversation, "some")
        await conversation.begin_turn()
        for tool in random.sample(ten, 5):
            arguments = {"query": " ".join((tool.description or tool.name).split()[:7])}
            reply = await conversation.take(ToolCall("search_tools", arguments))
            assert isinstance(reply, Reply)
            said += [called("search_tools", arguments), answered(reply.text)]
            costs.append(counter.tokens([*(definition.to_json() for definition in conversation.definitions), *said]))
        assert listed < 950 or max(costs) <= listed, "below that, deferring cannot pay"
