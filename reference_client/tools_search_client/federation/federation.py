"""Many servers as one: asked at once, fused by rank, named unambiguously; a server that fails loses only its own tools.

A name is resolved to the one tool that is meant. A server that can be searched is searched for the name, since it must
find a tool of exactly that name first; only a server that cannot is listed. So calling one tool of a catalog of
thousands costs one small answer.
"""

from __future__ import annotations

import difflib
from collections.abc import AsyncGenerator, Collection, Iterable, Mapping, Sequence
from contextlib import asynccontextmanager
from dataclasses import dataclass, field, replace
from functools import partial
from typing import Any, Final

import anyio
from anyio.abc import TaskGroup
from mcp.shared.dispatcher import ProgressFnT
from mcp_types import CallToolResult, RequestParamsMeta
from tools_search_hosts import qualified_name, split_candidates, without_digest
from tools_search_ranking import default_ranker, never_silent

from tools_search_client.errors import AmbiguousToolError, UnknownToolError
from tools_search_client.federation.configuration import Configuration
from tools_search_client.federation.fanout import Answer, Fanout, Method, Question, by_listing
from tools_search_client.federation.merging import (
    ListedTogether,
    RememberingRanker,
    Reranker,
    identities_of,
    merge,
    named_among_servers,
)
from tools_search_client.found import FederatedListing, FederatedSearch, Found, FoundTool, ServerDescription
from tools_search_client.servers.connection import ConnectionOptions, open_server
from tools_search_client.servers.discovery import DiscoveryOptions, ServerTools, list_as_found, require_request
from tools_search_client.servers.supervision import Backoff, SupervisedServer

DEFAULT_DEADLINE: Final = 10.0
"""Seconds that a request to all servers waits for the slowest."""

_MOST_KNOWN: Final = 10_000
"""Tools that are remembered by name; others are looked up again, which costs one small search."""

_CLOSEST: Final = 3
_CANDIDATES: Final = 10


@dataclass(frozen=True, slots=True, kw_only=True)
class FederationOptions:
    """How many servers are asked; the defaults suit a host."""

    connection: ConnectionOptions = field(default_factory=ConnectionOptions)

    connect_timeout: float = 60.0
    """Seconds after which an attempt to connect counts as failed, however long callers wait for it."""

    grace: float = 3.0
    """Seconds that a search still waits for the slowest servers when at least half of them have answered."""

    rest: Backoff = field(default_factory=lambda: Backoff(5.0, 60.0))
    """How long a server that was waited for in vain is left alone; then it is asked while nobody waits for it."""

    reranker: Reranker | None = None
    """Has the last say over the fused order."""


def options_for(configuration: Configuration) -> FederationOptions:
    """Return the defaults, with what the configuration says of ranking."""
    ranker = default_ranker(configuration.tool_discovery.least_confidence)
    return FederationOptions(connection=ConnectionOptions(discovery=DiscoveryOptions(ranker=ranker)))


@asynccontextmanager
async def open_federation(
    configuration: Configuration, options: FederationOptions | None = None
) -> AsyncGenerator[Federation]:
    """Offer the servers of `configuration` until the block ends; each is connected when it is first needed.

    Without `options` the defaults hold, with `least_confidence` of the configuration.

    The block may be left by an exception, which passes through as it is.
    """
    raised: Exception | None = None
    async with anyio.create_task_group() as tasks:
        federation = Federation(configuration, options or options_for(configuration), tasks)
        for server in federation.supervised.values():
            tasks.start_soon(server.run)
        try:
            yield federation
        except Exception as error:  # the block's own: a task group would wrap it
            raised = error
        tasks.cancel_scope.cancel()
    if raised is not None:
        raise raised


class Federation:
    """The tools of several servers; made by `open_federation`."""

    def __init__(self, configuration: Configuration, options: FederationOptions, tasks: TaskGroup) -> None:
        discovery = options.connection.discovery
        self._reranker = options.reranker
        self._listed = ListedTogether(discovery.ranker)
        self._ranker = RememberingRanker(never_silent(discovery.ranker))
        self._targets = {entry.name: entry.target for entry in configuration.servers}
        self._known: dict[str, tuple[FoundTool, ServerTools]] = {}
        """What was found, with the connection that it was found on: on another one it may mean nothing."""
        self.supervised: dict[str, SupervisedServer] = {}
        for name, target in self._targets.items():
            opened = partial(open_server, target, options.connection, on_change=partial(self._drop, name))
            self.supervised[name] = SupervisedServer(opened, connect_timeout=options.connect_timeout)
        self._fanout = Fanout(
            self.supervised, tasks, grace=options.grace, backoff=options.rest, authorization=discovery.authorization
        )

    async def search(
        self,
        query: str,
        *,
        limit: int = 10,
        servers: Collection[str] | None = None,
        deadline: float | None = DEFAULT_DEADLINE,
    ) -> FederatedSearch:
        """Return the tools of all servers that fit `query`, best first, at most `limit`.

        Args:
            query: A short description of what is needed; not blank.
            limit: Upper bound of the answer.
            servers: Names of those that are asked; all unless given.
            deadline: Seconds after which the answers at hand are used; `None` waits for all. A server that takes much
                longer than the others is not waited for so long; what it finds is there for the same search made again.

        Raises:
            ValueError: The query is blank or no Unicode text, or the limit is not positive.
        """
        require_request(query, limit)

        async def ask(server: str, tools: ServerTools) -> Found:
            found = await tools.search_or_list(query, limit=limit)
            if found.listed is not None:  # learned here, so that tools that no ranking takes lose one server alone
                self._listed.learn(server, found.listed)
            return found

        question = Question(ask, subject=lambda _: ("search", query, limit), method=_finding_method, ends_early=True)
        answers = await self._asked(question, self._among(servers), deadline)
        found = {answer.server: answer.value for answer in answers if answer.value}
        listed = [server for server, own in found.items() if own.listed is not None]
        identities = identities_of([self._targets[server] for server in listed])
        together = self._listed.search(query, dict(zip(listed, identities, strict=True)), limit)
        for server in listed:
            own = tuple(tool for tool in together if tool.server == server)
            found[server] = replace(found[server], tools=own)
        by_target = [(self._targets[server], own.tools) for server, own in found.items()]
        merged: Sequence[FoundTool] = merge(query, by_target, limit=limit, ranker=self._ranker, together=together)
        if self._reranker is not None:
            merged = self._reranker(query, merged)[:limit]
        self._remember(merged, answers)
        reports = [answer.report(hits=_count(found.get(answer.server)), found=answer.value) for answer in answers]
        return FederatedSearch(tuple(merged), tuple(reports))

    async def list(self, *, deadline: float | None = DEFAULT_DEADLINE) -> FederatedListing:
        """Return every tool of every server that answers, without ranking."""
        answers = await self.survey(_LISTING, deadline=deadline)
        reports = [answer.report(hits=_count(answer.value), found=answer.value) for answer in answers]
        return FederatedListing(tuple(_tools(answers)), tuple(reports))

    async def describe(self, *, deadline: float | None = DEFAULT_DEADLINE) -> tuple[ServerDescription, ...]:
        """Return what each server is and offers; one that says how many tools it has is not listed for it."""
        answers = await self._fanout.ask(_COUNTING, list(self.supervised), deadline=deadline)
        return tuple(_description(answer) for answer in answers)

    async def survey(
        self,
        question: Question[Found],
        *,
        servers: Collection[str] | None = None,
        deadline: float | None = DEFAULT_DEADLINE,
    ) -> list[Answer[Found]]:
        """Put one question to some of the servers at once, or to all; the tools of the answers are known by name."""
        answers = await self._asked(question, self._among(servers), deadline)
        self._remember(_tools(answers), answers)
        return answers

    async def resolve(
        self, name: str, *, servers: Collection[str] | None = None, deadline: float | None = DEFAULT_DEADLINE
    ) -> FoundTool:
        """Return the tool that `name` means, with its whole definition.

        Args:
            name: The full name, or the bare name where only one server has such a tool.
            servers: Names of those that may be meant; all unless given.
            deadline: Seconds to find it in; `None` means without limit.

        Raises:
            AmbiguousToolError: Several servers have a tool of that bare name.
            UnknownToolError: No server that answered has one.
        """
        known = self._known.get(name)
        asked = self._among(servers)
        if known is not None and known[0].server in asked and self.supervised[known[0].server].connected is known[1]:
            return known[0]
        readings = dict(split_candidates(name, asked))
        if readings:
            began = anyio.current_time()
            try:
                return await self._resolved(name, readings, deadline)
            except UnknownToolError as unknown:
                if unknown.failed:  # the caller has waited for that, and it is the reason
                    raise
            # It may be the bare name of a tool that looks like a full one.
            deadline = None if deadline is None else max(0.0, began + deadline - anyio.current_time())
        return await self._resolved(name, dict.fromkeys(asked, name), deadline)

    async def call(
        self,
        name: str,
        arguments: dict[str, Any] | None = None,
        *,
        progress: ProgressFnT | None = None,
        meta: RequestParamsMeta | None = None,
    ) -> CallToolResult:
        """Call the tool that `name` means (see `resolve`).

        Raises:
            LocalError: The name means no tool, or several.
            ServerError: The server failed. A tool that fails is a result with `is_error`. A result that the protocol
                forbids in part keeps the rest (see `ServerTools.call`).
        """
        tool = await self.resolve(name)
        tools = await self.supervised[tool.server].tools()
        return await tools.call(tool.tool.name, arguments, progress=progress, meta=meta)

    def forget(self) -> None:
        """Drop what was kept of every server, so that the servers themselves answer the next questions."""
        self._known.clear()
        for name, server in self.supervised.items():
            self._fanout.drop(name)
            if server.connected is not None:
                server.connected.forget()

    def _among(self, servers: Collection[str] | None) -> list[str]:
        return [name for name in self.supervised if servers is None or name in servers]

    async def _asked(
        self, question: Question[Found], servers: Sequence[str], deadline: float | None
    ) -> list[Answer[Found]]:
        """Return the answers of the servers, with their tools under names among servers."""

        async def ask(server: str, tools: ServerTools) -> Found:
            return named_among_servers(server, await question.ask(server, tools))

        return await self._fanout.ask(replace(question, ask=ask), servers, deadline=deadline)

    async def _resolved(self, name: str, wanted: Mapping[str, str], deadline: float | None) -> FoundTool:
        """Return the tool called `name`, asking each of the servers for the name that it would know."""

        async def ask(server: str, tools: ServerTools) -> Found:
            return await _candidates(tools, wanted[server], server=server, full_name=name)

        question = Question(ask, subject=lambda server: ("named", wanted[server], name), method=_finding_method)
        answers = await self._asked(question, list(wanted), deadline)
        tool = _chosen(name, _tools(answers), [answer.server for answer in answers if answer.failure])
        self._remember([tool], answers)
        return tool

    def _remember(self, tools: Iterable[FoundTool], answers: Iterable[Answer[Found]]) -> None:
        connections = {answer.server: answer.tools for answer in answers}
        for tool in tools:
            connection = connections.get(tool.server)
            if connection is not None:
                self._known[tool.name] = (tool, connection)
        for name in list(self._known)[:-_MOST_KNOWN]:
            del self._known[name]

    def _drop(self, server: str) -> None:
        """Drop what was kept of one server, because its tools changed."""
        self._fanout.drop(server)
        self._known = {name: known for name, known in self._known.items() if known[0].server != server}


def _finding_method(_: str, tools: ServerTools) -> Method:
    return "tools/list" if tools.mode == "list" else "tools/search"


def _stated_size(tools: ServerTools) -> int | None:
    return None if tools.settings is None else tools.settings.catalog_size


async def _tool_count(_: str, tools: ServerTools) -> int:
    stated = _stated_size(tools)
    return len(await tools.list()) if stated is None else stated


_LISTING: Final = Question(lambda _, tools: list_as_found(tools), subject=lambda _: "list", method=by_listing)

_COUNTING: Final = Question(
    _tool_count,
    subject=lambda _: "count",
    method=lambda _, tools: "tools/list" if _stated_size(tools) is None else None,
)


def _description(answer: Answer[int]) -> ServerDescription:
    if answer.tools is None:
        return ServerDescription(answer.report())
    settings = answer.tools.settings
    return ServerDescription(
        answer.report(hits=answer.value or 0),
        info=answer.tools.info,
        protocol_version=answer.tools.protocol_version,
        settings=None if settings is None else settings.to_wire(),
        tools=answer.value,
    )


def _tools(answers: Iterable[Answer[Found]]) -> list[FoundTool]:
    return [tool for answer in answers if answer.value for tool in answer.value.tools]


def _count(found: Found | None) -> int:
    return len(found.tools) if found else 0


async def _candidates(tools: ServerTools, name: str, *, server: str, full_name: str) -> Found:
    """Return tools of one server that may be meant: all of a server that has to be listed.

    Args:
        tools: The server's.
        name: What the server may know the tool as.
        server: What the server is known as.
        full_name: As typed. One that was altered says too little to search for, so that a listing decides.
    """

    def has_it(found: Found) -> bool:
        names = [hit.tool.name for hit in found.tools]
        return name in names or any(qualified_name(server, own) == full_name for own in names)

    if tools.mode == "list":
        return await list_as_found(tools)
    found = await tools.search(name, limit=_CANDIDATES)
    shortened = without_digest(name)
    if shortened == name or has_it(found):
        return found
    more = await tools.search(shortened, limit=_CANDIDATES) if shortened.strip("_") else found
    return more if has_it(more) else await list_as_found(tools)


def _chosen(name: str, candidates: Sequence[FoundTool], failed: Sequence[str]) -> FoundTool:
    """Return the tool that `name` means: the full name of one, or the bare name of exactly one."""
    full = [tool for tool in candidates if tool.name == name]
    meant = full or [tool for tool in candidates if tool.tool.name == name]
    meant = list({(tool.server, tool.tool.name): tool for tool in meant}.values())
    if len(meant) == 1:
        return meant[0]
    if meant:
        raise AmbiguousToolError(name, [tool.name for tool in meant])
    spelled = {tool.tool.name: tool.name for tool in candidates} | {tool.name: tool.name for tool in candidates}
    similar = difflib.get_close_matches(name, spelled, n=2 * _CLOSEST)
    closest = list(dict.fromkeys(spelled[match] for match in similar))[:_CLOSEST]
    raise UnknownToolError(name, closest, failed)
