"""What a client declares, and where it looks for the extension."""

from __future__ import annotations

import json
from typing import Any

from .client_library import EXTENSION_ID, META, MODERN, SETTINGS, Client
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


class Probes(Client):
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
