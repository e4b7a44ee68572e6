"""Faults of advertisement, declaration, gate and transport."""

from __future__ import annotations

import time
from abc import ABC, abstractmethod
from collections.abc import Callable
from typing import Any, ClassVar, Final

from .faults import (
    EXTENSION_ID,
    SEARCH,
    Fault,
    Json,
    RefusalError,
    SearchFault,
    caller,
    member,
    served_catalog,
    session,
    without,
    wrong_capabilities,
    wrong_error,
    wrong_settings,
)

META: Final = "io.modelcontextprotocol/"


def _extensions(capabilities: Json, place: str = "extensions") -> Json:
    held: Any = capabilities.get(place)
    return held if isinstance(held, dict) else {}  # pyright: ignore[reportUnknownVariableType] - JSON


def _refused() -> RefusalError:
    return RefusalError(-32021, "declare it", {"requiredCapabilities": {"extensions": {EXTENSION_ID: {}}}})


not_discovered = wrong_capabilities(lambda capabilities: without(capabilities, "extensions"), "server/discover")
advertised_as_true = wrong_capabilities(
    lambda capabilities: {**capabilities, "extensions": {EXTENSION_ID: True}}, "server/discover"
)
tools_undeclared = wrong_capabilities(lambda capabilities: without(capabilities, "tools"))
resources_undeclared_without_any = wrong_capabilities(
    lambda capabilities: capabilities if served_catalog().get("resources") else without(capabilities, "resources")
)
legacy_experimental_missing = wrong_capabilities(
    lambda capabilities: without(capabilities, "experimental"), "initialize"
)
legacy_extensions_missing = wrong_capabilities(lambda capabilities: without(capabilities, "extensions"), "initialize")
legacy_unadvertised = wrong_capabilities(
    lambda capabilities: without(capabilities, "extensions", "experimental"), "initialize"
)
legacy_places_differ = wrong_capabilities(
    lambda capabilities: {
        **capabilities,
        "experimental": {EXTENSION_ID: {**capabilities["extensions"][EXTENSION_ID], "catalogSize": 1}},
    },
    "initialize",
)

settings_string = wrong_settings(lambda settings: {**settings, "maxLimit": "50"})
settings_negative = wrong_settings(lambda settings: {**settings, "catalogSize": -1})
settings_topics_as_text = wrong_settings(lambda settings: {**settings, "topics": "orchards, weather"})
max_limit_of_one = wrong_settings(lambda settings: {**settings, "maxLimit": 1})
max_limit_exceeded_by_few = wrong_settings(lambda settings: {**settings, "maxLimit": 49})
max_limit_exceeded = wrong_settings(lambda settings: {**settings, "maxLimit": 6})
# Has the number of tools for the maximum, also where that is zero.
settings_of_nothing = wrong_settings(
    lambda settings: settings if settings["catalogSize"] else {"catalogSize": 0, "maxLimit": 0}
)
# Counts no further than a thousand, and says so.
size_in_words_of_many = wrong_settings(
    lambda settings: {**settings, "catalogSize": "1000+"} if settings["catalogSize"] > 1000 else settings
)


class _Declares(Fault, ABC):
    """Lets some clients through the gate that did not declare the extension."""

    def request(self, method: str, params: Json, era: str) -> Json:
        meta = member(params, "_meta")
        if (
            method != SEARCH
            or f"{META}clientCapabilities" not in meta
            or not self.lets_in(params, meta.get(f"{META}clientCapabilities"))
        ):
            return params
        declared: Json = {"extensions": {EXTENSION_ID: {}}}
        return {**params, "_meta": {**meta, f"{META}clientCapabilities": declared}}

    @abstractmethod
    def lets_in(self, params: Json, capabilities: Any) -> bool: ...

    def response(self, method: str, params: Json, era: str, outcome: Json) -> Json:
        return outcome


def _gate_open(to: Callable[[Json], bool]) -> type[Fault]:
    """Make a fault that lets some clients through the gate for the capabilities that they declared."""

    class GateOpen(_Declares):
        def lets_in(self, params: Json, capabilities: Any) -> bool:
            return to(capabilities)

    return GateOpen


def _gate_open_for(searches: Callable[[Json], bool]) -> type[Fault]:
    """Make a fault that lets everybody through the gate for some searches."""

    class GateOpenFor(_Declares):
        def lets_in(self, params: Json, capabilities: Any) -> bool:
            return searches(params)

    return GateOpenFor


def _others(capabilities: Json) -> Json:
    """Return what a client declared of other extensions."""
    return without(_extensions(capabilities), EXTENSION_ID)


gate_any_extension = _gate_open(lambda capabilities: bool(set(capabilities.get("extensions") or ()) - {EXTENSION_ID}))
gate_without_case = _gate_open(lambda capabilities: any(name.lower() == EXTENSION_ID for name in _others(capabilities)))
# Finds the member of the capabilities in any case of its name, as some decoders into structures do.
gate_of_members_without_case = _gate_open(
    lambda capabilities: any(name != "extensions" and name.lower() == "extensions" for name in capabilities)
)
gate_by_beginning = _gate_open(
    lambda capabilities: any(name.startswith(EXTENSION_ID) for name in _others(capabilities))
)
gate_by_end = _gate_open(lambda capabilities: any(name.endswith("/tools-search") for name in _others(capabilities)))
# Finds the identifier anywhere in the capabilities.
gate_by_search_in_text = _gate_open(lambda capabilities: f"'{EXTENSION_ID}'" in str(_others(capabilities)))
# Asks whether the identifier is in `extensions`, be it an object or not.
gate_by_membership = _gate_open(
    lambda capabilities: (
        isinstance(capabilities.get("extensions"), str | list) and EXTENSION_ID in capabilities["extensions"]
    )
)
declaration_experimental = _gate_open(lambda capabilities: EXTENSION_ID in (capabilities.get("experimental") or ()))
gate_from_any_metadata = _gate_open_for(lambda params: EXTENSION_ID in member(params, "_meta"))
gate_at_first_pages_only = _gate_open_for(lambda params: isinstance(params.get("cursor"), str))
# Lets searches with a limit pass.
gate_without_limits_only = _gate_open_for(
    lambda params: "limit" in params and "cursor" not in params and "anything" in str(params.get("query"))
)
# Lets pass what a client sends while its user types.
gate_of_phrases_only = _gate_open_for(lambda params: 0 < len(str(params.get("query", "")).strip()) < 3)


def _declaration_read(reading: Callable[[Any], Any]) -> type[Fault]:
    """Make a fault that takes declarations for other ones, or for none."""

    class DeclarationRead(Fault):
        def declaration(self, declared: Any) -> Any:
            return reading(declared)

    return DeclarationRead


declaration_any_truth = _declaration_read(lambda declared: {} if declared or isinstance(declared, dict) else None)
declaration_array = _declaration_read(lambda declared: {} if isinstance(declared, list) else declared)
# Takes any value but `null` for a declaration that says nothing more.
declaration_falsy = _declaration_read(
    lambda declared: {} if declared in (0, "") and not isinstance(declared, list) else declared
)
declaration_switched_off = _declaration_read(
    lambda declared: None if _extensions({"": declared}, "").get("enabled") is False else declared
)
gate_open_where_nothing_is_served = _declaration_read(lambda declared: declared if served_catalog()["tools"] else {})


class GateOpenForCallers(Fault):
    """Lets everybody through who has a token."""

    def declaration(self, declared: Any) -> Any:
        return {} if caller.get() else declared


class GateRemembersSearches(_Declares):
    """Answers from a cache that is asked before the gate."""

    def __init__(self) -> None:
        self.served: set[str] = set()

    def lets_in(self, params: Json, capabilities: Any) -> bool:
        return self._key(params) in self.served

    def response(self, method: str, params: Json, era: str, outcome: Json) -> Json:
        if method == SEARCH and "result" in outcome:
            self.served.add(self._key(params))
        return outcome

    def _key(self, params: Json) -> str:
        return str({name: value for name, value in params.items() if name != "_meta"})


class LegacyDeclarationFatal(Fault):
    """Breaks down over the declaration, so that the response has neither a result nor an error."""

    def response(self, method: str, params: Json, era: str, outcome: Json) -> Json:
        declared: Any = member(member(params, "capabilities"), "extensions").get(EXTENSION_ID, {})
        return outcome if method != "initialize" or isinstance(declared, dict) else {}


class DeclarationClosed(Fault):
    """Refuses a declaration with members."""

    def declaration(self, declared: Any) -> Any:
        return declared if declared == {} else None

    def request(self, method: str, params: Json, era: str) -> Json:
        extensions: Json = member(params, "capabilities").get("extensions") or {}
        if method == "initialize":
            self.legacy: Json = extensions.get(EXTENSION_ID) or {}
        if method == SEARCH and era != "2026-07-28" and self.legacy:
            raise RefusalError(
                -32602, "unknown members of the declaration", {"field": "capabilities", "reason": "unknown"}
            )
        return params


class _LegacySessions(Fault):
    """Knows which legacy sessions began with a declaration of some kind."""

    def __init__(self) -> None:
        self.known: set[str] = set()

    def request(self, method: str, params: Json, era: str) -> Json:
        if method == "initialize" and self.is_known(member(params, "capabilities")):
            self.known.add(session.get())
        return params

    def is_known(self, capabilities: Json) -> bool:
        """Return whether a declaration is of that kind: by default, whether it is one of this extension."""
        return EXTENSION_ID in member(capabilities, "extensions")


def _legacy_refused(refusal: Callable[[], RefusalError], known: Callable[[Json], bool] | None = None) -> type[Fault]:
    """Make a fault that refuses searches after `known` declarations, or those of clients that did not declare."""

    class LegacyRefused(_LegacySessions):
        def is_known(self, capabilities: Json) -> bool:
            return known(capabilities) if known else super().is_known(capabilities)

        def request(self, method: str, params: Json, era: str) -> Json:
            super().request(method, params, era)
            refused = (session.get() in self.known) == (known is not None)
            if method == SEARCH and era != "2026-07-28" and refused:
                raise refusal()
            return params

    return LegacyRefused


legacy_gated = _legacy_refused(_refused)
legacy_gated_as_unknown = _legacy_refused(lambda: RefusalError(-32601, "Method not found", None))
legacy_undeclared_refused_as_invalid = _legacy_refused(lambda: RefusalError(-32602, "declare it", {"field": "_meta"}))
legacy_experimental_gated = _legacy_refused(
    _refused, lambda capabilities: EXTENSION_ID in _extensions(capabilities, "experimental")
)
# Takes a handshake with `true` or `null`, and no search after it.
legacy_true_gated = _legacy_refused(
    lambda: RefusalError(-32602, "declare it", {"field": "_meta", "reason": "true"}),
    lambda capabilities: _extensions(capabilities).get(EXTENSION_ID) is True,
)
legacy_null_gated = _legacy_refused(
    lambda: RefusalError(-32602, "declare it", {"field": "_meta", "reason": "null"}),
    lambda capabilities: _extensions(capabilities).get(EXTENSION_ID, {}) is None,
)


gate_without_data = wrong_error(-32021)(lambda error: {**error, "data": None})
gate_other_code = wrong_error(-32021)(lambda error: {**error, "code": -32600})


class LegacyUndeclaredFindsNothing(_LegacySessions):
    """Serves a legacy client that did not declare the extension without any tool."""

    tools: ClassVar[list[Json] | None] = []

    def response(self, method: str, params: Json, era: str, outcome: Json) -> Json:
        undeclared = era != "2026-07-28" and session.get() not in self.known
        return {"result": {"tools": self.tools}} if method == SEARCH and undeclared and "result" in outcome else outcome


class LegacyUndeclaredGetsNull(LegacyUndeclaredFindsNothing):
    """Has no tools for such a client, not even an empty list."""

    tools = None


class MethodHeaderIgnored(Fault):
    def method_header(self, message: Json, value: str | None) -> None:
        """Take any."""


class MethodHeaderOptional(Fault):
    def method_header(self, message: Json, value: str | None) -> None:
        if value is not None:
            super().method_header(message, value)


class GateRemembersConnections(_Declares):
    """Takes the first declaration of a process for those of all later requests."""

    declared = False

    def lets_in(self, params: Json, capabilities: Any) -> bool:
        self.declared = self.declared or isinstance(_extensions(capabilities).get(EXTENSION_ID), dict)
        return self.declared


class DeclarationAlone(Fault):
    """Takes a declaration that stands with another one for none."""

    def __init__(self) -> None:
        self.declared: dict[str, Json] = {}

    def request(self, method: str, params: Json, era: str) -> Json:
        capabilities = member(member(params, "_meta"), f"{META}clientCapabilities")
        if method == "initialize":
            self.declared[session.get()] = member(params, "capabilities")
        if era != "2026-07-28":
            capabilities = self.declared.get(session.get(), {})
        if method == SEARCH and len(_extensions(capabilities)) > 1:
            raise _refused()
        return params


class SearchUnregistered(Fault):
    def response(self, method: str, params: Json, era: str, outcome: Json) -> Json:
        return {"error": {"code": -32601, "message": "Method not found"}} if method == SEARCH else outcome


class DeclarationNeverSeen(Fault):
    """Looks for declarations where none are, and refuses everybody."""

    def request(self, method: str, params: Json, era: str) -> Json:
        if method == SEARCH:
            raise _refused()
        return params


class MethodHeaderCompared(Fault):
    def method_header(self, message: Json, value: str | None) -> None:
        """Compare the beginning only."""
        if value is None or not value.startswith(message["method"]):
            super().method_header(message, value)


class DiscoveredByDeclaringClientsOnly(Fault):
    def response(self, method: str, params: Json, era: str, outcome: Json) -> Json:
        declared = _extensions(member(member(params, "_meta"), f"{META}clientCapabilities"))
        if method == "server/discover" and EXTENSION_ID not in declared:
            del outcome["result"]["capabilities"]["extensions"]
        return outcome


class LegacyAdvertisedToDeclaringClientsOnly(Fault):
    def response(self, method: str, params: Json, era: str, outcome: Json) -> Json:
        if method == "initialize" and EXTENSION_ID not in _extensions(member(params, "capabilities")):
            del outcome["result"]["capabilities"]["experimental"]
        return outcome


class LegacyAdvertisedInTheLatestRevisionOnly(Fault):
    """Settles on an older revision where that is asked for, in which it has one place alone."""

    revision = "2025-06-18"

    def response(self, method: str, params: Json, era: str, outcome: Json) -> Json:
        if method == "initialize" and params.get("protocolVersion") == self.revision:
            outcome["result"]["protocolVersion"] = self.revision
            del outcome["result"]["capabilities"]["extensions"]
        return outcome


class LegacyNotAdvertisedInTheFirstRevision(LegacyAdvertisedInTheLatestRevisionOnly):
    revision = "2024-11-05"


class LegacyAdvertisedWhereDeclared(Fault):
    """Advertises in the place where the client declared, or in both."""

    def response(self, method: str, params: Json, era: str, outcome: Json) -> Json:
        if (
            method == "initialize"
            and "result" in outcome
            and EXTENSION_ID in _extensions(member(params, "capabilities"), "experimental")
        ):
            outcome["result"] = {**outcome["result"], "protocolVersion": params["protocolVersion"]}
            del outcome["result"]["capabilities"]["extensions"]
        return outcome


class DeclarationBringsLess(Fault):
    """Takes a member of the declaration for a wish for less."""

    def response(self, method: str, params: Json, era: str, outcome: Json) -> Json:
        declared = _extensions(member(member(params, "_meta"), f"{META}clientCapabilities")).get(EXTENSION_ID)
        if method == SEARCH and "result" in outcome and isinstance(declared, dict) and "version" in declared:
            tools = [without(tool, "description") for tool in outcome["result"]["tools"]]
            return {"result": {**outcome["result"], "tools": tools}}
        return outcome


class LatestDeclarationWins(Fault):
    """Holds the declaration of a request where all requests hold theirs, and takes a moment to look at it."""

    latest: Any = None

    def declaration(self, declared: Any) -> Any:
        self.latest = declared
        time.sleep(0.005)
        return self.latest


class MaxLimitOfLargeNumbers(SearchFault):
    """Takes a limit that 32 bits do not hold for none."""

    def result(self, params: Json, result: Json) -> Json:
        limit: Any = params.get("limit")
        if not isinstance(limit, int) or limit < 2**31 or "cursor" in params or "nextCursor" not in result:
            return result
        found = {tool["name"] for tool in result["tools"]}
        more = [tool for tool in served_catalog()["tools"] if tool["name"] not in found]
        return {**without(result, "nextCursor"), "tools": [*result["tools"], *more]}


class OlderListsInBrief(Fault):
    """Lists tools in an older revision without what that does not have, and finds them with it."""

    def __init__(self) -> None:
        self.older: set[str] = set()

    def response(self, method: str, params: Json, era: str, outcome: Json) -> Json:
        if method == "initialize" and params.get("protocolVersion") == "2025-06-18":
            self.older.add(session.get())
            outcome["result"]["protocolVersion"] = "2025-06-18"
        if method == "tools/list" and session.get() in self.older and "result" in outcome:
            tools = [without(tool, "icons", "title") for tool in outcome["result"]["tools"]]
            return {"result": {**outcome["result"], "tools": tools}}
        return outcome


class GateOfPagesAsUnknown(Fault):
    """Does not know the method where a client that declared nothing asks for a second page."""

    def response(self, method: str, params: Json, era: str, outcome: Json) -> Json:
        gated = method == SEARCH and member(outcome, "error").get("code") == -32021
        return {"error": {"code": -32601, "message": "Method not found"}} if gated and "cursor" in params else outcome


class DeclarationLimitsPages(SearchFault):
    """Takes a member of the declaration for a limit."""

    def params(self, params: Json) -> Json:
        declared = _extensions(member(member(params, "_meta"), f"{META}clientCapabilities")).get(EXTENSION_ID)
        most: Any = member({"it": declared}, "it").get("maxLimit") if isinstance(declared, dict) else None
        return {"limit": most, **params} if isinstance(most, int) else params


class LegacyOlderRevisionUnserved(Fault):
    """Settles on an older revision where that is asked for, in which it does not know the method."""

    def __init__(self) -> None:
        self.older: set[str] = set()

    def request(self, method: str, params: Json, era: str) -> Json:
        if method == "initialize" and params.get("protocolVersion") == "2025-06-18":
            self.older.add(session.get())
        if method == SEARCH and session.get() in self.older:
            raise RefusalError(-32601, "Method not found", None)
        return params

    def response(self, method: str, params: Json, era: str, outcome: Json) -> Json:
        if method == "initialize" and params.get("protocolVersion") == "2025-06-18":
            outcome["result"]["protocolVersion"] = "2025-06-18"
        return outcome


class FirstSessionOnly(Fault):
    """Has the method registered for the first legacy session that searches, and for no later one."""

    first = ""

    def request(self, method: str, params: Json, era: str) -> Json:
        if method == SEARCH and era != "2026-07-28":
            self.first = self.first or session.get()
            if session.get() != self.first:
                raise RefusalError(-32601, "Method not found", method)
        return params


class GateOpenedByLegacyClients(Fault):
    """Keeps what the latest `initialize` declared for all clients."""

    opened = False

    def response(self, method: str, params: Json, era: str, outcome: Json) -> Json:
        self.opened = self.opened or method == "initialize"
        return outcome

    def declaration(self, declared: Any) -> Any:
        return {} if self.opened else declared


class ExperimentalAsAtStart(Fault):
    """Makes the settings of the second place once."""

    held: Json | None = None

    def response(self, method: str, params: Json, era: str, outcome: Json) -> Json:
        if method == "initialize" and "result" in outcome:
            capabilities = outcome["result"]["capabilities"]
            self.held = self.held or capabilities["experimental"]
            capabilities["experimental"] = self.held
        return outcome


class GatedByTheLatestHandshake(Fault):
    """Refuses the searches of legacy clients by what the latest handshake of any of them declared."""

    method = SEARCH
    declared = True

    def request(self, method: str, params: Json, era: str) -> Json:
        if method == "initialize":
            self.declared = EXTENSION_ID in _extensions(member(params, "capabilities"))
        if method == self.method and era != "2026-07-28" and not self.declared:
            raise _refused()
        return params


class PromptsGatedByTheLatestHandshake(GatedByTheLatestHandshake):
    method = "prompts/search"
