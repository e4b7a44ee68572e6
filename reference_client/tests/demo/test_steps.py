"""The steps of the demo: each believes only what it sees."""

from __future__ import annotations

import json
import re
import sys
from collections.abc import Awaitable, Callable, Sequence
from pathlib import Path
from typing import Any, cast

import anyio
import pytest
from mcp_ext_tools_search.types import HitMetadata
from mcp_types import CallToolResult, JSONRPCRequest, JSONRPCResponse, TextContent, Tool
from tools_search_client.demo.programs import StepError, running_gateway
from tools_search_client.demo.stage import Stage, WireMeter, Workspace, over_gateway
from tools_search_client.demo.steps import (
    MEASURED,
    Shown,
    call,
    compare,
    fall_back,
    judge,
    negotiate,
    search,
    search_documents,
)
from tools_search_client.federation.federation import Federation
from tools_search_client.found import FederatedListing, FederatedSearch, FoundTool, ServerDescription, ServerReport

ARCHIVE = Path(__file__).parents[3] / "reference_server" / "tests" / "servers" / "archive.py"


async def call_workbook(stage: Stage) -> Shown:
    del stage.answers["create a new branch"]
    return await call(stage)


def staged(gateway: object, folder: Path) -> Stage:
    stage = Stage(Workspace(folder), {}, (), "", cast("Federation", gateway), WireMeter())
    stage.answers = {
        "create a new branch": FederatedSearch((), servers=()),
        "create a new Excel workbook": found("excel__create_workbook"),
    }
    return stage


def found(name: str) -> FederatedSearch:
    tool = Tool(name=name, input_schema={"type": "object"})
    return FederatedSearch((FoundTool(name, "", tool, HitMetadata(), "search"),), servers=())


class Gateway:
    """A gateway with scripted answers."""

    def __init__(self, said: str = "done", *, is_error: bool = False) -> None:
        self.result = CallToolResult(content=[TextContent(text=said)], is_error=is_error)

    async def call(self, name: str, arguments: dict[str, Any]) -> CallToolResult:
        return self.result

    async def search(self, query: str, *, limit: int) -> FederatedSearch:
        report = ServerReport("", "list", "modern", 1.0)
        return FederatedSearch(found("x").tools, servers=(report,))

    def forget(self) -> None:
        """There is nothing."""

    async def list(self) -> FederatedListing:
        return FederatedListing((), servers=())

    async def describe(self, *, deadline: float | None) -> tuple[ServerDescription, ...]:
        return (ServerDescription(ServerReport("", "search", "modern", 1.0)),)


def test_the_quoted_quality_of_the_ranking_is_the_measured_one():
    records = (Path(__file__).parents[3] / "benchmarks/RESULTS.md").read_text(encoding="utf-8")
    means = records.partition("Means over the sets")[2]
    row = re.search(r"^\| fielded \| (\S+) \| (\S+) \|", means, re.MULTILINE)
    assert row is not None
    assert tuple(round(100 * float(share)) for share in row.groups()) == MEASURED


@pytest.mark.anyio
async def test_a_server_that_does_not_conform_fails_the_step(monkeypatch: pytest.MonkeyPatch, tmp_path: Path):
    async def judged(_: Sequence[str], __: Callable[[str], None]) -> dict[str, Any]:
        return {"verdict": {"exitStatus": 1, "sentence": "NOT CONFORMANT: 1 MUST check failed"}, "cells": []}

    monkeypatch.setattr("tools_search_client.demo.steps.conformance_report", judged)
    with pytest.raises(StepError, match="NOT CONFORMANT"):
        await judge(staged(Gateway(), tmp_path))


@pytest.mark.anyio
async def test_a_server_that_does_not_answer_fails_the_fallback(tmp_path: Path):
    (tmp_path / "mcp.json").write_text(json.dumps({"mcpServers": {"gone": {"command": "/nowhere/program"}}}))
    with anyio.fail_after(30), pytest.raises(StepError, match="gone"):
        await fall_back(staged(Gateway(), tmp_path))


@pytest.mark.anyio
@pytest.mark.parametrize(
    ("step", "gateway", "told"),
    [
        (call, Gateway(), "did not find git__git_create_branch first; it found nothing"),
        (call_workbook, Gateway("out of paper", is_error=True), "out of paper"),
        (call_workbook, Gateway(), "nothing changed"),
        (search, Gateway(), "tools/search found no tool"),
        (compare, Gateway(), "nothing to compare"),
        (negotiate, Gateway(), "no server/discover"),
    ],
)
async def test_a_step_fails_unless_it_sees_the_effect(
    step: Callable[[Stage], Awaitable[Shown]], gateway: Gateway, told: str, tmp_path: Path
):
    with pytest.raises(StepError, match=told):
        await step(staged(gateway, tmp_path))


@pytest.mark.anyio
async def test_a_gateway_that_does_not_advertise_fails_the_negotiation(tmp_path: Path):
    stage = staged(Gateway(), tmp_path)
    stage.meter.sent(JSONRPCRequest(jsonrpc="2.0", id=1, method="server/discover"))
    stage.meter.received(JSONRPCResponse(jsonrpc="2.0", id=1, result={"capabilities": {"experimental": {}}}))
    with pytest.raises(StepError, match="does not advertise"):
        await negotiate(stage)


@pytest.mark.rotating
@pytest.mark.anyio
async def test_a_document_is_found_by_what_it_says_and_a_prompt_by_what_it_does(tmp_path: Path):
    document = {"uri": "readme://wcwidth", "name": "wcwidth"}
    other = {"uri": "readme://rich", "name": "rich"}
    texts = {
        document["uri"]: "# Widths\nHow many columns a character takes in a terminal.",
        other["uri"]: "Prints in a terminal.",
    }
    prompts = [{"name": "fetch", "description": "Reads a web page"}, {"name": "other"}]
    specs: dict[str, dict[str, Any]] = {
        "packages": {"resources": [other, document], "texts": texts},
        "fetch": {"legacy": True, "prompts": prompts},
    }
    servers: dict[str, Any] = {}
    for name, spec in specs.items():
        (tmp_path / f"{name}.json").write_text(json.dumps(spec))
        servers[name] = {"command": sys.executable, "args": [str(ARCHIVE), str(tmp_path / f"{name}.json")]}
    (tmp_path / "mcp.json").write_text(json.dumps({"mcpServers": servers}))
    with anyio.fail_after(60):
        async with running_gateway(tmp_path / "mcp.json") as url, over_gateway(url, "auto") as (gateway, meter):
            stage = Stage(Workspace(tmp_path), servers, (), url, gateway, meter)
            shown = await search_documents(stage)
            specs["packages"]["resources"] = [other]
            (tmp_path / "packages.json").write_text(json.dumps(specs["packages"]))
            await gateway.call("packages__announce", {})

            async def search_until_it_fails() -> None:
                while True:
                    await search_documents(stage)

            with pytest.raises(StepError, match=r"found .* first, not readme://wcwidth"):
                await search_until_it_fails()
    assert shown.facts["prompts"][0] == "fetch__fetch"
    assert shown.lines[1].lstrip().startswith("1. ")  # whose definition and text follow, before the next one
    assert shown.lines[3] == "     its text         How many columns a character takes in a terminal."
    assert len(shown.lines) <= 10
