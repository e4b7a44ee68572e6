"""Faults of the base protocol beneath a search: ids, messages, streams, headers."""

from __future__ import annotations

import hmac
import json
import os
import re
import secrets
import sys
import threading
import time
import unicodedata
from collections.abc import Callable, Iterator
from contextvars import ContextVar
from io import BufferedIOBase
from typing import Any, BinaryIO, Final

from .faults import (
    EXTENSION_ID,
    MEMBERS,
    SEARCH,
    Fault,
    Json,
    RefusalError,
    SearchFault,
    asked,
    member,
    without,
    wrong_error,
)

META: Final = "io.modelcontextprotocol/"
CHUNK: Final = 65536
SMALL: Final = 4000


class LatestParamsWin(SearchFault):
    """Holds the params of a search where all searches hold theirs, and takes a moment to answer."""

    latest: Json

    def params(self, params: Json) -> Json:
        self.latest = params
        time.sleep(0.005)
        return self.latest


class ScoresOfTheSearchBefore(SearchFault):
    """Raises the scores of what the search before found, for any caller."""

    def __init__(self) -> None:
        self.before: set[str] = set()
        self.query = ""

    def result(self, params: Json, result: Json) -> Json:
        raised = self.before if params["query"] != self.query else set[str]()
        tools = [
            {**tool, "_meta": {**tool["_meta"], EXTENSION_ID: {**tool["_meta"][EXTENSION_ID], "score": 0.999}}}
            if tool["name"] in raised
            else tool
            for tool in result["tools"]
        ]
        self.before, self.query = {tool["name"] for tool in result["tools"]}, params["query"]
        return {**result, "tools": tools}


class AnswersKeptByJoinedParams(SearchFault):
    """Keeps answers by query and limit, written one after the other."""

    def __init__(self) -> None:
        self.kept: dict[str, Json] = {}

    def result(self, params: Json, result: Json) -> Json:
        if "cursor" in params or "limit" not in params:
            return result
        return {**result, **self.kept.setdefault(f"{params['query']}{params['limit']}", result)}


class MatchesKeptUpToFirstLimit(SearchFault):
    """Ranks only as many as the first request with a query asks for, or ten, and keeps these for the next ones.

    Does so for queries with white space around them, because those of many checks would show it otherwise.
    """

    def __init__(self) -> None:
        self.kept: dict[str, int] = {}

    def result(self, params: Json, result: Json) -> Json:
        plain = params["query"] == params["query"].strip()
        kept = self.kept.setdefault(params["query"], max(params.get("limit", 50), 10))
        if plain or "cursor" in params or len(result["tools"]) <= kept:
            return result
        return {**without(result, "nextCursor"), "tools": result["tools"][:kept]}


class PromptsAlteredBySearch(Fault):
    """Counts the searches in what it gets next."""

    searches = 0

    def response(self, method: str, params: Json, era: str, outcome: Json) -> Json:
        self.searches += method == SEARCH
        if method == "prompts/get" and "result" in outcome and self.searches:
            outcome["result"]["description"] = f"after {self.searches} searches"
        return outcome


class ParamsHeldById(SearchFault):
    """Holds the params of a search under its id, from any caller, and takes a moment to answer."""

    def __init__(self) -> None:
        self.held: dict[Any, Json] = {}

    def params(self, params: Json) -> Json:
        number = asked.get()["id"]
        self.held[number] = params
        time.sleep(0.02 if isinstance(number, str) else 0)
        return self.held[number]


class _CursorsNumbered(SearchFault):
    """Issues cursors by a number that two searches at one time both take, and keeps what each stands for."""

    def __init__(self) -> None:
        self.secret = secrets.token_bytes(16)
        self.number = 0
        self.genuine: dict[str, dict[str, str]] = {}

    def result(self, params: Json, result: Json) -> Json:
        if genuine := result.get("nextCursor"):
            number = self.number
            time.sleep(0.005)
            self.number = number + 1
            cursor = hmac.new(self.secret, str(number).encode(), "sha256").hexdigest()
            self.issued(cursor, params["query"], genuine)
            result = {**result, "nextCursor": cursor}
        return result

    def issued(self, cursor: str, query: str, genuine: str) -> None:
        """Keep what a cursor stands for."""
        self.genuine[cursor] = {query: genuine}

    def params(self, params: Json) -> Json:
        cursor, query = params.get("cursor"), params.get("query")
        if not isinstance(cursor, str):
            return params
        held = self.genuine.get(cursor, {})
        return {**params, **self.continued(held, str(query), cursor)} if isinstance(query, str) else params

    def continued(self, held: dict[str, str], query: str, cursor: str) -> Json:
        """Return the params by which a search goes on, of those that its cursor stands for."""
        return {"cursor": held.get(query, f"{cursor} was not issued")}


class CursorsNumberedAlike(_CursorsNumbered):
    """Forgets the first one of two searches with one number."""


class SearchesNumberedAlike(_CursorsNumbered):
    """Continues the latest one of two searches with one number."""

    def issued(self, cursor: str, query: str, genuine: str) -> None:
        self.genuine[cursor] = {**without(self.genuine.get(cursor, {}), query), query: genuine}

    def continued(self, held: dict[str, str], query: str, cursor: str) -> Json:
        latest = [*held][-1:] if query in held else []
        return {"query": latest[0], "cursor": held[latest[0]]} if latest else super().continued(held, query, cursor)


class ListSortedBySearch(Fault):
    """Sorts the list itself while it looks for tools, and takes a moment for that."""

    under_way = 0

    def request(self, method: str, params: Json, era: str) -> Json:
        if method == SEARCH:
            self.under_way += 1
            time.sleep(0.003)
            time.sleep(0.05 if self.under_way > 1 else 0)
        return params

    def response(self, method: str, params: Json, era: str, outcome: Json) -> Json:
        self.under_way -= method == SEARCH
        if method == "tools/list" and "result" in outcome and self.under_way:
            return {"result": {**outcome["result"], "tools": outcome["result"]["tools"][::-1]}}
        return outcome


class LatestLimitWins(SearchFault):
    """Holds the limit of a search where all searches hold theirs, and takes a moment to answer."""

    limit: Json

    def params(self, params: Json) -> Json:
        self.limit = {name: value for name, value in params.items() if name == "limit"}
        time.sleep(0.005)
        return without(params, "limit") | self.limit


class _Busy(SearchFault):
    """Refuses more than a few searches at once, and says so wrongly."""

    most = 20
    seconds = 0.02
    refusal: RefusalError

    def __init__(self) -> None:
        self.free = threading.Semaphore(self.most)

    def params(self, params: Json) -> Json:
        if not self.free.acquire(blocking=False):
            raise self.refusal
        time.sleep(self.seconds)
        self.free.release()
        return params


class AloneOnly(_Busy):
    """Fails where another search is in flight."""

    most = 1
    refusal = RefusalError(-32603, "Internal error", None)


class BusyWithoutData(_Busy):
    refusal = RefusalError(-32603, "Too many searches at once", None)


class BusyWhereSlowWithoutData(BusyWithoutData):
    """Searches too fast to refuse any, unless the fixture delays them."""

    seconds = int(os.environ.get("TOOLS_SEARCH_DELAY_MS", "0")) / 1000


class BusyForAWhileWithoutData(BusyWithoutData):
    """Refuses whatever comes soon after too many searches, too."""

    most = 6
    until = 0.0

    def params(self, params: Json) -> Json:
        if time.monotonic() < self.until:
            raise self.refusal
        try:
            return super().params(params)
        except RefusalError:
            self.until = time.monotonic() + 1.2
            raise


class BusyBySecondWithoutData(SearchFault):
    """Serves only so many searches in a second."""

    most = 30

    def __init__(self) -> None:
        self.served: list[float] = []

    def params(self, params: Json) -> Json:
        now = time.monotonic()
        self.served = [each for each in self.served if each > now - 1]
        if len(self.served) >= self.most:
            raise RefusalError(-32603, f"Busy, {len(self.served)} searches in {now - self.served[0]:.3f} s", None)
        self.served.append(now)
        return params


class BusyNowAndThenWithoutData(SearchFault):
    """Fails at times, where something else takes it a moment."""

    every = 23
    searches = 0

    def params(self, params: Json) -> Json:
        self.searches += 1
        if self.searches % self.every == 0:
            raise RefusalError(-32603, "Internal error", None)
        return params


class BusyWithText(_Busy):
    refusal = RefusalError(-32603, "Too many searches at once", {"retryAfterMs": "20"})


class BusyWithAnotherCode(_Busy):
    refusal = RefusalError(-32000, "Too many searches at once", {"retryAfterMs": 20})


def _id_read(reading: Callable[[Any], Any], of: type = object) -> type[Fault]:
    """Make a fault that answers ids of a type with other ones."""

    class IdRead(Fault):
        def id(self, value: Any) -> Any:
            return reading(value) if isinstance(value, of) else value

    return IdRead


id_digits_as_number = _id_read(lambda value: int(value) if value.isdigit() else value, str)
ids_as_text = _id_read(str)
id_falsy_lost = _id_read(lambda value: value or None)
id_of_32_bits = _id_read(lambda value: value % 2**32 if value > 0 else value, int)
id_of_ascii = _id_read(lambda value: value.encode("ascii", "replace").decode(), str)
id_letters_folded = _id_read(str.lower, str)
id_composed = _id_read(lambda value: unicodedata.normalize("NFC", value), str)
id_cut_off = _id_read(lambda value: value[:255], str)


class RefusalsWithoutId(Fault):
    """Refuses before it has taken the id from the message."""

    def response(self, method: str, params: Json, era: str, outcome: Json) -> Json:
        return {**outcome, "id": None} if "error" in outcome else outcome


class IdsOfRefusalsAsText(Fault):
    """Builds errors with an id that is declared as text."""

    def response(self, method: str, params: Json, era: str, outcome: Json) -> Json:
        return {**outcome, "id": str(asked.get()["id"])} if self.is_wrong(method, outcome) else outcome

    def is_wrong(self, method: str, outcome: Json) -> bool:
        """Return whether the id of this answer is text."""
        return "error" in outcome


class LinesEndAtSeparators(Fault):
    """Reads lines as a reader of texts does, for which other characters than a newline end a line too."""

    def lines(self, stdin: BinaryIO) -> Iterator[bytes]:
        for line in stdin:
            yield from (part.encode() for part in line.decode().splitlines())


class AnswersKeptWithTheirIds(Fault):
    """Has a cache in front of it that keeps whole responses to searches by their params."""

    def __init__(self) -> None:
        self.first: dict[str, Any] = {}

    def response(self, method: str, params: Json, era: str, outcome: Json) -> Json:
        key, number = json.dumps(params), asked.get()["id"]
        return {**outcome, "id": self.first.setdefault(key, number)} if method == SEARCH else outcome


class IdsByTheirText(Fault):
    """Keeps the requests in flight by the text of their ids."""

    def __init__(self) -> None:
        self.pending: dict[str, Any] = {}

    def request(self, method: str, params: Json, era: str) -> Json:
        value = asked.get()["id"]
        self.pending[str(value)] = value
        time.sleep(0.05 if len(str(value)) > 15 else 0)  # until the other one of a pair is pending, too
        return params

    def id(self, value: Any) -> Any:
        return self.pending[str(value)]


class ErrorNullInResults(Fault):
    """Has both members in each response, as JSON-RPC 1.0 had."""

    method = SEARCH

    def response(self, method: str, params: Json, era: str, outcome: Json) -> Json:
        return {"error": None, **outcome} if method == self.method else outcome


class CallsAreNoJson(Fault):
    """The answer to a call breaks off, sooner or later."""

    calls = 0

    def bytes(self, message: Json, data: bytes) -> bytes:
        if b'"content": [' not in data:
            return data
        self.calls += 1
        return b"{" + b" " * (self.calls // 3)


class ErrorCodeAsText(Fault):
    def bytes(self, message: Json, data: bytes) -> bytes:
        return re.sub(rb'("error": {"code": )(-?[0-9]+)', rb'\1"\2"', data)


error_without_message = wrong_error(-32602)(lambda error: without(error, "message"))
versions_unlisted = wrong_error(-32022)(lambda error: {**error, "data": None})


class NotificationRefused(Fault):
    def unasked(self, message: Json) -> Json | None:
        if message["method"] == "notifications/initialized":
            return None
        return {"jsonrpc": "2.0", "id": None, "error": {"code": -32601, "message": "Method not found"}}


class SearchWithoutIdAnswered(Fault):
    method = SEARCH

    def unasked(self, message: Json) -> Json | None:
        found: Json = {"jsonrpc": "2.0", "id": None, "result": {MEMBERS[self.method]: []}}
        return found if message["method"] == self.method else None


def _status_200(when: Callable[[int | None, int], bool]) -> type[Fault]:
    """Make a fault that sends the HTTP status 200 in place of some other one, by the error code and the status."""

    class Status200(Fault):
        def status(self, code: int | None, status: int) -> int:
            return 200 if when(code, status) else status

    return Status200


notification_status_200 = _status_200(lambda _, status: status == 202)
header_mismatch_status_200 = _status_200(lambda code, _: code == -32020)
gate_status_200 = _status_200(lambda code, _: code == -32021)
params_status_200 = _status_200(lambda code, _: code == -32602)


class CapabilitiesOptional(Fault):
    method = SEARCH

    def request(self, method: str, params: Json, era: str) -> Json:
        meta, name = member(params, "_meta"), f"{META}clientCapabilities"
        if method != self.method or era != "2026-07-28" or name in meta:
            return params
        return {**params, "_meta": {**meta, name: {"extensions": {EXTENSION_ID: {}}}}}


class AnyVersionServed(Fault):
    method = SEARCH

    def request(self, method: str, params: Json, era: str) -> Json:
        meta = member(params, "_meta")
        if method != self.method or era != "2026-07-28":
            return params
        return {**params, "_meta": {**meta, f"{META}protocolVersion": era}}


class VersionCheckedOnce(AnyVersionServed):
    """Looks at the protocol version until a search has one that is served, as an SDK does."""

    _checked = False

    def request(self, method: str, params: Json, era: str) -> Json:
        if self._checked:
            return super().request(method, params, era)
        self._checked = method == SEARCH and member(params, "_meta").get(f"{META}protocolVersion") == era
        return params


def _noise(line: bytes) -> type[Fault]:
    """Make a fault that follows each answer to a search with a line that is no message."""

    class Noise(Fault):
        def bytes(self, message: Json, data: bytes) -> bytes:
            return data + b"\n" + line if message.get("method") == SEARCH else data

    return Noise


stdout_log = _noise(b"searched")
stdout_json_log = _noise(b'{"level": "info", "event": "searched"}')
stdout_blank_lines = _noise(b"")


class StdoutBanner(Fault):
    def __init__(self) -> None:
        if "--http" not in sys.argv:
            print("Miniature 1.0, ready", flush=True)  # noqa: T201


class LimitOfManyDigitsRefused(Fault):
    """Takes a limit of many digits for a text."""

    def lines(self, stdin: BinaryIO) -> Iterator[bytes]:
        return map(self._read, stdin)

    def body(self, stream: BufferedIOBase, length: int) -> bytes:
        return self._read(stream.read(length))

    def _read(self, data: bytes) -> bytes:
        return re.sub(rb'"limit":([\d.]{20,})', rb'"limit":"\1"', data)


class _ReadsChunks(Fault):
    """Reads all that is in the pipe."""

    def lines(self, stdin: BinaryIO) -> Iterator[bytes]:
        held = b""
        while chunk := os.read(stdin.fileno(), CHUNK):
            *whole, held = self.taken(held, chunk).split(b"\n")
            yield from whole

    def taken(self, held: bytes, chunk: bytes) -> bytes:
        """Return what is read so far, of which the last line is kept for the next chunk."""
        return held + chunk


class PieceOfLineLost(_ReadsChunks):
    """Takes a small chunk for whole messages."""

    def taken(self, held: bytes, chunk: bytes) -> bytes:
        return held + chunk if len(chunk) > SMALL or chunk.endswith(b"\n") else held + chunk + b"\n"


class PiecesOfLinesDecodedAlone(_ReadsChunks):
    def taken(self, held: bytes, chunk: bytes) -> bytes:
        return held + chunk.decode("utf-8", "replace").encode()


class LinesOfOneChunkJoined(_ReadsChunks):
    """Takes a small chunk that ends amid a line for one message up to there, and what comes next for the rest."""

    def taken(self, held: bytes, chunk: bytes) -> bytes:
        *lines, rest = chunk.split(b"\n")
        small = rest and len(chunk) <= SMALL
        return held + (b" ".join(lines) + b"\n" + rest if small and lines else chunk)


class FirstPartOfBodyTakenForAll(Fault):
    """Takes what a single read of the connection returns for the body, unless that is large."""

    def body(self, stream: BufferedIOBase, length: int) -> bytes:
        return stream.read1(length) if length <= SMALL else stream.read(length)


class PartsOfBodiesDecodedAlone(Fault):
    def body(self, stream: BufferedIOBase, length: int) -> bytes:
        text, left = "", length
        while left and (part := stream.read1(left)):
            text, left = text + part.decode("utf-8", "replace"), left - len(part)
        return text.encode()


def _logged(line: Callable[[Json], str], *, refused_alone: bool = False) -> type[Fault]:
    """Make a fault that writes something of each search, or of each refused one, to the standard error."""

    class Logged(Fault):
        def request(self, method: str, params: Json, era: str) -> Json:
            if method == SEARCH and not refused_alone:
                sys.stderr.write(line(params))
            return params

        def response(self, method: str, params: Json, era: str, outcome: Json) -> Json:
            if method == SEARCH and refused_alone and "error" in outcome:
                sys.stderr.write(line(params))
            return outcome

    return Logged


query_logged = _logged(lambda params: f"searching for {params.get('query')}\n")
query_logged_in_part = _logged(lambda params: f"SEARCH {str(params.get('query'))[:12].upper()}…\n")
refused_query_logged = _logged(lambda params: f"refused: {params}\n", refused_alone=True)
query_of_refused_cursor_logged = _logged(
    lambda params: f"no cursor of {params.get('query')!r}\n" if isinstance(params.get("cursor"), str) else "",
    refused_alone=True,
)


class StdoutGoodbye(Fault):
    def input_closed(self) -> None:
        print("Goodbye", flush=True)  # noqa: T201


class OutlivesItsInput(Fault):
    def input_closed(self) -> None:
        threading.Event().wait()


class ContentTypeText(Fault):
    def content_type(self, kind: str) -> str:
        return "text/plain" if kind == "application/json" else kind


class VersionHeaderIgnored(Fault):
    def version_header(self, message: Json, value: str | None) -> None:
        """Take any."""


class NameHeaderRequired(Fault):
    """Wants the header that calls and other requests for something by its name have."""

    method = SEARCH
    code = -32020

    def wanted(self, params: Json) -> bool:
        return True

    def headers(self, message: Json, headers: dict[str, str]) -> None:
        super().headers(message, headers)
        searched = message.get("method") == self.method and self.wanted(member(message, "params"))
        if searched and "mcp-name" not in map(str.lower, headers):
            raise RefusalError(self.code, "Mcp-Name is missing", None)


_method_agrees: Final = ContextVar("method agrees", default=True)


class MethodMismatchStatus200(Fault):
    """What compares the methods comes after what knows of statuses."""

    def method_header(self, message: Json, value: str | None) -> None:
        _method_agrees.set(value == message.get("method"))
        super().method_header(message, value)

    def status(self, code: int | None, status: int) -> int:
        return status if _method_agrees.get() else 200


class HeaderNamesWithCase(Fault):
    def headers(self, message: Json, headers: dict[str, str]) -> None:
        self.version_header(message, headers.get("MCP-Protocol-Version"))
        self.method_header(message, headers.get("Mcp-Method"))


class HeaderValuesWithoutCase(Fault):
    def method_header(self, message: Json, value: str | None) -> None:
        super().method_header(message, value.lower() if value is not None else None)


class BusyByStatus(_Busy):
    """Refuses with an error of its own and the status of a proxy."""

    refusal = RefusalError(-32029, "Too many searches at once", {"retryAfterMs": 20})

    def status(self, code: int | None, status: int) -> int:
        return 429 if code == -32029 else status


class NameHeaderRequiredAsInvalid(NameHeaderRequired):
    code = -32602


class NameHeaderRequiredOfWideCharacters(NameHeaderRequired):
    """Has a place for the query in that header where it is no plain text."""

    def wanted(self, params: Json) -> bool:
        return "🧾" in str(params.get("query"))


class CallsNameTheirSearch(Fault):
    """Says with the result of a call by which query the tool was found last."""

    def __init__(self) -> None:
        self.query: str | None = None

    def response(self, method: str, params: Json, era: str, outcome: Json) -> Json:
        if method == SEARCH and "result" in outcome:
            self.query = params["query"]
        if method == "tools/call" and "result" in outcome and self.query is not None:
            return {"result": {**outcome["result"], "_meta": {"com.example/query": self.query}}}
        return outcome


class ListingCountsSearches(Fault):
    count = 0

    def response(self, method: str, params: Json, era: str, outcome: Json) -> Json:
        self.count += method == SEARCH
        if method == "tools/list" and "result" in outcome:
            return {"result": {**outcome["result"], "_meta": {"com.example/searches": self.count}}}
        return outcome


class PromptsLeaveTheirLimit(Fault):
    """Keeps the limit of a search for prompts, and takes it for that of the next search for tools that has none."""

    limit: int | None = None

    def request(self, method: str, params: Json, era: str) -> Json:
        if method == "prompts/search":
            self.limit = params["limit"] if params.get("limit") == 1 else None
        if method == SEARCH and "limit" not in params and self.limit is not None:
            params, self.limit = {**params, "limit": self.limit}, None
        return params
