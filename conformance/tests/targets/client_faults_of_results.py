"""Results that are misread, and the fallback to a listing."""

from __future__ import annotations

import http.client
import re
import time
from abc import ABC, abstractmethod
from collections.abc import Callable
from http import HTTPStatus
from typing import Any, cast

from .client_library import EXTENSION_ID, MODERN, PAGE, PATIENCE_MS, Client, InvalidError, RefusedError
from .miniature_transports import HttpTransport, Json, TransportError


class ListsOnceItHasSearched(Client):
    """Lists in the background, as any client may, which is done only after its first search."""

    has_listed = False

    def search(self, query: str, limit: int | None = None) -> list[Json]:
        found = super().search(query, limit)
        if not self.has_listed:
            self.has_listed = True
            self.listed()
        return found


class SlowToSearch(Client):
    """Takes a while, as any client may."""

    def page(self, params: Json) -> Json:
        time.sleep(0.2)
        return super().page(params)


class FailsWithoutLimit(Client):
    """Cannot search at all unless the host says how many tools it wants."""

    def page(self, params: Json) -> Json:
        if "limit" not in params:
            raise RefusedError({"code": None, "message": "a null pointer"})
        return super().page(params)


def _result_read(reading: Callable[[Json], Json]) -> type[Client]:
    """Make a client that reads another result than there is, or refuses it, before it is looked at."""

    class ResultRead(Client):
        def checked(self, result: Json) -> Json:
            return super().checked(reading(result))

    return ResultRead


def _page_read(reading: Callable[[Json], Json]) -> type[Client]:
    """Make a client that takes a valid page for another one."""

    class PageRead(Client):
        def checked(self, result: Json) -> Json:
            return reading(super().checked(result))

    return PageRead


def _result_refused(error: RefusedError | InvalidError, when: Callable[[Json], bool]) -> type[Client]:
    """Make a client that does not take some results, or takes them for errors."""

    class ResultRefused(Client):
        def checked(self, result: Json) -> Json:
            if when(result):
                raise error
            return super().checked(result)

    return ResultRefused


def _with_known_members_only(tool: Any) -> bool:
    return not isinstance(tool, dict) or "future" not in tool


result_without_tools_is_empty = _result_read(
    lambda result: {"tools": [], **result} if "resultType" in result else result
)
# What is false in some languages is an empty array.
tools_of_zero_are_none = _result_read(
    lambda result: {**result, "tools": result.get("tools") or []} if "tools" in result else result
)
# An empty object is an empty array, as in some languages.
tools_of_an_empty_object_are_none = _result_read(
    lambda result: {**result, "tools": []} if result.get("tools") == {} else result
)
invalid_cursor_ignored = _result_read(
    lambda result: {name: value for name, value in result.items() if name != "nextCursor" or isinstance(value, str)}
)
has_more_believed = _result_read(
    lambda result: {
        name: value for name, value in result.items() if result.get("hasMore", True) or name != "nextCursor"
    }
)
# Takes the cursor from a member that has it elsewhere.
next_page_believed = _page_read(
    lambda page: {**page, "nextCursor": page["next_cursor"]} if "next_cursor" in page else page
)
next_cursor_in_any_case_believed = _page_read(
    lambda page: {**page, "nextCursor": page["NextCursor"]} if "NextCursor" in page else page
)
cursor_member_believed = _page_read(
    lambda page: {**page, "nextCursor": page["cursor"]} if isinstance(page.get("cursor"), str) else page
)
# Takes a page for one that another page follows where a member means that elsewhere.
more_pages_believed = _page_read(lambda page: {"nextCursor": "more", **page} if page.get("hasMore") else page)
count_believed = _page_read(lambda page: {**page, "tools": page["tools"][: page.get("count")]})
unknown_members_of_tools_refused = _result_refused(
    InvalidError("unknown members"), lambda result: not all(map(_with_known_members_only, result.get("tools") or ()))
)
unknown_members_refused = _result_refused(
    InvalidError("unknown members"), lambda result: "tools" in result and not set(result) <= PAGE
)
# Takes a member for the query that the result is for.
result_of_another_query_refused = _result_refused(
    InvalidError("the result is for another query"), lambda result: "query" in result
)
error_member_believed = _result_refused(
    RefusedError({"message": "an error in a result"}), lambda result: bool(result.get("isError"))
)


def _tools_taken(when: Callable[[Json], bool]) -> type[Client]:
    """Make a client that leaves out some valid tools."""

    class ToolsTaken(Client):
        def is_tool(self, entry: Any) -> bool:
            return super().is_tool(entry) and when(entry)

    return ToolsTaken


class NearlyToolsKept(Client):
    def is_tool(self, entry: Any) -> bool:
        return super().is_tool(entry) or entry == {"name": "no_schema"}


disabled_tools_left_out = _tools_taken(lambda tool: tool.get("enabled", True) is not False)
unknown_annotations_refused = _tools_taken(
    lambda tool: (
        set(tool.get("annotations", {}))
        <= {"title", "readOnlyHint", "destructiveHint", "idempotentHint", "openWorldHint"}
    )
)
unknown_annotations_that_are_no_hints_left_out = _tools_taken(
    lambda tool: all(map(re.compile("title|.*Hint").fullmatch, tool.get("annotations", {})))
)
# Takes a hit for invalid that was found by a field which it does not know.
matched_closed = _tools_taken(
    lambda tool: (
        set(tool.get("_meta", {}).get(EXTENSION_ID, {}).get("matched", ()))
        <= {"name", "title", "description", "inputSchema"}
    )
)
icons_closed = _tools_taken(lambda tool: all(set(icon) <= {"src", "mimeType"} for icon in tool.get("icons", ())))
keywords_of_schemas_closed = _tools_taken(
    lambda tool: set(tool["inputSchema"]) <= {"type", "properties", "required", "additionalProperties", "$comment"}
)


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


def _not_listed_after(when: Callable[[Client, RefusedError | InvalidError], bool]) -> type[Client]:
    """Make a client that takes some failures of a search for final, where it could list."""

    class NotListedAfter(Client):
        def instead(self, error: RefusedError | InvalidError, query: str) -> list[Json]:
            if when(self, error):
                raise error
            return super().instead(error, query)

    return NotListedAfter


def _code_of(error: RefusedError | InvalidError) -> int | None:
    return error.code if isinstance(error, RefusedError) else None


def _status_of(client: Client) -> int:
    return getattr(client.transport, "status", 200) if client.over_http else 200


unknown_method_is_an_error = _not_listed_after(lambda _, error: _code_of(error) == -32601)
missing_capability_is_an_error = _not_listed_after(lambda _, error: _code_of(error) == -32021)
refusal_with_data_is_an_error = _not_listed_after(
    lambda _, error: isinstance(error, RefusedError) and error.code == -32021 and bool(error.data)
)
invalid_result_is_an_error = _not_listed_after(lambda _, error: isinstance(error, InvalidError))
error_of_status_500_not_read = _not_listed_after(lambda client, _: _status_of(client) >= 500)
error_of_status429_not_read = _not_listed_after(lambda client, _: _status_of(client) == 429)


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


class InvalidToolSpoilsThePage(Client):
    def checked(self, result: Json) -> Json:
        if isinstance(result.get("tools"), list) and not all(map(self.is_tool, result["tools"])):
            raise RefusedError({"message": "no tool"})
        return super().checked(result)


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


class BusyForLongIsListed(Client):
    def instead(self, error: RefusedError | InvalidError, query: str) -> list[Json]:
        if isinstance(error, RefusedError) and self.is_busy(error) and error.data["retryAfterMs"] > PATIENCE_MS:
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


class BusyProxyIsListed(Client):
    """Lists where a search gets no JSON, but the HTTP status of a server that is too busy."""

    def page(self, params: Json) -> Json:
        try:
            return super().page(params)
        except TransportError as error:
            if getattr(self.transport, "status", 200) in {429, 503}:
                raise InvalidError("no page of tools") from error
            raise


class InputRequiredIsComplete(Client):
    def kind(self, result: Json) -> Any:
        kind = super().kind(result)
        return "complete" if kind == "input_required" else kind


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


class BusyWithMoreMembersIsListed(Client):
    def is_busy(self, error: RefusedError) -> bool:
        return super().is_busy(error) and set(error.data) == {"retryAfterMs"}

    def instead(self, error: RefusedError | InvalidError, query: str) -> list[Json]:
        if isinstance(error, RefusedError) and super().is_busy(error) and not self.is_busy(error):
            return self.ranked(query, self.listed())
        return super().instead(error, query)


class BusyWithAFractionIsListed(Client):
    """Takes a wait of 20.0 milliseconds for none."""

    def is_busy(self, error: RefusedError) -> bool:
        return super().is_busy(error) and isinstance(error.data["retryAfterMs"], int)

    def instead(self, error: RefusedError | InvalidError, query: str) -> list[Json]:
        if isinstance(error, RefusedError) and super().is_busy(error) and not self.is_busy(error):
            return self.ranked(query, self.listed())
        return super().instead(error, query)
