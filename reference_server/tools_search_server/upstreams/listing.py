"""Reads one upstream's lists: all pages, within limits, without invalid entries.

Tools are read whenever they change; prompts, resources and templates when somebody requests them. A server can send
anything: the gateway omits and reports invalid entries and duplicate names, cuts endless listings, and limits the JSON
of all of a server's lists together.
"""

from __future__ import annotations

import logging
import math
import re
from collections import Counter
from collections.abc import Callable, Mapping, Sequence
from dataclasses import InitVar, dataclass
from functools import cache
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
from tools_search_hosts.endings import timed_out
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


class ListingTooLargeError(ListingError):
    """A server's list exceeds a limit. The message says which."""


@dataclass
class Lists:
    """One server's lists, on one connection or as last read."""

    server: str
    """The server's name, for the log."""

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

    saved: InitVar[Mapping[Kind, Sequence[BaseModel]] | None] = None
    """The entries of each kind."""

    def __post_init__(self, saved: Mapping[Kind, Sequence[BaseModel]] | None) -> None:
        self._faults: dict[Kind, str] = {}
        self._logged: set[str] = set()
        self._bytes: Counter[Kind] = Counter()
        self._known: dict[Kind, tuple[float, Mapping[str, BaseModel]]] = {
            kind: (math.inf, {key_of(kind, entry): entry for entry in entries})
            for kind, entries in (saved or {}).items()
        }
        """The entries of a kind by key, and until when they are fresh."""
        self._rests_until: dict[Kind, float] = {}
        """Until when not to read a list that was too late or too large, even if the server announces changes."""
        self._locks = {kind: anyio.Lock() for kind in ITEM_KINDS}
        self._changes = 0
        self.gateways: frozenset[str] = frozenset()
        """The gateways that the tools can come through."""
        self._fresh_seconds: dict[Kind, float] = {}
        """How long the entries of a kind stay fresh after they were read, if the server announces no changes."""

    @property
    def patience(self) -> float:
        """The factor for time limits: a gateway answers without a slow server, but only after its own time limit."""
        return 1 + min(len(self.gateways), _MAX_LEVELS) / 2

    @property
    def tools_fresh_seconds(self) -> float:
        """How long the tools stay fresh after they were read: forever if the server announces changes."""
        offered = None if self.client is None else self.client.server_capabilities.tools
        if offered is None or (offered.list_changed and self.hears_changes()):
            return math.inf
        return self._fresh_seconds.get(TOOLS, _TOOLS_FRESH_SECONDS)

    async def tools(self, most: int | None = None) -> dict[str, Tool]:
        """Return the tools by name. They can be called without listing them again.

        Raises:
            TooManyToolsError: There are more than `most`.
            ListingError: The server did not send a list, or its list has no valid tool or exceeds a limit.
            MCPError: It refused to list, or took too long for one page.
        """
        client = self.client
        if client is None or client.server_capabilities.tools is None:
            return {}
        listed = cast("dict[str, Tool]", await self._read(client, TOOLS, _TOOLS_SECONDS, most))
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

        If a later page fails, return those of the earlier pages.

        Returns the same object until they change.
        """
        if self.client is None:
            return self._known[kind][1]
        offered = self.client.server_capabilities
        capability = offered.prompts if kind is PROMPTS else offered.resources
        if capability is None:
            return {}
        # One reading for all callers that wait, each of whom would otherwise list on its own.
        async with self._locks[kind]:
            until, entries = self._known.get(kind, (-math.inf, {}))
            if anyio.current_time() < max(until, self._rests_until.get(kind, -math.inf)):
                return entries
            changes, fault = self._changes, ""  # the number of changes announced so far
            listed: list[Any] = []
            limit = _LIST_SECONDS * self.patience
            # A gateway announces the changes that it notices, but reads its servers' lists only when it is asked.
            is_announced = capability.list_changed and self.hears_changes() and not _is_gateway(self.client)
            seconds = math.inf if is_announced else _FRESH_SECONDS
            try:
                with anyio.fail_after(limit):
                    read = await self._read(self.client, kind, limit, listed=listed)
                # Keep the same object if nothing has changed, and so what was derived from it, such as an index.
                entries = entries if [*read.items()] == [*entries.items()] else read
            except (ListingError, MCPError, TimeoutError) as error:
                # Of a list that broke off, what came before is kept. One that breaks a rule or a limit is not used.
                entries = {} if isinstance(error, ListingError) else (await usable_entries(listed, kind))[0]
                seconds = _EXCESS_SECONDS if isinstance(error, ListingTooLargeError) else _FAILED_SECONDS
                if isinstance(error, TimeoutError | ListingTooLargeError) or (
                    isinstance(error, MCPError) and timed_out(error)
                ):
                    self._rests_until[kind] = anyio.current_time() + seconds
                # Templates are optional, and no capability announces them.
                if kind is not RESOURCE_TEMPLATES or not isinstance(error, MCPError) or error.code != METHOD_NOT_FOUND:
                    reason = explained(error) if isinstance(error, MCPError) else str(error)
                    how = f"broke off after {len(entries):,}" if entries else "failed"
                    fault = f"its list of {_NOUNS[kind]}s {how}: {reason or f'it took more than {limit:g} s'}"
            if fault != self._faults.get(kind, ""):
                if fault:
                    logger.warning("%s: %s", self.server, fault, extra={"server": self.server})
                self._faults[kind] = fault
                self.on_faults("; ".join(filter(None, self._faults.values())))
            # A list that changed while it was read is answered but not kept: it may be the old one or the new one.
            if changes == self._changes:
                self._known[kind] = anyio.current_time() + seconds, entries
            return entries

    def _note_gateways(self, page: Mapping[str, Any]) -> None:
        stated = as_object(page.get("_meta")).get(GATEWAYS)
        if is_list(stated):
            named = stated[:_MAX_GATEWAYS]
            self.gateways = frozenset(
                gateway for gateway in named if isinstance(gateway, str) and _GATEWAY.fullmatch(gateway)
            )
            if self.own_gateway in self.gateways:
                raise ListingError(
                    "it leads back to this gateway, whose tools would be its own again: "
                    "take it out of this configuration, or this gateway out of the other one"
                )

    def has(self, kind: Kind, key: str) -> bool:
        """Return whether the list, as last read, has an entry with this key."""
        return key in self._known.get(kind, (0, {}))[1]

    async def has_changed(self, kind: Kind) -> bool:
        """Read a list again that has been read before, and return whether it has changed."""
        _, before = self._known.get(kind, (0, {}))
        self._known[kind] = -math.inf, before
        return await self.entries(kind) is not before

    def has_failed(self, kind: Kind) -> bool:
        """Return whether the last attempt to list a kind failed."""
        return bool(self._faults.get(kind))

    def forget(self, event: ServerEvent) -> bool:
        """Mark the changed lists to be read again on the next request. Return whether any had been read."""
        if self.client is None:
            return False
        self._changes += 1
        kinds = (PROMPTS,) if isinstance(event, PromptsListChanged) else (RESOURCES, RESOURCE_TEMPLATES)
        known = [self._known.pop(kind, None) is not None for kind in kinds]
        return any(known)

    async def _read(
        self, client: Client, kind: Kind, page_seconds: float, most: int | None = None, listed: list[Any] | None = None
    ) -> dict[str, BaseModel]:
        """Return a list's entries by key, in the server's order. Raises the same errors as `tools`.

        `listed` gets the entries page by page, valid or not, so that the caller has them if a later page fails.
        """
        entries: list[Any] = [] if listed is None else listed
        fresh_seconds: list[float] = []
        max_entries = self.max_bytes // _MIN_BYTES_OF_AN_ENTRY

        async def read_page(cursor: str | None) -> str | None:
            params = {"_meta": {GATEWAYS: True}} if kind is TOOLS and _is_gateway(client) else {}
            params |= {} if cursor is None else {"cursor": cursor}
            page = await raw_request(client, kind.list_method, params, seconds=page_seconds)
            self._note_gateways(page)
            # Check each page before the next is requested, since a server can send pages without end.
            self._bytes[kind] += len(to_json(page))
            if self._bytes.total() > self.max_bytes:
                raise ListingTooLargeError(f"its lists are larger than {mebibytes(self.max_bytes)} in all")
            entries.extend(entries_of(page, kind.member, kind.list_method))
            if most is not None and len(entries) > most:
                raise TooManyToolsError
            if len(entries) > max_entries:
                raise ListingTooLargeError(f"it lists more than {max_entries:,} {_NOUNS[kind]}s")
            fresh_seconds.append(_fresh_seconds(page))
            following: object = page.get("nextCursor")
            if following is not None and not isinstance(following, str):
                raise ListingError(f"its {kind.list_method} is malformed: `nextCursor` is no string")
            return following

        self._bytes[kind] = 0
        try:
            if await follow_cursors(read_page, _MAX_PAGES):
                text = "%s: its list of %ss does not end; the first %d are used"
                logger.warning(text, self.server, _NOUNS[kind], len(entries), extra={"server": self.server})
            usable, faults = await usable_entries(entries, kind)
            self._report(kind, faults)
            # Otherwise a server whose tools are all invalid would look like one without tools.
            if entries and not usable:
                place = "the log says at which member the first fails"
                raise ListingError(f"its {kind.list_method} holds no valid {_NOUNS[kind]}; {place}")
        except BaseException as error:
            if listed is None or isinstance(error, ListingError):
                self._bytes[kind] = 0  # none of it is kept
            raise
        self._fresh_seconds[kind] = min(fresh_seconds)  # each page may state another time
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
