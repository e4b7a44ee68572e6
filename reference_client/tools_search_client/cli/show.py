"""The commands that look: `servers`, `tools` and `search`."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Final

import click

from tools_search_client.cli.outcome import answered_code, epilog, leave
from tools_search_client.cli.running import run_until_signal
from tools_search_client.cli.screen import print_json, print_note, print_table, waiting
from tools_search_client.cli.status import Status, loading_status
from tools_search_client.cli.targets import Target, least_confidence_option, server_options
from tools_search_client.cli.wire_json import description_json, listing_json, search_json
from tools_search_client.federation.federation import open_federation
from tools_search_client.found import (
    FederatedListing,
    FederatedSearch,
    FoundTool,
    ServerDescription,
    ServerReport,
)

__all__ = ["as_json", "note_troubles", "print_servers", "search", "servers", "tools"]

_ASKING: Final = "asking the servers …"

as_json = click.option("--json", "as_json", is_flag=True, help="Print one JSON object instead.")
"""The option that every command has."""


@click.command(
    epilog=epilog("servers --config mcp.json", "servers --command 'python my_server.py' --json"),
    short_help="Show what each server offers, or why it failed.",
)
@server_options
@as_json
def servers(target: Target, *, as_json: bool) -> None:
    """Show what each server offers: protocol, search or list, number of tools, or why it failed."""

    async def run() -> tuple[ServerDescription, ...]:
        async with open_federation(target.configuration, target.options) as federation:
            return await federation.describe(deadline=target.timeout)

    with waiting(_ASKING):
        described = run_until_signal(run)
    if as_json:
        print_json({"servers": [description_json(one) for one in described]})
    else:
        print_servers(described)
    leave(answered_code([one.report for one in described], found=True))


def print_servers(described: Sequence[ServerDescription]) -> None:
    """Print what servers are and offer, or why they failed."""
    print_table(("server", "program", "protocol", "mode", "tools", "ms"), [_server_row(one) for one in described])
    note_troubles([one.report for one in described])


@click.command(
    short_help="List every tool of every server.",
    epilog=epilog("tools --config mcp.json", "tools --url http://127.0.0.1:8000/mcp --json"),
)
@server_options
@as_json
def tools(target: Target, *, as_json: bool) -> None:
    """List every tool of every server, by the name to call it by.

    Where the configuration loads tools on demand, the status says which ones a model has from the start. The status
    "app only" marks tools for the user interface of their server alone (MCP Apps), which a model is never given.
    """

    async def run() -> tuple[FederatedListing, dict[str, Status] | None]:
        async with open_federation(target.configuration, target.options) as federation:
            listing = await federation.list(deadline=target.timeout)
            return listing, await loading_status(federation, target.configuration, listing, deadline=target.timeout)

    with waiting(_ASKING):
        listing, status = run_until_signal(run)
    if as_json:
        print_json(listing_json(listing, status))
    else:
        columns = ("tool", "server", "effect", *(["status"] if status else []))
        rows = [
            (tool.name, tool.server or "-", _kind(tool), *([status[tool.name]] if status else []))
            for tool in listing.tools
        ]
        print_table(columns, rows, details=[_description(tool) for tool in listing.tools])
        note_troubles(listing.servers)
    leave(answered_code(listing.servers, found=bool(listing.tools)))


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
@as_json
def search(query: str, limit: int, target: Target, *, least_confidence: float | None, as_json: bool) -> None:
    """Find the tools that fit QUERY, a few words that say what is needed.

    Servers that offer tools/search are searched; the others are listed and ranked here. The answers are fused by rank.
    """
    target = target.finding_nothing_below(least_confidence)

    async def run() -> FederatedSearch:
        async with open_federation(target.configuration, target.options) as federation:
            return await federation.search(query, limit=limit, deadline=target.timeout)

    try:
        with waiting(_ASKING):
            answer = run_until_signal(run)
    except ValueError as error:
        raise click.UsageError(str(error)) from error
    if as_json:
        print_json(search_json(query, limit, answer))
    else:
        _print_search(answer)
    leave(answered_code(answer.servers, found=bool(answer.tools)))


def _print_search(answer: FederatedSearch) -> None:
    rows = [
        (str(rank), tool.name, _score(tool), tool.mode, " ".join(tool.hit.matched or ()) or "-")
        for rank, tool in enumerate(answer.tools, start=1)
    ]
    if rows:
        details = [_description(tool) for tool in answer.tools]
        print_table(("#", "tool", "score", "by", "matched"), rows, details=details)
        if len(answer.servers) > 1:
            print_note("Scores say how well a tool fits within its own server; the order comes from the ranks.")
    else:
        print_note("No tool fits. Other words may find one: an empty answer is no proof that there is none.")
    for report in answer.servers:
        if report.fallback:
            print_note(f"{_called(report)}: listed instead of searched, since {report.fallback}")
    note_troubles(answer.servers)


def _server_row(one: ServerDescription) -> tuple[str, ...]:
    report, info = one.report, one.info
    program = "-" if info is None else f"{info.name} {info.version}"
    protocol = "-" if one.protocol_version is None else f"{one.protocol_version} {report.era}"
    mode = "failed" if report.failure else str(report.mode)
    return (
        report.server or "-",
        program,
        protocol,
        mode,
        "-" if one.tools is None else str(one.tools),
        f"{report.milliseconds:.0f}",
    )


def note_troubles(reports: Sequence[ServerReport]) -> None:
    """Say on standard error which servers failed, and what of the others is left out."""
    for report in reports:
        if report.failure is not None:
            print_note(f"{_called(report)} failed: {report.failure.message}")
        if report.left_out:
            print_note(f"{_called(report)}: {_left_out(report.left_out)}")


def _left_out(count: int) -> str:
    if count == 1:
        return "one tool is left out, since its definition is invalid"
    return f"{count} tools are left out, since their definitions are invalid"


def _called(report: ServerReport) -> str:
    return report.server or "the server"


def _description(tool: FoundTool) -> str:
    return tool.tool.description or tool.tool.title or ""


def _score(tool: FoundTool) -> str:
    return "-" if tool.hit.score is None else f"{tool.hit.score:.2f}"


def _kind(tool: FoundTool) -> str:
    annotations = tool.tool.annotations
    if annotations is None or annotations.read_only_hint is None:
        return "unknown"
    return "reads" if annotations.read_only_hint else "changes"
