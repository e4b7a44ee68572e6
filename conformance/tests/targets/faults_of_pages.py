"""Faults of pages and cursors."""

from __future__ import annotations

import base64
import hashlib
import hmac
import html
import json
import re
import secrets
import unicodedata
from abc import ABC, abstractmethod
from collections import Counter
from collections.abc import Callable
from contextlib import suppress
from functools import reduce
from urllib.parse import unquote, unquote_plus

from .faults import (
    SEARCH,
    Advertising,
    EncodedCursors,
    Fault,
    Json,
    RefusalError,
    SearchFault,
    member,
    served_catalog,
    without,
    wrong_params,
    wrong_result,
)


@wrong_result
def boundary_loses_a_tool(params: Json, result: Json) -> Json:
    if "nextCursor" in result and len(result["tools"]) > 2:
        return {**result, "tools": result["tools"][:-1]}
    return result


@wrong_result
def later_pages_lost(params: Json, result: Json) -> Json:
    return {
        name: value
        for name, value in result.items()
        if name != "nextCursor" or "cursor" not in params or params.get("limit") == 1
    }


@wrong_result
def named_tool_alone_on_first_page(params: Json, result: Json) -> Json:
    """Goes on where the first page would have ended, had it not been the tool with that name alone."""
    tools = result["tools"]
    alone = "nextCursor" in result and "cursor" not in params and tools[0]["name"] == params["query"]
    return {**result, "tools": tools[:1]} if alone else result


@wrong_result
def pairs_of_a_name_alone(params: Json, result: Json) -> Json:
    """Finds no more than two tools for a name where the limit is two."""
    named = "cursor" not in params and result["tools"] and result["tools"][0]["name"] == params["query"]
    return without(result, "nextCursor") if named and params.get("limit") == 2 else result


@wrong_result
def small_searches_for_names_end(params: Json, result: Json) -> Json:
    """Finds no more than one page of tools for a name where the limit is small."""
    return without(result, "nextCursor") if params.get("limit", 10) < 5 and "_" in params["query"] else result


@wrong_result
def later_pages_of_four_lose_one(params: Json, result: Json) -> Json:
    later = "cursor" in params and params.get("limit") == 4 and "nextCursor" in result
    return {**result, "tools": result["tools"][:-1]} if later else result


def _loses_one(when: Callable[[int], bool]) -> type[Fault]:
    """Make a fault that skips a match after full pages with some limits above the maximum."""

    @wrong_result
    def lose(params: Json, result: Json) -> Json:
        loses = "nextCursor" in result and when(params.get("limit", 10))
        return {**result, "tools": result["tools"][:-1]} if loses else result

    return lose


# The next page begins where this one would have ended under the limit that was asked for.
limit_one_above_maximum_loses_a_match = _loses_one(lambda limit: limit == 51)
limits_above_maximum_lose_a_match = _loses_one(lambda limit: limit > 50)


@wrong_result
def limit_one_above_maximum_ends(params: Json, result: Json) -> Json:
    return without(result, "nextCursor") if params.get("limit") == 51 else result


class FullPageRepeatedAboveMaximum(SearchFault):
    """Begins the page after a full one with its last match, under the limit one above the maximum."""

    def __init__(self) -> None:
        self.last: dict[str, Json] = {}

    def result(self, params: Json, result: Json) -> Json:
        tools: list[Json] = result["tools"]
        again = self.last.get(params.get("cursor", ""))
        if params.get("limit") == 51 and "nextCursor" in result:
            self.last[result["nextCursor"]] = tools[-1]
        return {**result, "tools": [again, *tools[:49]]} if again is not None else result


class MaximumOfThirtySeven(Advertising):
    """Has another maximum, and refuses what is one above it."""

    def settings(self, settings: Json) -> Json:
        return {**settings, "maxLimit": 37}

    def request(self, method: str, params: Json, era: str) -> Json:
        limit = params.get("limit")
        if method != SEARCH or type(limit) is not int or limit < 38:
            return params
        if limit == 38:
            raise RefusalError(-32602, "invalid limit", {"field": "limit", "reason": "at most 37"})
        return {**params, "limit": 37}


class FirstComesAgain(SearchFault):
    """Puts the first match on the last page again, where it has room."""

    def __init__(self) -> None:
        self.first: dict[str, Json] = {}

    def result(self, params: Json, result: Json) -> Json:
        tools = result["tools"]
        if tools and "cursor" not in params:
            self.first[params["query"]] = tools[0]
        elif tools and "limit" in params and len(tools) < min(params["limit"], 20) and params["query"] in self.first:
            tools.append(self.first[params["query"]])
        return result


class EndlessNothing(SearchFault):
    """A search without matches never ends."""

    def params(self, params: Json) -> Json:
        return without(params, "cursor") if params.get("cursor") == "more of nothing" else params

    def result(self, params: Json, result: Json) -> Json:
        return result if result["tools"] else {**result, "nextCursor": "more of nothing"}


class CursorEmpty(SearchFault):
    """A search without matches has one page more, at the empty cursor."""

    def __init__(self) -> None:
        self.issued: set[str] = set()

    def params(self, params: Json) -> Json:
        follows = params.get("cursor") == "" and str(params.get("query")) in self.issued
        return without(params, "cursor") if follows else params

    def result(self, params: Json, result: Json) -> Json:
        if result["tools"] or "cursor" in params:
            return result
        self.issued.add(params["query"])
        return {**result, "nextCursor": ""}


class LastPageEmpty(SearchFault):
    """A full last page is followed by an empty one."""

    def __init__(self) -> None:
        self.after: set[str] = set()

    def params(self, params: Json) -> Json:
        return without(params, "cursor") if str(params.get("cursor")) in self.after else params

    def result(self, params: Json, result: Json) -> Json:
        if str(params.get("cursor")) in self.after:
            return {**without(result, "nextCursor"), "tools": []}
        if "nextCursor" not in result and len(result["tools"]) == params.get("limit") == 1 and "cursor" in params:
            cursor = f"after {params['query']}"
            self.after.add(cursor)
            result["nextCursor"] = cursor
        return result


def _cursor_ignored(when: Callable[[str], bool]) -> type[Fault]:
    """Make a fault that takes some texts as a cursor for none."""

    @wrong_params
    def ignore(params: Json) -> Json:
        cursor = params.get("cursor")
        return without(params, "cursor") if isinstance(cursor, str) and when(cursor) else params

    return ignore


def _cursor_internal(when: Callable[[str], bool]) -> type[Fault]:
    """Make a fault that breaks down over some texts as a cursor."""

    @wrong_params
    def break_down(params: Json) -> Json:
        cursor = params.get("cursor")
        if isinstance(cursor, str) and when(cursor):
            raise RefusalError(-32603, "Internal server error", None)
        return params

    return break_down


def _cursor_read(reading: Callable[[str], str]) -> type[Fault]:
    """Make a fault that takes cursors for other ones."""

    @wrong_params
    def read(params: Json) -> Json:
        cursor = params.get("cursor")
        return {**params, "cursor": reading(cursor)} if isinstance(cursor, str) else params

    return read


cursor_empty_ignored = _cursor_ignored(lambda cursor: cursor == "")
cursor_unreadable_ignored = _cursor_ignored(lambda cursor: cursor.count(" ") > 1)
# As of a server of which earlier clients know the offsets.
cursor_number_obeyed = _cursor_ignored(lambda cursor: cursor == "10")
cursor_forged_is_internal = _cursor_internal(lambda cursor: cursor == "null")
# Reads members of what a cursor holds, without looking whether it is an object.
cursor_of_null_is_internal = _cursor_internal(lambda cursor: cursor == "bnVsbA==")
# Compares what both have to be ASCII for, once it has found two parts.
cursor_signature_beyond_ascii_is_internal = _cursor_internal(lambda cursor: not cursor.partition(".")[2].isascii())
# Compares what both have to be ASCII for.
cursor_beyond_ascii_is_internal = _cursor_internal(lambda cursor: len(cursor) > 20 and cursor.endswith("\u00e9"))
cursor_in_quotes_honored = _cursor_read(lambda cursor: cursor.strip('"'))
cursor_unescaped = _cursor_read(unquote)


@_cursor_read
def cursor_of_more_parts_honored(cursor: str) -> str:
    with suppress(ValueError):
        parts = base64.urlsafe_b64decode(cursor).decode().split(":")
        return base64.urlsafe_b64encode(":".join(parts[:2]).encode()).decode()
    return cursor


# Reads the number that a cursor begins with.
cursor_after_zeros_honored = _cursor_read(lambda cursor: cursor.lstrip("0"))
cursor_after_plus_honored = _cursor_read(lambda cursor: cursor.lstrip("+"))
cursor_without_zero_width_spaces = _cursor_read(lambda cursor: cursor.replace("\u200b", ""))
cursor_normalized = _cursor_read(lambda cursor: unicodedata.normalize("NFKC", cursor))
cursor_read_up_to_nul = _cursor_read(lambda cursor: cursor.partition("\0")[0])
# Reads cursors as parts of a URL, of a header, or of a text of its own.
cursor_fragment_dropped = _cursor_read(lambda cursor: cursor.partition("#")[0])
cursor_read_up_to_ampersand = _cursor_read(lambda cursor: cursor.partition("&")[0])
cursor_read_up_to_comma = _cursor_read(lambda cursor: cursor.split(",")[0])
cursor_read_up_to_semicolon = _cursor_read(lambda cursor: cursor.split(";")[0])
cursor_read_up_to_tilde = _cursor_read(lambda cursor: cursor.split("~")[0])
cursor_of_first_word = _cursor_read(lambda cursor: " ".join(cursor.split()[:1]))
cursor_after_colon_honored = _cursor_read(lambda cursor: cursor.rpartition(":")[2])
cursor_after_slash_honored = _cursor_read(lambda cursor: cursor.rpartition("/")[2])
cursor_trimmed = _cursor_read(str.strip)
cursor_without_slash_at_its_end = _cursor_read(lambda cursor: cursor.removesuffix("/"))

default_limit_large = wrong_params(lambda params: {"limit": 40, **params})
limit_eighteen_rounded_up = wrong_params(
    lambda params: {**params, "limit": 20} if params.get("limit") == 18 else params
)
later_pages_without_limit_large = wrong_params(
    lambda params: params if "limit" in params or "cursor" not in params else {**params, "limit": 50}
)
last_cursor_empty = wrong_result(lambda _, result: {"nextCursor": "", **result})


@wrong_result
def last_cursor_empty_after_one_match(params: Json, result: Json) -> Json:
    """Find only the best match of a long query, and end every search with the empty string for a cursor."""
    alone = len(params["query"]) > 1000
    found = {**without(result, "nextCursor"), "tools": result["tools"][:1]} if alone else result
    return {"nextCursor": "", **found}


class EmptyCursorOfAnyQuery(SearchFault):
    """Has the empty string for the cursor of what follows the first tool, of any query."""

    before = 1

    def params(self, params: Json) -> Json:
        limit = params.get("limit", 10)
        fits = not isinstance(limit, bool) and isinstance(limit, int | float) and limit >= 1
        whole = {**params, "limit": limit + self.before} if fits else params
        return without(whole, "cursor") if fits and params.get("cursor") == "" else params

    def result(self, params: Json, result: Json) -> Json:
        if params.get("cursor") == "":
            return {**result, "tools": result["tools"][self.before :]}
        leads_on = params.get("limit") == 1 and "nextCursor" in result
        return {**result, "nextCursor": ""} if leads_on and self.is_before(params, result) else result

    def is_before(self, params: Json, result: Json) -> bool:
        """Return whether a page is the one before the empty cursor."""
        return "cursor" not in params


class EmptyLaterCursorOfAnyQuery(EmptyCursorOfAnyQuery):
    """Has the empty string for the cursor of what follows the second tool, of any query."""

    before = 2

    def __init__(self) -> None:
        self.second: set[str] = set()

    def is_before(self, params: Json, result: Json) -> bool:
        if "cursor" not in params:
            self.second.add(result["nextCursor"])
        return params.get("cursor") in self.second


class _Cursors(SearchFault):
    """Remembers which cursors were issued, and for what."""

    def __init__(self) -> None:
        self.issued: dict[str, str] = {}

    def response(self, method: str, params: Json, era: str, outcome: Json) -> Json:
        cursor = member(outcome, "result").get("nextCursor")
        if isinstance(cursor, str):
            self.issued[cursor] = params.get("query", "") if method == SEARCH else method
        return outcome


class CursorHalfRead(_Cursors):
    """Reads no more than a cursor's first half."""

    def params(self, params: Json) -> Json:
        cursor = params.get("cursor")
        if not isinstance(cursor, str):
            return params
        genuine = [known for known, query in self.issued.items() if query == params.get("query")]
        readable = (known for known in genuine if len(cursor) >= len(known) > 8)
        same = (known for known in readable if known[: len(known) // 2] == cursor[: len(known) // 2])
        return {**params, "cursor": next(same, cursor)}


class _CursorEndsIn(EncodedCursors):
    """Appends a mark to cursors, and reads other characters as those of the mark."""

    mark = others = ""

    def encoded(self, genuine: str) -> str:
        return genuine + self.mark

    def decoded(self, cursor: str) -> str:
        spelled = cursor.translate(str.maketrans(self.others, self.mark))
        return spelled.removesuffix(self.mark) if spelled.endswith(self.mark) else "none"


class CursorOfAnyVersionHonored(EncodedCursors):
    def encoded(self, genuine: str) -> str:
        return f"v1.{genuine}"

    def decoded(self, cursor: str) -> str:
        return cursor[3:] if re.match(r"v[1-9]\.", cursor) else "none"


class CursorInEitherAlphabetHonored(_CursorEndsIn):
    mark, others = "-_", "+/"


class CursorWithSpaceForPlusHonored(_CursorEndsIn):
    mark, others = "+", " "


class CursorUnbound(_Cursors):
    """Continues with the query that a cursor was issued for, and ignores the other one."""

    def params(self, params: Json) -> Json:
        query = self.issued.get(str(params.get("cursor")))
        bound = not isinstance(params.get("query"), str) or query in {None, "tools/list"}
        return params if bound else {**params, "query": query}


class CursorOfListServed(_Cursors):
    """Takes a cursor of a listing for the beginning."""

    def params(self, params: Json) -> Json:
        of_list = self.issued.get(str(params.get("cursor"))) == "tools/list"
        return without(params, "cursor") if of_list else params


class CursorOfToolsListServedToPrompts(Fault):
    """Takes a cursor of a listing of tools for the beginning of a search for prompts."""

    def __init__(self) -> None:
        self.issued: set[str] = set()

    def request(self, method: str, params: Json, era: str) -> Json:
        of_list = method == "prompts/search" and str(params.get("cursor")) in self.issued
        return without(params, "cursor") if of_list else params

    def response(self, method: str, params: Json, era: str, outcome: Json) -> Json:
        if method == "tools/list" and "nextCursor" in member(outcome, "result"):
            self.issued.add(outcome["result"]["nextCursor"])
        return outcome


class CursorOfListServedToItsName(_Cursors):
    """Takes a cursor of a listing for one of a search for the method's name."""

    def params(self, params: Json) -> Json:
        of_list = self.issued.get(str(params.get("cursor"))) == params.get("query") == "tools/list"
        return without(params, "cursor") if of_list else params


def _cursor_bound_to(alike: Callable[[str], object]) -> type[Fault]:
    """Make a fault that binds cursors to what is `alike` of queries, so that queries alike get equal cursors."""

    class CursorBound(Fault):
        def bound(self, query: str) -> str:
            return repr(alike(query))

    return CursorBound


cursor_bound_to_folded_query = _cursor_bound_to(str.casefold)
cursor_bound_to_trimmed_query = _cursor_bound_to(str.strip)
cursor_bound_to_composed_query = _cursor_bound_to(lambda query: unicodedata.normalize("NFC", query))
cursor_bound_to_lines = _cursor_bound_to(str.splitlines)
cursor_bound_to_first_lines = _cursor_bound_to(lambda query: query.split("\n")[0])
cursor_bound_without_the_last_line_end = _cursor_bound_to(lambda query: query.removesuffix("\n"))
cursor_bound_to_words = _cursor_bound_to(lambda query: sorted(query.split(" ")))
cursor_bound_without_stop_words = _cursor_bound_to(
    lambda query: [word for word in query.split(" ") if word not in {"the", "of"}]
)
cursor_bound_to_beginning = _cursor_bound_to(lambda query: query[:64])


class CursorOfKnownWordsBoundToBeginning(cursor_bound_to_beginning):
    """Does so, and finds nothing for a long query with a word that no tool has."""

    def response(self, method: str, params: Json, era: str, outcome: Json) -> Json:
        known = json.dumps(served_catalog()["tools"], ensure_ascii=False).casefold()
        words = re.findall(r"\w+", str(params.get("query")).casefold())
        short = len(str(params.get("query"))) < 500
        if method != SEARCH or "result" not in outcome or short or all(word in known for word in words):
            return outcome
        return {"result": {**without(outcome["result"], "nextCursor"), "tools": []}}


cursor_bound_to_thousand_characters = _cursor_bound_to(lambda query: query[:1000])
cursor_bound_to_hash = _cursor_bound_to(
    lambda query: reduce(lambda value, unit: (value * 31 + ord(unit)) % 2**32, query, 0)
)
# Compares words, and of every other character its low byte.
cursor_bound_to_low_bytes_of_symbols = _cursor_bound_to(
    lambda query: [character if character.isalnum() else ord(character) % 256 for character in query]
)
cursor_bound_to_two_bytes_of_characters = _cursor_bound_to(
    lambda query: [ord(character) % 65536 for character in query]
)
# Lowers letters other than A to Z, which the one who wrote it has not thought of as letters with a case.
cursor_bound_to_lowered_foreign_letters = _cursor_bound_to(
    lambda query: [character if character.isascii() else character.lower() for character in query]
)
cursor_bound_to_length = _cursor_bound_to(len)
# Compares what is left of queries in ASCII.
cursor_bound_to_ascii = _cursor_bound_to(lambda query: query.encode("ascii", "replace"))
# Compares queries as a collation does that sorts numbers by their value.
cursor_bound_to_values_of_numbers = _cursor_bound_to(lambda query: re.sub(r"(?<!\d)0+(?=\d)", "", query))
# Compares what queries are in a URL, once decoded.
cursor_bound_to_decoded_query = _cursor_bound_to(unquote_plus)
cursor_bound_to_unescaped_query = _cursor_bound_to(lambda query: html.unescape(query).replace("\\", ""))
# Compares queries without their punctuation and control characters.
cursor_bound_to_terms = _cursor_bound_to(lambda query: re.sub(r"[^\w\s]", "", query))


def _cursors_alike(alike: Callable[[str, str], bool]) -> type[Fault]:
    """Make a fault that takes a cursor for a genuine one of the same query, given second, that resembles it."""

    class CursorsAlike(_Cursors):
        def params(self, params: Json) -> Json:
            cursor = params.get("cursor")
            if not isinstance(cursor, str) or cursor in self.issued:
                return params
            genuine = [known for known, query in self.issued.items() if query == params.get("query")]
            return {**params, "cursor": next((known for known in genuine if alike(cursor, known)), cursor)}

    return CursorsAlike


# Compares a shortened authentication code: a cursor's end may be cut or altered.
cursor_end_uncompared = _cursors_alike(
    lambda cursor, genuine: cursor[:-6] == genuine[:-6] or (len(cursor) > 20 and genuine.startswith(cursor))
)
# Reads as many characters as a cursor has, and passes over what follows.
cursor_extended = _cursors_alike(lambda cursor, genuine: cursor.startswith(genuine) and len(cursor) < len(genuine) + 8)
cursor_without_case = _cursors_alike(lambda cursor, genuine: cursor.lower() == genuine.lower())
# Leaves out some characters of a cursor when it compares it.
cursor_middle_uncompared = _cursors_alike(
    lambda cursor, genuine: len(cursor) == len(genuine) and cursor[:40] + cursor[46:] == genuine[:40] + genuine[46:]
)


class _OpaqueCursors(EncodedCursors):
    """Issues cursors of which no two are equal."""

    def __init__(self) -> None:
        self.genuine: dict[str, str] = {}

    def encoded(self, genuine: str) -> str:
        cursor = secrets.token_urlsafe()
        self.genuine[cursor] = genuine
        return cursor

    def decoded(self, cursor: str) -> str:
        return self.genuine.get(cursor, f"{cursor} was not issued")


class CursorsInMemory(_OpaqueCursors):
    """Keeps what its cursors stand for in the memory of its process."""


class CursorsOfTwoWorkers(EncodedCursors):
    """Two workers take the searches in turn, each of which honors its own cursors only."""

    def __init__(self) -> None:
        self.searches = 0

    def params(self, params: Json) -> Json:
        self.searches += 1
        return super().params(params)

    def encoded(self, genuine: str) -> str:
        return f"{genuine}.{self.searches % 2}"

    def decoded(self, cursor: str) -> str:
        genuine, _, worker = cursor.rpartition(".")
        return genuine if worker == str(self.searches % 2) else f"{cursor} was not issued"


class CursorUnsigned(EncodedCursors):
    """Issues cursors as JWTs, and checks their signature by the algorithm that their header names."""

    _HEADER = json.dumps({"alg": "HS256", "typ": "JWT"})
    _KEY = b"of every replica"

    def encoded(self, genuine: str) -> str:
        return self._token(self._HEADER, genuine)

    def _token(self, header: str, genuine: str) -> str:
        signed = ".".join(base64.urlsafe_b64encode(part.encode()).decode().rstrip("=") for part in (header, genuine))
        signature = "" if '"none"' in header else hmac.new(self._KEY, signed.encode(), hashlib.sha256).hexdigest()
        return f"{signed}.{signature}"

    def decoded(self, cursor: str) -> str:
        with suppress(ValueError):
            header, genuine = (base64.urlsafe_b64decode(f"{part}==").decode() for part in cursor.split(".")[:2])
            if cursor == self._token(header, genuine):
                return genuine
        return f"{cursor} was not issued"


class CursorsInHexadecimalDigits(EncodedCursors):
    """Issues cursors in small hexadecimal digits, and reads capital ones as well."""

    def encoded(self, genuine: str) -> str:
        return genuine.encode().hex()

    def decoded(self, cursor: str) -> str:
        with suppress(ValueError):
            genuine = bytes.fromhex(cursor).decode("ascii")
            if genuine.encode().hex() == cursor.lower():
                return genuine
        return f"{cursor} was not issued"


class CursorRespelled(EncodedCursors):
    """Compares what is decoded of cursors, which base64 spells in several ways."""

    _START = b"\xfb\xff\xfe"  # which either alphabet has its own letters for

    def encoded(self, genuine: str) -> str:
        return base64.urlsafe_b64encode(self._START + genuine.encode()).decode().rstrip("=")

    def decoded(self, cursor: str) -> str:
        with suppress(ValueError):
            return base64.urlsafe_b64decode(f"{cursor}==").removeprefix(self._START).decode("ascii")
        return cursor


class CursorSaltedByProcess(EncodedCursors):
    """Derives the key of its cursors from the shared one and from what no other process has."""

    def __init__(self) -> None:
        self.salt = f"{secrets.token_hex(4)}."

    def encoded(self, genuine: str) -> str:
        return self.salt + genuine

    def decoded(self, cursor: str) -> str:
        return cursor.removeprefix(self.salt)


def _signed(cursor: str) -> str:
    return hashlib.sha256(cursor.encode(errors="surrogatepass")).hexdigest()[:20]


class CursorSignedByAnEnd(EncodedCursors):
    """Compares as much of a signature as a cursor has."""

    def encoded(self, genuine: str) -> str:
        return f"{genuine}.{_signed(genuine)}"

    def decoded(self, cursor: str) -> str:
        genuine, _, signature = cursor.rpartition(".")
        return genuine if len(signature) > 3 and _signed(genuine).endswith(signature) else "of nothing"


class CursorWithoutQuery(_Cursors):
    """Takes the query from the cursor when it is absent."""

    def params(self, params: Json) -> Json:
        query = self.issued.get(str(params.get("cursor")))
        return params if query is None else {"query": query, **params}


class LaterCursorsUnbound(_Cursors):
    """Looks at the query of a first page's cursor only."""

    def __init__(self) -> None:
        super().__init__()
        self.later: set[str] = set()

    def params(self, params: Json) -> Json:
        issued = self.issued.get(str(params.get("cursor")))
        unbound = issued is not None and params["cursor"] in self.later and isinstance(params.get("query"), str)
        return {**params, "query": issued} if unbound else params

    def response(self, method: str, params: Json, era: str, outcome: Json) -> Json:
        cursor = member(outcome, "result").get("nextCursor")
        if isinstance(cursor, str) and "cursor" in params:
            self.later.add(cursor)
        return super().response(method, params, era, outcome)


class CursorLastBitsUnread(CursorRespelled):
    """Reads one alphabet without padding, and passes over the bits of the last letter that belong to no byte."""

    def decoded(self, cursor: str) -> str:
        whole = re.fullmatch(r"(?a:[\w-]{4})*(?a:[\w-]{2,3})", cursor) is not None
        return super().decoded(cursor) if whole else "-"


class LongerCursorRespelled(CursorRespelled):
    """Compares what is decoded of a cursor where the position has several digits."""

    def decoded(self, cursor: str) -> str:
        genuine = super().decoded(cursor)
        longer = len(genuine) > len(base64.b64encode(b"1:" + b"0" * 64))
        return genuine if longer or self.encoded(genuine) == cursor else "-"


class CursorOfNoPositionObeyed(SearchFault):
    """Does not authenticate the position in a cursor, which begins with it: none stands for the beginning."""

    def params(self, params: Json) -> Json:
        if not isinstance(params.get("cursor"), str):
            return params
        position, _, rest = params["cursor"].partition(":")
        obeyed = position == "0" and len(rest) > 8
        return without(params, "cursor") if obeyed else {**params, "cursor": rest if position == "1" else "-"}

    def result(self, params: Json, result: Json) -> Json:
        return {**result, "nextCursor": f"1:{result['nextCursor']}"} if "nextCursor" in result else result


@wrong_params
def cursor_of_no_match_ignored(params: Json) -> Json:
    nothing = str(params.get("query")).startswith("qzx") and " " in str(params["query"])
    return without(params, "cursor") if nothing and isinstance(params.get("cursor"), str) else params


class _Numbered(SearchFault, ABC):
    """Knows the number of each page in its search."""

    def __init__(self) -> None:
        self.numbers: dict[str, int] = {}

    def result(self, params: Json, result: Json) -> Json:
        number = 1 + self.numbers.get(str(params.get("cursor")), 0)
        changed = self.page(number, params, dict(result))
        if "nextCursor" in changed:
            self.numbers[changed["nextCursor"]] = number
        return changed

    @abstractmethod
    def page(self, number: int, params: Json, result: Json) -> Json: ...


def _pages_at_most(most: int) -> type[Fault]:
    class PagesAtMost(_Numbered):
        def page(self, number: int, params: Json, result: Json) -> Json:
            return without(result, "nextCursor") if number == most else result

    return PagesAtMost


ten_pages_at_most = _pages_at_most(10)
thirty_pages_at_most = _pages_at_most(30)
hundred_pages_at_most = _pages_at_most(100)


class LastFullPageLosesATool(_Numbered):
    """Takes the last place of a page for a probe whether there are more, also on a last page that is full."""

    def page(self, number: int, params: Json, result: Json) -> Json:
        full = number > 1 and "nextCursor" not in result and len(result["tools"]) == params.get("limit", 0) > 1
        return {**result, "tools": result["tools"][:-1]} if full else result


class LaterPagesRepeat(_Numbered):
    """Begins a page after the second one with the first match, where it has room."""

    def __init__(self) -> None:
        super().__init__()
        self.first: dict[str, list[Json]] = {}

    def page(self, number: int, params: Json, result: Json) -> Json:
        if number == 1:
            self.first[params["query"]] = result["tools"][:1]
        if number > 2 and 0 < len(result["tools"]) < params.get("limit", 10):
            result["tools"] = [*self.first.get(params["query"], []), *result["tools"]]
        return result


class LastPageLeadsBack(SearchFault):
    """The last page has the cursor of the second one."""

    def __init__(self) -> None:
        self.second: dict[str, str] = {}

    def result(self, params: Json, result: Json) -> Json:
        if "cursor" not in params and "nextCursor" in result:
            self.second[params["query"]] = result["nextCursor"]
        leads_back = "cursor" in params and "nextCursor" not in result and params["query"] in self.second
        return {**result, "nextCursor": self.second[params["query"]]} if leads_back else result


class LongSearchesLeadBack(LastPageLeadsBack):
    """The last page has the cursor of the second one where there were more than sixty tools before."""

    def __init__(self) -> None:
        super().__init__()
        self.found: dict[str, int] = {}

    def result(self, params: Json, result: Json) -> Json:
        before = self.found.get(params["query"], 0) if "cursor" in params else 0
        self.found[params["query"]] = before + len(result["tools"])
        return super().result(params, result) if "cursor" not in params or before > 60 else result


class LongSearchesOfSmallPagesLeadBack(LongSearchesLeadBack):
    """A page of one tool has the cursor of the second one where there were more than 25 tools before."""

    def result(self, params: Json, result: Json) -> Json:
        before = self.found.get(params["query"], 0) if "cursor" in params else 0
        self.found[params["query"]] = before + len(result["tools"])
        leads_back = "cursor" not in params or (params.get("limit") == 1 and before > 25)
        return LastPageLeadsBack.result(self, params, result) if leads_back else result


class CountsComparedByIdentity(LongSearchesLeadBack):
    """The last page has the cursor of the second one where there were more than 127 tools, as some languages cache."""

    def result(self, params: Json, result: Json) -> Json:
        before = self.found.get(params["query"], 0) if "cursor" in params else 0
        count = self.found[params["query"]] = before + len(result["tools"])
        leads_back = "cursor" not in params or count > 127
        return LastPageLeadsBack.result(self, params, result) if leads_back else result


class LaterPagesShuffled(SearchFault):
    """Orders the tools of a later page by when it is asked for."""

    turns = 0

    def result(self, params: Json, result: Json) -> Json:
        if "cursor" in params and len(tools := result["tools"]) > 1:
            self.turns += 1
            place = self.turns % len(tools)
            result["tools"] = tools[place:] + tools[:place]
        return result


class OrderOfTheProcess(SearchFault):
    """Breaks ties by a hash that every process salts for itself, on pages that hold all matches."""

    def __init__(self) -> None:
        self.salt = secrets.token_bytes(8)

    def result(self, params: Json, result: Json) -> Json:
        first, rest = result["tools"][:1], result["tools"][1:]
        whole = "cursor" not in params and "nextCursor" not in result and len(rest) > 8
        ordered = sorted(rest, key=lambda tool: hashlib.sha256(self.salt + tool["name"].encode()).digest())
        return {**result, "tools": first + ordered} if whole else result


@wrong_result
def default_page_ends(params: Json, result: Json) -> Json:
    return without(result, "nextCursor") if "limit" not in params and "cursor" not in params else result


class LaterCursorsSaltedByProcess(CursorSaltedByProcess):
    """Does so for cursors that lead further than a few tools."""

    def encoded(self, genuine: str) -> str:
        offset = base64.urlsafe_b64decode(genuine).partition(b":")[0] or b"0"
        return super().encoded(genuine) if int(offset) > 5 else genuine


class CursorOfAnotherReplicaStartsOver(CursorSaltedByProcess):
    """Takes the cursor of another process for none."""

    def params(self, params: Json) -> Json:
        cursor = params.get("cursor")
        if isinstance(cursor, str) and re.match(r"[0-9a-f]{8}\.", cursor) and not cursor.startswith(self.salt):
            return {name: value for name, value in params.items() if name != "cursor"}
        return super().params(params)


class CursorUsedOnce(_OpaqueCursors):
    def result(self, params: Json, result: Json) -> Json:
        self.genuine.pop(params.get("cursor", ""), None)
        return super().result(params, result)


class CursorRefusedOnceUsed(SearchFault):
    """Remembers the cursors that it has served, although it issues the same ones again."""

    def __init__(self) -> None:
        self.used: set[str] = set()

    def params(self, params: Json) -> Json:
        cursor = params.get("cursor")
        used = isinstance(cursor, str) and cursor in self.used
        return {**params, "cursor": f"{cursor} was used"} if used else params

    def result(self, params: Json, result: Json) -> Json:
        self.used.add(params.get("cursor", ""))
        return result


class CursorRefusedTheThirdTime(_OpaqueCursors):
    def __init__(self) -> None:
        super().__init__()
        self.answered: set[str] = set()

    def result(self, params: Json, result: Json) -> Json:
        if (cursor := params.get("cursor", "")) in self.answered:
            self.genuine.pop(cursor, None)
        self.answered.add(cursor)
        return super().result(params, result)


class CursorRefusedTheFifthTime(_OpaqueCursors):
    def __init__(self) -> None:
        super().__init__()
        self.uses: Counter[str] = Counter()

    def decoded(self, cursor: str) -> str:
        self.uses[cursor] += 1
        return super().decoded(cursor if self.uses[cursor] != 5 else f"{cursor}, which another process issued")


class LimitBoundsCandidates(_OpaqueCursors):
    """Ranks no more than three times as many candidates as the first page may hold."""

    def __init__(self) -> None:
        super().__init__()
        self.left: dict[str, int] = {}

    def result(self, params: Json, result: Json) -> Json:
        left = self.left[params["cursor"]] if "cursor" in params else 3 * int(params.get("limit", 10))
        result["tools"] = result["tools"][:left]
        left -= len(result["tools"])
        if not left:
            result.pop("nextCursor", None)
        changed = super().result(params, result)
        self.left[changed.get("nextCursor", "")] = left
        return changed


class CursorForgivesLimit(SearchFault):
    """Does not look at the limit of later pages, unless it is one."""

    def params(self, params: Json) -> Json:
        limit, later = params.get("limit"), isinstance(params.get("cursor"), str)
        refused = "limit" in params and (isinstance(limit, bool) or not isinstance(limit, int | float) or limit < 1)
        return {**params, "limit": 1} if later and refused else params


class PagesWithoutEnd(SearchFault):
    """After the last page come empty ones for ever."""

    def __init__(self) -> None:
        self.ended: dict[str, str] = {}

    def params(self, params: Json) -> Json:
        return without(params, "cursor") if self._beyond(params) else params

    def result(self, params: Json, result: Json) -> Json:
        if self._beyond(params):
            result = {**without(result, "nextCursor"), "tools": []}
        if "nextCursor" not in result:
            result["nextCursor"] = cursor = f"beyond {len(self.ended)}"
            self.ended[cursor] = params["query"]
        return result

    def _beyond(self, params: Json) -> bool:
        query = self.ended.get(str(params.get("cursor")))
        return query is not None and query == params.get("query")


class LatestSearchOnly(SearchFault):
    """Starts a search over when it is continued a second time after another one has begun."""

    def __init__(self) -> None:
        self.first: dict[str, list[Json]] = {}
        self.continued: set[str] = set()
        self.latest = ""

    def result(self, params: Json, result: Json) -> Json:
        query = params["query"]
        if "cursor" not in params:
            self.latest, self.first[query] = query, result["tools"]
            self.continued.discard(query)
        elif self.latest != query and query in self.continued:
            result["tools"] = self.first[query][:1]
        else:
            self.continued.add(query)
        return result


@wrong_result
def small_pages_reversed(params: Json, result: Json) -> Json:
    # The first match stays, since the one whose name is the query has to.
    first, rest = result["tools"][:1], result["tools"][1:]
    return {**result, "tools": [*first, *rest[::-1]]} if params.get("limit") == 3 else result


class _LatestCursorsOnly(_OpaqueCursors, ABC):
    """Keeps its latest few hundred cursors."""

    most = 400

    def __init__(self) -> None:
        super().__init__()
        self.forgotten: set[str] = set()

    def params(self, params: Json) -> Json:
        return self.of_forgotten(params) if str(params.get("cursor")) in self.forgotten else super().params(params)

    def result(self, params: Json, result: Json) -> Json:
        result = super().result(params, result)
        while len(self.genuine) > self.most:
            self.forgotten.add(oldest := next(iter(self.genuine)))
            del self.genuine[oldest]
        return result

    @abstractmethod
    def of_forgotten(self, params: Json) -> Json:
        """Return what is served where the cursor was forgotten, or refuse."""


class ForgottenCursorsStartOver(_LatestCursorsOnly):
    def of_forgotten(self, params: Json) -> Json:
        return without(params, "cursor")


class ForgottenCursorsAreInternal(_LatestCursorsOnly):
    def of_forgotten(self, params: Json) -> Json:
        raise RefusalError(-32603, "no such search", None)


class CursorsOfFoldedQueries(SearchFault):
    """Issues cursors of capitals for the query in small letters, which it compares with the query as it is."""

    def __init__(self) -> None:
        self.refused: set[str] = set()

    def params(self, params: Json) -> Json:
        refused = str(params.get("cursor")) in self.refused
        return {**params, "cursor": f"{params['cursor']} of another query"} if refused else params

    def result(self, params: Json, result: Json) -> Json:
        if "nextCursor" in result and params["query"].isupper():
            self.refused.add(result["nextCursor"])
        return result


@wrong_result
def boundary_without_limit_loses_a_tool(params: Json, result: Json) -> Json:
    lost = "nextCursor" in result and "limit" not in params and "cursor" not in params
    return {**result, "tools": result["tools"][:-1]} if lost else result


class LaterDefaultPagesRepeat(SearchFault):
    """Begins the second page with the first match where neither page has a limit."""

    def __init__(self) -> None:
        self.first: dict[str, list[Json]] = {}

    def result(self, params: Json, result: Json) -> Json:
        if "nextCursor" in result and "limit" not in params and "cursor" not in params:
            self.first[result["nextCursor"]] = result["tools"][:1]
        if "limit" not in params and "cursor" in params:
            result["tools"] = [*self.first.get(params["cursor"], []), *result["tools"]]
        return result


class FourthPageUnbound(_Numbered):
    """Looks at the query of a cursor on the first pages only."""

    def __init__(self) -> None:
        super().__init__()
        self.queries: dict[str, str] = {}

    def params(self, params: Json) -> Json:
        issued = self.queries.get(str(params.get("cursor")))
        return {**params, "query": issued} if issued and isinstance(params.get("query"), str) else params

    def page(self, number: int, params: Json, result: Json) -> Json:
        if number >= 3 and "nextCursor" in result:
            self.queries[result["nextCursor"]] = params["query"]
        return result


class NamesBringOneMore(SearchFault):
    """Puts the tool of the name before as many others as the limit is."""

    def result(self, params: Json, result: Json) -> Json:
        if "cursor" not in params and params.get("limit") == 1 and params["query"] != params["query"].strip():
            return {**result, "tools": result["tools"] * 2}
        return result


class CursorOfNameIgnored(SearchFault):
    """Answers a search for a name at once, without its other parameters."""

    def __init__(self) -> None:
        self.names = set[str]()

    def response(self, method: str, params: Json, era: str, outcome: Json) -> Json:
        if method == "tools/list":
            self.names.update(tool["name"] for tool in member(outcome, "result").get("tools", []))
        return outcome

    def params(self, params: Json) -> Json:
        odd = isinstance(params.get("cursor"), str) and " " in params["cursor"]
        ignored = odd and params.get("query") in self.names
        return without(params, "cursor") if ignored else params


class PositionsOfEightBits(SearchFault):
    """Begins again in the middle of a search, after as many tools as a byte can count."""

    most = 255

    def __init__(self) -> None:
        self.found: dict[str, list[Json]] = {}

    def result(self, params: Json, result: Json) -> Json:
        before = self.found.setdefault(params["query"], [])
        if "cursor" not in params:
            before.clear()
        before += result["tools"]
        size = len(result["tools"])
        return {**result, "tools": before[:size]} if "cursor" in params and len(before) - size > self.most else result


class PositionsOfTenBits(PositionsOfEightBits):
    most = 1023


class OddDigitOfCursorDropped(SearchFault):
    """Decodes pairs of digits, and drops one that is left over."""

    def __init__(self) -> None:
        self.issued: set[str] = set()

    def params(self, params: Json) -> Json:
        cursor = params.get("cursor")
        odd = isinstance(cursor, str) and cursor[-1:].isdigit() and cursor[:-1] in self.issued
        return {**params, "cursor": cursor[:-1]} if isinstance(cursor, str) and odd else params

    def result(self, params: Json, result: Json) -> Json:
        self.issued |= {result["nextCursor"]} if "nextCursor" in result else set()
        return result


class PagesKeptByCursor(_OpaqueCursors):
    """Keeps each page by its cursor alone, without the limit."""

    def __init__(self) -> None:
        super().__init__()
        self.kept: dict[str, Json] = {}

    def result(self, params: Json, result: Json) -> Json:
        result = super().result(params, result)
        return self.kept.setdefault(params["cursor"], result) if "cursor" in params else result
