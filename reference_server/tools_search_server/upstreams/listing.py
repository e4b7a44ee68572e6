"""Reads one upstream's lists: all pages, within limits, without invalid entries.

Tools are read whenever they change; prompts, resources and templates when somebody requests them. A server can send
anything: the gateway omits and reports invalid entries and duplicate names, cuts endless listings, and limits the JSON
of all of a server's lists together. If a page fails, the complete list as last read stays in use, or else the earlier
pages.
"""

from __future__ import annotations

import logging
import math
import re
from collections.abc import Callable, Mapping, Sequence
from dataclasses import InitVar, dataclass, field
from functools import cache
from types import MappingProxyType
from typing import Any, Final, TypeAlias, cast

import anyio.lowlevel
from mcp import Client, MCPError
from mcp.server.subscriptions import PromptsListChanged, ServerEvent
from mcp_ext_search_primitives import PROMPTS, RESOURCE_TEMPLATES, RESOURCES
from mcp_ext_tools_search.client import absorb, raw_request
from mcp_ext_tools_search.cursor import follow_cursors
from mcp_ext_tools_search.types import TOOLS, Primitive
from mcp_types import METHOD_NOT_FOUND, Tool
from pydantic import BaseModel, ValidationError
from pydantic.alias_generators import to_snake
from pydantic_core import to_json
from tools_search_hosts.endings import answer_broke_off, connection_ended, session_lost, timed_out
from tools_search_hosts.json_values import as_object, is_list
from tools_search_hosts.messages import mebibytes

from tools_search_server.base.redaction import quoted
from tools_search_server.upstreams.state import explained

logger = logging.getLogger(__name__)

_MAX_PAGES: Final = 1000

_MIN_BYTES_OF_AN_ENTRY: Final = 800
"""Minimum size to count per entry toward the limit for lists: even a small tool takes 5 kB of memory."""

_ENTRIES_AT_ONCE: Final = 100
"""Entries to validate before other tasks get a turn."""

_MAX_REPORTED: Final = 10
"""Maximum faults of one list to log individually."""

_MAX_LOGGED: Final = 100
"""Number of different faulty entries after which no more are logged on a connection, whose lists can be read again and
again."""

_TOOLS_SECONDS: Final = 30
"""Time limit for one page of tools."""

_SPARE_SECONDS: Final = 0.5
"""Minimum time that remains of a server's start if a later page of its tools takes too long."""

_LIST_SECONDS: Final = 5
"""How long one server can delay a combined listing of prompts, resources or templates."""

_MAX_LEVELS: Final = 3
"""Maximum gateways behind a server for which requests get more time."""

_FRESH_SECONDS: Final = 5
"""How long a list stays fresh without change notifications: as long as callers may cache it."""

_TOOLS_FRESH_SECONDS: Final = 300
"""How long tools stay fresh if the server neither announces changes nor states a `ttlMs`."""

_MIN_TOOLS_FRESH_SECONDS: Final = 60
_MAX_TOOLS_FRESH_SECONDS: Final = 3600

_FAILED_SECONDS: Final = 30
"""How long to wait before listing again after a failure."""

_EXCESS_SECONDS: Final = 3600
"""How long to wait before reading a list again that exceeded the limit."""


Kind: TypeAlias = Primitive[Any]
"""A kind of list that a server can have."""

ITEM_KINDS: Final[Sequence[Kind]] = (PROMPTS, RESOURCES, RESOURCE_TEMPLATES)
"""The kinds of lists besides tools."""

_NOUNS: Final = {TOOLS: "tool", PROMPTS: "prompt", RESOURCES: "resource", RESOURCE_TEMPLATES: "resource template"}
"""The words for an entry in the log."""

attribute: Final = cache(to_snake)
"""Returns the name of a model's attribute for a member on the wire."""


def key_of(kind: Kind, entry: BaseModel) -> str:
    """Return what identifies an entry in its list: its name, URI or URI template."""
    return str(getattr(entry, attribute(kind.key)))


GATEWAYS: Final = "io.github.tools-search/gateways"
"""Member of `_meta` in `tools/list`. In a request, a gateway asks another which gateways its tools can come through. In
the result it lists the process id of each, including the other gateway's own."""

_GATEWAY_NAME: Final = "tools-search-"
"""Prefix of the names with which gateways introduce themselves."""

_GATEWAY: Final = re.compile(r"[0-9a-f]{32}")
_MAX_GATEWAYS: Final = 100


class TooManyToolsError(Exception):
    """A server has more tools than requested."""


class ListingError(Exception):
    """A server's answer is not a list. The message names the method and the wrong member."""


class RefusedListingError(ListingError):
    """A server's list must not be used, not even the pages that came first. The message says why."""


class ListingTooLargeError(RefusedListingError):
    """A server's list exceeds a limit. The message says which."""


_NOTHING: Final[Mapping[str, BaseModel]] = MappingProxyType({})


@dataclass
class _List:
    """One list of a server, as last read."""

    entries: Mapping[str, BaseModel] = field(default_factory=lambda: _NOTHING)  # by key: the same until they change
    is_complete: bool = False
    bytes: int = 0  # of its JSON
    fault: str = ""  # why it could not be read to its end
    fresh_seconds: float = _TOOLS_FRESH_SECONDS  # how long tools stay fresh if the server announces no changes
    fresh_until: float | None = None  # `None` if it has not been read since the last announced change
    rests_until: float = -math.inf  # when to read it again after it was late or too large, whatever is announced
    lock: anyio.Lock = field(default_factory=anyio.Lock)


@dataclass
class Lists:
    """One server's lists, on one connection or as last read."""

    server: str
    client: Client | None
    """The connection, or `None` without one; then only `saved` is known."""

    max_bytes: int = 0
    """Maximum size of the JSON of all lists together."""

    on_faults: Callable[[str], None] = lambda _: None
    """Called with the lists' faults whenever they change, and with an empty text when none are left."""

    hears_changes: Callable[[], bool] = lambda: True
    """Returns whether the server's change notifications arrive here."""

    own_gateway: str = ""
    """This gateway's id. A server whose tools come through this gateway is not read."""

    on_page: Callable[[], None] = lambda: None
    """Called with each page that has arrived."""

    saved: InitVar[Mapping[Kind, Sequence[BaseModel]] | None] = None
    """The entries of each kind, as read over an earlier connection."""

    def __post_init__(self, saved: Mapping[Kind, Sequence[BaseModel]] | None) -> None:
        self._lists = {kind: _List() for kind in _NOUNS}
        for kind, entries in (saved or {}).items():
            self._lists[kind] = _List({key_of(kind, entry): entry for entry in entries}, is_complete=True)
        self._logged: set[str] = set()
        self._changes = 0
        self.gateways: frozenset[str] = frozenset()
        """The gateways that the tools can come through."""

    @property
    def patience(self) -> float:
        """The factor for time limits: a gateway answers without a slow server, but only after its own time limit."""
        return 1 + min(len(self.gateways), _MAX_LEVELS) / 2

    @property
    def faults(self) -> str:
        """What is wrong with the lists; empty if nothing is."""
        return "; ".join(own.fault for own in self._lists.values() if own.fault)

    @property
    def tools_fresh_seconds(self) -> float:
        """How long the tools stay fresh after they were read: forever if the server announces changes."""
        offered = None if self.client is None else self.client.server_capabilities.tools
        if self.has_failed(TOOLS):
            return _FAILED_SECONDS
        if offered is None or (offered.list_changed and self.hears_changes()):
            return math.inf
        return self._lists[TOOLS].fresh_seconds

    async def tools(self, most: int | None = None) -> dict[str, Tool]:
        """Return the tools by name. They can be called without listing them again.

        If a page fails, return the complete list as last read, or else those of the earlier pages.

        Raises:
            TooManyToolsError: There are more than `most`.
            ListingError: The server did not send a list, or its list has no valid tool or exceeds a limit.
            MCPError: The first page failed or took too long, and no tools are known; or the connection ended.
        """
        client = self.client
        if client is None or client.server_capabilities.tools is None:
            return {}
        entries, fault = await self._read_or_keep(client, TOOLS, _TOOLS_SECONDS, most)
        if fault is not None and (_is_connection_lost(fault) or not (entries or self._lists[TOOLS].is_complete)):
            raise fault
        listed = cast("Mapping[str, Tool]", entries)
        kept = {tool.name: tool for tool in absorb(client.session, [*listed.values()], complete=True)}
        # The session leaves out tools with an invalid x-mcp-header, as the protocol requires of clients.
        odd = [quoted(name) for name in listed if name not in kept]
        self._report(TOOLS, [f"tool {name} is left out: its x-mcp-header is invalid" for name in odd])
        return kept

    async def require_no_loop(self) -> None:
        """Check which gateways the tools come through, when the tools themselves are not read.

        Raises:
            ListingError: This gateway is one of them.
            MCPError: The server refused, or took too long.
        """
        if self.client is not None and _is_gateway(self.client):
            params = {"_meta": {GATEWAYS: True}}
            self._note_gateways(await raw_request(self.client, TOOLS.list_method, params, seconds=_TOOLS_SECONDS))

    async def entries(self, kind: Kind) -> Mapping[str, BaseModel]:
        """Return the prompts, resources or templates by key; none if the server has none or fails to list them.

        If a page fails, return the complete list as last read, or else the entries of the earlier pages.

        Returns the same object until they change.
        """
        own = self._lists[kind]
        if self.client is None:
            return own.entries
        offered = self.client.server_capabilities
        capability = offered.prompts if kind is PROMPTS else offered.resources
        if capability is None:
            return {}
        # One reading for all callers that wait, each of whom would otherwise list on its own.
        async with own.lock:
            if anyio.current_time() < max(own.fresh_until or -math.inf, own.rests_until):
                return own.entries
            changes = self._changes  # the number of changes announced so far
            # A gateway announces the changes that it notices, but reads its servers' lists only when it is asked.
            is_announced = capability.list_changed and self.hears_changes() and not _is_gateway(self.client)
            seconds = math.inf if is_announced else _FRESH_SECONDS
            entries, fault = await self._read_or_keep(self.client, kind, _LIST_SECONDS * self.patience)
            if fault is not None:
                is_too_large = isinstance(fault, ListingTooLargeError)
                seconds = _EXCESS_SECONDS if is_too_large else _FAILED_SECONDS
                if (
                    is_too_large
                    or isinstance(fault, TimeoutError)
                    or (isinstance(fault, MCPError) and timed_out(fault))
                ):
                    own.rests_until = anyio.current_time() + seconds
            # A list that changed while it was read is answered, and read again: it may be the old one or the new one.
            if changes == self._changes:
                own.fresh_until = anyio.current_time() + seconds
            return entries

    async def _read_or_keep(
        self, client: Client, kind: Kind, seconds: float, most: int | None = None
    ) -> tuple[Mapping[str, BaseModel], Exception | None]:
        """Return a list's entries to use, and why it could not be read to its end.

        `seconds` is the limit for one page of tools, or for the whole list of others.
        """
        listed: list[Any] = []
        own = self._lists[kind]
        bytes_before = own.bytes
        fault: ListingError | MCPError | TimeoutError | None = None
        try:
            with anyio.fail_after(math.inf if kind is TOOLS else seconds):
                entries = await self._read(client, kind, seconds, most, listed)
        except (ListingError, MCPError, TimeoutError) as error:
            fault = error
            entries, _ = await usable_entries(listed, kind)
        except BaseException:
            own.bytes = bytes_before
            raise
        if isinstance(fault, RefusedListingError) or (isinstance(fault, ListingError) and not entries):
            # What is no list, or must not be used, makes the earlier list doubtful as well.
            own.entries, own.is_complete, own.bytes = _NOTHING, False, 0
        elif fault is not None and (own.entries if own.is_complete else not entries):
            own.bytes = bytes_before
        else:
            # Keep the same object if nothing has changed, and so what was derived from it, such as an index.
            if [*entries.items()] != [*own.entries.items()]:
                own.entries = entries
            own.is_complete = fault is None
        failure = "" if fault is None else _failure(kind, fault, len(entries), len(own.entries), seconds)
        if failure != own.fault:
            if failure:
                logger.warning("%s: %s", self.server, failure, extra={"server": self.server})
            own.fault = failure
            self.on_faults(self.faults)
        return own.entries, fault

    def _note_gateways(self, page: Mapping[str, Any]) -> None:
        stated = as_object(page.get("_meta")).get(GATEWAYS)
        if is_list(stated):
            named = stated[:_MAX_GATEWAYS]
            self.gateways = frozenset(
                gateway for gateway in named if isinstance(gateway, str) and _GATEWAY.fullmatch(gateway)
            )
            if self.own_gateway in self.gateways:
                raise RefusedListingError(
                    "it leads back to this gateway, whose tools would be its own again: "
                    "take it out of this configuration, or this gateway out of the other one"
                )

    def has(self, kind: Kind, key: str) -> bool:
        """Return whether the list, as last read, has an entry with this key."""
        return key in self._lists[kind].entries

    async def has_changed(self, kind: Kind) -> bool:
        """Read a list again that has been read before, and return whether it has changed."""
        before = self._lists[kind].entries
        self._lists[kind].fresh_until = -math.inf
        return await self.entries(kind) is not before

    def has_failed(self, kind: Kind) -> bool:
        """Return whether the last attempt to list a kind failed."""
        return bool(self._lists[kind].fault)

    def forget(self, event: ServerEvent) -> bool:
        """Mark the changed lists to be read again on the next request. Return whether any had been read."""
        if self.client is None:
            return False
        self._changes += 1
        kinds = (PROMPTS,) if isinstance(event, PromptsListChanged) else (RESOURCES, RESOURCE_TEMPLATES)
        were_read = any(self._lists[kind].fresh_until is not None for kind in kinds)
        for kind in kinds:
            self._lists[kind].fresh_until = None
        return were_read

    async def _read(
        self, client: Client, kind: Kind, page_seconds: float, most: int | None, entries: list[Any]
    ) -> dict[str, BaseModel]:
        """Return a list's entries by key, in the server's order. Raises the same errors as `tools`.

        `entries` gets them page by page, valid or not, so that the caller has them if a later page fails.
        """
        own, fresh_seconds = self._lists[kind], list[float]()
        max_entries = self.max_bytes // _MIN_BYTES_OF_AN_ENTRY

        async def read_page(cursor: str | None) -> str | None:
            params = {"_meta": {GATEWAYS: True}} if kind is TOOLS and _is_gateway(client) else {}
            params |= {} if cursor is None else {"cursor": cursor}
            left = anyio.current_effective_deadline() - anyio.current_time()
            # Before the time of the server's start is over, to have some left to use the earlier pages.
            is_start = kind is TOOLS and cursor is not None
            seconds = min(page_seconds, left - max(_SPARE_SECONDS, left / 10)) if is_start else page_seconds
            page = await raw_request(client, kind.list_method, params, seconds=max(seconds, 0))
            self._note_gateways(page)
            listed, following = entries_of(page, kind.member, kind.list_method), page.get("nextCursor")
            if following is not None and not isinstance(following, str):
                raise ListingError(f"its {kind.list_method} is malformed: `nextCursor` is no string")
            # Check each page before the next is requested, since a server can send pages without end.
            own.bytes += len(to_json(page))
            if sum(each.bytes for each in self._lists.values()) > self.max_bytes:
                raise ListingTooLargeError(f"its lists are larger than {mebibytes(self.max_bytes)} in all")
            entries.extend(listed)
            if most is not None and len(entries) > most:
                raise TooManyToolsError
            if len(entries) > max_entries:
                raise ListingTooLargeError(f"it lists more than {max_entries:,} {_NOUNS[kind]}s")
            fresh_seconds.append(_fresh_seconds(page))
            self.on_page()
            return following

        own.bytes = 0
        if await follow_cursors(read_page, _MAX_PAGES):
            text = "%s: its list of %ss does not end; the first %d are used"
            logger.warning(text, self.server, _NOUNS[kind], len(entries), extra={"server": self.server})
        usable, faults = await usable_entries(entries, kind)
        self._report(kind, faults)
        # Otherwise a server whose tools are all invalid would look like one without tools.
        if entries and not usable:
            place = "the log says at which member the first fails"
            raise ListingError(f"its {kind.list_method} holds no valid {_NOUNS[kind]}; {place}")
        own.fresh_seconds = min(fresh_seconds)  # each page may state another time
        return usable

    def _report(self, kind: Kind, faults: Sequence[str]) -> None:
        """Log a list's new faults, only the first few individually: it can consist of faults."""
        more = len(faults) - _MAX_REPORTED
        shown = [*faults[:_MAX_REPORTED], *([f"{more} more {_NOUNS[kind]}s are left out"] if more > 0 else [])]
        if len(self._logged) < _MAX_LOGGED:
            for fault in shown:
                if fault not in self._logged:
                    logger.warning("%s: %s", self.server, fault, extra={"server": self.server})
            self._logged.update(shown)


def _is_connection_lost(error: Exception) -> bool:
    if not isinstance(error, MCPError):
        return False
    return session_lost(error) or (connection_ended(error) and not answer_broke_off(error))


def _failure(kind: Kind, error: Exception, read: int, used: int, seconds: float) -> str:
    """Return what happened to a list of which `read` entries were read before `error`, and `used` are in use."""
    # Templates are optional, and no capability announces them.
    if kind is RESOURCE_TEMPLATES and isinstance(error, MCPError) and error.code == METHOD_NOT_FOUND:
        return ""
    reason = explained(error) if isinstance(error, MCPError) else str(error) or f"it took more than {seconds:g} s"
    how = f"broke off after {read:,}" if read else "failed"
    known = f", and the {used:,} known before are used" if used and used != read else ""
    return f"its list of {_NOUNS[kind]}s {how}{known}: {reason}"


def _is_gateway(client: Client) -> bool:
    return client.server_info is not None and client.server_info.name.startswith(_GATEWAY_NAME)


def _fresh_seconds(page: Mapping[str, Any]) -> float:
    ttl_ms = page.get("ttlMs")
    if type(ttl_ms) is not int:  # nor a Boolean
        return _TOOLS_FRESH_SECONDS
    return min(max(ttl_ms, 1000 * _MIN_TOOLS_FRESH_SECONDS), 1000 * _MAX_TOOLS_FRESH_SECONDS) / 1000


def entries_of(page: Mapping[str, Any], member: str, method: str) -> list[Any]:
    """Return a page's entries, valid or not.

    Raises:
        ListingError: The page's `member` is not an array.
    """
    listed = page.get(member)
    if not is_list(listed):
        problem = "is missing" if listed is None else "is no array"
        raise ListingError(f"its {method} is malformed: `{member}` {problem}")
    return listed


async def usable_entries(entries: Sequence[Any], kind: Kind) -> tuple[dict[str, BaseModel], Sequence[str]]:
    """Return the valid entries by key, and why each other entry is left out."""
    usable: dict[str, BaseModel] = {}
    faults: list[str] = []
    for number, entry in enumerate(entries, 1):
        if number % _ENTRIES_AT_ONCE == 0:
            await anyio.lowlevel.checkpoint()
        try:
            valid = kind.item.model_validate(entry, by_name=False)
            if usable.setdefault(key := key_of(kind, valid), valid) is not valid:
                faults.append(f"the second {_NOUNS[kind]} named {quoted(key)} is left out")
        except ValidationError as error:
            place = ".".join(map(str, error.errors()[0]["loc"]))
            problem = f"it is invalid at {quoted(place)}" if place else "it is no object"
            faults.append(f"a {_NOUNS[kind]} is left out: {problem}")
    return usable, faults
