"""Many servers as one: searched concurrently, fused by rank, with unambiguous names.

A failing server only loses its own tools.

A name is resolved to one tool. A server that supports search is searched for the name, because it must return a tool
with exactly that name first; only other servers are listed. So calling one tool in a catalog of thousands costs one
small answer.
"""

from __future__ import annotations

import difflib
import logging
from collections.abc import AsyncGenerator, Awaitable, Callable, Collection, Iterable, Mapping, Sequence
from contextlib import asynccontextmanager, closing
from dataclasses import dataclass, field, fields, replace
from functools import partial
from itertools import count
from types import NoneType
from typing import Any, Final, TypeVar

import anyio
from anyio.abc import TaskGroup
from mcp import Client
from mcp.shared.dispatcher import ProgressFnT
from mcp_ext_search_primitives import PROMPTS, RESOURCE_TEMPLATES, RESOURCES
from mcp_ext_tools_search.client import hit_metadata
from mcp_ext_tools_search.ranking import Ranker, SimpleRanker
from mcp_ext_tools_search.types import TOOLS, HitMetadata, Primitive
from mcp_types import (
    CallToolResult,
    CompleteRequestParams,
    Completion,
    GetPromptRequestParams,
    GetPromptResult,
    Prompt,
    PromptReference,
    ReadResourceRequestParams,
    ReadResourceResult,
    RequestParamsMeta,
    Resource,
    ResourceTemplate,
    ResourceTemplateReference,
)
from tools_search_hosts import ServerEntry, qualified_name, split_candidates, without_digest
from tools_search_hosts.locations import cache_folder
from tools_search_hosts.toolsets import closest
from tools_search_ranking import default_ranker

from tools_search_client.errors import (
    AmbiguousToolError,
    ConfigurationError,
    HostError,
    InvalidServerResultError,
    LocalError,
    ServerError,
    ServerUnavailableError,
    UnknownToolError,
    refuse_single_name,
    require_kind,
    require_seconds,
    require_times,
)
from tools_search_client.federation.configuration import Configuration, ToolDiscovery
from tools_search_client.federation.fanout import MAX_PARTIAL, Answer, Fanout, Method, Question, ask_connected
from tools_search_client.federation.merging import (
    ItemsListedTogether,
    ListedTogether,
    is_large,
    listed_among_servers,
    merge,
    named_among_servers,
    named_first,
)
from tools_search_client.found import (
    FederatedItems,
    FederatedListing,
    FederatedOffers,
    FederatedSearch,
    Found,
    FoundTool,
    NamedItem,
    ServerDescription,
)
from tools_search_client.json_values import require_sendable
from tools_search_client.reranking import Reranking
from tools_search_client.servers.connection import ConnectionOptions, open_server
from tools_search_client.servers.discovery import Answered, require_request
from tools_search_client.servers.discovery_options import DiscoveryOptions, ServerTimes
from tools_search_client.servers.host_connection import ConnectedServer, HostConnection
from tools_search_client.servers.server_tools import ServerTools
from tools_search_client.servers.supervision import Backoff, SupervisedServer

_logger = logging.getLogger(__name__)

_DEADLINE: Final = 10.0

_MAX_KNOWN: Final = 10_000
"""Maximum tools to remember by name; others, and large ones, are looked up again with one small search."""

Result = TypeVar("Result")

_CLOSEST: Final = 3
_CANDIDATES: Final = 10


@dataclass(frozen=True, slots=True, kw_only=True)
class FederationOptions:
    """How servers are asked. Options left out default to the configuration (`tool_discovery`)."""

    connection: ConnectionOptions = field(default_factory=ConnectionOptions)

    connection_to: Callable[[ServerEntry], ConnectionOptions | None] = lambda _: None
    """Returns the options that differ for one server, such as callbacks that know its name. All other options come from
    `connection`.
    """

    connect_timeout: float | None = None
    """Timeout in seconds for an attempt to connect, however long callers wait."""

    grace: float | None = None
    """Grace period in seconds for the slowest servers, once at least half of the servers have answered a search."""

    rest: Backoff | None = None
    """How long a late server is not asked, from `rest` to `longest_rest`; then it is asked without making callers
    wait. A caller with a longer deadline than those who waited in vain is not affected.
    """

    reranking: Reranking | None = None
    """Makes the final ordering of fused results, in conversations over these servers too."""

    deadline: float | None = None
    """Default number of seconds that a request waits for the slowest server; 10 if not configured."""

    def __post_init__(self) -> None:
        require_times(self, "deadline", "connect_timeout")
        require_times(self, "grace", or_zero=True)
        require_kind("connection_to", self.connection_to, Callable, instead="a function of a server's entry")
        require_kind("rest", self.rest, Backoff, NoneType, instead="a `Backoff`")
        require_kind("connection", self.connection, ConnectionOptions, instead="a `ConnectionOptions`")
        require_kind("reranking", self.reranking, Reranking, NoneType, instead="a `Reranking` of your function")

    def of(self, entry: ServerEntry) -> ConnectionOptions:
        """Return the options for connecting to one server, including its entry's era and call timeout."""
        options = replace(self.connection, era=entry.era or self.connection.era)
        if entry.call_seconds is not None:
            options = replace(options, discovery=replace(options.discovery, call_timeout=entry.call_seconds))
        own = self.connection_to(entry)
        return options if own is None else own.completed(options)


def connection_stated_in(stated: ToolDiscovery, ranker: Ranker) -> ConnectionOptions:
    """Return the configuration's options for all connections."""
    times = {each.name: getattr(stated, each.name) for each in fields(ServerTimes)}
    discovery = DiscoveryOptions(ranker=ranker, **times)
    return ConnectionOptions(era=stated.era, follow_changes=stated.follow_changes, discovery=discovery)


def ranker_of(stated: ToolDiscovery) -> Ranker:
    """Return the ranker that a configuration names.

    Raises:
        ConfigurationError: It requires ranking by meaning, but the extra is not installed.
    """
    if stated.ranker == "plain":
        return SimpleRanker()
    fielded = default_ranker(stated.least_confidence)
    if stated.ranker == "fielded":
        return fielded
    from tools_search_ranking.extras import MissingExtraError
    from tools_search_ranking.semantic import SemanticRanker
    from tools_search_ranking.semantic.minilm import minilm
    from tools_search_ranking.semantic.universal import universal

    try:
        model = universal() if stated.ranker == "multilingual" else minilm()
        return SemanticRanker(model, lexical=fielded, folder=cache_folder("tools-search-client"))
    except MissingExtraError as error:
        raise ConfigurationError("`ranker` of `tool_discovery`", [str(error)]) from None


@asynccontextmanager
async def open_federation(
    configuration: Configuration, options: FederationOptions | None = None
) -> AsyncGenerator[Federation]:
    """Open a federation of the servers in `configuration`. Each server is connected when it is first needed.

    Any task may use it, but the one that enters the block must also leave it.

    Exceptions raised in the block pass through unchanged. After the block, every method that asks servers raises a
    `LocalError`, and so do the searches and lists still in progress.

    Args:
        configuration: The servers and their default options.
        options: Options that a file cannot state, and overrides of the ones it can.

    Raises:
        ConfigurationError: The configuration requires ranking by meaning, but the extra is not installed.
        LocalError: An argument is of the wrong type, such as a file's path instead of its configuration.
    """
    require_kind("configuration", configuration, Configuration, instead="a `Configuration`: use `load_configuration`")
    options = options or FederationOptions()
    require_kind(
        "options", options, FederationOptions, instead="a `FederationOptions`: use its `connection` for a connection's"
    )
    raised: Exception | None = None
    async with anyio.create_task_group() as tasks:
        try:
            with closing(Federation(configuration, options, tasks)) as federation:
                yield federation
        except Exception as error:  # raised by the block: a task group would wrap it
            raised = error
        tasks.cancel_scope.cancel()
    if raised is not None:
        raise raised


class Federation:
    """The tools of several servers. Create it with `open_federation`."""

    def __init__(self, configuration: Configuration, options: FederationOptions, tasks: TaskGroup) -> None:
        stated = configuration.tool_discovery
        self.configuration = replace(configuration, servers=())
        """The current servers (see `add` and `remove`), and the settings for all of them."""
        self.changes = 0
        """How often a server has announced a change, or `forget` was called."""
        self.ranker: Final = options.connection.discovery.ranker or ranker_of(stated)
        """The local ranker."""
        self.reranking: Final = options.reranking
        self._deadline = _first(options.deadline, stated.deadline, _DEADLINE)
        others = (RESOURCES, RESOURCE_TEMPLATES, PROMPTS)
        self._together: Final[dict[str, ListedTogether | ItemsListedTogether]] = {
            TOOLS.method: ListedTogether(self.ranker),
            **{primitive.method: ItemsListedTogether(primitive, self.ranker) for primitive in others},
        }
        """The listings of each kind, ranked as one, by the method that searches that kind."""
        self._options: Final = replace(
            options, connection=options.connection.completed(connection_stated_in(stated, self.ranker))
        )
        self._numbers = count(1)
        self._identities: dict[str, int] = {}
        """A number for each server, equal for servers with equal targets, which are the same server."""
        self._authorization = options.connection.discovery.authorization or str
        self._known: dict[tuple[str, str], tuple[FoundTool, ServerTools]] = {}
        """Found tools by the authorization for which they were found and their full name, with the connection they were
        found on, because they might not be valid on another one.
        """
        self.supervised: dict[str, SupervisedServer | HostConnection] = {}
        self._tasks: Final = tasks
        self._running: dict[str, tuple[anyio.CancelScope, anyio.Event]] = {}
        """For each server, the scope that stops its work and the event that is set when it has stopped."""
        self._requests: dict[str, set[anyio.CancelScope]] = {}
        """The calls and other requests to each server that are in progress; searches are the fan-out's."""
        self._fanout = Fanout(
            tasks,
            grace=_first(options.grace, stated.grace),
            backoff=options.rest or Backoff(stated.rest, stated.longest_rest),
            authorization=self._authorization,
        )
        for entry in configuration.servers:
            self.add(entry)

    def close(self) -> None:
        """End the requests in progress, whose tasks can outlive the block of `open_federation`, and refuse others."""
        self._fanout.close()

    def add(self, entry: ServerEntry) -> None:
        """Add a server after the others. It is connected when it is first needed.

        A conversation notices it at the next `begin_turn` or `refresh`.

        Raises:
            LocalError: There is already a server with that name: `remove` it first.
        """
        self._fanout.require_open()
        require_kind("entry", entry, ServerEntry, instead="a `ServerEntry`, with a name and a target")
        require_times(entry, "start_seconds", "call_seconds")
        if entry.name in self.supervised:
            raise LocalError(f"a server named {entry.name!r} already exists; remove it first")
        options, drop = self._options.of(entry), partial(self._note_change, entry.name)
        if isinstance(entry, ConnectedServer):
            server: SupervisedServer | HostConnection = HostConnection(entry, options, on_change=drop)
            same = list[str]()
        else:
            stated = self.configuration.tool_discovery.connect_timeout
            server = SupervisedServer(
                partial(open_server, entry.target, options, on_change=drop),
                connect_timeout=_first(entry.start_seconds, self._options.connect_timeout, stated),
                authorization=self._authorization,
            )
            same = [server.name for server in self.configuration.servers if server.target == entry.target]
        self._identities[entry.name] = self._identities[same[0]] if same else next(self._numbers)
        self.configuration = replace(self.configuration, servers=(*self.configuration.servers, entry))
        self.supervised[entry.name] = server
        self._fanout.add(entry.name, server)
        scope, over = self._running[entry.name] = anyio.CancelScope(), anyio.Event()

        async def run() -> None:
            try:
                with scope:
                    await server.run()
            finally:
                over.set()

        self._tasks.start_soon(run, name=f"holding {entry.name!r}")

    async def remove(self, name: str) -> None:
        """Remove a server, and return when its connection is closed and its program, if any, has exited.

        Searches in progress continue without it, and calls of its tools fail. The connection of a `ConnectedServer` is
        left open. A conversation stops offering its tools at once, and notifies its model with the next request.

        Raises:
            LocalError: There is no server with that name.
        """
        self._server(name)
        others = tuple(entry for entry in self.configuration.servers if entry.name != name)
        self.configuration = replace(self.configuration, servers=others)
        # Before the connection is closed, so that no request in the meantime opens it again.
        del self.supervised[name], self._identities[name]
        self._drop(name)
        self._fanout.remove(name)
        for together in self._together.values():
            together.forget(name)
        scope, over = self._running.pop(name)
        for request in (scope, *self._requests.pop(name, ())):
            request.cancel()
        await over.wait()

    async def search(
        self,
        query: str,
        *,
        limit: int = 10,
        servers: Collection[str] | None = None,
        deadline: float | None = None,
        reranks: bool = True,
    ) -> FederatedSearch:
        """Return up to `limit` tools from all servers that fit `query`, best first.

        Args:
            query: A short description of the need; not blank.
            limit: Maximum number of tools.
            servers: Names of the servers to search; all by default.
            deadline: Seconds after which to use the answers so far; defaults to the options. `math.inf` waits for all,
                0 or less for none. A server that takes much longer than the others is not waited for until the
                deadline; its results are available if the same search is repeated.
            reranks: Whether to apply the re-ranker, if any, which has its own deadline.

        Raises:
            LocalError: `servers` names a server that does not exist, an argument is of the wrong type, the query is
                blank or not valid Unicode, or the limit is not positive.
        """
        reranking = self.reranking if reranks else None
        most = limit if reranking is None else limit * reranking.pool
        found = await self._search(TOOLS, query, most, servers, deadline)
        tools: tuple[Any, ...] = found.items
        if reranking is None:
            return FederatedSearch(tools, servers=found.servers)
        ordered, fault = await reranking.order(query, tools)
        return FederatedSearch(tuple(named_first(query, ordered)[:limit]), fault, servers=found.servers)

    async def search_resources(
        self,
        query: str,
        *,
        limit: int = 10,
        servers: Collection[str] | None = None,
        deadline: float | None = None,
    ) -> FederatedItems[Resource]:
        """Return up to `limit` resources from all servers that fit `query`, best first.

        Servers that support `resources/search` are searched, including resource contents if they say so. The others are
        listed, and their resources are ranked locally by definition. Arguments and errors are the same as for `search`.
        """
        return await self._search(RESOURCES, query, limit, servers, deadline)

    async def search_resource_templates(
        self,
        query: str,
        *,
        limit: int = 10,
        servers: Collection[str] | None = None,
        deadline: float | None = None,
    ) -> FederatedItems[ResourceTemplate]:
        """Return the resource templates that fit `query`; works like `search_resources`."""
        return await self._search(RESOURCE_TEMPLATES, query, limit, servers, deadline)

    async def search_prompts(
        self,
        query: str,
        *,
        limit: int = 10,
        servers: Collection[str] | None = None,
        deadline: float | None = None,
    ) -> FederatedItems[Prompt]:
        """Return the prompts that fit `query`; works like `search_resources`."""
        return await self._search(PROMPTS, query, limit, servers, deadline)

    async def list(self, *, servers: Collection[str] | None = None, deadline: float | None = None) -> FederatedListing:
        """Return all tools from every server that answers, without ranking."""
        question = Question(
            _listed, subject=lambda _: "list", method=lambda _, __: "tools/list", partly=listed_among_servers
        )
        answers = await self.survey(question, servers=servers, deadline=deadline)
        reports = [answer.report(found=answer.value) for answer in answers]
        return FederatedListing(tuple(_tools(answers)), servers=tuple(reports))

    async def describe(self, *, deadline: float | None = None) -> tuple[ServerDescription, ...]:
        """Describe each server; a server that states its number of tools is not listed to count them."""

        async def count(_: str, tools: ServerTools) -> int:
            stated = tools.settings and tools.settings.catalog_size
            return len(await tools.list()) if stated is None else stated

        def method(_: str, tools: ServerTools) -> Method | None:
            return "tools/list" if tools.settings is None or tools.settings.catalog_size is None else None

        question = Question(count, subject=lambda _: "count", method=method)
        descriptions: list[ServerDescription] = []
        for answer in await self._fanout.ask(question, list(self.supervised), deadline=self._within(deadline)):
            report, tools = answer.report(hits=answer.value or 0), answer.tools
            if tools is None:
                descriptions.append(ServerDescription(report))
                continue
            settings = None if tools.settings is None else tools.settings.to_wire()
            descriptions.append(ServerDescription(report, tools.info, tools.protocol_version, settings, answer.value))
        return tuple(descriptions)

    async def survey(
        self,
        question: Question[Found],
        *,
        servers: Collection[str] | None = None,
        deadline: float | None = None,
    ) -> list[Answer[Found]]:
        """Send one request to some or all servers concurrently, and remember the tools in the answers by full name.

        Raises:
            LocalError: `servers` names a server that does not exist.
        """
        answers = await self._fanout.ask(question, self._among(servers), deadline=self._within(deadline))
        self._remember(_tools(answers), answers)
        return answers

    async def resolve(
        self, name: str, *, servers: Collection[str] | None = None, deadline: float | None = None
    ) -> FoundTool:
        """Return the tool that `name` means, with its full definition.

        Args:
            name: The full name, `server:tool`, or the bare name if only one server has such a tool.
            servers: Names of the servers to consider; all by default.
            deadline: Timeout in seconds; defaults to the options.

        Raises:
            LocalError: `servers` names a server that does not exist.
            AmbiguousToolError: Several servers have a tool with that bare name.
            UnknownToolError: No server that answered has one.
            ServerError: The server that the name starts with, or that had the tool, failed.
            HostError: Code supplied by the host raised.
        """
        asked = self._among(servers)
        try:
            return await self.find(name, servers=servers, deadline=deadline)
        except UnknownToolError as unknown:
            known = [tool.server for tool, _ in self._known.values() if name in (tool.name, tool.tool.name)]
            prefixes = [server for server, _ in split_candidates(_full_name(name, asked), asked)]
            for server in (*known, *prefixes, ""):  # a server without a name can have any tool
                if server in unknown.errors:
                    raise unknown.errors[server] from None
            raise

    async def find(
        self, name: str, *, servers: Collection[str] | None = None, deadline: float | None = None
    ) -> FoundTool:
        """Return the tool that `name` means, like `resolve`, but without raising server errors.

        Raises:
            LocalError: `servers` names a server that does not exist.
            AmbiguousToolError: Several servers have a tool with that bare name.
            UnknownToolError: No server that answered has one; the error includes the other servers' failures.
        """
        require_kind("name", name, str, instead="the name of a tool, such as the `name` of a `FoundTool`")
        # A new connection must find it again: the SDK only knows the `Mcp-Param-*` headers of tools found there.
        known = self._known.get((self._authorization(), name))
        asked = self._among(servers)
        if known is not None and known[0].server in asked and self.supervised[known[0].server].connected is known[1]:
            return known[0]
        full = _full_name(name, asked)
        readings = dict(split_candidates(full, asked))
        seconds, began = self._within(deadline), anyio.current_time()
        if readings:
            try:
                return await self._resolved(full, readings, seconds)
            except UnknownToolError as unknown:
                if unknown.failed:  # the caller waited for this server, and its error is the reason
                    raise
            # It might be a bare name that looks like a full one.
            seconds = max(0.0, began + seconds - anyio.current_time())
        return await self._resolved(name, dict.fromkeys(asked, name), seconds)

    async def call(
        self,
        name: str,
        arguments: Mapping[str, Any] | None = None,
        *,
        progress: ProgressFnT | None = None,
        meta: RequestParamsMeta | None = None,
    ) -> CallToolResult:
        """Call the tool that `name` means (see `resolve`).

        Raises:
            LocalError: The name matches no tool or several, or the arguments or `meta` cannot be sent as JSON.
            HostError: Code supplied by the host raised.
            ServerError: The server failed. A failing tool gives a result with `is_error`. A partly invalid result keeps
                its valid parts (see `ServerTools.call`).
        """
        tool = await self.resolve(name)
        given = dict(arguments) if isinstance(arguments, Mapping) else arguments
        return await self._asked(
            tool.server, lambda tools: tools.call(tool.tool.name, given, progress=progress, meta=meta)
        )

    async def prompts(self, *, deadline: float | None = None) -> FederatedOffers[Prompt]:
        """Return all prompts from every server that answers; a server with more than 10,000 counts as failed.

        Invalid definitions are left out and counted in the reports. Lists are cached for as long as tool lists.
        """
        return await self._offers(PROMPTS, deadline)

    async def resources(self, *, deadline: float | None = None) -> FederatedOffers[Resource]:
        """Return every server's resources; works like `prompts`."""
        return await self._offers(RESOURCES, deadline)

    async def resource_templates(self, *, deadline: float | None = None) -> FederatedOffers[ResourceTemplate]:
        """Return every server's resource templates; works like `prompts`."""
        return await self._offers(RESOURCE_TEMPLATES, deadline)

    async def get_prompt(self, server: str, name: str, arguments: dict[str, str] | None = None) -> GetPromptResult:
        """Return a prompt, by the server's own name for it, with its arguments filled in.

        Raises:
            LocalError: There is no server with that name, or the arguments cannot be sent as JSON.
            ServerError: The server failed, or has no such prompt.
        """
        require_sendable(GetPromptRequestParams, "the request", name=name, arguments=arguments)
        return await self._of_server(server, lambda client: client.get_prompt(name, arguments))

    async def read_resource(self, server: str, uri: str) -> ReadResourceResult:
        """Return a resource's contents; raises the same errors as `get_prompt`."""
        require_sendable(ReadResourceRequestParams, "the request", uri=uri)
        return await self._of_server(server, lambda client: client.read_resource(uri))

    async def complete(
        self,
        server: str,
        ref: PromptReference | ResourceTemplateReference,
        argument: dict[str, str],
        context_arguments: dict[str, str] | None = None,
    ) -> Completion:
        """Return the server's completions for a prompt's or template's argument; raises the errors of `get_prompt`.

        Args:
            server: The server's name.
            ref: The prompt or template, by the server's own name or URI.
            argument: `{"name": …, "value": …}`, with the value typed so far.
            context_arguments: Arguments that already have values.
        """
        context = {"arguments": context_arguments}
        require_sendable(CompleteRequestParams, "the request", ref=ref, argument=argument, context=context)
        result = await self._of_server(server, lambda client: client.complete(ref, argument, context_arguments))
        return result.completion

    async def _search(
        self,
        primitive: Primitive[Any],
        query: str,
        limit: int,
        servers: Collection[str] | None,
        deadline: float | None,
    ) -> FederatedItems[Any]:
        """Return the best tools or other items of all servers, and remember the tools."""
        require_request(query, limit)
        together = self._together[primitive.method]

        async def ask(server: str, tools: ServerTools) -> Answered:
            answered = await tools.discovery(primitive).search_or_list(query, limit)
            if answered.mode == "list":  # here, so that tools that the ranker rejects only fail this server
                await together.learn_in_thread(server, answered.items, lambda: server in self.supervised)
            return answered

        question = Question(
            ask,
            partly=lambda _, items: Answered("list", items[:MAX_PARTIAL]),
            primitive=primitive,
            subject=lambda _: (primitive.method, query, limit),
            method=partial(_finding_method, primitive=primitive),
            ends_early=True,
        )
        asked = {name: self.supervised[name] for name in self._among(servers)}
        answers = await self._fanout.ask(question, list(asked), deadline=self._within(deadline))
        answers = [await self._learned(answer, together) for answer in answers]
        answers = [answer for answer in answers if self.supervised.get(answer.server) is asked[answer.server]]
        answered = {answer.server: answer.value for answer in answers if answer.value}
        # Read before the next wait, in which a server can be removed.
        identities = {server: self._identities[server] for server in answered}
        are_listed = {server: number for server, number in identities.items() if answered[server].mode == "list"}
        for server in are_listed:  # another authorization can have been answered with other items meanwhile
            together.learn(server, answered[server].items)
        ranked = _with_ranks(await together.search(query, are_listed, limit))
        found: dict[str, Sequence[Any]] = {}
        for server, own in answered.items():
            if server in are_listed:
                found[server] = [item for item in ranked if item.server == server]
                continue
            found[server] = _with_ranks(
                together.form(
                    qualified_name(server, item.name), server, item, hit_metadata(item) or HitMetadata(), "search"
                )
                for item in own.items
            )
        by_identity = [(identities[server], items) for server, items in found.items()]
        merged = merge(query, by_identity, limit=limit, index=together.index, together=ranked)
        reports = (
            answer.report(hits=len(found.get(answer.server, ())), found=answer.value, primitive=primitive)
            for answer in answers
        )
        if primitive is TOOLS:
            self._remember(merged, answers)
        return FederatedItems(tuple(merged), servers=tuple(reports))

    async def _learned(
        self, answer: Answer[Answered], together: ListedTogether | ItemsListedTogether
    ) -> Answer[Answered]:
        """Index what a server listed before a later page failed, which is lost if the ranker rejects it."""
        if answer.value is None or answer.error is None:
            return answer
        try:
            await together.learn_in_thread(answer.server, answer.value.items, lambda: answer.server in self.supervised)
        except Exception:
            _logger.exception("what %r listed cannot be ranked", answer.server)
            return replace(answer, value=None)
        return answer

    async def _offers(self, primitive: Primitive[Any], deadline: float | None) -> FederatedOffers[Any]:
        question = Question(
            lambda _, tools: tools.discovery(primitive).list(),
            subject=lambda _: primitive.list_method,
            method=lambda _, __: primitive.list_method,
            partly=lambda _, items: items,
            primitive=primitive,
        )
        answers = await self._fanout.ask(question, list(self.supervised), deadline=self._within(deadline))
        offers = [
            NamedItem(qualified_name(answer.server, item.name), answer.server, item)
            for answer in answers
            for item in answer.value or ()
        ]
        reports = [answer.report(hits=len(answer.value or ()), primitive=primitive) for answer in answers]
        return FederatedOffers(tuple(offers), servers=tuple(reports))

    async def _of_server(self, server: str, request: Callable[[Client], Awaitable[Result]]) -> Result:
        async def ask(tools: ServerTools) -> Result:
            async with tools.patience():
                try:
                    return await request(tools.client)
                except RuntimeError as error:  # the SDK's error for a server that keeps asking for input
                    raise InvalidServerResultError(str(error)) from error

        return await self._asked(server, ask)

    async def _asked(self, name: str, ask: Callable[[ServerTools], Awaitable[Result]]) -> Result:
        """Ask one server. Raises a `ServerUnavailableError` if it is removed meanwhile, even if it stays open."""
        server, scope = self._server(name), anyio.CancelScope()
        requests = self._requests.setdefault(name, set())
        requests.add(scope)
        try:
            with scope:
                return await ask_connected(server, ask)
        finally:
            requests.discard(scope)
        raise ServerUnavailableError("the server was removed")

    def forget(self) -> None:
        """Discard everything cached for all servers, so that the next requests go to the servers."""
        self.changes += 1
        self._known.clear()
        for name, server in self.supervised.items():
            self._fanout.drop(name)
            if server.connected is not None:
                server.connected.forget()

    def _server(self, name: str) -> SupervisedServer | HostConnection:
        self._fanout.require_open()
        require_kind("server", name, str, instead="the name of a server")
        if name not in self.supervised:
            raise LocalError(f"no server is named {name!r}; {closest(name, self.supervised)}")
        return self.supervised[name]

    def _within(self, deadline: float | None) -> float:
        """Return a caller's deadline, or the default; raises `LocalError` if it is not a number of seconds."""
        if deadline is None:
            return self._deadline
        require_kind("deadline", deadline, int, float, instead="a number of seconds")
        seconds = max(deadline, 0.0)  # the caller's time can be over; NaN remains NaN
        require_seconds("deadline", seconds, or_zero=True)
        return seconds

    def _among(self, servers: Collection[str] | None) -> list[str]:
        """Return the servers' names in this federation's order; raises `LocalError` if one does not exist."""
        refuse_single_name("servers", servers or ())
        for name in servers or ():
            self._server(name)
        return [name for name in self.supervised if servers is None or name in servers]

    async def _resolved(self, name: str, wanted: Mapping[str, str], seconds: float) -> FoundTool:
        """Return the tool named `name`, asking each server for the name that it would know."""

        async def ask(server: str, tools: ServerTools) -> Found:
            """Return one server's candidates: all tools if the server must be listed."""
            own_name = wanted[server]

            def has_it(found: Found) -> bool:
                return any(hit.tool.name == own_name or hit.name == name for hit in found.tools)

            if tools.mode == "list":
                return await _listed(server, tools)
            try:
                require_request(own_name, 1)
            except LocalError:  # not a valid tool name
                return Found((), "search")
            found = named_among_servers(server, await tools.search(own_name, limit=_CANDIDATES))
            shortened = without_digest(own_name)
            if shortened == own_name or has_it(found):
                return found
            # An altered name cannot be searched for, so list the tools instead.
            if shortened.strip("_"):
                found = named_among_servers(server, await tools.search(shortened, limit=_CANDIDATES))
            return found if has_it(found) else await _listed(server, tools)

        question = Question(
            ask,
            subject=lambda server: ("named", wanted[server], name),
            method=_finding_method,
            partly=listed_among_servers,
        )
        answers = await self._fanout.ask(question, list(wanted), deadline=seconds)
        errors = {answer.server: answer.error for answer in answers if answer.error}
        tool = _chosen(name, _tools(answers), errors, is_server=name in self.supervised)
        self._remember([tool], answers)
        return tool

    def _remember(self, tools: Iterable[FoundTool], answers: Iterable[Answer[Any]]) -> None:
        connections = {answer.server: answer.tools for answer in answers}
        authorization = self._authorization()
        for tool in tools:
            connection = connections.get(tool.server)
            known, _ = self._known.get((authorization, tool.name), (None, None))
            # A large one is looked up again when it is called.
            if connection is not None and ((known and known.item is tool.item) or not is_large(tool.item)):
                self._known[authorization, tool.name] = (tool, connection)
        for key in list(self._known)[:-_MAX_KNOWN]:
            del self._known[key]

    def _note_change(self, server: str) -> None:
        self.changes += 1
        self._drop(server)

    def _drop(self, server: str) -> None:
        """Discard what was cached for one server, because its tools changed."""
        self._fanout.drop(server)
        self._known = {key: known for key, known in self._known.items() if known[0].server != server}


def _full_name(name: str, servers: Iterable[str]) -> str:
    """Return the full name for `name`, which can have the form `server:tool`."""
    stated = [
        (server, name.removeprefix(f"{server}:")) for server in servers if server and name.startswith(f"{server}:")
    ]
    return qualified_name(*max(stated)) if stated else name


def _first(*seconds: float | None) -> float:
    """Return the first value that is not `None`."""
    return next(each for each in seconds if each is not None)


def _with_ranks(found: Iterable[Any]) -> list[Any]:
    return [replace(item, own_rank=rank) for rank, item in enumerate(found, start=1)]


def _finding_method(_: str, tools: ServerTools, primitive: Primitive[Any] = TOOLS) -> Method:
    return primitive.list_method if tools.discovery(primitive).mode == "list" else primitive.method


async def _listed(server: str, tools: ServerTools) -> Found:
    return listed_among_servers(server, await tools.list())


def _tools(answers: Iterable[Answer[Found]]) -> list[FoundTool]:
    return [tool for answer in answers if answer.value for tool in answer.value.tools]


def _chosen(
    name: str, candidates: Sequence[FoundTool], errors: Mapping[str, ServerError | HostError], *, is_server: bool
) -> FoundTool:
    """Return the tool that `name` means: the full name of one, or the bare name of exactly one."""
    full = [tool for tool in candidates if tool.name == name]
    meant = full or [tool for tool in candidates if tool.tool.name == name]
    meant = list({(tool.server, tool.tool.name): tool for tool in meant}.values())
    if len(meant) == 1:
        return meant[0]
    if meant:
        raise AmbiguousToolError(name, [tool.name for tool in meant])
    spelled = {tool.tool.name: tool.name for tool in candidates} | {tool.name: tool.name for tool in candidates}
    if is_server:
        raise UnknownToolError(name, [tool.name for tool in candidates if tool.server == name], errors, is_server=True)
    similar = difflib.get_close_matches(name, spelled, n=2 * _CLOSEST)
    nearest = list(dict.fromkeys(spelled[match] for match in similar))[:_CLOSEST]
    raise UnknownToolError(name, nearest, errors)
