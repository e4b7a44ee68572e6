"""What a peer is to do: an ordinary server with a small catalog, except where a check has it lie."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, field, replace
from typing import Any, Final

import anyio

from tools_search_conformance.wire.codec import JsonObject

__all__ = [
    "LISTED", "SETTINGS", "Pages", "Refusal", "Reply", "Script", "Withheld", "found", "refuses", "serves", "tool",
]  # fmt: skip


@dataclass(frozen=True, kw_only=True)
class Reply:
    """What a peer sends back for one request: one of `result`, `error` and `raw`, unless it is `silent` or `lost`."""

    result: JsonObject | None = None
    error: JsonObject | None = None
    raw: bytes | None = None
    """Bytes in place of the whole message."""
    before: tuple[JsonObject, ...] = ()
    """Messages that go out ahead of it, on the same stream."""
    plain: bool = False
    """Whether a modern result goes out without the members that each modern result has."""
    seconds: float = 0
    """How long the peer takes."""
    held: anyio.Event | None = None
    """What it waits for; on HTTP the head of an event stream goes out before."""
    silent: bool = False
    """Whether nothing is sent at all."""
    lost: bool = False
    """Whether the connection ends in place of an answer."""


class Refusal(Exception):
    """A request that any conformant server would refuse."""

    def __init__(self, code: int, message: str, data: Any = None) -> None:
        super().__init__(message)
        self.reply = Reply(error={"code": code, "message": message} | ({} if data is None else {"data": data}))


Search = Callable[[JsonObject], Reply]
"""From the params of a search, which a conformant server would take, to the reply."""


def tool(name: str, description: str = "", **members: Any) -> JsonObject:
    """Return a definition."""
    text = {"description": description} if description else {}
    return {"name": name, **text, "inputSchema": {"type": "object"}, **members}


def found(*tools: JsonObject, cursor: str | None = None, before: Sequence[JsonObject] = (), **members: Any) -> Reply:
    """Return a page as a reply; `members` are added to the result, or replace what it would have."""
    following = {} if cursor is None else {"nextCursor": cursor}
    return Reply(result={"tools": list(tools), **following, **members}, before=tuple(before))


def refuses(code: int, message: str = "refused", data: Any = None) -> Search:
    """Return a search that is refused."""
    return lambda _: Refusal(code, message, data).reply


def serves(reply: Reply) -> Search:
    """Return a search that gets the same reply whatever it says."""
    return lambda _: reply


class Pages:
    """A search of several pages: each is found by the cursor that the one before has ended with."""

    def __init__(self, *pages: Sequence[JsonObject], cursors: Sequence[str] | None = None) -> None:
        """Take the pages; `cursors` lead from the first to the second, and so on."""
        self.cursors = tuple(cursors or (f"page{number}" for number in range(2, len(pages) + 1)))
        self._pages = pages

    def __call__(self, params: JsonObject) -> Reply:
        """Return the page that `params` asks for."""
        number = 0
        if "cursor" in params:
            if params["cursor"] not in self.cursors:
                raise Refusal(-32602, "invalid cursor", {"field": "cursor", "reason": "not issued here"})
            number = self.cursors.index(params["cursor"]) + 1
        return found(*self._pages[number], cursor=(*self.cursors, None)[number])


class Withheld:
    """A search that answers each query only when that is let go."""

    def __init__(self, replies: Mapping[str, Reply]) -> None:
        """Take what each query is answered with; any other finds nothing, at once."""
        self._held = {query: anyio.Event() for query in replies}
        self._replies = {query: replace(reply, held=self._held[query]) for query, reply in replies.items()}

    def __call__(self, params: JsonObject) -> Reply:
        """Return the reply, which is to wait."""
        return self._replies.get(params["query"], found())

    def let_go(self, query: str) -> None:
        """Answer every search for `query`, those that are still to come as well."""
        self._held[query].set()


SETTINGS: Final[Mapping[str, Any]] = {"catalogSize": 5000, "topics": ["fixtures of a judge"], "maxLimit": 50}
"""A catalog so large that a client searches it rather than lists it."""

LISTED: Final = (
    tool("archive_ledger", "Archives the ledger of a past quarter."),
    tool("brew_coffee", "Brews a pot of coffee."),
    tool("count_sheep", "Counts sheep until somebody sleeps."),
    tool("dispatch_courier", "Dispatches a courier to a street."),
    tool("export_almanac", "Exports the almanac as a file."),
    tool("fold_origami", "Folds a crane out of paper."),
    tool("graft_orchid", "Use it to graft an orchid onto a stem."),
)
"""What a peer lists, unless it is told otherwise."""


@dataclass(kw_only=True)
class Script:
    """One server's behaviour. What is not said is done as a conformant server does it."""

    search: Search = field(default_factory=lambda: Pages(LISTED[3:5]))
    listed: Sequence[JsonObject] = LISTED
    list_page: int = 3
    """How many tools a page of `tools/list` has."""
    list_fails: bool = False
    """Whether `tools/list` is answered with an internal error."""
    list_starts_empty: bool = False
    """Whether the listing has a page of no tool before all others."""
    gone: bool = False
    """Whether the connection ends as soon as the client asks for tools, by search or by listing."""
    mute: bool = False
    """Whether the client is never answered when it asks for tools, by search or by listing."""
    absent: bool = False
    """Whether there is no such server: whoever connects is turned away."""
    advertised: Mapping[str, Any] | None = None
    """The value at the extension identifier by its place, `extensions` or `experimental`; `None`: as the era has it."""
    neighbours: Mapping[str, Any] = field(default_factory=dict[str, Any])
    """What stands under `extensions` at the identifiers of other extensions."""
    name: str = "peer"
