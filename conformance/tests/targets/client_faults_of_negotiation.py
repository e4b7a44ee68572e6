"""What a client declares, and where it looks for the extension."""

from __future__ import annotations

import json
from typing import Any, ClassVar

from .client_library import EXTENSION_ID, META, MODERN, SETTINGS, Client, RefusedError
from .miniature_transports import Json


class DeclaresInExperimental(Client):
    def declared(self, method: str) -> Json:
        return {"experimental": {EXTENSION_ID: {}}} if self.era == MODERN else super().declared(method)


class UndeclaredWithCursor(Client):
    def message(self, method: str, params: Json) -> Json:
        message = super().message(method, params)
        if self.era == MODERN and "cursor" in params:
            message["params"]["_meta"][META + "clientCapabilities"] = {}
        return message


class UndeclaredInHandshake(Client):
    def declared(self, method: str) -> Json:
        return {} if method == "initialize" else super().declared(method)


class DeclaresTrueInHandshake(Client):
    def declared(self, method: str) -> Json:
        return {"extensions": {EXTENSION_ID: True}} if method == "initialize" else super().declared(method)


class AdvertisedAsTrue(Client):
    def counts(self, held: Any) -> bool:
        return held is True or super().counts(held)


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
        first = (capabilities.get("extensions") or Json()).get(EXTENSION_ID, {})
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
        others = [name for name in capabilities.get("extensions") or Json() if name.endswith("/tools-search")]
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
        held: Json = capabilities.get("extensions") or {}
        lowered = {name.lower(): value for name, value in held.items()}
        return super().read_settings({**capabilities, "extensions": {**lowered, **held}})


class IdentifierByPrefix(Client):
    def read_settings(self, capabilities: Json) -> Json | None:
        held: Json = capabilities.get("extensions") or {}
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


class UndeclaredAfterRefusal(Client):
    """Once a server has refused anything, its capabilities are sent no more."""

    refused = False

    def request(self, method: str, params: Json) -> Json:
        try:
            return super().request(method, params)
        except RefusedError:
            self.refused = True
            raise

    def declared(self, method: str) -> Json:
        return {} if self.refused else super().declared(method)


class UndeclaredWithLimit(Client):
    def message(self, method: str, params: Json) -> Json:
        message = super().message(method, params)
        if self.era == MODERN and "limit" in params:
            message["params"]["_meta"][META + "clientCapabilities"] = {"extensions": {}}
        return message


class Probes(Client):
    """A client that asks a server in whose capabilities nothing looks like the extension."""

    advertised = True

    def read_settings(self, capabilities: Json) -> Json | None:
        self.advertised = EXTENSION_ID in json.dumps(capabilities)
        return super().read_settings(capabilities)

    def searches(self) -> bool:
        if not self.advertised:
            self.request("tools/search", {"query": "is anybody there"})
        return super().searches()


class Silent(Client):
    """A client that does not know the extension."""

    def declared(self, method: str) -> Json:
        return {}

    def searches(self) -> bool:
        return False
