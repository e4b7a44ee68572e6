"""What a client declares, and where it looks for the extension."""

from __future__ import annotations

import json
from abc import ABC, abstractmethod
from typing import Any, ClassVar

from .client_library import (
    EXTENSION_ID,
    LEGACY,
    META,
    MODERN,
    SETTINGS,
    Client,
    Federation,
    InvalidError,
    OnceRefused,
    RefusedError,
    extensions_in,
)
from .miniature_transports import Json


class ListsWhenItConnects(Client):
    """Breaks no rule: it does not connect where it cannot list."""

    def open(self) -> None:
        super().open()
        self.listed()


class DeclaresInExperimental(Client):
    def declared(self, method: str) -> Json:
        return {"experimental": {EXTENSION_ID: {}}} if self.era == MODERN else super().declared(method)


class _Undeclared(Client, ABC):
    searched = 0

    def message(self, method: str, params: Json) -> Json:
        self.searched += method == f"{self.path}/search"
        message = super().message(method, params)
        if self.era == MODERN and method == f"{self.path}/search" and self.hides(params):
            message["params"]["_meta"][META + "clientCapabilities"] = {"extensions": {}}
        return message

    @abstractmethod
    def hides(self, params: Json) -> bool:
        """Return whether a search does without the declaration."""


class UndeclaredWithCursor(_Undeclared):
    def hides(self, params: Json) -> bool:
        return "cursor" in params


class UndeclaredFromTheThirdPageOn(_Undeclared):
    pages = 0

    def hides(self, params: Json) -> bool:
        self.pages = self.pages + 1 if "cursor" in params else 0
        return self.pages > 1


class UndeclaredWithLimit(_Undeclared):
    def hides(self, params: Json) -> bool:
        return "limit" in params


class UndeclaredWhereLong(_Undeclared):
    def hides(self, params: Json) -> bool:
        return len(params.get("query", "")) > 500


class UndeclaredLater(_Undeclared):
    def hides(self, params: Json) -> bool:
        return self.searched > 30


class UndeclaredForUsers(_Undeclared):
    def hides(self, params: Json) -> bool:
        return bool(self.user)


class UndeclaredWithoutSettings(_Undeclared):
    def hides(self, params: Json) -> bool:
        return not self.settings


class UndeclaredOnceListed(_Undeclared):
    has_listed = False

    def hides(self, params: Json) -> bool:
        return self.has_listed

    def listed(self) -> list[Json]:
        self.has_listed = True
        return super().listed()


class UndeclaredOnceToolsHaveChanged(_Undeclared):
    changed = False

    def hides(self, params: Json) -> bool:
        return self.changed

    def notified(self, notification: Json) -> None:
        self.changed = True
        super().notified(notification)


class UndeclaredInHandshake(Client):
    def declared(self, method: str) -> Json:
        return {} if method == "initialize" else super().declared(method)


class DeclaresTrueInHandshake(Client):
    def declared(self, method: str) -> Json:
        return {"extensions": {EXTENSION_ID: True}} if method == "initialize" else super().declared(method)


class AdvertisedAsTrue(Client):
    def counts(self, held: Any) -> bool:
        return held is True or super().counts(held)


class SearchedUnasked(Client):
    """Searches every server that advertises the extension."""

    def searches(self) -> bool:
        return True


class SearchedByTheNameOfTheField(Client):
    """Takes the name of the field that holds the items for that of the setting, too."""

    named = False

    def counts(self, held: Any) -> bool:
        self.named = self.member in (self.settings or {})  # which still are those of the whole server
        return super().counts(held)

    def searches(self) -> bool:
        return self.named or super().searches()


class AdvertisedAsArray(Client):
    """An empty array counts as an empty object, as it does in some languages."""

    def counts(self, held: Any) -> bool:
        return held == [] or super().counts(held)

    def read_settings(self, capabilities: Json) -> Json | None:
        held: Any = super().read_settings(capabilities)
        return {} if held == [] else held


class AdvertisedAsText(Client):
    def counts(self, held: Any) -> bool:
        return (isinstance(held, str) and held.startswith("{")) or super().counts(held)

    def read_settings(self, capabilities: Json) -> Json | None:
        held: Any = super().read_settings(capabilities)
        return json.loads(held) if isinstance(held, str) else held


class ExtensionsOnly(Client):
    def places(self) -> tuple[str, ...]:
        return ("extensions",)


class ExperimentalOnlyInLegacy(Client):
    def places(self) -> tuple[str, ...]:
        return ("extensions",) if self.era == MODERN else ("experimental",)


class FirstPlaceDecides(Client):
    def read_settings(self, capabilities: Json) -> Json | None:
        first = extensions_in(capabilities).get(EXTENSION_ID, {})
        return super().read_settings(capabilities) if self.counts(first) else None


class SettingsClosed(Client):
    def counts(self, held: Any) -> bool:
        return super().counts(held) and set(held) <= SETTINGS


class SettingsStrict(Client):
    def counts(self, held: Any) -> bool:
        return super().counts(held) and held.get("maxLimit") != 0


class SettingsBelieved(Client):
    def limited(self, limit: int | None) -> Json:
        most: Any = (self.settings or {}).get("maxLimit")
        return {"limit": min(limit, most)} if limit and isinstance(most, int | float) else super().limited(limit)


class AdvertisedByAnother(Client):
    def read_settings(self, capabilities: Json) -> Json | None:
        others = [name for name in extensions_in(capabilities) if name.endswith("/tools-search")]
        return {} if others and EXTENSION_ID not in others else super().read_settings(capabilities)


class AdvertisedUnderTools(Client):
    """Takes a `search` among the capability of tools for the extension."""

    def read_settings(self, capabilities: Json) -> Json | None:
        return {} if "search" in capabilities["tools"] else super().read_settings(capabilities)


class SizeBelieved(Client):
    """Lists what is small by a number of any kind."""

    def counts(self, held: Any) -> bool:
        size: Any = held.get("catalogSize", 5000) if isinstance(held, dict) else 5000  # pyright: ignore[reportUnknownMemberType, reportUnknownVariableType] - JSON
        return super().counts(held) and (not isinstance(size, int | float) or size >= 10)


class LimitOfAllBelieved(Client):
    """Asks for pages as large as they can be."""

    def next_params(self, query: str, cursor: str) -> Json:
        return {**super().next_params(query, cursor), **self.largest()}

    def all_pages(self, query: str, *, again: bool = False) -> list[Json]:
        self.query = query
        return super().all_pages(query, again=again)

    def page(self, params: Json) -> Json:
        return super().page({**self.largest(), **params})

    def largest(self) -> Json:
        most: Any = (self.settings or {}).get("maxLimit")
        return {"limit": most} if type(most) is int else {}


class IdentifierBlindToCase(Client):
    def read_settings(self, capabilities: Json) -> Json | None:
        held = extensions_in(capabilities)
        lowered = {name.lower(): value for name, value in held.items()}
        return super().read_settings({**capabilities, "extensions": {**lowered, **held}})


class CapabilitiesInAnyCase(Client):
    """As parsers do that match names regardless of case."""

    def read_settings(self, capabilities: Json) -> Json | None:
        return super().read_settings({name.lower(): value for name, value in capabilities.items()})


class SettingInAnyCase(Client):
    any_case = False

    def counts(self, held: Any) -> bool:
        setting = self.path.partition("/")[0]
        self.any_case = any(name.lower() == setting for name in self.settings or {})
        return super().counts(held)

    def searches(self) -> bool:
        return self.any_case or super().searches()


class IdentifierByPrefix(Client):
    def read_settings(self, capabilities: Json) -> Json | None:
        held = extensions_in(capabilities)
        alike = [name for name in held if name.startswith(EXTENSION_ID)]
        return {} if alike and EXTENSION_ID not in held else super().read_settings(capabilities)


class ExperimentalInModern(Client):
    def places(self) -> tuple[str, ...]:
        return ("extensions", "experimental")


class RemembersWhoAdvertised(Client):
    """Once an address has advertised the extension, it is searched."""

    known: ClassVar[set[str]] = set()

    def __init__(self, target: Json, era: str) -> None:
        super().__init__(target, era)
        self.address = json.dumps([target, era])

    def read_settings(self, capabilities: Json) -> Json | None:
        held = super().read_settings(capabilities)
        if held is not None:
            self.known.add(self.address)
        return {} if held is None and self.address in self.known else held


class UndeclaredAfterRefusal(OnceRefused):
    """Once a server has refused anything, its capabilities are sent no more."""

    def declared(self, method: str) -> Json:
        return {} if self.refused else super().declared(method)


class _Probing(Client):
    """A client that asks a server in whose capabilities nothing looks like the extension."""

    named = True

    def read_settings(self, capabilities: Json) -> Json | None:
        self.named = f'"{EXTENSION_ID}"' in json.dumps(capabilities)
        return super().read_settings(capabilities)

    def probe(self) -> None:
        if not self.named:
            self.request("tools/search", {"query": "is anybody there"})


class Probes(_Probing):
    def searches(self) -> bool:
        self.probe()
        return super().searches()


class ProbesWithoutLimit(_Probing):
    def search(self, query: str, limit: int | None = None) -> list[Json]:
        if limit is None:
            self.probe()
        return super().search(query, limit)


class ProbesWhereListingFails(_Probing):
    def listed(self) -> list[Json]:
        try:
            return super().listed()
        except RefusedError:
            self.probe()
            raise


class ProbesWhereNothingIsListed(_Probing):
    def listed(self) -> list[Json]:
        tools = super().listed()
        if not tools:
            self.probe()
        return tools


class ProbesWhereMuchIsListed(_Probing):
    def listed(self) -> list[Json]:
        tools = super().listed()
        if len(tools) > 1000:
            self.probe()
        return tools


class ProbesWhereNothingFits(_Probing):
    def ranked(self, query: str, tools: list[Json]) -> list[Json]:
        fit = super().ranked(query, tools)
        if not fit:
            self.probe()
        return fit


class ProbesToRefreshADefinition(_Probing):
    def call(self, name: str, arguments: Json) -> Json:
        try:
            return super().call(name, arguments)
        except RefusedError as error:
            if error.code == -32020:
                self.probe()
            raise


class SearchesOnceToolsHaveChanged(_Probing):
    def notified(self, notification: Json) -> None:
        super().notified(notification)
        if notification["method"] == "notifications/tools/list_changed" and not self.named:
            self.settings = {}


class SearchesWhatIsNotDiscovered(Client):
    def open(self) -> None:
        try:
            super().open()
        except RefusedError:
            self.settings = {}


class AdvertisedByAnyExperiment(Client):
    """Takes a server with anything experimental for one that has the extension."""

    def read_settings(self, capabilities: Json) -> Json | None:
        others = {*extensions_in(capabilities, "experimental")} - {EXTENSION_ID}
        return {} if others and self.era == LEGACY else super().read_settings(capabilities)


class AdvertisedBesideCapabilities(Client):
    """Takes the `extensions` of a whole result for those of its capabilities."""

    def request(self, method: str, params: Json) -> Json:
        result = super().request(method, params)
        if held := result.get("extensions"):
            result["capabilities"] = {**result["capabilities"], "extensions": held}
        return result


class AdvertisedInAnArray(Client):
    """Looks for the identifier among the members or elements of `extensions`."""

    def read_settings(self, capabilities: Json) -> Json | None:
        named = capabilities.get("extensions") == [EXTENSION_ID]
        return {} if named else super().read_settings(capabilities)


class SearchesBesideOneThatCan(Federation):
    def open(self) -> None:
        super().open()
        if any(client.searches() for client in self.clients.values()):
            for client in self.clients.values():
                client.settings = client.settings or {}


class SettingsThatDisableBelieved(Client):
    def counts(self, held: Any) -> bool:
        return super().counts(held) and bool(held.get("enabled", True))


class Silent(Client):
    """A client that does not know the extension."""

    def declared(self, method: str) -> Json:
        return {}

    def searches(self) -> bool:
        return False


class UndeclaredOnceCancelled(Client):
    cancelled = False

    def cancel(self, number: Any) -> None:
        self.cancelled = True
        super().cancel(number)

    def declared(self, method: str) -> Json:
        return {} if self.cancelled else super().declared(method)


class SettingOfAnotherServerCounts(Client):
    """What one server serves is taken to be served by every other one."""

    known: ClassVar[set[str]] = set()

    def searches(self) -> bool:
        if self.settings is not None:
            self.known.add(self.path)
        return self.path in self.known


class UndeclaredOnceSearchIsRefused(Client):
    refused = False

    def instead(self, error: RefusedError | InvalidError, query: str) -> list[Json]:
        self.refused = True
        return super().instead(error, query)

    def declared(self, method: str) -> Json:
        return {} if self.refused else super().declared(method)


class IdentifierBySuffix(Client):
    def read_settings(self, capabilities: Json) -> Json | None:
        held = extensions_in(capabilities)
        alike = [name for name in held if name.endswith(EXTENSION_ID)]
        return {} if alike and EXTENSION_ID not in held else super().read_settings(capabilities)


class IdentifierTrimmed(Client):
    def read_settings(self, capabilities: Json) -> Json | None:
        held = extensions_in(capabilities)
        trimmed = {name.strip(): value for name, value in held.items()}
        return super().read_settings({**capabilities, "extensions": {**trimmed, **held}})


class AdvertisedInMetadata(Client):
    """Takes what it finds in the `_meta` of a handshake for an advertisement."""

    def request(self, method: str, params: Json) -> Json:
        result = super().request(method, params)
        if "capabilities" in result and EXTENSION_ID in result.get("_meta", {}):
            result["capabilities"] = {**result["capabilities"], "extensions": {EXTENSION_ID: {}}}
        return result


class AdvertisedByListedTools(Client):
    """Takes hit metadata of a listed tool for a sign that its server searches."""

    def listed(self) -> list[Json]:
        tools = super().listed()
        if any(EXTENSION_ID in tool.get("_meta", {}) for tool in tools):
            self.settings = self.settings or {}
        return tools


class SearchedWithoutTheExtension(Client):
    """Searches where the setting is not absent, and so where there are no settings at all."""

    without = False

    def counts(self, held: Any) -> bool:
        self.without = self.settings is None  # which still are those of the whole server
        return super().counts(held)

    def searches(self) -> bool:
        return self.without or super().searches()


class WholeFloatsAreNoNumbers(Client):
    """A number with a decimal point is read as no integer, as in some languages, and its object not at all."""

    def counts(self, held: Any) -> bool:
        most: Any = held.get("maxLimit") if isinstance(held, dict) else None  # pyright: ignore[reportUnknownMemberType, reportUnknownVariableType] - JSON
        return super().counts(held) and not (isinstance(most, float) and most.is_integer())


class NumbersOf64Bits(Client):
    def counts(self, held: Any) -> bool:
        numbers = [each for each in held.values() if type(each) is int] if isinstance(held, dict) else []  # pyright: ignore[reportUnknownMemberType, reportUnknownVariableType, reportUnknownArgumentType] - JSON
        return super().counts(held) and all(number < 2**63 for number in numbers)


class SettingsOfOtherListsStrict(Client):
    def counts(self, held: Any) -> bool:
        return super().counts(held) and isinstance(held.get("resources", {}), dict)


class SettingsAroundStrict(Client):
    """Reads the setting for its list only where all other settings are valid."""

    def counts(self, held: Any) -> bool:
        around = self.settings or {}  # which still are those of the whole server
        return super().counts(held) and isinstance(around.get("maxLimit", 1), int)


class SettingOfToolsBelieved(Client):
    """Takes tools for a list that has a setting of its own."""

    def counts(self, held: Any) -> bool:
        return super().counts(held) and held.get("tools") is not False


class UndeclaredWhereItRefreshes(Client):
    """Searches for a tool whose call was refused for its headers, without a declaration."""

    refreshing = False

    def call(self, name: str, arguments: Json) -> Json:
        try:
            return super().call(name, arguments)
        except RefusedError as error:
            if error.code == -32020 and self.settings is not None:
                self.refreshing = True
                self.request("tools/search", {"query": name, "limit": 1})
                self.refreshing = False
            raise

    def declared(self, method: str) -> Json:
        return {} if self.refreshing else super().declared(method)


class LimitOfNonsenseIsNull(Client):
    """Where the limit is the lesser of two, and one of them is no number, JSON has `null` for it in some languages."""

    def limited(self, limit: int | None) -> Json:
        most: Any = (self.settings or {}).get("maxLimit")
        return {"limit": None} if isinstance(most, str) else super().limited(limit)


class UndeclaredOfSeveral(Federation):
    """Declares the extension to the first server only."""

    def __init__(self, clients: dict[str, Client]) -> None:
        super().__init__(clients)
        for client in list(clients.values())[1:]:
            object.__setattr__(client, "__class__", _Undeclaring)


class _Undeclaring(Client):
    def declared(self, method: str) -> Json:
        return super().declared(method) if self.era == LEGACY else {}


class SettingsOfBothPlaces(Client):
    """Takes the settings that stand under `experimental`, too, once the extension is advertised."""

    def read_settings(self, capabilities: Json) -> Json | None:
        settings = super().read_settings(capabilities)
        experimental: Any = extensions_in(capabilities, "experimental").get(EXTENSION_ID)
        return {**experimental, **settings} if settings is not None and isinstance(experimental, dict) else settings


class ProbesWhereListingIsUnknown(_Probing):
    def listed(self) -> list[Json]:
        try:
            return super().listed()
        except RefusedError as error:
            if error.code == -32601:
                self.probe()
            raise


class ProbesWhereNoToolsAreDeclared(_Probing):
    def read_settings(self, capabilities: Json) -> Json | None:
        settings = super().read_settings(capabilities)
        if "tools" not in capabilities:
            self.probe()
        return settings


class ProbesWhereANameIsSought(_Probing):
    def ranked(self, query: str, tools: list[Json]) -> list[Json]:
        if " " not in query:
            self.probe()
        return super().ranked(query, tools)


class ProbesForACallOfAnUnknownTool(_Probing):
    def call(self, name: str, arguments: Json) -> Json:
        try:
            return super().call(name, arguments)
        except RefusedError as error:
            if error.code == -32602:
                self.probe()
            raise


class UndeclaredAfterAnEmptyPage(_Undeclared):
    was_empty = False

    def checked(self, result: Json) -> Json:
        page = super().checked(result)
        self.was_empty = not page["tools"]
        return page

    def hides(self, params: Json) -> bool:
        return self.was_empty and "cursor" in params


class ListsEverywhere(Client):
    """Breaks no rule: ranks what it has listed, whoever could search."""

    def searches(self) -> bool:
        return False
