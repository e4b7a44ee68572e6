"""Caching: the key of a kept page, and how long it is kept."""

from __future__ import annotations

import json
import re
import time
from collections.abc import Callable
from concurrent.futures import Future
from functools import reduce
from typing import Any, ClassVar
from unicodedata import normalize

from .client_faults_of_paging import ReadsOn
from .client_library import LEGACY, MODERN, Client, Federation, InvalidError, RefusedError
from .miniature_transports import Json


def _keyed(change: Callable[[Json], Json]) -> type[Client]:
    """Make a client whose key of a kept page is that of other params."""

    class Keyed(Client):
        def key(self, params: Json) -> str:
            return super().key(change(params))

    return Keyed


def _keyed_by_query(reading: Callable[[str], object]) -> type[Client]:
    """Make a client that keeps pages by something that it reads from their query."""
    return _keyed(lambda params: {**params, "query": reading(params["query"])})


def _keyed_by_cursor(reading: Callable[[str], object]) -> type[Client]:
    """Make a client that keeps pages by something that it reads from their cursor, empty for first pages."""
    return _keyed(lambda params: {**params, "cursor": reading(params.get("cursor", ""))})


def _key_written(written: Callable[[Json], str]) -> type[Client]:
    """Make a client that writes the keys of kept pages in another form."""

    class KeyWritten(Client):
        def key(self, params: Json) -> str:
            return written(params)

    return KeyWritten


cache_without_query = _keyed_by_query(lambda _: "")
cache_blind_to_case = _keyed_by_query(str.lower)
cache_blind_to_spacing = _keyed_by_query(lambda query: " ".join(query.split()))
# Only a line break at the end is left out.
cache_blind_to_line_breaks = _keyed_by_query(lambda query: query.rstrip("\r\n"))
cache_blind_to_carriage_returns = _keyed_by_query(lambda query: query.replace("\r\n", "\n"))
cache_blind_to_kinds_of_spaces = _keyed_by_query(lambda query: query.replace("\u00a0", " ").replace("\n", " "))
cache_blind_to_order = _keyed_by_query(lambda query: sorted(query.split(" ")))
cache_blind_to_form = _keyed_by_query(lambda query: normalize("NFC", query))
cache_blind_to_articles = _keyed_by_query(lambda query: [w for w in query.split(" ") if w not in {"a", "the"}])
# Only what can be seen counts.
cache_blind_to_marks = _keyed_by_query(lambda query: "".join(filter(str.isprintable, query)))
cache_blind_to_hyphens = _keyed_by_query(lambda query: query.replace("-", " "))
cache_blind_to_repetition = _keyed_by_query(lambda query: list(dict.fromkeys(query.split(" "))))
cache_blind_to_quotation_marks = _keyed_by_query(lambda query: query.strip('"'))
cache_blind_to_sharp_s = _keyed_by_query(lambda query: query.replace("\u00df", "ss"))
cache_key_cut = _keyed_by_query(lambda query: query[:255])
cache_key_cut_late = _keyed_by_query(lambda query: query[:900])
cache_key_cut_at_a_thousand = _keyed_by_query(lambda query: query[:1000])
cache_key_of_the_end = _keyed_by_query(lambda query: query[-255:])
cache_blind_to_notations_of_numbers = _keyed_by_query(
    lambda query: float(query) if re.fullmatch(r"[0-9]+(e[0-9]+)?", query) else query
)
# The hash is that of strings in Java.
cache_key_hashed = _keyed_by_query(
    lambda query: reduce(lambda number, character: (number * 31 + ord(character)) % 2**32, query, 0)
)
cache_without_cursor = _keyed_by_cursor(lambda _: "")
cache_blind_to_case_of_cursors = _keyed_by_cursor(str.lower)
cache_blind_to_form_of_cursors = _keyed_by_cursor(lambda cursor: normalize("NFC", cursor))
cache_blind_to_empty_cursors = _keyed_by_cursor(lambda cursor: cursor or None)
cache_blind_to_padding = _keyed(lambda params: {**params, "cursor": params.get("cursor", "none").rstrip("=")})
cache_key_cut_of_cursors = _keyed_by_cursor(lambda cursor: cursor[:64])
# Limits are rounded up, and what was kept for more is cut.
cache_by_tens = _keyed(lambda params: {**params, "limit": -(-params.get("limit", 0) // 10)})
cache_of_hundred_at_most = _keyed(lambda params: {**params, "limit": min(params.get("limit", -1), 100)})
cache_of_limits_in_a_byte = _keyed(lambda params: {**params, "limit": params.get("limit", -1) % 256})
# Takes a search without a limit for one with the limit that servers usually have, or that it would have.
cache_of_the_usual_limit = _keyed(lambda params: {"limit": 10, **params})
cache_of_eight = _keyed(lambda params: {"limit": 8, **params})
cache_key_joined = _key_written(
    lambda params: "".join(str(params.get(member, "")) for member in ("query", "limit", "cursor"))
)
cache_key_separated = _key_written(
    lambda params: "|".join(str(params.get(member, "")) for member in ("limit", "cursor", "query"))
)
cache_key_of_address = _key_written(
    lambda params: "&".join(f"{member}={params[member]}" for member in ("query", "limit", "cursor") if member in params)
)
cache_key_of_limit_or_cursor = _key_written(
    lambda params: f"{params['query']}:{params.get('limit', params.get('cursor'))}"
)
cache_by_cursor_alone = _key_written(lambda params: params.get("cursor") or json.dumps(params, sort_keys=True))


class CacheWithoutLimit(Client):
    def key(self, params: Json) -> str:
        return super().key({**params, "limit": 0})


class CacheWithoutLimitReadOn(CacheWithoutLimit):
    """Reads on where the page that it has kept holds too few, so that each search makes a request."""

    following: str | None = None

    def search(self, query: str, limit: int | None = None) -> list[Json]:
        self.following = None
        tools = super().search(query, limit)
        if limit is None or len(tools) >= limit or self.following is None:
            return tools
        return tools + self.page({"query": query, "limit": limit, "cursor": self.following})["tools"]

    def page(self, params: Json) -> Json:
        page = super().page(params)
        self.following = page.get("nextCursor")
        return page


class ListChangeOfTheConnectionOnly(Client):
    """Keeps pages for all connections to an address, of which a list change drops those of its own connection."""

    by_address: ClassVar[dict[str, dict[str, tuple[float, Json]]]] = {}

    def __init__(self, target: Json, era: str) -> None:
        super().__init__(target, era)
        self.of_address = self.by_address.setdefault(json.dumps([target.get("url"), target.get("args"), era]), {})
        self.kept = dict(self.of_address)

    def keep(self, key: str, page: Json, user: str) -> None:
        super().keep(key, page, user)
        self.of_address.update(self.kept)


class CacheWithoutRevision(Client):
    """One cache for all connections to one address."""

    by_address: ClassVar[dict[str, dict[str, tuple[float, Json]]]] = {}

    def __init__(self, target: Json, era: str) -> None:
        super().__init__(target, era)
        self.kept = self.by_address.setdefault(json.dumps(target), {})


class CacheOfEveryMethod(Client):
    def of(self, member: str) -> Client:
        other = super().of(member)
        other.kept = self.kept
        return other


class CacheWithoutLimitOfLaterPages(ReadsOn):
    def key(self, params: Json) -> str:
        return super().key({**params, "limit": 0} if "cursor" in params else params)


def _joined(flight_of: Callable[[str, Json], str]) -> type[Client]:
    """Make a client that waits for a request under way where another search has the same name, by user and params."""

    class Joined(Client):
        def __init__(self, target: Json, era: str) -> None:
            super().__init__(target, era)
            self.flights: dict[str, Future[Json]] = {}

        def page(self, params: Json) -> Json:
            own = Future[Json]()
            flight = self.flights.setdefault(name := flight_of(self.user, params), own)
            if flight is not own:
                return flight.result()
            try:
                own.set_result(page := super().page(params))
                return page
            except Exception as error:
                own.set_exception(error)
                raise
            finally:
                del self.flights[name]

    return Joined


joined_blind_to_case = _joined(lambda user, params: f"{user} {json.dumps(params).lower()}")
joined_for_users = _joined(lambda _, params: json.dumps(params))


def _is_public(page: Json) -> bool:
    return page.get("cacheScope") == "public"


def _shared(when: Callable[[Json], bool]) -> type[Client]:
    """Make a client that keeps some pages for all users."""

    class Shared(Client):
        def is_shared(self, page: Json) -> bool:
            return when(page)

    return Shared


cache_shared = _shared(lambda _: True)
scope_blind_to_case = _shared(lambda page: str(page.get("cacheScope")).lower() == "public")
missing_scope_is_public = _shared(lambda page: "cacheScope" not in page or _is_public(page))
unknown_scope_is_public = _shared(lambda page: page.get("cacheScope") != "private")
scope_by_prefix = _shared(lambda page: str(page.get("cacheScope")).startswith("public"))
scope_of_one_element = _shared(lambda page: page.get("cacheScope") in ("public", ["public"]))
later_pages_shared = _shared(lambda page: "nextCursor" not in page or _is_public(page))
empty_pages_shared = _shared(lambda page: _is_public(page) or not page["tools"])


def _modern_ttl(read: Callable[[Json], float | None]) -> type[Client]:
    """Make a client that takes some modern pages to be valid for another time."""

    class ModernTtl(Client):
        def ttl(self, page: Json) -> float:
            ttl = read(page) if self.era == MODERN else None
            return super().ttl(page) if ttl is None else ttl

    return ModernTtl


kept_for_no_time = _modern_ttl(lambda page: 30_000 if page.get("ttlMs") == 0 else None)
# What was not found once is never asked for again.
empty_result_believed = _modern_ttl(lambda page: None if page["tools"] else 3_600_000)
missing_ttl_is_an_hour = _modern_ttl(lambda page: None if "ttlMs" in page else 3_600_000)
text_of_ttl_read = _modern_ttl(lambda page: float(page["ttlMs"]) if isinstance(page.get("ttlMs"), str) else None)


class KeptBeyondItsTime(Client):
    def ttl(self, page: Json) -> float:
        return max(super().ttl(page), 30_000) if super().ttl(page) > 0 else 0


class KeptAsLongAsItIsRead(Client):
    def page(self, params: Json) -> Json:
        user = self.user
        page = super().page(params)
        self.keep(self.key(params), page, user)
        return page


class FirstTtlForAllPages(Client):
    first = 0.0

    def page(self, params: Json) -> Json:
        if "cursor" not in params:
            self.first = 0.0
        page = super().page(params)
        if "cursor" not in params:
            self.first = self.ttl(page)
        return page

    def ttl(self, page: Json) -> float:
        return self.first or super().ttl(page)


class NegativeTtlIsForEver(Client):
    def ttl(self, page: Json) -> float:
        return 3_600_000 if super().ttl(page) < 0 else super().ttl(page)


class FractionOfTtlRead(Client):
    def ttl(self, page: Json) -> float:
        ttl = page.get("ttlMs")
        return ttl if isinstance(ttl, float) and self.era == MODERN else super().ttl(page)


class MalformedHintsListed(Client):
    def checked(self, result: Json) -> Json:
        ttl = result.get("ttlMs")
        if self.era == MODERN and (type(ttl) is not int or ttl < 0):
            raise InvalidError("no valid ttlMs")
        return super().checked(result)


def _scope_is_an_error(when: Callable[[Any], bool]) -> type[Client]:
    """Make a client that takes a page with some scopes for an error."""

    class ScopeIsAnError(Client):
        def checked(self, result: Json) -> Json:
            if self.era == MODERN and when(result.get("cacheScope")):
                raise RefusedError({"message": "no valid cacheScope"})
            return super().checked(result)

    return ScopeIsAnError


malformed_scope_is_an_error = _scope_is_an_error(lambda scope: scope not in ("public", "private"))
scope_of_another_type_is_an_error = _scope_is_an_error(lambda scope: not isinstance(scope or "", str))


class KeptForTheNextUser(Client):
    def keep(self, key: str, page: Json, user: str) -> None:
        super().keep(key, page, self.user)


class UsersBlindToCase(Client):
    def page(self, params: Json) -> Json:
        self.user = self.user.lower()
        return super().page(params)


class UsersByPrefix(Client):
    def key(self, params: Json) -> str:
        self.user = self.user[:3]
        return super().key(params)


class ScopeOfFirstPage(Client):
    first = False

    def page(self, params: Json) -> Json:
        page = super().page(params)
        if "cursor" not in params:
            self.first = super().is_shared(page)
        return page

    def is_shared(self, page: Json) -> bool:
        return super().is_shared(page) if "nextCursor" in page else self.first


class PagesKeptForEveryServer(Client):
    """One cache for all servers, with the same keys."""

    everywhere: ClassVar[dict[str, tuple[float, Json]]] = {}

    def key(self, params: Json) -> str:
        self.kept = self.everywhere
        return super().key(params)


class PrivatePagesByAddress(Client):
    """One cache for all connections to one address; a new connection is taken for the same user."""

    by_address: ClassVar[dict[str, dict[str, tuple[float, Json]]]] = {}

    def __init__(self, target: Json, era: str) -> None:
        super().__init__(target, era)
        self.address = json.dumps([target, era])
        self.users: dict[str, str] = {}

    def key(self, params: Json) -> str:
        self.kept = self.by_address.setdefault(self.address, self.kept)
        number = self.users.setdefault(self.user, f"user {len(self.users)}")
        return f"{super().key(params)} {number}"

    def is_shared(self, page: Json) -> bool:
        return True


def _lists(other: Callable[[Client, list[Json]], list[Json]]) -> type[Client]:
    """Make a client that returns something else for a listing than what was listed."""

    class Lists(Client):
        def list_tools(self) -> list[Json]:
            return other(self, super().list_tools())

    return Lists


def _lists_unasked(held: Callable[[Client], list[Json]]) -> type[Client]:
    """Make a client that returns what it holds for a listing, and asks only where that is nothing."""

    class ListsUnasked(Client):
        def list_tools(self) -> list[Json]:
            return held(self) or super().list_tools()

    return ListsUnasked


lists_what_it_found = _lists_unasked(lambda client: list(client.found.values()))
# Takes the tools that it has found for all, where there are as many as the server says that it has.
lists_what_it_found_of_as_many = _lists_unasked(
    lambda client: (
        list(client.found.values()) if len(client.found) == (client.settings or {}).get("catalogSize") else []
    )
)
# Gives the definition that it has, wherever it has it from.
lists_as_it_found = _lists(lambda client, listed: [client.found.get(tool["name"], tool) for tool in listed])
lists_what_it_found_where_none = _lists(lambda client, listed: listed or list(client.found.values()))
lists_found_tools_too = _lists(
    lambda client, listed: [
        *listed,
        *(tool for name, tool in client.found.items() if name not in {listed_tool["name"] for listed_tool in listed}),
    ]
)
lists_with_hit_metadata = _lists(
    lambda client, listed: [
        {**tool, **{name: held for name, held in client.found.get(tool["name"], {}).items() if name == "_meta"}}
        for tool in listed
    ]
)


class KeepsListingAsItFound(Client):
    """Keeps the names that it has listed, and one definition for each, wherever that is from."""

    names: list[str] | None = None

    def list_tools(self) -> list[Json]:
        if self.names is None:
            listed = super().list_tools()
            self.names = [tool["name"] for tool in listed]
            self.found |= {tool["name"]: tool for tool in listed}
        return [self.found[name] for name in self.names]

    def notified(self, notification: Json) -> None:
        self.names = None
        super().notified(notification)


class ListsFoundPages(Client):
    """Keeps the pages of searches and of listings under their cursors alone."""

    def listed(self) -> list[Json]:
        tools: list[Json] = []
        cursor: Json = {}
        while True:
            kept = [page for key, (_, page) in self.kept.items() if cursor and json.dumps(cursor["cursor"]) in key]
            page = kept[0] if kept else self.request("tools/list", cursor)
            tools += page["tools"]
            if "nextCursor" not in page:
                return tools
            cursor = {"cursor": page["nextCursor"]}


class _LegacyKept(Client):
    """Keeps legacy pages, too."""

    def ttl(self, page: Json) -> float:
        return super().ttl(page) if self.era == MODERN else 3_600_000

    def cursor_refused(self, query: str, tools: list[Json]) -> list[Json]:
        self.kept.clear()
        return super().cursor_refused(query, tools)


class LegacyKeptWithoutQuery(_LegacyKept):
    """Only in searches with a limit: in searches for all tools, each query has its own pages."""

    def key(self, params: Json) -> str:
        return super().key({**params, "query": ""} if "limit" in params else params)


class LegacyKeptWithoutLimit(_LegacyKept):
    def key(self, params: Json) -> str:
        return super().key({**params, "limit": 0})


class LegacyKeptForEveryUser(_LegacyKept):
    def is_shared(self, page: Json) -> bool:
        return self.era == LEGACY or super().is_shared(page)


class LegacyKeptWhateverChanges(_LegacyKept):
    def notified(self, notification: Json) -> None:
        return


def _heeds(when: Callable[[Json], bool]) -> type[Client]:
    """Make a client that takes note of some notifications only."""

    class Heeds(Client):
        def notified(self, notification: Json) -> None:
            if when(notification):
                super().notified(notification)

    return Heeds


list_change_ignored = _heeds(lambda _: False)
list_change_of_tools_only = _heeds(lambda notification: notification["method"] == "notifications/tools/list_changed")
list_change_with_unknown_params_ignored = _heeds(
    lambda notification: notification.get("params", {}).keys() <= {"_meta"}
)
list_change_with_unknown_metadata_ignored = _heeds(
    lambda notification: len(notification.get("params", {}).get("_meta", {})) <= 1
)


def _keeps_through_changes(kept: Callable[[str, Json], bool]) -> type[Client]:
    """Make a client that keeps some pages, by key and content, when a list has changed."""

    class KeepsThroughChanges(Client):
        def notified(self, notification: Json) -> None:
            self.kept = {key: timed for key, timed in self.kept.items() if kept(key, timed[1])}

    return KeepsThroughChanges


list_change_drops_first_pages = _keeps_through_changes(lambda key, _: '"cursor"' in key)
list_change_keeps_empty_pages = _keeps_through_changes(lambda _, page: not page["tools"])
# What is soon over is left to end by itself.
list_change_keeps_short_lived_pages = _keeps_through_changes(lambda _, page: page["ttlMs"] <= 30_000)


class ListChangeKeepsTemplates(Client):
    def notified(self, notification: Json) -> None:
        templates = self.of("resourceTemplates")
        templates.kept, kept = {}, templates.kept
        super().notified(notification)
        templates.kept = kept


class ListChangeHeededOnce(Client):
    heeded = False

    def notified(self, notification: Json) -> None:
        if not self.heeded:
            super().notified(notification)
        self.heeded = True


class ListChangeHeededThreeTimes(Client):
    most = 3
    heeded = 0

    def notified(self, notification: Json) -> None:
        self.heeded += 1
        if self.heeded <= self.most:
            super().notified(notification)


class ListChangeHeededTenTimes(ListChangeHeededThreeTimes):
    most = 10


class ListChangeHeededOnceASecond(Client):
    """Takes a notification soon after another one for the same."""

    heeded = 0.0

    def notified(self, notification: Json) -> None:
        if time.monotonic() > self.heeded + 1:
            self.heeded = time.monotonic()
            super().notified(notification)


class ListChangeDropsLastQuery(Client):
    last = ""

    def page(self, params: Json) -> Json:
        self.last = json.dumps(params["query"])
        return super().page(params)

    def notified(self, notification: Json) -> None:
        self.kept = {key: page for key, page in self.kept.items() if self.last not in key}


class ListChangeUnheardWhileSearching(Client):
    under_way = False

    def all_pages(self, query: str, *, again: bool = False) -> list[Json]:
        self.under_way = True
        try:
            return super().all_pages(query, again=again)
        finally:
            self.under_way = False

    def notified(self, notification: Json) -> None:
        if not self.under_way:
            super().notified(notification)


class ListChangeForThisUserOnly(Client):
    def notified(self, notification: Json) -> None:
        self.kept = {key: page for key, page in self.kept.items() if not key.startswith(("None ", f"{self.user!r} "))}


class ListChangeAfterOnceMore(Client):
    """Gives each page that it has kept out once more."""

    def __init__(self, target: Json, era: str) -> None:
        super().__init__(target, era)
        self.outdated: set[str] = set()

    def notified(self, notification: Json) -> None:
        self.outdated = {key.partition(" ")[2] for key in self.kept}

    def page(self, params: Json) -> Json:
        page = super().page(params)
        if (key := self.key(params)) in self.outdated:
            self.outdated.discard(key)
            for user in (None, self.user):
                self.kept.pop(f"{user!r} {key}", None)
        return page


class _NeverCleared(dict[str, tuple[float, Json]]):
    def clear(self) -> None:
        """Do nothing."""


class ListChangeIgnoredOfSeveral(Federation):
    def __init__(self, clients: dict[str, Client]) -> None:
        super().__init__(clients)
        for client in clients.values():
            client.kept = _NeverCleared()


class MergedKeptWithoutLimit(Federation):
    """Keeps what several servers found, as long as each of their pages may be kept."""

    def __init__(self, clients: dict[str, Client]) -> None:
        super().__init__(clients)
        self.results: dict[str, Json] = {}

    def key(self, query: str, limit: int) -> str:
        return f"{[client.user for client in self.clients.values()]} {query}"

    def search(self, query: str, limit: int) -> Json:
        key = self.key(query, limit)
        if key in self.results and all(client.kept for client in self.clients.values()):
            return self.results[key]
        self.results[key] = super().search(query, limit)
        return self.results[key]


class MergedKeptForEveryUser(MergedKeptWithoutLimit):
    def key(self, query: str, limit: int) -> str:
        return f"{query} {limit}"


class AllThatWasFoundCut(Client):
    """A search that found all there was, on one page, answers those with a limit."""

    def page(self, params: Json) -> Json:
        kept = self.kept.get(f"None {self.key({'query': params['query']})}")
        whole = kept is not None and "nextCursor" not in kept[1]
        return kept[1] if kept is not None and whole and "limit" in params else super().page(params)


class ScopeOfThePageBefore(Client):
    """A page without a scope has that of the page before."""

    scope = ""

    def is_shared(self, page: Json) -> bool:
        self.scope = page.get("cacheScope", self.scope)
        return self.scope == "public"


class ListsWhatItFoundWhereRefused(Client):
    def list_tools(self) -> list[Json]:
        try:
            return super().list_tools()
        except RefusedError:
            return list(self.found.values())


class PrivatePagesForNobody(Client):
    """One cache for all connections to one address; who is nobody in particular may have what anybody was sent."""

    by_address: ClassVar[dict[str, dict[str, tuple[float, Json]]]] = {}

    def __init__(self, target: Json, era: str) -> None:
        super().__init__(target, era)
        self.kept = self.by_address.setdefault(json.dumps([target, era]), {})

    def page(self, params: Json) -> Json:
        if not self.user:
            kept = [page for key, page in self.kept.items() if key.endswith(f" {self.key(params)}")]
            self.kept |= {f"None {self.key(params)}": page for page in kept}
        return super().page(params)


class UsersByTheirBeginning(Client):
    def key(self, params: Json) -> str:
        self.user = self.user[:64]
        return super().key(params)


class FoundToolAnswersItsName(Client):
    """Asks no more for a tool by its name, once it was found by another query."""

    def page(self, params: Json) -> Json:
        known = self.found.get(params["query"])
        return super().page(params) if known is None else {"tools": [known]}


class NothingFoundNothingMore(Client):
    """Expects nothing of a query that only adds words to one for which nothing was found."""

    def page(self, params: Json) -> Json:
        for key, (until, page) in self.kept.items():
            query = json.loads(key.partition(" ")[2])["query"]
            if until > time.monotonic() and not page["tools"] and params["query"].startswith(f"{query} "):
                return page
        return super().page(params)


class LimitedPagesForEverybody(Client):
    def keep(self, key: str, page: Json, user: str) -> None:
        super().keep(key, {**page, "cacheScope": "public"} if '"limit"' in key else page, user)


class ListingOfFoundToolsOnly(Client):
    def list_tools(self) -> list[Json]:
        return [tool for tool in super().list_tools() if not self.found or tool["name"] in self.found]
