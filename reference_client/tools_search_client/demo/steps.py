"""The demo's steps. Each returns what it showed, or raises `StepError`; each verifies what it shows."""

from __future__ import annotations

import json
import math
import zipfile
from collections import Counter
from collections.abc import Awaitable, Callable, Mapping, Sequence
from dataclasses import dataclass
from importlib import import_module
from time import perf_counter
from typing import Any, Final

from anyio import to_thread
from mcp_ext_tools_search.types import EXTENSION_ID
from mcp_types import TextContent, TextResourceContents, Tool
from tools_search_hosts.counts import number_of
from tools_search_ranking import DEFAULT_LEAST_CONFIDENCE, FieldedRanker
from tools_search_ranking.semantic import SemanticRanker
from tools_search_ranking.semantic.minilm import minilm

from tools_search_client.demo.programs import SERVER, START_SECONDS, StepError, conformance_report
from tools_search_client.demo.stage import Stage, WireMeter, Workspace, git, over_gateway
from tools_search_client.errors import ToolsSearchClientError
from tools_search_client.federation.configuration import load_configuration
from tools_search_client.federation.federation import Federation, FederationOptions, open_federation
from tools_search_client.found import FederatedItems, FederatedSearch
from tools_search_client.servers.connection import ConnectionOptions
from tools_search_client.text import shorten

_LIMIT: Final = 5
"""Tools per search, as a host would give a model."""
_SHOWN: Final = 3
_TOKENIZER: Final = "o200k_base"
_BRANCH: Final = "prices"
_EVERYDAY: Final = "is it noonish in Brisbane?"
_EVERYDAY_TOOL: Final = "time__get_current_time"
_CLIENT_CAPABILITIES: Final = "io.modelcontextprotocol/clientCapabilities"

MEASURED: Final = (58, 80)
"""Percentage of the right tools ranked first, and among the first five, over five public sets of requests."""
_HOW_GOOD: Final = (
    "These requests use words from the tools' definitions. Not all do: over five public sets of requests, "
    f"{MEASURED[0]} % of the right tools come first and {MEASURED[1]} % are among the first five "
    "(benchmarks/RESULTS.md)."
)


@dataclass(frozen=True, slots=True)
class Shown:
    """A step's result, for programs and for people."""

    facts: dict[str, Any]
    lines: Sequence[str] = ()


# Negotiation: the words of client and gateway about the extension, in both eras, read off the wire


async def negotiate(stage: Stage) -> Shown:
    """Connect as a modern client and as a legacy client, and show what both sides declare."""
    modern = await _negotiated(stage.gateway, stage.meter, "server/discover")
    async with over_gateway(stage.url, "legacy") as (gateway, meter):
        legacy = await _negotiated(gateway, meter, "initialize")
    lines = [f"extension  {EXTENSION_ID}"]
    for era, facts in (("modern", modern), ("legacy", legacy)):
        settings = next(iter(facts["serverAdvertises"].values()))
        # No size as long as a server behind the gateway has not answered yet, or is searched itself.
        size = number_of(settings["catalogSize"], "tool") if "catalogSize" in settings else "tools"
        declared = facts["clientDeclares"]
        lines += [
            f"{era}     {facts['request']} → {facts['protocolVersion']}",
            f"           the client declares   {json.dumps(declared[EXTENSION_ID]) if declared else 'nothing'}",
            f"           the server advertises in {' and '.join(facts['serverAdvertises'])}",
            f"           {size} on {', '.join(settings.get('topics', []))}",
        ]
    return Shown({"extension": EXTENSION_ID, "modern": modern, "legacy": legacy}, lines)


async def _negotiated(gateway: Federation, meter: WireMeter, method: str) -> dict[str, Any]:
    (described,) = await gateway.describe(deadline=START_SECONDS)
    exchanges, failure = meter.exchanges(method), described.report.failure
    if failure is not None or not exchanges:
        raise StepError(f"no {method}: {failure.message if failure else 'the gateway uses another era'}")
    params, result = exchanges[0]
    capabilities = result.get("capabilities", {})
    advertised = {
        place: capabilities[place][EXTENSION_ID]
        for place in ("extensions", "experimental")
        if EXTENSION_ID in capabilities.get(place, {})
    }
    if not advertised:
        raise StepError(f"the gateway does not advertise the extension in its answer to {method}")
    # A legacy client declares its capabilities in `initialize`, a modern one in every request.
    own = params.get("capabilities") or params.get("_meta", {}).get(_CLIENT_CAPABILITIES, {})
    declared: dict[str, Any] = own.get("extensions", {})
    return {
        "protocolVersion": described.protocol_version,
        "request": method,
        "clientDeclares": {name: settings for name, settings in declared.items() if name == EXTENSION_ID},
        "serverAdvertises": advertised,
    }


# Searches, each with the tool that is right for it, over the gateway and over its servers without the extension


@dataclass(frozen=True, slots=True)
class _Errand:
    """A task: the request, the tool that performs it, and a check that it was done."""

    query: str
    tool: str
    arguments: Mapping[str, Any]
    effect: Callable[[], str | None]
    """Describes the task's result; `None` if it does not exist yet."""


def _errands(workspace: Workspace) -> list[_Errand]:
    def branch() -> str | None:
        listed = git(workspace.repository, "branch", "--list", _BRANCH)
        return f"git branch --list: {listed}" if listed else None

    def workbook() -> str | None:
        if not zipfile.is_zipfile(workspace.workbook):
            return None
        with zipfile.ZipFile(workspace.workbook) as book:
            sheets = sum(name.startswith("xl/worksheets/") for name in book.namelist())
        return f"{workspace.workbook.name}: {workspace.workbook.stat().st_size} bytes, {number_of(sheets, 'sheet')}"

    to_branch = {"repo_path": str(workspace.repository), "branch_name": _BRANCH}
    to_workbook = {"path": str(workspace.workbook), "sheets": ["Budget"]}
    return [
        *([_Errand("create a new branch", "git__git_create_branch", to_branch, branch)] * (workspace.no_git is None)),
        _Errand("create a new Excel workbook", "excel__create_workbook", to_workbook, workbook),
    ]


def queries(workspace: Workspace) -> dict[str, str]:
    """Return the demo's searches, including those for the errands, each with the right tool."""
    *first, last = [(errand.query, errand.tool) for errand in _errands(workspace)]
    sheets = ("rename a worksheet", "excel__rename_sheet")
    return dict([*(first or [sheets]), ("current time in Tokyo", "time__get_current_time"), last])


async def search(stage: Stage) -> Shown:
    """Search the gateway, and record the answers and the traffic."""
    right = queries(stage.workspace)
    for query in right:
        before = stage.meter.traffic.copy()
        answer = await stage.gateway.search(query, limit=_LIMIT)
        if answer.failed or answer.servers[0].mode != "search" or not answer.tools:
            raise StepError(f"tools/search found no tool for {query!r}")
        stage.searching.append(stage.meter.traffic - before)
        stage.answers[query] = answer
    wrong = [query for query, tool in right.items() if _first(stage.answers[query]) != tool]
    if wrong:
        raise StepError(f"the right tool is not first for {', '.join(map(repr, wrong))}")
    shown = _shown_answers(stage.answers)
    return Shown({"limit": _LIMIT} | shown.facts, [*shown.lines, "", _HOW_GOOD])


async def fall_back(stage: Stage) -> Shown:
    """Ask the servers directly: none supports the extension, so each is listed and the results are merged."""
    options = FederationOptions(connection=ConnectionOptions(follow_changes=False))
    async with open_federation(load_configuration(stage.workspace.folder / "mcp.json"), options) as federation:
        servers = await federation.describe(deadline=math.inf)
        answers = {query: await federation.search(query, limit=_LIMIT) for query in stage.answers}
    failed = [
        f"{server.report.server} ({server.report.failure.message})" for server in servers if server.report.failure
    ]
    if failed:
        raise StepError(f"not every server answered: {', '.join(failed)}")
    agree = sum(_first(stage.answers[query]) == _first(answer) for query, answer in answers.items())
    rows: list[dict[str, Any]] = []
    lines = [f"{'server':<11} {'protocol':<19} {'mode':<7} tools"]
    for server in servers:
        name, mode, era = server.report.server, server.report.mode, server.report.era
        version = server.protocol_version
        rows.append({"server": name, "mode": mode, "era": era, "protocolVersion": version, "tools": server.tools})
        lines.append(f"{name:<11} {f'{version} {era}':<19} {mode or '-':<7} {server.tools}")
    shown = _shown_answers(answers)
    lines += [*shown.lines, f"{agree} of {len(answers)} have the same first tool as over the gateway"]
    return Shown({"servers": rows, **shown.facts, "sameFirstTool": agree}, lines)


def _first(answer: FederatedSearch) -> str | None:
    return answer.tools[0].name if answer.tools else None


def _shown_answers(answers: Mapping[str, FederatedSearch]) -> Shown:
    searches: list[dict[str, Any]] = []
    lines: list[str] = []
    for query, answer in answers.items():
        milliseconds = max(report.milliseconds for report in answer.servers)
        found = [{"name": tool.name, "score": tool.hit.score, "matched": tool.hit.matched} for tool in answer.tools]
        searches.append({"query": query, "milliseconds": milliseconds, "tools": found})
        lines.append(f'"{query}"  ({milliseconds:.0f} ms)')
        for rank, tool in enumerate(answer.tools[:_SHOWN], start=1):
            lines.append(f"  {rank}. {tool.name:<28} matched {', '.join(tool.hit.matched or ['?'])}")
    return Shown({"searches": searches}, lines)


# Searches for a document and for a prompt, over the gateway, which reads the texts of documents


_DOCUMENT: Final = ("how many columns a character takes in a terminal", "readme://wcwidth")
_IN_ITS_TEXT: Final = "column"
_PROMPT: Final = ("read a web page", "fetch__fetch")


async def search_documents(stage: Stage) -> Shown:
    """Find a document by its contents and a prompt by its purpose."""
    query, right = _DOCUMENT
    documents = await stage.gateway.search_resources(query, limit=_SHOWN)
    _require_first(documents, query, right)
    first = documents.items[0]
    read = await stage.gateway.read_resource(first.server, first.key)
    texts = [content.text for content in read.contents if isinstance(content, TextResourceContents)]
    sentence = next((line for line in "".join(texts).splitlines() if _IN_ITS_TEXT in line), "")
    best, *others = _shown_items(documents)
    lines = [f'"{query}"  (resources/search)', best]
    lines.append(f"     its definition   {first.item.description or 'no description'}")
    lines.append(f"     its text         {shorten(sentence.strip(), 64)}")
    lines += others
    query, right = _PROMPT
    prompts = await stage.gateway.search_prompts(query, limit=_SHOWN)
    _require_first(prompts, query, right)
    lines += [f'"{query}"  (prompts/search)', *_shown_items(prompts)]
    lines.append("in your gateway: tools-search-server --config mcp.json --search contents,prompts")
    facts = {
        "resources": [document.key for document in documents.items],
        "prompts": [prompt.key for prompt in prompts.items],
    }
    return Shown(facts, lines)


def _require_first(answer: FederatedItems[Any], query: str, right: str) -> None:
    first = answer.items[0].key if answer.items else "nothing"
    if answer.failed or answer.servers[0].mode != "search" or not first.endswith(right):
        raise StepError(f"{query!r} found {first} first, not {right}")


def _shown_items(answer: FederatedItems[Any]) -> list[str]:
    return [
        f"  {rank}. {item.key.rpartition('/')[2]:<28} matched {', '.join(item.hit.matched or ['?'])}"
        for rank, item in enumerate(answer.items, start=1)
    ]


# A search for what is meant, in words that no definition has, over the tools of the gateway


async def search_by_meaning(stage: Stage) -> Shown:
    """Rank the tools for a request in everyday words, first by words alone, then by meaning too."""
    tools = [found.tool for found in (await stage.gateway.list()).tools]
    words = FieldedRanker(least_confidence=DEFAULT_LEAST_CONFIDENCE)
    meaning = SemanticRanker(minilm(), lexical=words)
    by_words, by_meaning = words(tools), meaning(tools)
    started = perf_counter()
    if not await to_thread.run_sync(lambda: meaning.settle(START_SECONDS)):
        raise StepError(f"the model did not read {len(tools)} definitions within {START_SECONDS} seconds")
    seconds = perf_counter() - started
    found = {
        way: [hit.name for hit in index.search(_EVERYDAY)[:_SHOWN]]
        for way, index in (("words", by_words), ("meaning", by_meaning))
    }
    if found["meaning"][:1] != [_EVERYDAY_TOOL]:
        raise StepError(f"{_EVERYDAY_TOOL} is not first for {_EVERYDAY!r}; found {found['meaning']}")
    lines = [
        f'"{_EVERYDAY}"',
        *(f"  by {way:<9}{', '.join(names) or 'nothing'}" for way, names in found.items()),
        f"a 23 MB model without torch, on one core, read {len(tools)} definitions in {seconds:.1f} s",
        "in your gateway: pip install '.[semantic]', then tools-search-server --config mcp.json --semantic",
    ]
    return Shown({"query": _EVERYDAY, **found, "readSeconds": round(seconds, 2)}, lines)


# Calls of tools that were found, with their effects, checked without asking the server


async def call(stage: Stage) -> Shown:
    """Call tools that the searches found, and show the effects."""
    errands = [errand for errand in _errands(stage.workspace) if errand.query in stage.answers]
    if not errands:
        raise StepError("the searches found no tool to call")
    before = len(stage.meter.exchanges("tools/list"))
    done = [await _run(stage, errand) for errand in errands]
    listings = len(stage.meter.exchanges("tools/list")) - before
    if listings:
        raise StepError("a found tool had to be listed before it could be called")
    lines = [
        line
        for call in done
        for line in (f"call  {call['tool']}", f"      said  {call['said']}", f"      seen  {call['seen']}")
    ]
    return Shown({"calls": done, "listRequests": listings}, [*lines, "this sent no tools/list request"])


async def _run(stage: Stage, errand: _Errand) -> dict[str, Any]:
    found = [tool.name for tool in stage.answers[errand.query].tools]
    if found[:1] != [errand.tool]:
        raise StepError(f"{errand.query!r} did not find {errand.tool} first; it found {', '.join(found) or 'nothing'}")
    if errand.effect() is not None:
        raise StepError(f"{errand.tool} has nothing left to do")
    result = await stage.gateway.call(errand.tool, dict(errand.arguments))
    said = " ".join(block.text for block in result.content if isinstance(block, TextContent))
    if result.is_error:
        raise StepError(f"{errand.tool} returned an error: {said}")
    seen = errand.effect()
    if seen is None:
        raise StepError(f"{errand.tool} reported success, but nothing changed")
    return {"tool": errand.tool, "said": shorten(said or "nothing", 60), "seen": seen}


# The cost of listing everything and of searching, on the wire and in front of a model, over the same gateway


async def compare(stage: Stage) -> Shown:
    """List everything once, and compare that with the average search."""
    stage.gateway.forget()  # it may have been listed before, to count the tools of a gateway that had just started
    before = stage.meter.traffic.copy()
    listing = await stage.gateway.list()
    if not listing.tools or not stage.answers:
        raise StepError("there is nothing to compare")
    listing_traffic = stage.meter.traffic - before
    # The tokenizer comes with the `demo` extra, has no types, and takes a moment to load.
    encoding: Any = import_module("bpe_openai").get_encoding(_TOKENIZER)

    def cost(traffic: Counter[str], tools: Sequence[Tool]) -> dict[str, float]:
        """Return the traffic, and the tokens of the definitions as hosts send them to a model."""
        definitions = (
            {"name": tool.name, "description": tool.description or "", "parameters": tool.input_schema}
            for tool in tools
        )
        tokens = sum(len(encoding.encode(json.dumps(definition, ensure_ascii=False))) for definition in definitions)
        return {**traffic, "tools": len(tools), "tokens": tokens}

    listed = cost(listing_traffic, [tool.tool for tool in listing.tools])
    costs = [
        cost(traffic, [tool.tool for tool in answer.tools])
        for traffic, answer in zip(stage.searching, stage.answers.values(), strict=True)
    ]
    searched = {unit: round(sum(cost[unit] for cost in costs) / len(costs), 1) for unit in listed}
    saved = {unit: round(100 * (1 - searched[unit] / listed[unit]), 1) for unit in ("bytes", "tokens")}
    facts = {"tokenizer": _TOKENIZER, "limit": _LIMIT, "listing": listed, "search": searched, "savedPercent": saved}
    lines = [f"{'':<19} {'messages':>8} {'bytes':>8} {'tools':>6} {'tokens':>8}"]
    for way, row in (("list everything", listed), (f"search (mean of {len(costs)})", searched)):
        lines.append(
            f"{way:<19} {row['messages']:>8,.0f} {row['bytes']:>8,.0f} {row['tools']:>6,.0f} {row['tokens']:>8,.0f}"
        )
    percent = f"{saved['bytes']:.0f} %"
    lines.append(f"{'saved':<19} {'':>8} {percent:>8} {'':>6} {saved['tokens']:>6.0f} %")
    lines.append("bytes on the wire, both directions; tokens of the definitions sent to a model (o200k)")
    return Shown(facts, lines)


# The verdict of the conformance suite on the server that was just used


async def judge(stage: Stage) -> Shown:
    """Run the conformance suite as a process and show its report."""
    report = await conformance_report(SERVER, stage.progress)
    verdict: dict[str, Any] = report["verdict"]
    if verdict["exitStatus"]:
        raise StepError(str(verdict["sentence"]))
    cells: list[dict[str, Any]] = report["cells"]
    lines = ["tools-search-conformance server -- tools-search-server"]
    for cell in cells:
        counts: dict[str, dict[str, int]] = cell["counts"]
        levels = [
            f"{level}: " + ", ".join(f"{count} {status}" for status, count in counted.items() if count)
            for level, counted in counts.items()
        ]
        lines.append(f"{cell['name']:<24} {'   '.join(levels)}")
    facts = {"exitStatus": verdict["exitStatus"], "verdict": verdict["sentence"], "cells": cells}
    return Shown(facts, [*lines, str(verdict["sentence"])])


@dataclass(frozen=True, slots=True)
class Step:
    """One step of the demo."""

    title: str
    run: Callable[[Stage], Awaitable[Shown]]
    activity: str = "working"
    """Its name while it runs."""


STEPS: Final[Mapping[str, Step]] = {
    "negotiate": Step("Negotiation: what each side declares, in both eras", negotiate),
    "search": Step("Search over the gateway, in plain language", search, "searching"),
    "call": Step("Call the tools found, and check the effects", call, "calling"),
    "fallback": Step(
        "The same servers without the extension: list, rank here, fuse", fall_back, "starting each server separately"
    ),
    "documents": Step("Find a document by its contents and a prompt by its purpose", search_documents, "searching"),
    "meaning": Step(
        "Search by meaning, in words that no definition contains", search_by_meaning, "reading the definitions"
    ),
    "compare": Step("Listing everything compared with searching, measured", compare, "listing everything"),
    "judge": Step("The conformance suite's verdict", judge, "judging"),
}


async def perform(name: str, step: Step, stage: Stage) -> tuple[dict[str, Any], Sequence[str]]:
    """Run a step and return its report, as `--json` prints it, and its lines.

    One that breaks is reported like one that fails, and the next can run.
    """
    started = perf_counter()
    shown, problem = Shown({}), dict[str, str]()
    try:
        shown = await step.run(stage)
    except Exception as error:
        is_own = isinstance(error, StepError | ToolsSearchClientError)
        problem = {"problem": str(error) if is_own else f"{type(error).__name__}: {error}"}
    seconds = round(perf_counter() - started, 2)
    return {"step": name, "ok": not problem, "seconds": seconds, **problem, **shown.facts}, shown.lines
