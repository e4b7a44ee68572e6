"""The command `stats`: what the tools cost a model at each request, and what finding them on demand saves."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, replace
from typing import Any

import click
from mcp_ext_tools_search.for_models import is_for_model

from tools_search_client.cli.outcome import answered_code, epilog, leave
from tools_search_client.cli.running import run_until_signal
from tools_search_client.cli.screen import print_json, print_note, print_table, waiting
from tools_search_client.cli.show import as_json, note_troubles
from tools_search_client.cli.targets import Target, server_options
from tools_search_client.conversation.conversation import Conversation
from tools_search_client.conversation.messages import estimate_tokens
from tools_search_client.conversation.sources import FederationSource
from tools_search_client.conversation.statistics import TokenCounts
from tools_search_client.federation.configuration import Configuration, ToolDiscovery
from tools_search_client.federation.federation import Federation, open_federation
from tools_search_client.found import FederatedListing

__all__ = ["stats"]


@dataclass(frozen=True, slots=True)
class _Sent:
    """Definitions in the first request of a conversation."""

    definitions: int
    tokens: int


@click.command(
    epilog=epilog("stats --config mcp.json", "stats --url http://127.0.0.1:8000/mcp --json"),
    short_help="Show what the tools cost a model.",
)
@server_options
@as_json
def stats(target: Target, *, as_json: bool) -> None:
    """Show what the tools of every server cost a model at each request, and what finding them on demand saves.

    Tokens are estimated from the length of the definitions; a provider counts a little more or less.
    """

    async def run() -> tuple[FederatedListing, Mapping[str, _Sent]]:
        async with open_federation(target.configuration, target.options) as federation:
            listing = await federation.list(deadline=target.timeout)
            return listing, await _requests(federation, target.configuration, deadline=target.timeout)

    with waiting("asking the servers …"):
        listing, requests = run_until_signal(run)
    servers = _by_server(listing)
    listed = _Sent(sum(one.definitions for one in servers.values()), sum(one.tokens for one in servers.values()))
    if as_json:
        print_json(_json(listing, servers, listed, requests))
    else:
        rows = [(name, *_counts(sent), _share(sent, listed)) for name, sent in servers.items()]
        print_table(("server", "tools", "tokens", "share"), rows)
        print_note("")
        print_note(f"Listed, they are {listed.tokens:,} tokens in every request to the model.")
        for what, sent in requests.items():
            print_note(f"{what}: {sent.tokens:,} tokens in the first one, {_saved(sent, listed)}.")
        note_troubles(listing.servers)
    leave(answered_code(listing.servers, found=bool(listing.tools)))


async def _requests(federation: Federation, configuration: Configuration, *, deadline: float) -> dict[str, _Sent]:
    stated = configuration.tool_discovery
    ways = {"All found on demand": replace(stated, enabled=True, defer_all=True, auto=False)}
    if stated.enabled:
        ways["As configured"] = stated
    source = FederationSource(federation, configuration, deadline=deadline)
    return {what: await _first_request(source, discovery) for what, discovery in ways.items()}


async def _first_request(source: FederationSource, discovery: ToolDiscovery) -> _Sent:
    conversation = Conversation(source, discovery)
    await conversation.begin_turn()
    conversation.offer()
    statistics = conversation.statistics
    return _Sent(statistics.definitions_sent, statistics.definition_tokens_sent)


def _by_server(listing: FederatedListing) -> dict[str, _Sent]:
    tokens = TokenCounts(estimate_tokens)
    servers: dict[str, _Sent] = {report.server or "-": _Sent(0, 0) for report in listing.servers if not report.failure}
    for tool in (one for one in listing.tools if is_for_model(one.tool)):
        before = servers[tool.server or "-"]
        servers[tool.server or "-"] = _Sent(before.definitions + 1, before.tokens + tokens.of_tool(tool))
    return dict(sorted(servers.items(), key=lambda one: (-one[1].tokens, one[0])))


def _counts(sent: _Sent) -> tuple[str, str]:
    return f"{sent.definitions:,}", f"{sent.tokens:,}"


def _share(sent: _Sent, listed: _Sent) -> str:
    return f"{sent.tokens / listed.tokens:.0%}" if listed.tokens else "-"


def _saved(sent: _Sent, listed: _Sent) -> str:
    if sent.tokens >= listed.tokens:
        return "which saves nothing: there are few tools"
    return f"{1 - sent.tokens / listed.tokens:.0%} less"


def _json(
    listing: FederatedListing, servers: Mapping[str, _Sent], listed: _Sent, requests: Mapping[str, _Sent]
) -> dict[str, Any]:
    names = {"All found on demand": "onDemand", "As configured": "asConfigured"}
    return {
        "servers": {name: _sent_json(sent) for name, sent in servers.items()},
        "failed": [report.server for report in listing.servers if report.failure],
        "firstRequest": {
            "listed": _sent_json(listed),
            **{names[what]: _sent_json(sent) for what, sent in requests.items()},
        },
    }


def _sent_json(sent: _Sent) -> dict[str, int]:
    return {"definitions": sent.definitions, "tokens": sent.tokens}
