"""Results that are misread, and the fallback to a listing."""

from __future__ import annotations

import http.client
import re
from abc import ABC, abstractmethod
from http import HTTPStatus
from typing import Any, cast

from .client_library import EXTENSION_ID, MODERN, PAGE, Client, InvalidError, RefusedError
from .miniature_transports import HttpTransport, Json


class ListsOnceItHasSearched(Client):
    """Lists in the background, as any client may, which is done only after its first search."""

    has_listed = False

    def search(self, query: str, limit: int | None = None) -> list[Json]:
        found = super().search(query, limit)
        if not self.has_listed:
            self.has_listed = True
            self.listed()
        return found


class LegacyMembersChecked(Client):
    def checked(self, result: Json) -> Json:
        page = super().checked(result)
        if page.get("resultType", "complete") != "complete":
            raise InvalidError("an unknown kind of result")
        return page


class LegacyTtlObeyed(Client):
    def ttl(self, page: Json) -> float:
        ttl = page.get("ttlMs", 0)
        return ttl if isinstance(ttl, int) else 0


class LegacyTtlOfZeroObeyed(Client):
    def ttl(self, page: Json) -> float:
        return super().ttl(page) if self.era == MODERN else 0 if page.get("ttlMs") == 0 else 30_000


class UnknownMembersOfToolsRefused(Client):
    def checked(self, result: Json) -> Json:
        if any(isinstance(tool, dict) and "future" in tool for tool in result.get("tools") or ()):
            raise InvalidError("unknown members")
        return super().checked(result)


class UnknownMembersRefused(Client):
    def checked(self, result: Json) -> Json:
        if "tools" in result and not set(result) <= PAGE:
            raise InvalidError("unknown members")
        return super().checked(result)


class EmptySettingsAreNone(Client):
    def counts(self, held: Any) -> bool:
        return super().counts(held) and bool(held)


class ListsWhatIsLarge(Client):
    def searches(self) -> bool:
        size = (self.settings or {}).get("catalogSize")
        return super().searches() and (type(size) is not int or size < 100_000)


class UnadvertisedUnranked(Client):
    def ranked(self, query: str, tools: list[Json]) -> list[Json]:
        return super().ranked(query, tools) if self.settings is not None else tools


class UnadvertisedIsAnErrorForAll(Client):
    def search_all(self, query: str) -> list[Json]:
        if self.settings is None:
            raise InvalidError("the server cannot search")
        return super().search_all(query)


class UnadvertisedFirstPageOnly(Client):
    def listed(self) -> list[Json]:
        return super().listed() if self.settings is not None else self.request("tools/list", {})["tools"]


class EmptyListPageEnds(Client):
    def listed(self) -> list[Json]:
        first = self.request("tools/list", {})["tools"]
        return first and super().listed()


class UnadvertisedIsAnError(Client):
    def searches(self) -> bool:
        if self.settings is None:
            raise InvalidError("the server cannot search")
        return True


class UnknownMethodIsAnError(Client):
    def instead(self, error: RefusedError | InvalidError, query: str) -> list[Json]:
        if isinstance(error, RefusedError) and error.code == -32601:
            raise error
        return super().instead(error, query)


class MissingCapabilityIsAnError(Client):
    def instead(self, error: RefusedError | InvalidError, query: str) -> list[Json]:
        if isinstance(error, RefusedError) and error.code == -32021:
            raise error
        return super().instead(error, query)


class ListsOnce(Client):
    times = 0

    def instead(self, error: RefusedError | InvalidError, query: str) -> list[Json]:
        self.times += 1
        if self.times > 1:
            raise error
        return super().instead(error, query)


class NullTypeIsComplete(Client):
    def kind(self, result: Json) -> Any:
        return result.get("resultType") or "complete"


class InvalidResultIsAnError(Client):
    def instead(self, error: RefusedError | InvalidError, query: str) -> list[Json]:
        if isinstance(error, InvalidError):
            raise error
        return super().instead(error, query)


class InvalidCursorIgnored(Client):
    def checked(self, result: Json) -> Json:
        if not isinstance(result.get("nextCursor", ""), str):
            del result["nextCursor"]
        return super().checked(result)


class ResultWithoutToolsIsEmpty(Client):
    def checked(self, result: Json) -> Json:
        return super().checked({"tools": [], **result} if "resultType" in result else result)


class InvalidToolSpoilsThePage(Client):
    def checked(self, result: Json) -> Json:
        if isinstance(result.get("tools"), list) and not all(map(self.is_tool, result["tools"])):
            raise RefusedError({"message": "no tool"})
        return super().checked(result)


class NearlyToolsKept(Client):
    def is_tool(self, entry: Any) -> bool:
        return super().is_tool(entry) or entry == {"name": "no_schema"}


class ErrorOfStatus500NotRead(Client):
    def instead(self, error: RefusedError | InvalidError, query: str) -> list[Json]:
        if self.over_http and getattr(self.transport, "status", 200) >= 500:
            raise error
        return super().instead(error, query)


class _PlainJson(HttpTransport):
    def body(self, response: http.client.HTTPResponse) -> bytes:
        body, kind = super().body(response), response.headers["Content-Type"]
        return body if response.status < HTTPStatus.BAD_REQUEST or kind == "application/json" else b""


class ErrorOfAnotherContentTypeNotRead(Client):
    """Compares the whole header with the usual content type, which can have parameters."""

    http_transport = _PlainJson


class UnknownMethodIsAnErrorForAll(Client):
    def search_all(self, query: str) -> list[Json]:
        if not self.searches():
            return super().search_all(query)
        try:
            return self.all_pages(query)
        except InvalidError as error:
            return self.instead(error, query)


class ToolsOfZeroAreNone(Client):
    """What is false in some languages is an empty array."""

    def checked(self, result: Json) -> Json:
        return super().checked({**result, "tools": result.get("tools") or []} if "tools" in result else result)


class ResultTypeBlindToCase(Client):
    def kind(self, result: Json) -> Any:
        return str(super().kind(result)).lower()


class UnknownMembersOfLaterPagesRefused(Client):
    later = False

    def page(self, params: Json) -> Json:
        self.later = "cursor" in params
        return super().page(params)

    def checked(self, result: Json) -> Json:
        if self.later and not set(result) <= PAGE:
            raise RefusedError({"message": "unknown members"})
        return super().checked(result)


class _Busy(Client, ABC):
    def instead(self, error: RefusedError | InvalidError, query: str) -> list[Json]:
        if isinstance(error, RefusedError) and self.is_busy(error) and self.gives_up():
            return self.ranked(query, self.listed())
        return super().instead(error, query)

    @abstractmethod
    def gives_up(self) -> bool:
        """Return whether it lists in place of a busy search."""


class BusyIsListed(_Busy):
    def gives_up(self) -> bool:
        return True


class BusyIsListedWithLimit(_Busy):
    with_limit = False

    def limited(self, limit: int | None) -> Json:
        self.with_limit = True
        return super().limited(limit)

    def gives_up(self) -> bool:
        return self.with_limit


class BusyIsListedWhereSmall(_Busy):
    def gives_up(self) -> bool:
        return (self.settings or {}).get("catalogSize", 5000) < 100


class BusyIsListedTheThirdTime(_Busy):
    times = 0

    def gives_up(self) -> bool:
        self.times += 1
        return self.times >= 3


class BusyNowIsListed(Client):
    def is_busy(self, error: RefusedError) -> bool:
        return super().is_busy(error) and error.data["retryAfterMs"] != 0

    def instead(self, error: RefusedError | InvalidError, query: str) -> list[Json]:
        if isinstance(error, RefusedError) and super().is_busy(error) and not self.is_busy(error):
            return self.ranked(query, self.listed())
        return super().instead(error, query)


class BusyLaterIsListed(Client):
    def page(self, params: Json) -> Json:
        try:
            return super().page(params)
        except RefusedError as error:
            if "cursor" in params and self.is_busy(error):
                raise InvalidError("the search stopped half-way") from error
            raise


class BusyStatusIsListed(_Busy):
    def gives_up(self) -> bool:
        return self.over_http and getattr(self.transport, "status", 200) >= 429


class HasMoreBelieved(Client):
    def checked(self, result: Json) -> Json:
        more = result.get("hasMore", True)
        return super().checked({name: value for name, value in result.items() if more or name != "nextCursor"})


class MembersOfResultsInAnyCase(Client):
    """As parsers do that match names regardless of case; the last one that fits counts."""

    names: frozenset[str] = frozenset({"resultType"})

    def checked(self, result: Json) -> Json:
        known = {name.lower(): name for name in (self.names or {self.member})}
        return super().checked({known.get(name.lower(), name): value for name, value in result.items()})


class CursorInAnyCase(MembersOfResultsInAnyCase):
    names = frozenset({"nextCursor"})


class ItemsInAnyCase(MembersOfResultsInAnyCase):
    names = frozenset()


class MembersOfToolsInAnyCase(Client):
    def is_tool(self, entry: Any) -> bool:
        if isinstance(entry, dict):
            known = {"name": "name", "inputschema": "inputSchema"}
            entry = {known.get(str(name).lower(), name): value for name, value in cast("Json", entry).items()}
        return super().is_tool(entry)


class ErrorMemberBelieved(Client):
    def checked(self, result: Json) -> Json:
        if result.get("isError"):
            raise RefusedError({"message": "an error in a result"})
        return super().checked(result)


class DisabledToolsLeftOut(Client):
    def is_tool(self, entry: Any) -> bool:
        return super().is_tool(entry) and entry.get("enabled", True) is not False


class NextPageBelieved(Client):
    """Takes the cursor from a member that has it elsewhere."""

    def checked(self, result: Json) -> Json:
        page = super().checked(result)
        return {**page, "nextCursor": page["next_cursor"]} if "next_cursor" in page else page


class CursorMemberBelieved(Client):
    def checked(self, result: Json) -> Json:
        page = super().checked(result)
        return {**page, "nextCursor": page["cursor"]} if isinstance(page.get("cursor"), str) else page


class UnknownAnnotationsRefused(Client):
    def is_tool(self, entry: Any) -> bool:
        known = {"title", "readOnlyHint", "destructiveHint", "idempotentHint", "openWorldHint"}
        return super().is_tool(entry) and set(entry.get("annotations", {})) <= known


class UnknownAnnotationsThatAreNoHintsLeftOut(Client):
    def is_tool(self, entry: Any) -> bool:
        known = re.compile("title|.*Hint").fullmatch
        return super().is_tool(entry) and all(map(known, entry.get("annotations", {})))


class ResultOfAnotherQueryRefused(Client):
    """Takes a member for the query that the result is for."""

    def checked(self, result: Json) -> Json:
        if "query" in result:
            raise InvalidError("the result is for another query")
        return super().checked(result)


class MatchedClosed(Client):
    """Takes a hit for invalid that was found by a field which it does not know."""

    def is_tool(self, entry: Any) -> bool:
        known = {"name", "title", "description", "inputSchema"}
        return super().is_tool(entry) and set(entry.get("_meta", {}).get(EXTENSION_ID, {}).get("matched", ())) <= known


class IconsClosed(Client):
    def is_tool(self, entry: Any) -> bool:
        return super().is_tool(entry) and all(set(icon) <= {"src", "mimeType"} for icon in entry.get("icons", ()))


class KeywordsOfSchemasClosed(Client):
    def is_tool(self, entry: Any) -> bool:
        known = {"type", "properties", "required", "additionalProperties", "$comment"}
        return super().is_tool(entry) and set(entry["inputSchema"]) <= known


class MorePagesBelieved(Client):
    """Takes a page for one that another page follows where a member means that elsewhere."""

    def checked(self, result: Json) -> Json:
        page = super().checked(result)
        return {"nextCursor": "more", **page} if result.get("hasMore") else page


class CountBelieved(Client):
    def checked(self, result: Json) -> Json:
        page = super().checked(result)
        return {**page, "tools": page["tools"][: page.get("count")]}


class RefusalWithDataIsAnError(Client):
    def instead(self, error: RefusedError | InvalidError, query: str) -> list[Json]:
        if isinstance(error, RefusedError) and error.code == -32021 and error.data:
            raise error
        return super().instead(error, query)


class RefusedSinceIsAnError(Client):
    """Takes a method for known once it has been served."""

    was_served = False

    def page(self, params: Json) -> Json:
        page = super().page(params)
        self.was_served = True
        return page

    def instead(self, error: RefusedError | InvalidError, query: str) -> list[Json]:
        if isinstance(error, RefusedError) and self.was_served:
            raise error
        return super().instead(error, query)


class ErrorOfStatus429NotRead(Client):
    def instead(self, error: RefusedError | InvalidError, query: str) -> list[Json]:
        if self.over_http and getattr(self.transport, "status", 200) == 429:
            raise error
        return super().instead(error, query)


class ToolsOfAnEmptyObjectAreNone(Client):
    """An empty object is an empty array, as in some languages."""

    def checked(self, result: Json) -> Json:
        return super().checked({**result, "tools": []} if result.get("tools") == {} else result)


class BusyWithMoreMembersIsListed(Client):
    def is_busy(self, error: RefusedError) -> bool:
        return super().is_busy(error) and set(error.data) == {"retryAfterMs"}

    def instead(self, error: RefusedError | InvalidError, query: str) -> list[Json]:
        if isinstance(error, RefusedError) and super().is_busy(error) and not self.is_busy(error):
            return self.ranked(query, self.listed())
        return super().instead(error, query)
