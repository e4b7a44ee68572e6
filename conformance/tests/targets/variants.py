"""Miniatures that use the freedom that the draft gives. Every one of them must pass.

target.py miniature --variant NAME
"""

from __future__ import annotations

import json
import random
import re
import secrets
import threading
import time
import unicodedata
from collections.abc import Callable
from typing import Any, Final

from .faults import EXTENSION_ID, Fault, Json, RefusalError, served_catalog
from .miniature import LIST_PAGE, MAX_LIMIT, MODERN, WHITE_SPACE, Miniature, invalid
from .miniature_lists import others_of

_NEAREST: Final = 6
_IDENTIFIER: Final = re.compile("[A-Za-z][A-Za-z0-9.-]*/[A-Za-z0-9][A-Za-z0-9._-]*")
_VARIANTS: Final[dict[str, type[Miniature]]] = {"none": Miniature}


def find_variant(name: str) -> type[Miniature]:
    """Return the kind of miniature with this name."""
    return _VARIANTS[name]


def _variant(name: str) -> Callable[[type[Miniature]], type[Miniature]]:
    def register(kind: type[Miniature]) -> type[Miniature]:
        _VARIANTS[name] = kind
        return kind

    return register


@_variant("first-page-empty")
class FirstPageEmpty(Miniature):
    """Every search that is not for a name begins with an empty page, one without matches ends with a second one."""

    def searched(self, params: Json) -> Json:
        query, _ = self.query_of(params), self.limit_of(params)
        if "cursor" in params or query.strip(WHITE_SPACE) in {tool["name"] for tool in self.tools}:
            return super().searched(params)
        return {"tools": [], "nextCursor": self.sealed(0, query)}


@_variant("pages-empty-in-between")
class PagesEmptyInBetween(Miniature):
    """Between any two pages of a search or a list there is an empty one."""

    def listed(self, params: Json) -> Json:
        return self._or_nothing(super().listed, params)

    def searched(self, params: Json) -> Json:
        return self._or_nothing(super().searched, params)

    def sealed(self, offset: int, purpose: str) -> str:
        return f"-{super().sealed(offset, purpose)}"

    def _or_nothing(self, serve: Callable[[Json], Json], params: Json) -> Json:
        if not str(cursor := params.get("cursor")).startswith("-"):
            return serve(params)
        serve({**params, "cursor": (rest := str(cursor)[1:])})  # which refuses one that was not issued
        return {"tools": [], "nextCursor": rest}


@_variant("list-in-another-order-now-and-then")
class ListInAnotherOrderNowAndThen(Miniature):
    """The list has the same tools, in one page, and every seventh time another order."""

    times = 0

    def listed(self, params: Json) -> Json:
        self.times += 1
        by = self.times // 7 % len(self.tools)
        return {"tools": [*self.tools[by:], *self.tools[:by]]}


@_variant("another-order-each-time")
class AnotherOrderEachTime(Miniature):
    """Each search has an order of its own, which its pages keep; the tool whose name is searched for is the first."""

    turn = 0

    def searched(self, params: Json) -> Json:
        query, limit = self.query_of(params), self.limit_of(params)
        if "cursor" in params and not isinstance(params["cursor"], str):
            return super().searched(params)  # which refuses it
        if "cursor" in params:
            turn, start = divmod(int(self.opened(params["cursor"], query)), 1_000_000)
        else:
            self.turn = self.turn % 9 + 1
            turn, start = self.turn, 0
        ranked = self.ranked(query)
        fixed = [hit for hit in ranked[:1] if self.tools[hit[1]]["name"] == self.exact(query)]
        others = ranked[len(fixed) :]
        by = turn % (len(others) or 1)
        ranked = [*fixed, *others[by:], *others[:by]]
        page: Json = {"tools": [self.hit(number, score) for score, number in ranked[start : start + limit]]}
        if start + limit < len(ranked):
            page["nextCursor"] = self.sealed(turn * 1_000_000 + start + limit, query)
        return page


@_variant("one-tool-a-page")
class OneToolAPage(Miniature):
    """No page ever holds more than one tool, which the settings say with a fraction of zero."""

    @property
    def settings(self) -> Json:
        return {"maxLimit": 1.0}

    def limit_of(self, params: Json) -> int:
        return min(1, super().limit_of(params))


@_variant("fewer-than-asked-for")
class FewerThanAskedFor(Miniature):
    """Pages are half as long as they might be; the settings are empty."""

    @property
    def settings(self) -> Json:
        return {}

    def limit_of(self, params: Json) -> int:
        return max(1, super().limit_of(params) // 2)


@_variant("everything-matches")
class EverythingMatches(Miniature):
    """Every tool is a match, the related ones first, the others in reverse order."""

    def ranked(self, query: str) -> list[tuple[float, int]]:
        related = super().ranked(query)
        known = {number for _, number in related}
        return related + [(0.0, number) for number in reversed(range(len(self.tools))) if number not in known]


@_variant("all-terms-wanted")
class AllTermsWanted(Miniature):
    """A match has every term of the query; nothing is said of scores."""

    def ranked(self, query: str) -> list[tuple[float, int]]:
        return [(score, number) for score, number in super().ranked(query) if score >= 1.0]

    def hit(self, number: int, score: float) -> Json:
        return self.tools[number]


@_variant("talkative")
class Talkative(Miniature):
    """Says more than it has to: caching in the legacy era, unknown members everywhere, long queries served."""

    @property
    def settings(self) -> Json:
        return {**super().settings, "maxLimit": float(MAX_LIMIT), "com.example/region": {"name": "north"}}

    def query_of(self, params: Json) -> str:
        query = params.get("query")
        super().query_of(params if not isinstance(query, str) or not query.strip() else {"query": "anything"})
        return str(query)

    def searched(self, params: Json) -> Json:
        any_number = "".join(f"q{number}" for number in range(130))  # as ids may hold, by chance
        extra: Json = {
            "com.example/took": 0.25,
            "com.example/id": any_number,
            "_meta": {"com.example/index": "primary"},
        }
        return {"resultType": "complete", "ttlMs": 0, "cacheScope": "private", **super().searched(params), **extra}

    def hit(self, number: int, score: float) -> Json:
        hit = super().hit(number, score)
        hit["_meta"][EXTENSION_ID].update({"group": "tools", "matched": [], "com.example/why": ["terms"]})
        return hit

    def discovered(self, era: str) -> Json:
        discovered = super().discovered(era)
        discovered["capabilities"]["experimental"] = {EXTENSION_ID: {"maxLimit": "ignored here"}}
        return discovered


@_variant("second-page-once")
class SecondPageOnce(Miniature):
    """Issues a cursor with the first page of a query when it is asked for the first time alone, which is a fault."""

    def __init__(self, tools: list[Json], fault: Fault) -> None:
        super().__init__(tools, fault)
        self.asked = set[str]()

    def searched(self, params: Json) -> Json:
        found = super().searched(params)
        if "cursor" not in params and params["query"] in self.asked:
            found.pop("nextCursor", None)
        self.asked.add(params["query"])
        return found


@_variant("strict")
class Strict(Miniature):
    """Refuses what may be refused: declarations that are no objects and keys that are no identifiers with -32602, and
    messages with surrogates.
    """

    def respond(self, message: Json, session: Json) -> Json | None:
        try:
            json.dumps(message, ensure_ascii=False).encode()
        except UnicodeEncodeError:
            return None
        return super().respond(message, session)

    def gate(self, method: str, capabilities: Json) -> None:
        extensions: Any = capabilities.get("extensions")
        if isinstance(extensions, dict) and not isinstance(extensions.get(EXTENSION_ID, {}), dict):  # pyright: ignore[reportUnknownMemberType] - JSON
            raise invalid("_meta", "a declaration is an object")
        if isinstance(extensions, dict) and not all(map(_IDENTIFIER.fullmatch, extensions)):  # pyright: ignore[reportUnknownArgumentType] - JSON
            raise invalid("_meta", "an extension has an identifier with a prefix")
        super().gate(method, capabilities)

    def serve(self, method: str, params: Json, era: str, capabilities: Json, session: Json) -> Json:
        extensions: Any = params.get("capabilities", {}).get("extensions", {})
        if method == "initialize" and not isinstance(extensions.get(EXTENSION_ID, {}), dict):
            raise RefusalError(-32602, "capabilities are objects", None)
        return super().serve(method, params, era, capabilities, session)


@_variant("without-legacy-output-schemas")
class WithoutModernTools(Miniature):
    """Leaves out tools that cannot be defined in the legacy era; lists all others on one page, the last ones first."""

    def serve(self, method: str, params: Json, era: str, capabilities: Json, session: Json) -> Json:
        result = super().serve(method, params, era, capabilities, session)
        if era != MODERN and "tools" in result:
            result["tools"] = [tool for tool in result["tools"] if tool["name"] != "LibraryRenewLoan"]
        return result

    def listed(self, params: Json) -> Json:
        return {"tools": self.tools[::-1]}


@_variant("last-of-a-name")
class LastOfAName(Miniature):
    """Lists an older definition of each tool before its own, which alone is searched."""

    def listed(self, params: Json) -> Json:
        page = super().listed(params)
        return {**page, "tools": [each for tool in page["tools"] for each in (_older(tool), tool)]}


def _older(tool: Json) -> Json:
    return {
        "name": tool["name"],
        "description": f"Formerly {tool['name']}0, obsolete.",
        "inputSchema": {"type": "object"},
    }


@_variant("lists-in-turns")
class ListsInTurns(Miniature):
    """Lists its tools in an order and on pages of a size that stay the same for two or three listings only."""

    listings = -1

    def listed(self, params: Json) -> Json:
        if "cursor" in params:
            turn, start = divmod(int(self.opened(params["cursor"], "")), 100_000)
        else:
            self.listings += 1
            turn, start = self.listings, 0
        tools = self.tools[::-1] if turn // 2 % 2 else self.tools
        end = start + (LIST_PAGE if turn // 3 % 2 else LIST_PAGE - 5)
        page: Json = {"tools": tools[start:end]}
        if end < len(tools):
            page["nextCursor"] = self.sealed(turn * 100_000 + end, "")
        return page


@_variant("nearest-few")
class NearestFew(EverythingMatches):
    """Finds the nearest six tools for any query."""

    def ranked(self, query: str) -> list[tuple[float, int]]:
        return super().ranked(query)[:_NEAREST]


@_variant("few-at-once")
class FewAtOnce(Miniature):
    """Runs three searches at once and refuses those beyond."""

    most = 3
    running = 0
    seconds = 0.01

    def searched(self, params: Json) -> Json:
        if self.running >= self.most:
            raise _busy(10)
        self.running += 1
        try:
            time.sleep(self.seconds)
            return super().searched(params)
        finally:
            self.running -= 1


@_variant("one-at-once")
class OneAtOnce(FewAtOnce):
    """Runs one search at a time."""

    most = 1


@_variant("busy-at-times")
class BusyAtTimes(Miniature):
    """Is too busy for every fourth search that it could serve, and soon is not."""

    searches = 0

    def searched(self, params: Json) -> Json:
        found = super().searched(params)
        self.searches += 1
        if self.searches % 4 == 0:
            raise _busy(0)
        return found


@_variant("always-busy")
class AlwaysBusy(Miniature):
    """Is too busy for every search."""

    def searched(self, params: Json) -> Json:
        raise _busy(0)


def _busy(milliseconds: int) -> RefusalError:
    return RefusalError(-32603, "Too many searches at once", {"retryAfterMs": milliseconds})


@_variant("parameters-first")
class ParametersFirst(Miniature):
    """Looks at the parameters before the declaration, as an SDK does that validates by a schema."""

    def serve(self, method: str, params: Json, era: str, capabilities: Json, session: Json) -> Json:
        if method == "tools/search":
            self.query_of(params)
            self.limit_of(params)
        return super().serve(method, params, era, capabilities, session)


@_variant("folds-coarser")
class FoldsCoarser(Miniature):
    """Takes letters for the same that differ in their marks, and `i` and its dotless kin."""

    def __init__(self, tools: list[Json], fault: Fault) -> None:
        super().__init__([_without_marks(tool) for tool in tools], fault)
        self.tools = tools

    def ranked(self, query: str) -> list[tuple[float, int]]:
        exact = [(2.0, n) for n, tool in enumerate(self.tools) if tool["name"] == self.exact(query)]
        known = {number for _, number in exact}
        return exact + [hit for hit in super().ranked(_bare(query)) if hit[1] not in known]


def _bare(text: str) -> str:
    folded = unicodedata.normalize("NFKD", unicodedata.normalize("NFKC", text).casefold())
    return "".join(c for c in folded if not unicodedata.combining(c)).replace("\u0131", "i")


def _without_marks(tool: Json) -> Json:
    texts = {name: _bare(text) for name in ("name", "title", "description") if isinstance(text := tool.get(name), str)}
    return {**tool, **texts}


@_variant("otherwise-on-the-wire")
class OtherwiseOnTheWire(Miniature):
    """Answers what is in flight together in any order, spaces its JSON, spells numbers otherwise, swaps the streams."""

    in_flight = 0

    def respond(self, message: Json, session: Json) -> Json | None:
        self.in_flight += 1
        try:
            time.sleep(0.001)
            if self.in_flight > 1:
                time.sleep(random.random() / 50)  # noqa: S311 - any order will do
            return super().respond(message, session)
        finally:
            self.in_flight -= 1

    def line(self, response: Json) -> bytes:
        if isinstance(response["id"], int):
            response = {**response, "id": float(response["id"])}
        if "error" in response:
            response = {**response, "error": {**response["error"], "code": float(response["error"]["code"])}}
        return b" " + json.dumps(response, ensure_ascii=False, separators=(" , ", " : ")).encode() + b"\t\r"

    def streams(self, era: str) -> bool:
        return era == MODERN


@_variant("slow")
class Slow(Miniature):
    """Takes a third of a second for each search, and serves any number of them at a time."""

    def searched(self, params: Json) -> Json:
        time.sleep(0.3)
        return super().searched(params)


@_variant("slow-prompts")
class SlowPrompts(Miniature):
    """Takes a third of a second for each search for prompts, and serves any number of them at a time."""

    def __init__(self, tools: list[Json], fault: Fault) -> None:
        super().__init__(tools, fault, others_of(served_catalog()))

    def respond(self, message: Json, session: Json) -> Json | None:
        if message.get("method") == "prompts/search":
            time.sleep(0.3)
        return super().respond(message, session)


@_variant("slow-and-few-at-once")
class SlowAndFewAtOnce(FewAtOnce):
    """Takes a third of a second for each search, and refuses those beyond five at once."""

    most = 5
    seconds = 0.3


@_variant("slow-and-one-after-the-other")
class SlowAndOneAfterTheOther(Miniature):
    """Takes a third of a second for each search, and has them wait for each other."""

    def __init__(self, tools: list[Json], fault: Fault) -> None:
        super().__init__(tools, fault)
        self.turn = threading.Lock()

    def searched(self, params: Json) -> Json:
        with self.turn:
            time.sleep(0.3)
            return super().searched(params)


@_variant("cursors-hold-once")
class CursorsHoldOnce(Miniature):
    """Answers each cursor once, and issues no cursor twice."""

    def __init__(self, tools: list[Json], fault: Fault) -> None:
        super().__init__(tools, fault)
        self.unused: dict[str, tuple[int, str]] = {}

    def sealed(self, offset: int, purpose: str) -> str:
        cursor = secrets.token_urlsafe(16)
        self.unused[cursor] = offset, purpose
        return cursor

    def opened(self, cursor: str, purpose: str) -> str:
        offset, issued_for = self.unused.get(cursor, (0, None))
        if issued_for != purpose:
            raise invalid("cursor", "not issued here, or answered before")
        del self.unused[cursor]
        return str(offset)


@_variant("cursor-empty")
class CursorEmpty(Miniature):
    """The cursor of what follows the first match is the empty string."""

    def __init__(self, tools: list[Json], fault: Fault) -> None:
        super().__init__(tools, fault)
        self.issued_for = set[str]()

    def sealed(self, offset: int, purpose: str) -> str:
        if offset != 1:
            return super().sealed(offset, purpose)
        self.issued_for.add(purpose)
        return ""

    def opened(self, cursor: str, purpose: str) -> str:
        return "1" if cursor == "" and purpose in self.issued_for else super().opened(cursor, purpose)


@_variant("cursors-expire")
class CursorsExpire(CursorsHoldOnce):
    """Answers each cursor once, and within a twentieth of a second."""

    lifetime = 0.05
    """How long a cursor holds, in seconds."""

    def __init__(self, tools: list[Json], fault: Fault) -> None:
        super().__init__(tools, fault)
        self.issued: dict[str, float] = {}

    def sealed(self, offset: int, purpose: str) -> str:
        cursor = super().sealed(offset, purpose)
        self.issued[cursor] = time.monotonic()
        return cursor

    def opened(self, cursor: str, purpose: str) -> str:
        if time.monotonic() > self.issued.get(cursor, 0.0) + self.lifetime:
            raise invalid("cursor", "not issued here, or no longer honored")
        return super().opened(cursor, purpose)


@_variant("cursors-expire-during-searches")
class CursorsExpireDuringSearches(CursorsExpire):
    """Takes longer for two searches than it honors a cursor."""

    lifetime = 0.15

    def searched(self, params: Json) -> Json:
        time.sleep(0.1)
        return super().searched(params)


@_variant("cursors-spent-for-good")
class CursorsSpentForGood(Miniature):
    """Answers each cursor once, and issues it again to a client that repeats the search that it comes from."""

    def __init__(self, tools: list[Json], fault: Fault) -> None:
        super().__init__(tools, fault)
        self.spent: set[str] = set()

    def opened(self, cursor: str, purpose: str) -> str:
        offset = super().opened(cursor, purpose)
        if purpose != "tools/list":
            if cursor in self.spent:
                raise invalid("cursor", "answered before")
            self.spent.add(cursor)
        return offset
