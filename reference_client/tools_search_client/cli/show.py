"""The commands `servers`, `tools`, `search` and `stats`: what servers offer, and what it costs a model."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import replace
from typing import TYPE_CHECKING, Any, Final, TypeAlias

import click
from tools_search_hosts.locations import HOSTS

from tools_search_client.cli import output
from tools_search_client.cli.host_files import FoundFile, found_files, shown_path
from tools_search_client.cli.offers import SearchedKind, search_offers
from tools_search_client.cli.selection import (
    ServerCommand,
    ServerSelection,
    least_confidence_option,
    server_options,
    toolset_option,
)

if TYPE_CHECKING:
    from tools_search_client.federation.configuration import ToolDiscovery
    from tools_search_client.federation.federation import Federation
    from tools_search_client.found import FederatedListing, FoundItem, ServerDescription

_OVERFETCH: Final = 100
"""How many tools to request when the toolset hides some of them."""

_Cost: TypeAlias = dict[str, int]
"""A number of `definitions` and their `tokens`."""


@click.command(
    cls=ServerCommand,
    epilog=output.epilog("servers", "servers --host cursor", "servers --command 'python my_server.py' --json"),
    short_help="Show what each server offers, or why it failed.",
)
@server_options(optional=True)
@output.as_json_option
def servers(selection: ServerSelection | None, *, as_json: bool) -> int:
    """Show what each server offers, or why it failed.

    The table has each server's protocol, mode (search or list), number of tools, milliseconds, and program.

    Without an option that chooses servers, nothing is started. Instead, this lists the MCP host configurations on this
    machine, each with the option that selects it. A project's file comes with the project and could have been written
    by anyone, so its servers are only used if you name it.
    """
    if selection is None:
        return _print_files(found_files(), as_json=as_json)
    described = selection.ask(lambda servers: servers.describe())
    if as_json:
        output.print_json({"servers": [_description_json(server) for server in described]})
    else:
        print_servers(described)
    return output.exit_code([server.report for server in described], found=True)


def _print_files(found: Sequence[FoundFile], *, as_json: bool) -> int:
    """Print the configurations found, and return the exit code."""
    if as_json:
        output.print_json({"configurations": [file.to_json() for file in found]})
    elif found:
        rows = [(HOSTS[file.host], "project" if file.is_project else "user", file.option) for file in found]
        details = [f"{shown_path(file.path)}: {file.problem or ', '.join(file.servers)}" for file in found]
        output.print_table(("host", "scope", "option"), rows, details)
        if usable := [file for file in found if file.servers]:
            output.print_note(f"To choose one, run for example: tools-search-client servers {usable[0].option}")
    else:
        output.print_note(
            "No configuration of a known MCP host was found. Use --config FILE, --url URL or --command LINE."
        )
    return output.EXIT_OK


def print_servers(described: Sequence[ServerDescription]) -> None:
    """Print a table of servers: what each one offers, or why it failed."""
    rows = [
        (
            server.report.server or "-",
            "-" if server.protocol_version is None else f"{server.protocol_version} {server.report.era}",
            "failed" if server.report.failure else str(server.report.mode),
            "-" if server.tools is None else str(server.tools),
            f"{server.report.milliseconds:.0f}",
            "-" if server.info is None else f"{server.info.name} {server.info.version}",
        )
        for server in described
    ]
    output.print_table(("server", "protocol", "mode", "tools", "ms", "program"), rows)
    output.note_troubles([server.report for server in described])


@click.command(
    cls=ServerCommand,
    epilog=output.epilog("tools --config mcp.json", "tools --url http://127.0.0.1:8000/mcp --json"),
    short_help="List every server's tools.",
)
@toolset_option
@server_options()
@output.as_json_option
def tools(selection: ServerSelection, *, as_json: bool) -> int:
    """List every server's tools, under the names to call them by.

    If the configuration loads tools on demand, the "status" column shows which tools a model has from the start. "app
    only" marks tools for their server's user interface (MCP Apps), which a model never gets.
    """
    from mcp_ext_tools_search.client import is_for_model

    from tools_search_client.conversation.conversation import Conversation

    async def question(servers: Federation) -> tuple[FederatedListing, Mapping[str, str]]:
        listing = await selection.list(servers)
        status = {tool.name: "app only" for tool in listing.tools if not is_for_model(tool.tool)}
        if not selection.configuration.tool_discovery.enabled and not status:
            return listing, {}  # a model gets all of them
        conversation = Conversation(servers)
        await conversation.begin_turn(toolset=selection.toolset)
        for tool in listing.tools:
            status.setdefault(tool.name, "loaded" if conversation.definition(tool.name) else "deferred")
        return listing, status

    listing, status = selection.ask(question)
    if as_json:
        shown = [
            output.item_json("tool", tool) | ({"status": status[tool.name]} if status else {}) for tool in listing.tools
        ]
        output.print_json({"tools": shown} | output.servers_json(listing.servers))
    else:
        rows: list[tuple[str, ...]] = []
        for tool in listing.tools:
            hint = tool.tool.annotations and tool.tool.annotations.read_only_hint
            effect = {True: "reads", False: "changes", None: "unknown"}[hint]
            rows.append((tool.name, tool.server or "-", effect, *([status[tool.name]] if status else [])))
        columns = ("tool", "server", "effect", *(["status"] if status else []))
        output.print_listing(
            "tool", columns, rows, [output.purpose(tool.tool) for tool in listing.tools], listing.servers
        )
    return output.exit_code(listing.servers, found=bool(listing.tools))


@click.command(
    cls=ServerCommand,
    epilog=output.epilog(
        'search "commit my changes" --config mcp.json',
        'search "read a text file" --url http://127.0.0.1:8000/mcp --limit 3 --json',
        'search "who pays for lost parcels" --resources --config mcp.json',
    ),
    short_help="Find the tools, resources or prompts that fit a need.",
)
@click.argument("query")
@click.option("--resources", is_flag=True, help="Find resources, by their contents if possible.")
@click.option("--templates", is_flag=True, help="Find resource templates.")
@click.option("--prompts", is_flag=True, help="Find prompts.")
@click.option("--limit", type=click.IntRange(min=1), default=10, show_default=True, help="Maximum number of results.")
@click.option("--explain", is_flag=True, help="Show how each tool was found and ranked.")
@least_confidence_option
@toolset_option
@server_options()
@output.as_json_option
def search(
    query: str,
    limit: int,
    selection: ServerSelection,
    *,
    resources: bool,
    templates: bool,
    prompts: bool,
    explain: bool,
    as_json: bool,
) -> int:
    """Find tools (or resources, templates or prompts) that fit QUERY, a few words that describe the need.

    Servers that support tools/search are searched. The others are listed, and this client ranks their tools. Results
    are merged by rank. Resources, templates and prompts work the same way.

    With --explain, "rank" is the rank before merging: within its server's answer for a searched tool, among all listed
    tools for a listed one. --json also has the answer's "score", which cannot be compared across answers.
    """
    options: dict[SearchedKind, bool] = {"resources": resources, "templates": templates, "prompts": prompts}
    kinds: list[SearchedKind] = [kind for kind, is_chosen in options.items() if is_chosen]
    if len(kinds) > 1:
        raise click.UsageError("Use only one of --resources, --templates and --prompts: a search finds one kind.")
    found: Sequence[FoundItem[Any]]
    if kinds:
        answer = search_offers(kinds[0], query, limit, selection)
        found, noun = answer.items, kinds[0].removesuffix("s")
    else:
        hides = any(not rule.shows_all for rule in (selection.toolset.rules or {}).values())
        most = max(limit, _OVERFETCH) if hides else limit
        answer = selection.ask(lambda servers: servers.search(query, limit=most))
        selection.seen.remember(answer.tools)
        found, noun = list(filter(selection.shows, answer.tools))[:limit], "tool"
    if as_json:
        ranked = [
            {"rank": rank, **output.item_json(noun, item), **output.hit_json(item)}
            for rank, item in enumerate(found, start=1)
        ]
        output.print_json({"query": query, "limit": limit, f"{noun}s": ranked} | output.servers_json(answer.servers))
    else:
        if found:
            _print_found(query, found, noun, explain=explain)
        else:
            output.note_nothing_found(answer.servers, noun)
        output.note_fallbacks(answer.servers)
        if shallow := [report.server or "the server" for report in answer.servers if report.contents is False]:
            output.print_note(
                f"Searched only by name and description, not (or not yet) by content: {', '.join(shallow)}."
            )
        output.note_troubles(answer.servers, noun)
    return output.exit_code(answer.servers, found=bool(found))


def _print_found(query: str, found: Sequence[FoundItem[Any]], noun: str, *, explain: bool) -> None:
    from tools_search_ranking import FieldedRanker

    from tools_search_client.found import FoundTool
    from tools_search_client.known_tools import KnownTools

    # No scores: even the best of the bad matches would have 1. A tool's name begins with its server's.
    columns = ("server", "by", "rank") if explain else ("by",) if noun == "tool" else ("server", "by")
    rows: list[tuple[str, ...]] = []
    for rank, item in enumerate(found, start=1):
        cells = {"server": item.server or "-", "by": item.mode, "rank": str(item.own_rank or "-")}
        shown = item.key if noun in ("resource", "template") else item.name
        rows.append((str(rank), shown, *(cells[name] for name in columns), " ".join(item.hit.matched or ()) or "-"))
    output.print_table(("#", noun, *columns, "matched"), rows, [output.purpose(item.item) for item in found])
    tools = [item for item in found if isinstance(item, FoundTool)]
    if tools and (unknown := KnownTools(tools, FieldedRanker()).unknown_words(query)):
        output.print_note(f"None of the tools found mentions: {', '.join(unknown)}.")


@click.command(
    cls=ServerCommand,
    epilog=output.epilog("stats --config mcp.json", "stats --url http://127.0.0.1:8000/mcp --json"),
    short_help="Show what the tools cost a model.",
)
@toolset_option
@server_options()
@output.as_json_option
def stats(selection: ServerSelection, *, as_json: bool) -> int:
    """Show how many tokens tools add to each model request, and how many finding them on demand saves.

    Tokens are estimated from the length of the definitions; a provider's count will differ slightly.
    """
    from mcp_ext_tools_search.client import is_for_model

    from tools_search_client.conversation.conversation import Conversation
    from tools_search_client.conversation.messages import Definition, TokenCounts, estimate_tokens

    configured = selection.configuration.tool_discovery

    async def first_request(servers: Federation, discovery: ToolDiscovery) -> _Cost:
        conversation = Conversation(servers, discovery)
        await conversation.begin_turn(toolset=selection.toolset)
        conversation.offer()
        sent = conversation.statistics
        return {"definitions": sent.definitions_sent, "tokens": sent.definition_tokens_sent}

    async def question(servers: Federation) -> tuple[FederatedListing, dict[str, _Cost]]:
        listing = await selection.list(servers)
        all_on_demand = replace(configured, enabled=True, defer_all=True, auto=False)
        first_requests = {"onDemand": await first_request(servers, all_on_demand)}
        if configured.enabled:
            first_requests["asConfigured"] = await first_request(servers, configured)
        return listing, first_requests

    listing, first_requests = selection.ask(question)
    counts = TokenCounts(estimate_tokens)
    costs: dict[str, _Cost] = {
        report.server or "-": {"definitions": 0, "tokens": 0} for report in listing.servers if not report.failure
    }
    for tool in (tool for tool in listing.tools if is_for_model(tool.tool)):
        cost = costs[tool.server or "-"]
        cost["definitions"] += 1
        cost["tokens"] += counts.of([Definition.of(tool)])
    by_server = dict(sorted(costs.items(), key=lambda cost: (-cost[1]["tokens"], cost[0])))  # most expensive first
    listed = {unit: sum(cost[unit] for cost in by_server.values()) for unit in ("definitions", "tokens")}
    if as_json:
        output.print_json(
            {"servers": by_server, "failed": list(listing.failed), "firstRequest": {"listed": listed, **first_requests}}
        )
    else:
        if by_server:
            _print_costs(by_server, listed["tokens"], first_requests)
        output.note_troubles(listing.servers)
    return output.exit_code(listing.servers, found=bool(listing.tools))


def _print_costs(by_server: Mapping[str, _Cost], listed: int, first_requests: Mapping[str, _Cost]) -> None:
    rows: list[tuple[str, ...]] = []
    for name, cost in by_server.items():
        share = cost["tokens"] / listed if listed else 0
        shown = "<1%" if 0 < share < 0.005 else f"{share:.0%}"  # not 0 %, since some are sent
        rows.append((name, f"{cost['definitions']:,}", f"{cost['tokens']:,}", shown))
    output.print_table(("server", "tools", "tokens", "share"), rows)
    output.print_note("")
    output.print_note(f"Listing all tools adds {listed:,} tokens to every model request.")
    labels = {"onDemand": "All on demand", "asConfigured": "As configured"}
    for way, cost in first_requests.items():
        tokens, saved = cost["tokens"], "which saves nothing, because there are few tools"
        if tokens < listed:
            saved = f"{min(1 - tokens / listed, 0.99):.0%} less"  # not 100 %, since some are sent
        output.print_note(f"{labels[way]}: {tokens:,} tokens in the first request, {saved}.")


def _description_json(description: ServerDescription) -> dict[str, Any]:
    report, info = output.report_json(description.report), description.info
    del report["hits"]
    return report | {
        "serverInfo": info and output.model_json(info),
        "protocolVersion": description.protocol_version,
        "settings": description.settings,
        "tools": description.tools,
    }
