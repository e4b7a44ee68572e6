"""Reads the texts of one upstream's resources in advance, so that searches can find resources by their contents.

It uses a separate connection with a small message limit, which is open only while there is something to read. So a
resource of gigabytes, an endless one, or one that crashes its server costs that connection, and never a caller's
request. A resource that cost a connection is not read again.

It reads a few resources at a time, since most servers are slow to answer rather than busy. If the connection ends
meanwhile, it reads one at a time from then on, which shows the resource that is to blame.
"""

from __future__ import annotations

import logging
import math
from collections import Counter, deque
from collections.abc import Callable, Mapping, Sequence
from functools import partial
from itertools import islice
from typing import Any, Final, cast

import anyio
from mcp import Client, MCPError
from mcp_ext_search_primitives import RESOURCES
from mcp_ext_tools_search.client import raw_request
from mcp_types import Resource
from tools_search_hosts.endings import connection_ended, timed_out
from tools_search_hosts.json_values import as_list, as_object

from tools_search_server.upstreams.connection import Connection, Use
from tools_search_server.upstreams.listing import Lists
from tools_search_server.upstreams.notifications import WatchedResources
from tools_search_server.upstreams.state import explained

logger = logging.getLogger(__name__)

MAX_READ_BYTES: Final = 2 * 1024 * 1024
"""Maximum message size on the reading connection. A larger message ends it."""

_MAX_RESOURCES: Final = 10_000
"""Maximum resources to read per server. Later ones in its list are found by their definitions only."""

_MAX_CHARS: Final = 64 * 1024
"""Maximum characters to keep per resource."""

_MAX_ALL_CHARS: Final = 16 * 1024 * 1024
"""Maximum characters to keep for all of a server's resources."""

_AT_ONCE: Final = 4
"""Resources to read at a time, until that costs the connection."""

_READ_SECONDS: Final = 5
"""Time limit for one resource."""

_ALL_SECONDS: Final = 60
"""Time limit for one pass over a server's resources. The rest is read after a pause."""

_AGAIN_SECONDS: Final = 600
"""When to read everything again after all of it was read, since contents can change without notice."""

_MAX_FOLLOWED: Final = 100
"""Maximum resources of a server to subscribe to: the first in its list. Servers may watch a file for each."""

_REST_SHARE: Final = 10
"""Minimum pause before updated resources and the rest are read, as a multiple of the time that the last reading took,
because each reading makes a connection."""

_MAX_REST_SECONDS: Final = 60

_WAITED_SECONDS: Final = 2
"""How long searches wait for the texts of a server after its first reading has begun, if it begins later than the
gateway."""

_FEW: Final = 100
"""Number of texts to publish before all are read; then again each time the number has doubled."""

_MAX_LOSSES: Final = 5
"""Maximum connections to lose per pass."""

_MAX_REASONS: Final = 5
"""Maximum reasons to log why texts were not read. A server's own words can differ for each resource."""

_NO_TEXT: Final = ("image/", "audio/", "video/", "font/", "application/octet-stream", "application/zip")
"""Prefixes of the MIME types of resources without text."""


class ResourceTexts:
    """The texts of one server.

    Args:
        server: Its name, for the log.
        connection: Makes the reading connection, given what uses it.
    """

    def __init__(self, server: str, connection: Callable[[Use], Connection]) -> None:
        self.texts: Mapping[str, str] = {}
        """The texts by the server's own URIs; a new object whenever they change."""
        self._has_read = anyio.Event()
        """Set once everything has been read for the first time, or abandoned."""
        self._waited_for_until = -math.inf
        self._is_reported = False
        """Whether the log says that searches go without some of them."""
        self._server = server
        self._connection = connection
        self._updated: set[str] = set()
        """The resources whose update was announced since the last reading began."""
        self._pause: anyio.CancelScope | None = None
        self._rests_until = -math.inf
        self._changed = anyio.Event()
        self._read_as: dict[str, Resource] = {}
        """The resources that have been read, as listed at that time."""
        self._reading: Sequence[str] = ()
        """The resources being read."""
        self._at_once = _AT_ONCE
        self._is_late = False
        """Whether the last lost connection was due to a timeout."""
        self._harmful: set[str] = set()
        """The resources whose reading has cost a connection."""
        self._failures: dict[str, str] = {}
        """Why the reading of a resource failed. One that is not harmful also counts as read."""
        self._logged = ""

    def note_change(self) -> None:
        """Note that the list of resources might have changed."""
        self._changed.set()

    def note_update(self, uri: str) -> None:
        """Note that a resource might have changed. It is read again soon."""
        if uri in self._read_as or uri in self._reading:
            self._updated.add(uri)
            if self._pause is not None:
                self._pause.deadline = min(self._pause.deadline, self._rests_until)

    @property
    def is_incomplete(self) -> bool:
        """Whether the first reading has begun and not ended."""
        return self._waited_for_until > -math.inf and not self._has_read.is_set()

    async def first_read(self, deadline: float) -> None:
        """Wait until everything has been read for the first time, if that has begun.

        Wait at most until `deadline`, or until a few seconds after it began if that is later.
        """
        if self.is_incomplete:
            with anyio.CancelScope(deadline=max(deadline, self._waited_for_until)) as waiting:
                await self._has_read.wait()
            if waiting.cancelled_caught and not self._is_reported:
                self._is_reported = True
                text = "searches go without the texts of its resources that are not read yet: raise --start-deadline"
                logger.warning("%s: %s, or search again later", self._server, text, extra={"server": self._server})

    async def keep_read(self, lists: Lists, watch: WatchedResources | None) -> None:
        """Read the listed resources, and again those that change, until cancelled.

        `watch` subscribes to some of them, so that updates are noticed sooner.
        """
        if math.isinf(self._waited_for_until):
            self._waited_for_until = anyio.current_time() + _WAITED_SECONDS
        everything_at = anyio.current_time() + _AGAIN_SECONDS
        while True:
            if anyio.current_time() >= everything_at:
                self._read_as.clear()  # nothing counts as read any more
                everything_at = anyio.current_time() + _AGAIN_SECONDS
            # Before reading, so that a change during the reading causes another one.
            self._changed = anyio.Event()
            listed = cast("Mapping[str, Resource]", await lists.entries(RESOURCES))
            if watch is not None:
                await watch.follow(islice((uri for uri in listed if _may_have_text(listed[uri])), _MAX_FOLLOWED))
            began = anyio.current_time()
            if began >= self._rests_until:  # otherwise later, whatever else has changed
                for uri in self._updated:
                    self._read_as.pop(uri, None)
                self._updated.clear()
            is_whole = await self._read_changed(listed)
            now = anyio.current_time()
            self._rests_until = max(self._rests_until, now + min(_REST_SHARE * (now - began), _MAX_REST_SECONDS))
            if is_whole:
                self._has_read.set()
            else:  # read the rest before anything is read again
                everything_at = max(everything_at, now + _AGAIN_SECONDS)
            goes_on = self._updated or not is_whole
            deadline = min(self._rests_until if goes_on else math.inf, everything_at)
            with anyio.CancelScope(deadline=deadline) as self._pause:
                await self._changed.wait()

    async def _read_changed(self, listed: Mapping[str, Resource]) -> bool:
        """Read what has not been read as it is listed now. Return whether there was enough time for all of it."""
        self._keep({uri: text for uri, text in self.texts.items() if uri in listed})
        self._read_as = {uri: was for uri, was in self._read_as.items() if listed.get(uri) == was}
        self._failures = {
            uri: why for uri, why in self._failures.items() if uri in self._read_as or uri in self._harmful
        }
        readable = [uri for uri, resource in listed.items() if _may_have_text(resource)]
        wanted = deque(uri for uri in readable[:_MAX_RESOURCES] if uri not in self._read_as | self._failures)
        losses, reason = 0, f"only {_MAX_ALL_CHARS} characters of a server are kept"
        with anyio.move_on_after(_ALL_SECONDS) as scope:
            while wanted:
                if losses > _MAX_LOSSES:
                    reason = f"{losses} others cost the connection"
                    break
                self._reading, self._is_late = (), False
                ended = await self._connection(partial(self._read_all, wanted, listed)).run()
                if not self._reading:  # everything is read, or the server cannot be reached again
                    reason = ended if wanted else reason
                    break
                # The connection ended while these were being read.
                if len(self._reading) > 1:
                    self._at_once = 1
                    wanted.extendleft(reversed(self._reading))
                    continue
                self._harmful.update(self._reading)
                why = f"it took more than {_READ_SECONDS} s" if self._is_late else ended
                self._failures |= dict.fromkeys(self._reading, why)
                losses += 1
        is_whole = not scope.cancelled_caught
        if is_whole:
            self._at_once = _AT_ONCE
        self._log_unread(
            readable, reason if is_whole else f"reading takes more than {_ALL_SECONDS} s, and goes on later"
        )
        return is_whole

    def _log_unread(self, readable: list[str], reason: str) -> None:
        """Log how many of the `readable` resources have no text, and why: `reason`, unless another one is known."""
        reasons = Counter(
            self._failures.get(uri, reason if number < _MAX_RESOURCES else f"only the first {_MAX_RESOURCES} are read")
            for number, uri in enumerate(readable)
            if uri in self._failures or uri not in self._read_as
        )
        first = reasons.most_common(_MAX_REASONS)
        counts = [f"{count}: {why}" for why, count in first]
        if others := reasons.total() - sum(count for _, count in first):
            counts.append(f"{others}: other reasons")
        logged, self._logged = self._logged, "; ".join(counts)
        if reasons and self._logged != logged:
            text = "%s: %d of its resources are found by their definitions alone, since their text was not read (%s)"
            logger.warning(text, self._server, reasons.total(), self._logged, extra={"server": self._server})

    async def _read_all(
        self, wanted: deque[str], listed: Mapping[str, Resource], client: Client, is_usable: Callable[[], None]
    ) -> None:
        """Read texts until one costs the connection."""
        is_usable()
        texts = dict(self.texts)
        size = sum(map(len, texts.values()))
        try:
            while wanted and size < _MAX_ALL_CHARS:
                uris = self._reading = [wanted.popleft() for _ in range(min(self._at_once, len(wanted)))]
                read: dict[str, str] = {}
                try:
                    async with anyio.create_task_group() as tasks:
                        for uri in uris:
                            tasks.start_soon(self._read, client, uri, read)
                finally:
                    for uri in filter(read.__contains__, uris):
                        if size >= _MAX_ALL_CHARS:
                            break
                        size += len(read[uri]) - len(texts.pop(uri, ""))
                        self._read_as[uri] = listed[uri]
                        if read[uri]:
                            texts[uri] = read[uri]
                    self._reading = [uri for uri in uris if uri not in read]
                if self._reading:
                    return
                # Each new object causes all of it to be indexed again, so publish only after doublings.
                if len(texts) >= 2 * max(len(self.texts), _FEW):
                    self.texts = dict(texts)
            if size >= _MAX_ALL_CHARS:
                wanted.clear()
        finally:
            self._keep(texts)

    async def _read(self, client: Client, uri: str, read: dict[str, str]) -> None:
        """Add the text of a resource to `read`, unless it costs the connection. It is empty if there is none."""
        try:
            result = await raw_request(client, "resources/read", {"uri": uri}, seconds=_READ_SECONDS)
        except MCPError as error:
            if timed_out(error):
                self._is_late = True
            elif not connection_ended(error):
                # Without the URI, which would make a reason of its own for each.
                self._failures[uri] = explained(error).replace(uri, "…")
                read[uri] = ""
        else:
            read[uri] = _text_of(result)

    def _keep(self, texts: Mapping[str, str]) -> None:
        if texts != self.texts:  # the same object as long as nothing changes: the index depends on it
            self.texts = texts


def _may_have_text(resource: Resource) -> bool:
    return not (resource.mime_type or "").lower().startswith(_NO_TEXT) and (resource.size or 0) < MAX_READ_BYTES


def _text_of(result: Mapping[str, Any]) -> str:
    """Return the text in a resource's contents, up to the limit. Ignore other contents."""
    texts = [as_object(content).get("text") for content in as_list(result.get("contents"))]
    return "\n".join(text[:_MAX_CHARS] for text in texts if isinstance(text, str))[:_MAX_CHARS]
