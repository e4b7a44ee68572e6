"""Connections to configured, untrusted servers in either era."""

from __future__ import annotations

import logging
from collections.abc import AsyncGenerator, Awaitable, Callable, Mapping
from contextlib import AsyncExitStack, asynccontextmanager, nullcontext
from dataclasses import dataclass, field, replace
from functools import partial
from types import NoneType
from typing import Any, Final, get_args

import anyio
import httpx2
from mcp import Client, MCPError
from mcp.client.auth import OAuthFlowError
from mcp.client.session import ElicitationFnT, IncomingMessage, ListRootsFnT, LoggingFnT, MessageHandlerFnT, SamplingFnT
from mcp.client.subscriptions import PromptsListChanged, ResourcesListChanged, SubscriptionLost, ToolsListChanged
from mcp.shared.message import SessionMessage
from mcp_ext_search_primitives import PROMPTS, RESOURCES
from mcp_ext_tools_search.client import TOOLS_SEARCH
from mcp_ext_tools_search.types import TOOLS
from mcp_types import (
    INTERNAL_ERROR,
    INVALID_REQUEST,
    EmptyResult,
    ErrorData,
    Implementation,
    JSONRPCError,
    JSONRPCResponse,
    LoggingLevel,
    PromptListChangedNotification,
    ResourceListChangedNotification,
    SamplingCapability,
    SetLevelRequest,
    SetLevelRequestParams,
    ToolListChangedNotification,
)
from mcp_types.version import MODERN_PROTOCOL_VERSIONS
from tools_search_hosts import EraChoice, HttpTarget, StdioTarget, Target, UnusableTarget
from tools_search_hosts.bounded_http import SSE_STATUSES, BoundedHttp, http_streams
from tools_search_hosts.child_process import StrayLineError, child_streams
from tools_search_hosts.endings import SESSION_LOST, Ending, session_lost

from tools_search_client.errors import (
    HostError,
    ServerError,
    ServerRefusedError,
    ServerUnavailableError,
    SignInError,
    UnauthorizedError,
    require_choice,
    require_functions,
    require_kind,
)
from tools_search_client.servers.diagnostics import Diagnostics, kept_diagnostics
from tools_search_client.servers.discovery_options import DiscoveryOptions, stated
from tools_search_client.servers.faults import as_server_error, host_faults, refusal
from tools_search_client.servers.server_tools import ServerTools
from tools_search_client.servers.wire import Streams, Wire, WireObserver
from tools_search_client.text import shorten
from tools_search_client.version import VERSION

_RELISTEN_SECONDS: Final = 5.0
_LONGEST_RELISTEN_SECONDS: Final = 120.0
"""Delay in seconds before renewing a subscription: doubled after one that did not last as long as the last delay."""

_CHANGES: Final[Mapping[type, str]] = {
    ToolsListChanged: TOOLS.setting,
    ToolListChangedNotification: TOOLS.setting,
    ResourcesListChanged: RESOURCES.setting,
    ResourceListChangedNotification: RESOURCES.setting,
    PromptsListChanged: PROMPTS.setting,
    PromptListChangedNotification: PROMPTS.setting,
}
"""The setting that changed, by subscription event or legacy notification."""

_STRAY_CHARS: Final = 80

_CONNECT_SECONDS: Final = 30.0
_READ_SECONDS: Final = 300.0

_logger = logging.getLogger(__name__)

_CLIENT_INFO: Final = Implementation(name="tools-search-client", version=VERSION)


@dataclass(frozen=True, slots=True, kw_only=True)
class ConnectionOptions:
    """Connection options. Options left out default to the configuration, then to the built-in defaults."""

    discovery: DiscoveryOptions = field(default_factory=DiscoveryOptions)

    era: EraChoice | None = None
    """Defaults to `auto`."""

    follow_changes: bool | None = None
    """Whether to subscribe to list changes; if not, modern servers' lists are cached for as long as they state."""

    observer: WireObserver | None = None
    """Observes every message."""

    client_info: Implementation | None = None
    """The host's name and version, sent to servers; defaults to this library's."""

    auth: httpx2.Auth | Callable[[str], httpx2.Auth | None] | None = None
    """Authorizes each HTTP request. A function, such as `OAuth`, is called with the server's address: for each
    connection or, if `DiscoveryOptions.authorization` distinguishes users, for each request.

    Not used for a server whose configured `headers` include `Authorization`.
    """

    # The following are passed to `mcp.Client`, and work in both eras.
    elicitation_callback: ElicitationFnT | None = None
    """Asks the user for information that a server requests. Calls do not time out while a callback waits for a
    person.
    """

    sampling_callback: SamplingFnT | None = None
    """Samples from a model for a server; the host is responsible for consent."""

    sampling_capabilities: SamplingCapability | None = None
    list_roots_callback: ListRootsFnT | None = None
    logging_callback: LoggingFnT | None = None

    log_level: LoggingLevel | None = None
    """The minimum level of log messages to request; without it, a modern server sends none."""

    message_handler: MessageHandlerFnT | None = None
    """Receives the server's notifications."""

    def __post_init__(self) -> None:
        require_kind("discovery", self.discovery, DiscoveryOptions, instead="a `DiscoveryOptions`")
        instead = "an `mcp_types.Implementation` with a name and a version"
        require_kind("client_info", self.client_info, Implementation, NoneType, instead=instead)
        instead = "an `httpx2.Auth` or a function that returns one; a fixed token belongs in a target's `headers`"
        require_kind("auth", self.auth, httpx2.Auth, Callable, NoneType, instead=instead)
        instead = "a `WireObserver`, with the functions `sent`, `received` and `closed`"
        require_kind("observer", self.observer, WireObserver, NoneType, instead=instead)
        instead = "an `mcp_types.SamplingCapability`"
        require_kind("sampling_capabilities", self.sampling_capabilities, SamplingCapability, NoneType, instead=instead)
        require_choice("era", self.era, get_args(EraChoice))
        require_choice("log_level", self.log_level, get_args(LoggingLevel))
        require_kind("follow_changes", self.follow_changes, bool, NoneType, instead="`True` or `False`")
        callbacks = ("elicitation_callback", "sampling_callback", "list_roots_callback", "logging_callback")
        require_functions(self, *callbacks, "message_handler")

    def completed(self, otherwise: ConnectionOptions) -> ConnectionOptions:
        """Return these options, with unset ones taken from `otherwise`."""
        discovery = replace(otherwise.discovery, **stated(self.discovery))
        return replace(otherwise, **stated(self) | {"discovery": discovery})


@asynccontextmanager
async def open_server(
    target: Target,
    options: ConnectionOptions | None = None,
    *,
    on_change: Callable[[], None] = lambda: None,
    on_close: Callable[[], None] = lambda: None,
    diagnostics: Diagnostics | None = None,
) -> AsyncGenerator[ServerTools]:
    """Connect to `target`, negotiate, and yield its tools.

    A server at an HTTP address that refuses the first message of Streamable HTTP, as one on the old HTTP+SSE transport
    does, is tried over that transport too (MCP, Transports, Backwards Compatibility). A started program is stopped at
    the end of the block. The task that enters the block must also leave it, and an HTTP server that dies cancels that
    task; `supervision` handles both. Exceptions raised in the block pass through.

    Args:
        target: A program to start, or an address.
        options: Connection options.
        on_change: Called after the caches are cleared because the server's tools, prompts or resources changed.
        on_close: Called when the server will send nothing more, possibly more than once.
        diagnostics: Where a started program's standard error goes; by default, a separate buffer.

    Raises:
        ServerError: The server could not be started or reached, or died; the message quotes its last diagnostics.
        LocalError: An argument is of the wrong type.
    """
    instead = "a `StdioTarget` or `HttpTarget`, such as the `target` of a `ServerEntry`"
    require_kind("target", target, StdioTarget, HttpTarget, UnusableTarget, instead=instead)
    options = options or ConnectionOptions()
    require_kind("options", options, ConnectionOptions, instead="a `ConnectionOptions`")
    with nullcontext(diagnostics) if diagnostics else kept_diagnostics() as kept:
        async with AsyncExitStack() as stack:
            ended, is_open = Ending(), False

            def closed() -> None:
                if is_open:  # else it is an attempt that ended
                    on_close()

            connect = partial(_connected, options=options, on_change=on_change, on_close=closed, kept=kept)
            try:
                tools = await stack.enter_async_context(connect(target, ended=ended))
            except ServerError as refused:
                is_new = isinstance(target, HttpTarget) and target.transport != "sse"
                if not is_new or ended.http_status not in SSE_STATUSES:
                    raise
                old, old_ended = replace(target, transport="sse"), Ending()
                try:
                    tools = await stack.enter_async_context(connect(old, ended=old_ended))
                except ServerError:
                    if old_ended.has_spoken:
                        raise
                    raise refused from refused.__cause__  # which says how the address answered
            is_open = True
            yield tools


@asynccontextmanager
async def _connected(
    target: Target,
    *,
    options: ConnectionOptions,
    on_change: Callable[[], None],
    on_close: Callable[[], None],
    kept: Diagnostics,
    ended: Ending,
) -> AsyncGenerator[ServerTools]:
    """Connect over the transport that `target` states."""
    # Anything that ends after the connection, such as the response to an abandoned call, is not an error of the block.
    raised: Exception | None = None
    is_left = False
    tools: ServerTools | None = None

    def changed(of: str | None) -> None:
        if tools is not None:  # else nothing was kept yet
            tools.forget(of)
            on_change()

    try:
        async with (
            Client(
                _transport(target, ended, kept, options, on_close, is_open=lambda: tools is not None),
                extensions=[TOOLS_SEARCH],
                client_info=options.client_info or _CLIENT_INFO,
                mode=options.era or "auto",
                message_handler=partial(_on_message, kept, changed, options.message_handler),
                elicitation_callback=_answering("elicitation", options.elicitation_callback, lambda: tools),
                sampling_callback=_answering("sampling", options.sampling_callback, lambda: tools),
                sampling_capabilities=options.sampling_capabilities,
                list_roots_callback=_answering("roots", options.list_roots_callback, lambda: tools, waits=False),
                logging_callback=options.logging_callback,
                log_level=options.log_level,
            ) as client,
            anyio.create_task_group() as tasks,
        ):
            tools = ServerTools(client, options.discovery, ended=partial(_reason, ended, kept))
            await _set_log_level(client, options.log_level)
            if options.follow_changes is not False:
                tasks.start_soon(follow_changes, client, changed)
            try:
                yield tools
                is_left = True
            except Exception as error:  # the block's own, passed on as it is below
                raised = error
            tasks.cancel_scope.cancel()  # of `follow_changes`, which would never end
    except Exception as error:
        if raised is None and not is_left:
            raise _explained(as_server_error(error, ended.reason), _quotation(ended, kept)) from error
        _logger.debug("leaving %s failed", type(target).__name__, exc_info=error)
    if raised is not None:
        raise raised


async def _on_message(
    diagnostics: Diagnostics,
    changed: Callable[[str | None], None],
    handler: MessageHandlerFnT | None,
    message: IncomingMessage,
) -> None:
    if isinstance(message, StrayLineError):
        diagnostics.note_stray(shorten(message.line, _STRAY_CHARS))
    elif (of := _CHANGES.get(type(message))) is not None:  # legacy servers send these without a subscription
        changed(of)
    if handler is not None:
        await handler(message)


def _answering(
    what: str,
    callback: Callable[..., Awaitable[Any]] | None,
    tools: Callable[[], ServerTools | None],
    *,
    waits: bool = True,
) -> Any:
    """Wrap a host callback so that its exceptions do not end the connection; the server only learns that it failed.

    While a callback that `waits` runs, it might be asking a person, so no call on the connection times out.
    """
    if callback is None:
        return None

    async def ask(*given: Any) -> Any:
        connected = tools()
        try:
            with (
                nullcontext() if connected is None or not waits else connected.waiting_for_person(),
                host_faults(f"the {what} callback"),
            ):
                return await callback(*given)
        except HostError as error:
            _logger.exception("the host's callback for a server request failed")
            if connected is not None:
                connected.host_fault = error
            return ErrorData(code=INTERNAL_ERROR, message=error.part)

    return ask


async def _set_log_level(client: Client, level: LoggingLevel | None) -> None:
    """Request a legacy server's log messages; a modern one reads the level from each request."""
    is_modern = client.protocol_version in MODERN_PROTOCOL_VERSIONS
    if level is not None and not is_modern and client.server_capabilities.logging is not None:
        await client.session.send_request(SetLevelRequest(params=SetLevelRequestParams(level=level)), EmptyResult)


def _reason(ended: Ending, diagnostics: Diagnostics) -> str:
    """Return why the connection ended, quoting the server's diagnostics; empty if unknown."""
    return ended.reason and f"{ended.reason}{_quotation(ended, diagnostics)}"


def _quotation(ended: Ending, diagnostics: Diagnostics) -> str:
    """Return what the server last said as a suffix, unless the client ended the connection for a reason of its own."""
    return "" if ended.is_excess else diagnostics.quotation()


def _explained(error: ServerError | HostError, quoted: str) -> ServerError | HostError:
    """Return why there is no connection, quoting the server's diagnostics if any."""
    if isinstance(error, UnauthorizedError | SignInError | HostError):
        return error  # its message is already complete
    if isinstance(error, ServerRefusedError):
        error = ServerUnavailableError(f"the server rejected the MCP connection: {error}")
    return type(error)(f"{error}{quoted}") if quoted else error


async def follow_changes(client: Client, changed: Callable[[str | None], None]) -> None:
    """Keep a modern server subscribed to until cancelled, also after a restart; return if it announces or grants none.

    `changed` is called with the setting that changed (empty for tools), or with `None` if anything might have changed.
    """
    offered = client.server_capabilities
    followed: dict[str, Any] = {
        f"{name}_list_changed": True
        for name in ("tools", "prompts", "resources")
        if (capability := getattr(offered, name)) is not None and capability.list_changed
    }
    was_granted, pause = False, 0.0
    while followed and client.protocol_version in MODERN_PROTOCOL_VERSIONS:
        began = anyio.current_time()
        try:
            async with client.listen(**followed) as subscription:
                if was_granted:
                    changed(None)  # what was read since the last one ended may have changed without notice
                elif not any(dict(subscription.honored).values()):
                    return  # it grants none: its lists are cached for as long as it states
                was_granted = True
                async for event in subscription:
                    changed(_CHANGES.get(type(event)))
            changed(None)
        except SubscriptionLost:
            changed(None)  # notifications since then were lost
        except (MCPError, TimeoutError):
            if not was_granted:  # as above
                return
        lasted = anyio.current_time() - began
        pause = _RELISTEN_SECONDS if lasted >= pause else min(2 * pause, _LONGEST_RELISTEN_SECONDS)
        await anyio.sleep(pause)


@asynccontextmanager
async def _transport(
    target: Target,
    ended: Ending,
    diagnostics: Diagnostics,
    options: ConnectionOptions,
    on_close: Callable[[], None],
    is_open: Callable[[], bool],
) -> AsyncGenerator[Streams]:
    """Connect to `target` and yield its two streams; once it `is_open`, a failure only ends one request."""

    def isolates(error: Exception) -> bool:
        if is_open():
            diagnostics.note(f"a request broke off: {type(error).__name__}")
        return is_open()

    match target:
        case UnusableTarget():
            raise ServerUnavailableError(str(target))
        case StdioTarget():
            async with child_streams(target, ended, errors=diagnostics.file) as streams:
                yield Wire(options.observer, on_close).through(streams)
        case HttpTarget():
            is_sse = target.transport == "sse"
            # Each Streamable HTTP request has its own response, so an oversized response ends that request, not the
            # connection.
            bounded = BoundedHttp(
                on_excess=partial(ended.set, is_excess=True) if is_sse else diagnostics.note,
                on_malformed=lambda _: None,  # the request fails with what is wrong
                explain=_asks_for_authorization,
            )

            def lose_session() -> None:
                if is_open():
                    ended.set(SESSION_LOST)
                    on_close()  # so that the next caller gets a new connection

            def note_refusal(response: httpx2.Response) -> None:
                # A refused greeting is reported itself, and so is a request for authorization.
                if is_open() and refusal(response) is None:
                    diagnostics.note(f"HTTP {response.status_code} {response.reason_phrase}")

            async with http_streams(
                target,
                ended,
                bounded,
                isolates,
                connect_seconds=_CONNECT_SECONDS,
                read_seconds=_READ_SECONDS,
                auth=_auth(target, options),
                on_refusal=note_refusal,
            ) as streams:
                yield Wire(options.observer, on_close, partial(_exchanged, diagnostics, lose_session)).through(streams)


def _exchanged(diagnostics: Diagnostics, lose_session: Callable[[], None], item: SessionMessage) -> SessionMessage:
    """Return a received message, after noting what it says about the connection."""
    message = item.message
    if isinstance(message, JSONRPCResponse):
        diagnostics.forget()  # that earlier requests broke off
    elif isinstance(message, JSONRPCError) and session_lost(message.error):
        lose_session()  # the server will answer nothing more
    return item


def _auth(target: HttpTarget, options: ConnectionOptions) -> httpx2.Auth | None:
    auth = options.auth
    if auth is None or any(name.lower() == "authorization" for name in target.headers):
        return None
    if isinstance(auth, httpx2.Auth):
        return _HostAuth(lambda: auth)
    choose = partial(auth, target.url)
    if options.discovery.authorization is not None:
        return _HostAuth(choose)
    with host_faults("`auth`"):
        chosen = choose()
    return chosen and _HostAuth(lambda: chosen)


class _HostAuth(httpx2.Auth):
    """Wraps the host's authorization, so that its exceptions are not attributed to the server."""

    def __init__(self, choose: Callable[[], httpx2.Auth | None]) -> None:
        self._choose = choose

    async def async_auth_flow(self, request: httpx2.Request) -> AsyncGenerator[httpx2.Request, httpx2.Response]:
        with host_faults("`auth`"):
            auth = self._choose() or httpx2.Auth()
            flow = auth.async_auth_flow(request)
        try:
            response = None
            while True:
                with host_faults("`auth`", StopAsyncIteration, OAuthFlowError, ServerError):
                    outgoing = await (anext(flow) if response is None else flow.asend(response))
                response = yield outgoing
        except StopAsyncIteration:
            return
        finally:
            await flow.aclose()


def _asks_for_authorization(response: httpx2.Response) -> ErrorData | None:
    refused = refusal(response)
    return refused and ErrorData(code=INVALID_REQUEST, message="it asks for authorization", data=refused)
