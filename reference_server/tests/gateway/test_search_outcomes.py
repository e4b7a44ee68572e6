"""Operators learn how many searches led nowhere, and their queries only where they have asked for them."""

from __future__ import annotations

import json
from collections.abc import Mapping
from pathlib import Path
from typing import Any

import anyio
import anyio.to_thread
import httpx2
import pytest
from click.testing import CliRunner
from mcp import Client
from mcp_ext_search_primitives.client import search_prompts, search_resource_templates, search_resources
from mcp_ext_tools_search.client import TOOLS_SEARCH, search_tools
from mcp_ext_tools_search.ranking import Hit
from tools_search_server.access.principals import HTTP_CALLER, Principal, token_hash
from tools_search_server.gateway import search_outcomes
from tools_search_server.gateway.search_outcomes import SearchOutcomes
from tools_search_server.programs.cli import command

pytestmark = pytest.mark.anyio


def counts(document: Mapping[str, Any]) -> tuple[int, int, int, int]:
    return document["nothing"], document["called"], document["notCalled"], document["open"]


async def use(url: str) -> None:
    """Search three times, twice with a call of what was found, by its name and within a meta-tool."""
    async with Client(url, extensions=[TOOLS_SEARCH]) as client:
        assert not (await search_tools(client, "zebra crossing")).tools
        [found] = (await search_tools(client, "plain")).tools
        await client.call_tool(found.name, {})
    async with Client(f"{url}/meta-tools") as client:
        await client.call_tool("search_tools", {"query": "plain"})
        await client.call_tool("call_tool", {"name": "good__plain", "arguments": {}})


@pytest.mark.rotating
@pytest.mark.parametrize("keeps_queries", [False, True])
async def test_status_shows_what_became_of_searches_and_queries_on_request(
    servers: Any, configuration: Any, raw: Any, tmp_path: Path, keeps_queries: bool
) -> None:
    options = ["--config", str(configuration(good=raw("good", tmp_path))), "--compat", "meta-tools"]
    options += ["--keep-queries"] if keeps_queries else []
    with anyio.fail_after(60):
        url = await anyio.to_thread.run_sync(lambda: servers.start_http(*options))
        await use(url)
        shown = await anyio.to_thread.run_sync(lambda: CliRunner().invoke(command, ["status", "--url", url]))
        health = httpx2.get(url.replace("/mcp", "/healthz"), trust_env=False).json()
    assert counts(health["searches"]) == (1, 2, 0, 0)
    assert "1 found nothing, 2 led to a call, 0 did not" in shown.stdout
    assert ("found nothing, 1 time: zebra crossing" in shown.stdout) == keeps_queries
    assert ("zebra" in json.dumps(health)) == keeps_queries


@pytest.mark.rotating
@pytest.mark.parametrize("keeps_queries", [False, True])
async def test_status_counts_searches_of_other_lists_apart_and_shows_their_queries_on_request(
    servers: Any, configuration: Any, raw: Any, tmp_path: Path, keeps_queries: bool
) -> None:
    options = ["--config", str(configuration(good=raw("good", tmp_path))), "--search", "resources,prompts"]
    options += ["--keep-queries"] if keeps_queries else []
    with anyio.fail_after(60):
        url = await anyio.to_thread.run_sync(lambda: servers.start_http(*options))
        async with Client(url, extensions=[TOOLS_SEARCH]) as client:
            for _ in range(2):
                await search_resources(client, "zebra crossing")
            await search_resource_templates(client, "giraffe")
            await search_prompts(client, "okapi")
        shown = await anyio.to_thread.run_sync(lambda: CliRunner().invoke(command, ["status", "--url", url]))
        health = httpx2.get(url.replace("/mcp", "/healthz"), trust_env=False).json()
    assert counts(health["searches"]) == (0, 0, 0, 0)
    assert health["searches"]["others"] == {
        "resources": {"nothing": 2, "found": 0},
        "resourceTemplates": {"nothing": 1, "found": 0},
        "prompts": {"nothing": 1, "found": 0},
    }
    assert "searches for resources: 2 found nothing, 0 found something" in shown.stdout
    assert "searches for resource templates: 1 found nothing, 0 found something" in shown.stdout
    assert ("found nothing among resources, 2 times: zebra crossing" in shown.stdout) == keeps_queries
    assert any(word in json.dumps(health) for word in ("zebra", "giraffe", "okapi")) == keeps_queries


def test_a_call_by_another_caller_or_too_late_is_none_of_the_search(monkeypatch: pytest.MonkeyPatch) -> None:
    now = 0.0
    monkeypatch.setattr(search_outcomes, "monotonic", lambda: now)
    outcomes = SearchOutcomes(keeps_queries=True)
    hits = [Hit(f"tool{number:02}", 1.0) for number in range(30)]
    outcomes.note_search("many", hits)
    someone = HTTP_CALLER.set(Principal("ada", token_hash("token")))
    outcomes.note_call("tool00")
    assert counts(outcomes.document()) == (0, 0, 0, 0)  # what others search for is theirs
    HTTP_CALLER.reset(someone)
    outcomes.note_call("tool25")  # far behind what a page shows
    assert counts(outcomes.document()) == (0, 0, 0, 1)
    now = 600
    outcomes.note_call("tool00")
    document = outcomes.document()
    assert counts(document) == (0, 0, 1, 0)
    assert document["queries"] == [{"query": "many", "outcome": "notCalled", "count": 1, "searched": "tools"}]


def test_searches_of_other_lists_are_those_of_their_caller() -> None:
    outcomes = SearchOutcomes(keeps_queries=True, others=["prompts"])
    outcomes.note_other_search("prompts", "many", is_empty=True)
    outcomes.note_other_search("prompts", "one", is_empty=False)
    someone = HTTP_CALLER.set(Principal("ada", token_hash("token")))
    theirs = outcomes.document()
    HTTP_CALLER.reset(someone)
    assert theirs["others"] == {"prompts": {"nothing": 0, "found": 0}}
    assert theirs["queries"] == []
    assert outcomes.document()["others"] == {"prompts": {"nothing": 1, "found": 1}}


def test_what_is_kept_is_bounded() -> None:
    outcomes = SearchOutcomes(keeps_queries=True)
    for number in range(1_200):
        outcomes.note_search(f"{number} {'long' * 100}", [Hit("tool", 1.0)])
        outcomes.note_search(f"none {number % 60}", [])
    document = outcomes.document()
    assert counts(document) == (1_200, 0, 200, 1_000)
    assert len(document["queries"]) == 50
    assert max(len(entry["query"]) for entry in document["queries"]) == 200
    outcomes.note_call("tool")
    assert counts(outcomes.document()) == (1_200, 1_000, 200, 0)
