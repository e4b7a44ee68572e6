"""What a client declares, and where it looks for the extension."""

from __future__ import annotations

import json
from abc import ABC, abstractmethod
from collections.abc import Callable
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


def _undeclared(hidden: Callable[[_Undeclared, Json], bool]) -> type[Client]:
    """Make a client some of whose searches do without the declaration."""

    class Undeclared(_Undeclared):
        def hides(self, params: Json) -> bool:
            return hidden(self, params)

    return Undeclared


undeclared_with_cursor = _undeclared(lambda _, params: "cursor" in params)
undeclared_with_limit = _undeclared(lambda _, params: "limit" in params)
undeclared_where_long = _undeclared(lambda _, params: len(params.get("query", "")) > 500)
undeclared_where_not_ascii = _undeclared(lambda _, params: not params.get("query", "").isascii())
undeclared_beyond16_bits = _undeclared(lambda _, params: max(params.get("query", "")) > "\uffff")
undeclared_where_limit_is_large = _undeclared(lambda _, params: params.get("limit", 0) > 50)
undeclared_where_limit_is_one = _undeclared(lambda _, params: params.get("limit") == 1)
undeclared_where_cursor_is_long = _undeclared(lambda _, params: len(params.get("cursor", "")) > 500)
undeclared_where_cursor_is_empty = _undeclared(lambda _, params: params.get("cursor") == "")
undeclared_later = _undeclared(lambda client, _: client.searched > 30)
undeclared_for_users = _undeclared(lambda client, _: client.user != "")
undeclared_without_settings = _undeclared(lambda client, _: not client.settings)
undeclared_where_few_tools = _undeclared(lambda client, _: (client.settings or {}).get("catalogSize") in range(50))


class UndeclaredFromTheThirdPageOn(_Undeclared):
    pages = 0

    def hides(self, params: Json) -> bool:
        self.pages = self.pages + 1 if "cursor" in params else 0
        return self.pages > 1


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


def _declaring(declared: Callable[[str, str], Json | None]) -> type[Client]:
    """Make a client that declares other capabilities, by era and method."""

    class Declaring(Client):
        def declared(self, method: str) -> Json:
            other = declared(self.era, method)
            return super().declared(method) if other is None else other

    return Declaring


declares_in_experimental = _declaring(lambda era, _: {"experimental": {EXTENSION_ID: {}}} if era == MODERN else None)
undeclared_in_handshake = _declaring(lambda _, method: {} if method == "initialize" else None)
declares_true_in_handshake = _declaring(
    lambda _, method: {"extensions": {EXTENSION_ID: True}} if method == "initialize" else None
)


def _looking_in(modern: tuple[str, ...], legacy: tuple[str, ...]) -> type[Client]:
    """Make a client that looks for the extension in other places."""

    class LookingIn(Client):
        def places(self) -> tuple[str, ...]:
            return modern if self.era == MODERN else legacy

    return LookingIn


extensions_only = _looking_in(("extensions",), ("extensions",))
experimental_only_in_legacy = _looking_in(("extensions",), ("experimental",))
experimental_in_modern = _looking_in(("extensions", "experimental"), ("extensions", "experimental"))


class MalformedSettingsRefused(Client):
    """Does not connect where it cannot read the settings, as a typed decoder does."""

    def read_settings(self, capabilities: Json) -> Json | None:
        settings = super().read_settings(capabilities)
        if type((settings or {}).get("maxLimit", 1)) is not int:
            raise InvalidError("no integer")
        return settings


def _strict(accepted: Callable[[Json], bool]) -> type[Client]:
    """Make a client for which only some settings say that the extension is there."""

    class Strict(Client):
        def counts(self, held: Any) -> bool:
            return super().counts(held) and accepted(held)

    return Strict


settings_closed = _strict(lambda settings: set(settings) <= SETTINGS)
settings_strict = _strict(lambda settings: settings.get("maxLimit") != 0)
settings_that_disable_believed = _strict(lambda settings: bool(settings.get("enabled", True)))
settings_of_other_lists_strict = _strict(lambda settings: isinstance(settings.get("resources", {}), dict))
# Lists what is small by a number of any kind.
size_believed = _strict(
    lambda settings: not isinstance(settings.get("catalogSize"), int | float) or settings["catalogSize"] >= 10
)
# A number with a decimal point is read as no integer, as in some languages, and its object not at all.
whole_floats_are_no_numbers = _strict(
    lambda settings: not (isinstance(settings.get("maxLimit"), float) and settings["maxLimit"].is_integer())
)
numbers_of64_bits = _strict(lambda settings: all(number < 2**63 for number in settings.values() if type(number) is int))
# Takes tools for a list that has a setting of its own.
setting_of_tools_believed = _strict(lambda settings: settings.get("tools") is not False)


def _taken_for_advertised(when: Callable[[Json], bool]) -> type[Client]:
    """Make a client that takes some capabilities for those of a server with the extension."""

    class TakenForAdvertised(Client):
        def read_settings(self, capabilities: Json) -> Json | None:
            return {} if when(capabilities) else super().read_settings(capabilities)

    return TakenForAdvertised


def _named_alike(alike: Callable[[str], bool]) -> type[Client]:
    """Make a client that takes an extension with another identifier for this one, where this one is not advertised."""

    def advertised(capabilities: Json) -> bool:
        held = extensions_in(capabilities)
        return EXTENSION_ID not in held and any(map(alike, held))

    return _taken_for_advertised(advertised)


advertised_by_another = _named_alike(lambda name: name.endswith("/tools-search"))
identifier_by_prefix = _named_alike(lambda name: name.startswith(EXTENSION_ID))
identifier_by_suffix = _named_alike(lambda name: name.endswith(EXTENSION_ID))
# Takes a `search` among the capability of tools for the extension.
advertised_under_tools = _taken_for_advertised(lambda capabilities: "search" in capabilities["tools"])
advertised_in_extensions_of_tools = _taken_for_advertised(
    lambda capabilities: EXTENSION_ID in extensions_in(capabilities.get("tools", {}))
)
advertised_as_a_capability = _taken_for_advertised(lambda capabilities: EXTENSION_ID in capabilities)
# Looks for the identifier among the members or elements of `extensions`.
advertised_in_an_array = _taken_for_advertised(lambda capabilities: capabilities.get("extensions") == [EXTENSION_ID])


def _capabilities_read(reading: Callable[[Json], Json]) -> type[Client]:
    """Make a client that reads other capabilities than there are."""

    class CapabilitiesRead(Client):
        def read_settings(self, capabilities: Json) -> Json | None:
            return super().read_settings(reading(capabilities))

    return CapabilitiesRead


def _identifiers_read(reading: Callable[[str], str]) -> type[Client]:
    def read(capabilities: Json) -> Json:
        held = extensions_in(capabilities)
        return {**capabilities, "extensions": {**{reading(name): value for name, value in held.items()}, **held}}

    return _capabilities_read(read)


identifier_blind_to_case = _identifiers_read(str.lower)
identifier_trimmed = _identifiers_read(str.strip)
# As parsers do that match names regardless of case.
capabilities_in_any_case = _capabilities_read(
    lambda capabilities: {name.lower(): value for name, value in capabilities.items()}
)


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


class AdvertisedAsNumber(Client):
    def counts(self, held: Any) -> bool:
        return held == 1 or super().counts(held)


class AdvertisedAsNull(Client):
    """Looks only whether there is a value."""

    def read_settings(self, capabilities: Json) -> Json | None:
        present = extensions_in(capabilities).get(EXTENSION_ID, False) is None
        return {} if present else super().read_settings(capabilities)


class FirstPlaceDecides(Client):
    def read_settings(self, capabilities: Json) -> Json | None:
        first = extensions_in(capabilities).get(EXTENSION_ID, {})
        return super().read_settings(capabilities) if self.counts(first) else None


class SettingsBelieved(Client):
    def limited(self, limit: int | None) -> Json:
        most: Any = (self.settings or {}).get("maxLimit")
        return {"limit": min(limit, most)} if limit and isinstance(most, int | float) else super().limited(limit)


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


class LargestLimitWithoutAnother(Client):
    """Asks for as many as there can be if the host does not say how many it wants."""

    def limited(self, limit: int | None) -> Json:
        most: Any = (self.settings or {}).get("maxLimit")
        return {"limit": most} if limit is None and most is not None else super().limited(limit)


class SearchOfABaseCapabilityCounts(Client):
    searchable: set[str]

    def read_settings(self, capabilities: Json) -> Json | None:
        self.searchable = {name for name, held in capabilities.items() if "search" in held}
        return super().read_settings(capabilities)

    def of(self, member: str) -> Client:
        other = super().of(member)
        if self.settings is not None and other.path.partition("/")[0] in self.searchable:
            other.settings = {}
        return other


class SettingInAnyCase(Client):
    any_case = False

    def counts(self, held: Any) -> bool:
        setting = self.path.partition("/")[0]
        self.any_case = any(name.lower() == setting for name in self.settings or {})
        return super().counts(held)

    def searches(self) -> bool:
        return self.any_case or super().searches()


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


def _probing_where_listing(fails: Callable[[RefusedError], bool], lists: Callable[[int], bool]) -> type[Client]:
    """Make a client that probes where a listing fails in some way, or has some number of tools."""

    class ProbingWhereListing(_Probing):
        def listed(self) -> list[Json]:
            try:
                tools = super().listed()
            except RefusedError as error:
                if fails(error):
                    self.probe()
                raise
            if lists(len(tools)):
                self.probe()
            return tools

    return ProbingWhereListing


probes_where_listing_fails = _probing_where_listing(lambda _: True, lambda _: False)
probes_where_listing_is_unknown = _probing_where_listing(lambda error: error.code == -32601, lambda _: False)
probes_where_nothing_is_listed = _probing_where_listing(lambda _: False, lambda size: size == 0)
probes_where_much_is_listed = _probing_where_listing(lambda _: False, lambda size: size > 1000)


def _probing_where_a_call_gets(code: int) -> type[Client]:
    class ProbingWhereACallGets(_Probing):
        def call(self, name: str, arguments: Json) -> Json:
            try:
                return super().call(name, arguments)
            except RefusedError as error:
                if error.code == code:
                    self.probe()
                raise

    return ProbingWhereACallGets


probes_to_refresh_a_definition = _probing_where_a_call_gets(-32020)
probes_for_a_call_of_an_unknown_tool = _probing_where_a_call_gets(-32602)


class ProbesWhereNothingFits(_Probing):
    def ranked(self, query: str, tools: list[Json]) -> list[Json]:
        fit = super().ranked(query, tools)
        if not fit:
            self.probe()
        return fit


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


class SearchesBesideOneThatCan(Federation):
    def open(self) -> None:
        super().open()
        if any(client.searches() for client in self.clients.values()):
            for client in self.clients.values():
                client.settings = client.settings or {}


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


class SettingsAroundStrict(Client):
    """Reads the setting for its list only where all other settings are valid."""

    def counts(self, held: Any) -> bool:
        around = self.settings or {}  # which still are those of the whole server
        return super().counts(held) and isinstance(around.get("maxLimit", 1), int)


class UndeclaredOnceKept(_Undeclared):
    """What was kept for its time is requested again without a declaration."""

    def hides(self, params: Json) -> bool:
        return f"None {self.key(params)}" in self.kept or f"{self.user!r} {self.key(params)}" in self.kept


class SettingsOfContentsStrict(Client):
    def counts(self, held: Any) -> bool:
        return super().counts(held) and isinstance(held.get("contents", False), bool)


class SettingsOfUnlistedStrict(Client):
    def counts(self, held: Any) -> bool:
        return super().counts(held) and isinstance(held.get("unlisted", False), bool)


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
