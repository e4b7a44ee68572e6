"""Faults of advertisement, declaration, gate and transport."""

from __future__ import annotations

import json
import os
import time
from abc import ABC, abstractmethod
from pathlib import Path
from typing import Any, ClassVar, Final

from .faults import EXTENSION_ID, SEARCH, Fault, Json, RefusalError, SearchFault, member, session, without, wrong_error

META: Final = "io.modelcontextprotocol/"


class _Capabilities(Fault, ABC):
    methods = ("server/discover", "initialize")

    def response(self, method: str, params: Json, era: str, outcome: Json) -> Json:
        if method in self.methods and "result" in outcome:
            self.change(outcome["result"]["capabilities"])
        return outcome

    @abstractmethod
    def change(self, capabilities: Json) -> None: ...


class NotDiscovered(_Capabilities):
    methods = ("server/discover",)

    def change(self, capabilities: Json) -> None:
        del capabilities["extensions"]


class AdvertisedAsTrue(_Capabilities):
    methods = ("server/discover",)

    def change(self, capabilities: Json) -> None:
        capabilities["extensions"] = {EXTENSION_ID: True}


class ToolsUndeclared(_Capabilities):
    def change(self, capabilities: Json) -> None:
        del capabilities["tools"]


class LegacyExperimentalMissing(_Capabilities):
    methods = ("initialize",)

    def change(self, capabilities: Json) -> None:
        del capabilities["experimental"]


class LegacyExtensionsMissing(_Capabilities):
    methods = ("initialize",)

    def change(self, capabilities: Json) -> None:
        del capabilities["extensions"]


class LegacyUnadvertised(_Capabilities):
    methods = ("initialize",)

    def change(self, capabilities: Json) -> None:
        del capabilities["extensions"]
        del capabilities["experimental"]


class LegacyPlacesDiffer(_Capabilities):
    methods = ("initialize",)

    def change(self, capabilities: Json) -> None:
        capabilities["experimental"] = {EXTENSION_ID: {**capabilities["extensions"][EXTENSION_ID], "catalogSize": 1}}


class _Settings(_Capabilities):
    settings: ClassVar[Json]

    def change(self, capabilities: Json) -> None:
        for place in ("extensions", "experimental"):
            if place in capabilities:
                capabilities[place] = {EXTENSION_ID: {**capabilities[place][EXTENSION_ID], **self.settings}}


class SettingsString(_Settings):
    settings: ClassVar[Json] = {"maxLimit": "50"}


class SettingsNegative(_Settings):
    settings: ClassVar[Json] = {"catalogSize": -1}


class SettingsTopicsAsText(_Settings):
    settings: ClassVar[Json] = {"topics": "orchards, weather"}


class MaxLimitOfOne(_Settings):
    settings: ClassVar[Json] = {"maxLimit": 1}


class MaxLimitExceededByFew(_Settings):
    settings: ClassVar[Json] = {"maxLimit": 49}


class MaxLimitExceeded(_Settings):
    settings: ClassVar[Json] = {"maxLimit": 6}


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


class GateAnyExtension(_Declares):
    def lets_in(self, params: Json, capabilities: Any) -> bool:
        return bool(set(capabilities.get("extensions") or ()) - {EXTENSION_ID})


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


class DeclarationAnyTruth(Fault):
    def declaration(self, declared: Any) -> Any:
        return {} if declared or isinstance(declared, dict) else None


class DeclarationArray(Fault):
    def declaration(self, declared: Any) -> Any:
        return {} if isinstance(declared, list) else declared


class DeclarationExperimental(_Declares):
    def lets_in(self, params: Json, capabilities: Any) -> bool:
        return EXTENSION_ID in (capabilities.get("experimental") or ())


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


class LegacyGated(Fault):
    def __init__(self) -> None:
        self.declared: set[str] = set()

    def request(self, method: str, params: Json, era: str) -> Json:
        if method == "initialize" and EXTENSION_ID in member(member(params, "capabilities"), "extensions"):
            self.declared.add(session.get())
        if method == SEARCH and era != "2026-07-28" and session.get() not in self.declared:
            raise RefusalError(-32021, "declare it", {"requiredCapabilities": {"extensions": {EXTENSION_ID: {}}}})
        return params


class LegacyGatedAsUnknown(LegacyGated):
    """Does not know the method for a legacy client that did not declare the extension."""

    def request(self, method: str, params: Json, era: str) -> Json:
        try:
            return super().request(method, params, era)
        except RefusalError:
            raise RefusalError(-32601, "Method not found", None) from None


class LegacyUndeclaredRefusedAsInvalid(LegacyGated):
    """Calls the parameters wrong of a legacy client that did not declare the extension."""

    def request(self, method: str, params: Json, era: str) -> Json:
        try:
            return super().request(method, params, era)
        except RefusalError:
            raise RefusalError(-32602, "declare it", {"field": "_meta"}) from None


@wrong_error(-32021)
def gate_without_data(error: Json) -> Json:
    return {**error, "data": None}


@wrong_error(-32021)
def gate_other_code(error: Json) -> Json:
    return {**error, "code": -32600}


class _Status(Fault):
    code: int

    def status(self, code: int | None, status: int) -> int:
        return 200 if code == self.code else status


class GateStatus200(_Status):
    code = -32021


class ParamsStatus200(_Status):
    code = -32602


class MethodHeaderIgnored(Fault):
    def method_header(self, message: Json, value: str | None) -> None:
        """Take any."""


class MethodHeaderOptional(Fault):
    def method_header(self, message: Json, value: str | None) -> None:
        if value is not None:
            super().method_header(message, value)


def _extensions(capabilities: Json) -> Json:
    held: Any = capabilities.get("extensions")
    return held if isinstance(held, dict) else {}  # pyright: ignore[reportUnknownVariableType] - JSON


def _refused() -> RefusalError:
    return RefusalError(-32021, "declare it", {"requiredCapabilities": {"extensions": {EXTENSION_ID: {}}}})


class GateRemembersConnections(_Declares):
    """Takes the first declaration of a process for those of all later requests."""

    declared = False

    def lets_in(self, params: Json, capabilities: Any) -> bool:
        self.declared = self.declared or isinstance(_extensions(capabilities).get(EXTENSION_ID), dict)
        return self.declared


class GateWithoutCase(_Declares):
    def lets_in(self, params: Json, capabilities: Any) -> bool:
        return any(name != EXTENSION_ID and name.lower() == EXTENSION_ID for name in _extensions(capabilities))


class GateOfMembersWithoutCase(_Declares):
    """Finds the member of the capabilities in any case of its name, as some decoders into structures do."""

    def lets_in(self, params: Json, capabilities: Any) -> bool:
        return any(name != "extensions" and name.lower() == "extensions" for name in capabilities)


class GateByBeginning(_Declares):
    def lets_in(self, params: Json, capabilities: Any) -> bool:
        return any(name != EXTENSION_ID and name.startswith(EXTENSION_ID) for name in _extensions(capabilities))


class GateByEnd(_Declares):
    def lets_in(self, params: Json, capabilities: Any) -> bool:
        return any(name != EXTENSION_ID and name.endswith("/tools-search") for name in _extensions(capabilities))


class GateBySearchInText(_Declares):
    """Finds the identifier wherever it stands in the capabilities."""

    def lets_in(self, params: Json, capabilities: Any) -> bool:
        elsewhere = {name: held for name, held in _extensions(capabilities).items() if name != EXTENSION_ID}
        return f"'{EXTENSION_ID}'" in str(elsewhere)


class GateByMembership(_Declares):
    """Asks whether the identifier is in `extensions`, be it an object or not."""

    def lets_in(self, params: Json, capabilities: Any) -> bool:
        extensions: Any = capabilities.get("extensions")
        return isinstance(extensions, str | list) and EXTENSION_ID in extensions


class GateAtFirstPagesOnly(_Declares):
    def lets_in(self, params: Json, capabilities: Any) -> bool:
        return isinstance(params.get("cursor"), str)


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


class DeclarationSwitchedOff(Fault):
    def declaration(self, declared: Any) -> Any:
        return None if _extensions({"extensions": declared}).get("enabled") is False else declared


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

    def response(self, method: str, params: Json, era: str, outcome: Json) -> Json:
        if method == "initialize" and params.get("protocolVersion") == "2025-06-18":
            outcome["result"]["protocolVersion"] = "2025-06-18"
            del outcome["result"]["capabilities"]["extensions"]
        return outcome


def _declares_legacy(params: Json, place: str) -> bool:
    held: Any = member(params, "capabilities").get(place)
    return isinstance(held, dict) and EXTENSION_ID in held


class LegacyAdvertisedWhereDeclared(Fault):
    """Advertises in the place where the client declared, or in both."""

    def response(self, method: str, params: Json, era: str, outcome: Json) -> Json:
        if method == "initialize" and "result" in outcome and _declares_legacy(params, "experimental"):
            outcome["result"] = {**outcome["result"], "protocolVersion": params["protocolVersion"]}
            del outcome["result"]["capabilities"]["extensions"]
        return outcome


class LegacyExperimentalGated(Fault):
    """Refuses the searches of a legacy client that declared in the other place."""

    def __init__(self) -> None:
        self.gated: set[str] = set()

    def request(self, method: str, params: Json, era: str) -> Json:
        if method == "initialize" and _declares_legacy(params, "experimental"):
            self.gated.add(session.get())
        if method == SEARCH and session.get() in self.gated:
            raise _refused()
        return params


class LegacyTrueGated(Fault):
    """Takes a handshake with `true`, and no search after it."""

    def __init__(self) -> None:
        self.gated: set[str] = set()

    def request(self, method: str, params: Json, era: str) -> Json:
        if method == "initialize" and _extensions(member(params, "capabilities")).get(EXTENSION_ID) is True:
            self.gated.add(session.get())
        if method == SEARCH and session.get() in self.gated:
            raise RefusalError(-32602, "declare it", {"field": "_meta", "reason": "true"})
        return params


class LegacyUndeclaredGetsNull(LegacyGated):
    """Has no tools for a legacy client that did not declare the extension, not even an empty list."""

    def response(self, method: str, params: Json, era: str, outcome: Json) -> Json:
        if method == SEARCH and era != "2026-07-28" and session.get() not in self.declared and "result" in outcome:
            return {"result": {"tools": None}}
        return outcome

    def request(self, method: str, params: Json, era: str) -> Json:
        return super().request(method, params, era) if method == "initialize" else params


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
        catalog = json.loads(Path(os.environ["TOOLS_SEARCH_CATALOG"]).read_text(encoding="utf-8"))
        more = [tool for tool in catalog["tools"] if tool["name"] not in found]
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


class SettingsOfNothing(_Capabilities):
    """Has the number of tools for the maximum, also where that is zero."""

    def change(self, capabilities: Json) -> None:
        for place in ("extensions", "experimental"):
            if place in capabilities and not capabilities[place][EXTENSION_ID]["catalogSize"]:
                capabilities[place] = {EXTENSION_ID: {"catalogSize": 0, "maxLimit": 0}}


class SizeInWordsOfMany(_Capabilities):
    """Counts no further than a thousand, and says so."""

    def change(self, capabilities: Json) -> None:
        for place in ("extensions", "experimental"):
            if place in capabilities and capabilities[place][EXTENSION_ID]["catalogSize"] > 1000:
                capabilities[place] = {EXTENSION_ID: {**capabilities[place][EXTENSION_ID], "catalogSize": "1000+"}}


class GateWithoutLimitsOnly(_Declares):
    """Lets searches with a limit pass."""

    def lets_in(self, params: Json, capabilities: Any) -> bool:
        return "limit" in params and "cursor" not in params and "anything" in str(params.get("query"))


class GateOfPhrasesOnly(_Declares):
    """Lets pass what a client sends while its user types."""

    def lets_in(self, params: Json, capabilities: Any) -> bool:
        return 0 < len(str(params.get("query", "")).strip()) < 3


class GateOfPagesAsUnknown(Fault):
    """Does not know the method where a client that declared nothing asks for a second page."""

    def response(self, method: str, params: Json, era: str, outcome: Json) -> Json:
        gated = method == SEARCH and member(outcome, "error").get("code") == -32021
        return {"error": {"code": -32601, "message": "Method not found"}} if gated and "cursor" in params else outcome


class DeclarationFalsy(Fault):
    """Takes any value but `null` for a declaration that says nothing more."""

    def declaration(self, declared: Any) -> Any:
        return {} if declared in (0, "") and not isinstance(declared, list) else declared


class DeclarationLimitsPages(SearchFault):
    """Takes a member of the declaration for a limit."""

    def params(self, params: Json) -> Json:
        declared = _extensions(member(member(params, "_meta"), f"{META}clientCapabilities")).get(EXTENSION_ID)
        most: Any = member({"it": declared}, "it").get("maxLimit") if isinstance(declared, dict) else None
        return {"limit": most, **params} if isinstance(most, int) else params


class LegacyUndeclaredFindsNothing(LegacyGated):
    """Serves a legacy client that did not declare the extension without any tool."""

    def response(self, method: str, params: Json, era: str, outcome: Json) -> Json:
        if method == SEARCH and era != "2026-07-28" and session.get() not in self.declared and "result" in outcome:
            return {"result": {"tools": []}}
        return outcome

    def request(self, method: str, params: Json, era: str) -> Json:
        return super().request(method, params, era) if method == "initialize" else params


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


class LegacyNullGated(Fault):
    """Refuses the searches of a legacy client that declared `null`."""

    def __init__(self) -> None:
        self.null: set[str] = set()

    def request(self, method: str, params: Json, era: str) -> Json:
        if method == "initialize" and _extensions(member(params, "capabilities")).get(EXTENSION_ID, {}) is None:
            self.null.add(session.get())
        if method == SEARCH and session.get() in self.null:
            raise RefusalError(-32602, "declare it", {"field": "_meta", "reason": "null"})
        return params


class FirstSessionOnly(Fault):
    """Has the method registered for the first legacy session that searches, and for no later one."""

    first = ""

    def request(self, method: str, params: Json, era: str) -> Json:
        if method == SEARCH and era != "2026-07-28":
            self.first = self.first or session.get()
            if session.get() != self.first:
                raise RefusalError(-32601, "Method not found", method)
        return params


class GateOpenWhereNothingIsServed(Fault):
    def declaration(self, declared: Any) -> Any:
        served = json.loads(Path(os.environ["TOOLS_SEARCH_CATALOG"]).read_text(encoding="utf-8"))["tools"]
        return declared if served else {}


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
