"""The content of resources, read in the background and kept within limits (draft: Content of Resources).

Each search passes the resources that its caller sees. Unread ones are queued, and the server processes the queue while
it runs. Searches do not wait for the whole queue: unread resources are found by their definitions.

Resources are untrusted. Texts are truncated, slow reads are abandoned, and resources that are known to be large are not
read at all.
"""

from __future__ import annotations

import hashlib
import inspect
import logging
import math
import stat
from collections import OrderedDict
from collections.abc import AsyncGenerator, Awaitable, Callable, Mapping
from contextlib import AbstractAsyncContextManager, asynccontextmanager
from contextvars import copy_context
from dataclasses import dataclass
from functools import partial
from itertools import islice
from pathlib import Path
from time import monotonic
from typing import Any, Final, NamedTuple, TypeAlias
from urllib.parse import urlsplit
from urllib.request import url2pathname

import anyio
import anyio.to_thread
from mcp.server import MCPServer, Server
from mcp.server.context import ServerRequestContext
from mcp.server.subscriptions import ResourceUpdated, ServerEvent, SubscriptionBus
from mcp_ext_tools_search.server.errors import ServerSetupError
from mcp_types import InputRequiredResult

from mcp_ext_search_primitives._sdk import bus_of, file_of
from mcp_ext_search_primitives.index import Definition

logger = logging.getLogger(__name__)

ReadText: TypeAlias = Callable[[str], Awaitable[str | None]]
"""Returns the text of the resource with this URI, or `None` if it has none."""

MayRead: TypeAlias = Callable[[ServerRequestContext[Any, Any], str], bool]
"""Returns whether a request's caller may read the resource with this URI."""

_READS_AT_ONCE: Final = 8
_TEXTUAL: Final = ("json", "xml", "yaml", "javascript", "toml", "sql", "csv", "markdown")  # besides text/*


@dataclass(frozen=True, kw_only=True)
class Contents:
    """Settings and limits for searching the content of resources.

    Content is read once for all callers, on the assumption that callers may read every resource that they can list. If
    that is not so, set `may_read` (draft: Content of Resources).

    Raises:
        ValueError: A limit is not a positive number.
        TypeError: `read` or `may_read` is not a function.
    """

    read: ReadText | None = None
    """Reads a resource. By default an `MCPServer` reads its own resources; a low-level `Server` needs a function."""

    may_read: MayRead | None = None
    """Whether a caller may read a resource that it can list; by default, it may. Unreadable content does not affect the
    caller's results."""

    max_resources: int = 5_000
    """Maximum number of resources to read: the first in each caller's list."""

    max_size: int = 4 * 1024 * 1024
    """Maximum bytes of a resource, by the `size` in its definition or of its file. Larger ones are not read."""

    max_chars: int = 64 * 1024
    """Characters of a resource to search; the rest is ignored."""

    max_total_chars: int = 16 * 1024 * 1024
    """Maximum characters of all resources together."""

    seconds: float = 5.0
    """Timeout for one read."""

    wait: float = 1.0
    """Seconds that searches wait for content, from the time that it was requested, before they continue without it."""

    max_age: float = 300.0
    """Seconds after which a resource is reread. A changed definition or a `ResourceUpdated` causes an immediate
    reread."""

    subscriptions: SubscriptionBus | None = None
    """Where the server publishes `ResourceUpdated` events; by default, the bus of an `MCPServer`."""

    def __post_init__(self) -> None:
        for bound in ("max_resources", "max_size", "max_chars", "max_total_chars"):
            if type(value := getattr(self, bound)) is not int or value < 1:
                raise ValueError(f"{bound} must be a positive integer, not {value!r}")
        for bound in ("seconds", "wait", "max_age"):
            value = getattr(self, bound)
            if type(value) not in (int, float) or not (value > 0 or (value == 0 and bound == "wait")):
                raise ValueError(f"{bound} must be a positive number of seconds, not {value!r}")
        for name in ("read", "may_read"):
            if (function := getattr(self, name)) is not None and not callable(function):
                raise TypeError(f"{name} must be a function, not {function!r}")


class ReadResource(NamedTuple):
    """The text of a resource that has been read."""

    digest: str
    text: str


@dataclass(slots=True)
class _Kept:
    definition: Definition
    text: str = ""
    digest: str = ""
    read_at: float = -math.inf
    """When the latest completed read began."""
    updated_at: float = -math.inf
    wanted_at: float = 0.0

    @property
    def is_outdated(self) -> bool:
        """Whether it has never been read, or may have changed since its latest read began."""
        return self.updated_at >= self.read_at


class ContentStore:
    """The texts that have been read, shared by any number of searches.

    A resource has these states:

        unknown -> queued       a search finds it in its caller's list (`_want`)
        queued -> being read    fewer than `_READS_AT_ONCE` reads are running
        being read -> read      the read ends, fails or takes too long
        being read -> queued    it was updated in the meantime, and a search has wanted it since (`_keep`)
        read -> queued          its definition has changed, it was updated, or it was read more than `max_age` ago
        read -> unknown         too many are kept, or no search has wanted it for `max_age`
    """

    def __init__(self, contents: Contents) -> None:
        self._contents = contents
        self._read = contents.read
        self._server: MCPServer[Any] | None = None
        self._kept: OrderedDict[str, _Kept] = OrderedDict()  # the least recently wanted first
        self._chars = 0
        self._queue: OrderedDict[str, Definition] = OrderedDict()
        self._under_way: dict[str, float] = {}  # with the time when each read began
        self._runs: list[Callable[..., object]] = []  # of the server, each as a function that starts a task in it
        self._settled: anyio.Event | None = None
        self._asked_at = 0.0
        self._shown: Mapping[str, ReadResource] = {}
        self._is_fault_logged = False

    def attach(self, server: MCPServer[Any] | Server[Any], lowlevel: Server[Any]) -> None:
        """Read resources while `server` runs.

        Raises:
            ValueError: There is no `read` function, and it is a low-level `Server` or not the first server.
        """
        if self._contents.read is None:
            if self._server is not None:  # its resources would be searched by the texts of another server
                raise ValueError(f"{lowlevel.name!r} needs a ToolsSearch of its own, to read its own resources")
            if not isinstance(server, MCPServer):
                raise ValueError(f"{lowlevel.name!r} is a low-level Server: pass a function with Contents(read=...)")
            self._server, self._read = server, partial(_own_text, server)
        bus = self._contents.subscriptions or bus_of(server)
        if bus is not None:
            bus.subscribe(self._note_event)
        lowlevel.lifespan = self._reading_during(lowlevel.lifespan)

    def _note_event(self, event: ServerEvent) -> None:
        if isinstance(event, ResourceUpdated) and (kept := self._kept.get(event.uri)) is not None:
            kept.updated_at = monotonic()

    def _reading_during(
        self, lifespan: Callable[[Server[Any]], AbstractAsyncContextManager[Any]]
    ) -> Callable[[Server[Any]], AbstractAsyncContextManager[Any]]:
        @asynccontextmanager
        async def reading(server: Server[Any]) -> AsyncGenerator[Any]:
            async with lifespan(server) as state, anyio.create_task_group() as tasks:
                # In the context of the run: what is read is for all callers, so it must not depend on who searches.
                run = partial(copy_context().run, tasks.start_soon)
                self._runs.append(run)
                self._read_queued()
                try:
                    yield state
                finally:
                    self._runs.remove(run)
                    tasks.cancel_scope.cancel()

        return reading

    @property
    def is_settled(self) -> bool:
        """Whether all requested resources have been read, except slow ones."""
        latest = monotonic() - self._contents.seconds
        if any(began > latest for began in self._under_way.values()):
            return False
        return not self._queue or len(self._under_way) >= _READS_AT_ONCE

    async def read_of(
        self, items: Mapping[str, Definition], ctx: ServerRequestContext[Any, Any] | None = None
    ) -> Mapping[str, ReadResource]:
        """Return the nonempty texts of `items` that have been read, by URI, after a short wait for the others.

        Texts that the caller of `ctx` may not read are omitted.

        While much remains to be read, the answer changes only when the number of texts has doubled, because every
        change requires a new index.
        """
        self._want(items)
        if self._runs and not self.is_settled:
            with anyio.move_on_after(self._asked_at + self._contents.wait - monotonic()):
                while not self.is_settled:
                    self._settled = self._settled or anyio.Event()
                    await self._settled.wait()
        there = sum(1 for kept in self._kept.values() if kept.text)
        if self.is_settled or there >= 2 * len(self._shown):
            self._shown = {uri: ReadResource(kept.digest, kept.text) for uri, kept in self._kept.items() if kept.text}
        shown = {uri: self._shown[uri] for uri in items if uri in self._shown}
        may_read = self._contents.may_read
        if may_read is None or ctx is None:
            return shown
        readable: dict[str, ReadResource] = {}
        for uri, text in shown.items():
            if inspect.isawaitable(is_readable := may_read(ctx, uri)):  # which would count as true
                raise ServerSetupError("Contents(may_read=...) must not be async: return True or False")
            if is_readable:
                readable[uri] = text
        return readable

    def _want(self, items: Mapping[str, Definition]) -> None:
        now, was_settled = monotonic(), self.is_settled
        for uri, item in islice(items.items(), self._contents.max_resources):
            if not _is_textual(item):
                continue
            kept = self._kept.setdefault(uri, _Kept(item))
            kept.wanted_at = now
            self._kept.move_to_end(uri)
            if uri in self._queue or uri in self._under_way:
                continue
            if kept.definition != item or kept.is_outdated or now - kept.read_at > self._contents.max_age:
                # Searches always wait for new and updated resources, but only once for other rereads.
                if was_settled or kept.is_outdated:
                    self._asked_at = now
                kept.definition = item
                self._queue[uri] = item
        # Callers see different resources. Evict those that nobody has requested for a while.
        while self._kept and (
            len(self._kept) > 2 * self._contents.max_resources
            or now - next(iter(self._kept.values())).wanted_at > self._contents.max_age
        ):
            self._chars -= len(self._kept.popitem(last=False)[1].text)
        self._read_queued()

    def _read_queued(self) -> None:
        """Start to read what is queued, if the server runs."""
        # A read that cannot be cancelled keeps its place. In the worst case such resources block other reads, but never
        # a search.
        while self._queue and self._runs and len(self._under_way) < _READS_AT_ONCE:
            uri, item = self._queue.popitem(last=False)
            self._under_way[uri] = monotonic()
            self._runs[0](self._read_one, uri, item)

    async def _read_one(self, uri: str, item: Definition) -> None:
        text = ""
        try:
            try:
                with anyio.move_on_after(self._contents.seconds):
                    text = (await self._text(uri, item))[: self._contents.max_chars]
            except ServerSetupError as fault:
                if not self._is_fault_logged:  # it is the same for every resource
                    logger.error("contents are not searched: %s", fault)
                self._is_fault_logged = True
            except Exception as error:
                # Treat the content as empty, and continue with other resources.
                logger.info(
                    "cannot read a resource, so it is searched by its definition alone: %s", type(error).__name__
                )
            self._keep(uri, text)
        finally:
            del self._under_way[uri]
            self._read_queued()
            if self._settled is not None:
                self._settled.set()
                self._settled = None

    async def _text(self, uri: str, item: Definition) -> str:
        size = item.get("size")
        if isinstance(size, int) and size > self._contents.max_size:
            return ""
        file = _local_file(uri) or file_of(self._server, uri)
        if file is not None and not await anyio.to_thread.run_sync(self._is_readable, file):
            return ""
        if self._read is None:
            return ""
        if not inspect.isawaitable(reading := self._read(uri)):
            raise ServerSetupError("Contents(read=...) must be an async function")
        text: Any = await reading
        if not isinstance(text, str | None):
            raise ServerSetupError(f"Contents(read=...) must return text or None, not {type(text).__name__}")
        return text or ""

    def _is_readable(self, file: Path) -> bool:
        """Whether this is no device or pipe, which may never end, and no file beyond the size limit."""
        try:
            found = file.stat()
        except (OSError, ValueError):  # not a file of this machine: only the server knows what its URI stands for
            return True
        return stat.S_ISREG(found.st_mode) and found.st_size <= self._contents.max_size

    def _keep(self, uri: str, text: str) -> None:
        kept = self._kept.get(uri)
        if kept is None:
            return
        text = text if self._chars - len(kept.text) + len(text) <= self._contents.max_total_chars else ""
        self._chars += len(text) - len(kept.text)
        kept.text, kept.read_at = text, self._under_way[uri]
        kept.digest = hashlib.sha256(text.encode("utf-8", "surrogatepass")).hexdigest()
        if kept.is_outdated and kept.wanted_at >= kept.updated_at:  # a search waits for the new text
            self._queue[uri] = kept.definition


async def _own_text(server: MCPServer[Any], uri: str) -> str | None:
    read = await server.read_resource(uri)
    if isinstance(read, InputRequiredResult):
        return None
    return "\n".join(part.content for part in read if isinstance(part.content, str)) or None


def _is_textual(item: Definition) -> bool:
    kind = str(item.get("mimeType") or "").lower()
    return not kind or kind.startswith("text/") or any(name in kind for name in _TEXTUAL)


def _local_file(uri: str) -> Path | None:
    parts = urlsplit(uri)
    return Path(url2pathname(parts.path)) if parts.scheme == "file" and parts.netloc in ("", "localhost") else None
