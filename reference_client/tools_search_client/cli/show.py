"""The commands `servers`, `tools`, `search` and `stats`: the offers of the servers, and what they cost a model."""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from dataclasses import asdict, dataclass, replace
from typing import Any

import click
from mcp_ext_tools_search.client.for_models import is_for_model
from mcp_types import Tool
from pydantic.alias_generators import to_camel

from tools_search_client.cli.output import (
    as_json_option,
    epilog,
    exit_code,
    note_troubles,
    print_json,
    print_note,
    print_table,
)
from tools_search_client.cli.targets import Target, least_confidence_option, server_options
from tools_search_client.conversation.conversation import Conversation
from tools_search_client.conversation.messages import TokenCounts, estimate_tokens
from tools_search_client.conversation.sources import FederationSource
from tools_search_client.federation.configuration import ToolDiscovery
from tools_search_client.federation.federation import Federation
from tools_search_client.found import (
    FederatedListing,
    FederatedSearch,
    FoundTool,
    ServerDescription,
    ServerReport,
)


@click.command(
    epilog=epilog("servers --config mcp.json", "servers --command 'python my_server.py' --json"),
    short_help="Show what each server offers, or why it failed.",
)
@server_options
@as_json_option
def servers(target: Target, *, as_json: bool) -> int:
    """Show what each server offers, or why it failed.

    For each server: program, protocol, whether it is searched or listed, number of tools, milliseconds.
    """
    described = target.ask(lambda servers: servers.describe(deadline=target.timeout))
    if as_json:
        print_json({"servers": [_description_json(one) for one in described]})
    else:
        print_servers(described)
    return exit_code([one.report for one in described], found=True)


def print_servers(described: Sequence[ServerDescription]) -> None:
    """Print the offers of servers, or why they failed."""
    rows = [
        (
            one.report.server or "-",
            "-" if one.info is None else f"{one.info.name} {one.info.version}",
            "-" if one.protocol_version is None else f"{one.protocol_version} {one.report.era}",
            "failed" if one.report.failure else str(one.report.mode),
            "-" if one.tools is None else str(one.tools),
            f"{one.report.milliseconds:.0f}",
        )
        for one in described
    ]
    print_table(("server", "program", "protocol", "mode", "tools", "ms"), rows)
    note_troubles([one.report for one in described])


@click.command(
    epilog=epilog("tools --config mcp.json", "tools --url http://127.0.0.1:8000/mcp --json"),
    short_help="List every tool of every server.",
)
@server_options
@as_json_option
def tools(target: Target, *, as_json: bool) -> int:
    """List every tool of every server, by the name to call it by.

    Where the configuration loads tools on demand, the column "status" shows which tools a model has from the start.
    "app only" marks tools for the user interface of their server (MCP Apps), which a model is never given.
    """

    async def question(servers: Federation) -> tuple[FederatedListing, Mapping[str, str]]:
        listing = await servers.list(deadline=target.timeout)
        return listing, await _status(servers, target, listing)

    listing, status = target.ask(question)
    if as_json:
        shown = [_tool_json(tool) | ({"status": status[tool.name]} if status else {}) for tool in listing.tools]
        print_json({"tools": shown, "servers": [_report_json(report) for report in listing.servers]})
    else:
        columns = ("tool", "server", "effect", *(["status"] if status else []))
        rows = [
            (tool.name, tool.server or "-", _effect(tool.tool), *([status[tool.name]] if status else []))
            for tool in listing.tools
        ]
        print_table(columns, rows, _descriptions(listing.tools))
        note_troubles(listing.servers)
    return exit_code(listing.servers, found=bool(listing.tools))


async def _status(servers: Federation, target: Target, listing: FederatedListing) -> Mapping[str, str]:
    """Return the status of each tool by name; none where a model simply has all of them."""
    app_only = {tool.name for tool in listing.tools if not is_for_model(tool.tool)}
    if not target.configuration.tool_discovery.enabled and not app_only:
        return {}
    source = FederationSource(servers, target.configuration, deadline=target.timeout)
    conversation = Conversation(source, target.configuration.tool_discovery)
    await conversation.begin_turn()
    return {
        tool.name: "app only"
        if tool.name in app_only
        else ("loaded" if conversation.definition(tool.name) else "deferred")
        for tool in listing.tools
    }


@click.command(
    epilog=epilog(
        'search "commit my changes" --config mcp.json',
        'search "read a text file" --url http://127.0.0.1:8000/mcp --limit 3 --json',
    ),
    short_help="Find the tools that fit a need.",
)
@click.argument("query")
@click.option("--limit", type=click.IntRange(min=1), default=10, show_default=True, help="Most tools to show.")
@least_confidence_option
@server_options
@as_json_option
def search(query: str, limit: int, target: Target, *, least_confidence: float | None, as_json: bool) -> int:
    """Find the tools that fit QUERY, a few words that describe the need.

    Servers that offer tools/search are searched; the others are listed, and this client ranks their tools. The answers
    are merged by rank.
    """
    target = target.with_least_confidence(least_confidence)
    try:
        answer = target.ask(lambda servers: servers.search(query, limit=limit, deadline=target.timeout))
    except ValueError as error:
        raise click.UsageError(str(error)) from error
    if as_json:
        ranked = [_hit_json(rank, tool) for rank, tool in enumerate(answer.tools, start=1)]
        reports = [_report_json(report) for report in answer.servers]
        print_json({"query": query, "limit": limit, "tools": ranked, "servers": reports})
    else:
        _print_hits(answer)
    return exit_code(answer.servers, found=bool(answer.tools))


def _print_hits(answer: FederatedSearch) -> None:
    if answer.tools:
        rows = [
            (
                str(rank),
                tool.name,
                "-" if tool.hit.score is None else f"{tool.hit.score:.2f}",
                tool.mode,
                " ".join(tool.hit.matched or ()) or "-",
            )
            for rank, tool in enumerate(answer.tools, start=1)
        ]
        print_table(("#", "tool", "score", "by", "matched"), rows, _descriptions(answer.tools))
        if len(answer.servers) > 1:
            print_note("A score compares tools of one server only; the order comes from the ranks.")
    else:
        print_note("No tool fits. Other words may find one: an empty answer is no proof that there is none.")
    for report in answer.servers:
        if report.fallback:
            print_note(f"{report.server or 'the server'}: listed instead of searched, since {report.fallback}")
    note_troubles(answer.servers)


@dataclass(frozen=True, slots=True)
class _Cost:
    """Definitions in the first request of a conversation."""

    definitions: int
    tokens: int


@click.command(
    epilog=epilog("stats --config mcp.json", "stats --url http://127.0.0.1:8000/mcp --json"),
    short_help="Show what the tools cost a model.",
)
@server_options
@as_json_option
def stats(target: Target, *, as_json: bool) -> int:
    """Show the tokens that tools cost a model at each request, and the savings of finding them on demand.

    Tokens are estimated from the length of the definitions; a provider counts a little more or less.
    """
    configured = target.configuration.tool_discovery

    async def question(servers: Federation) -> tuple[FederatedListing, _Cost, _Cost | None]:
        listing = await servers.list(deadline=target.timeout)
        source = FederationSource(servers, target.configuration, deadline=target.timeout)
        on_demand = await _first_request(source, replace(configured, enabled=True, defer_all=True, auto=False))
        return listing, on_demand, await _first_request(source, configured) if configured.enabled else None

    listing, on_demand, as_configured = target.ask(question)
    by_server = _costs_by_server(listing)
    listed = _Cost(sum(one.definitions for one in by_server.values()), sum(one.tokens for one in by_server.values()))
    first = {"listed": listed, "onDemand": on_demand} | ({"asConfigured": as_configured} if as_configured else {})
    if as_json:
        print_json(
            {
                "servers": {name: asdict(cost) for name, cost in by_server.items()},
                "failed": [report.server for report in listing.servers if report.failure],
                "firstRequest": {way: asdict(cost) for way, cost in first.items()},
            }
        )
    else:
        _print_costs(by_server, first)
        note_troubles(listing.servers)
    return exit_code(listing.servers, found=bool(listing.tools))


async def _first_request(source: FederationSource, discovery: ToolDiscovery) -> _Cost:
    conversation = Conversation(source, discovery)
    await conversation.begin_turn()
    conversation.offer()
    return _Cost(conversation.statistics.definitions_sent, conversation.statistics.definition_tokens_sent)


def _costs_by_server(listing: FederatedListing) -> Mapping[str, _Cost]:
    """Return what listing the tools of each server costs, the most expensive first."""
    counts = TokenCounts(estimate_tokens)
    costs = {report.server or "-": _Cost(0, 0) for report in listing.servers if not report.failure}
    for tool in (one for one in listing.tools if is_for_model(one.tool)):
        before = costs[tool.server or "-"]
        costs[tool.server or "-"] = _Cost(before.definitions + 1, before.tokens + counts.of_tool(tool))
    return dict(sorted(costs.items(), key=lambda one: (-one[1].tokens, one[0])))


def _print_costs(by_server: Mapping[str, _Cost], first: Mapping[str, _Cost]) -> None:
    listed = first["listed"]
    rows: list[tuple[str, ...]] = []
    for name, cost in by_server.items():
        share = f"{cost.tokens / listed.tokens:.0%}" if listed.tokens else "-"
        rows.append((name, f"{cost.definitions:,}", f"{cost.tokens:,}", share))
    print_table(("server", "tools", "tokens", "share"), rows)
    print_note("")
    print_note(f"Listed, they are {listed.tokens:,} tokens in every request to the model.")
    for way, label in (("onDemand", "All found on demand"), ("asConfigured", "As configured")):
        if way not in first:
            continue
        tokens, saved = first[way].tokens, "which saves nothing: there are few tools"
        if tokens < listed.tokens:
            saved = f"{1 - tokens / listed.tokens:.0%} less"
        print_note(f"{label}: {tokens:,} tokens in the first one, {saved}.")


# What `--json` prints: camelCase, complete definitions, nothing shortened or cleaned.


def _report_json(report: ServerReport) -> dict[str, Any]:
    return {to_camel(name): value for name, value in asdict(report).items()}


def _description_json(description: ServerDescription) -> dict[str, Any]:
    report, info = _report_json(description.report), description.info
    del report["hits"]
    return report | {
        "serverInfo": None if info is None else info.model_dump(by_alias=True, mode="json", exclude_none=True),
        "protocolVersion": description.protocol_version,
        "settings": description.settings,
        "tools": description.tools,
    }


def _tool_json(tool: FoundTool) -> dict[str, Any]:
    definition = tool.tool.model_dump(by_alias=True, mode="json", exclude_none=True)
    return {"name": tool.name, "server": tool.server, "tool": definition}


def _hit_json(rank: int, tool: FoundTool) -> dict[str, Any]:
    hit = {"foundBy": tool.mode, "weight": round(tool.weight, 6)}
    hit |= {"score": tool.hit.score, "matched": tool.hit.matched, "group": tool.hit.group}
    return {"rank": rank} | _tool_json(tool) | hit


def _descriptions(tools: Iterable[FoundTool]) -> list[str]:
    return [tool.tool.description or tool.tool.title or "" for tool in tools]


def _effect(tool: Tool) -> str:
    if tool.annotations is None or tool.annotations.read_only_hint is None:
        return "unknown"
    return "reads" if tool.annotations.read_only_hint else "changes"
