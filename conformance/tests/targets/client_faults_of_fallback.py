"""When a client falls back to its own ranking of the listing."""

from __future__ import annotations

from typing import Any

from .client_faults import fault
from .miniature_client import Client, Invalid, Refused
from .miniature_transports import Json


@fault("empty-settings-are-none")
class EmptySettingsAreNone(Client):
    def counts(self, held: Any) -> bool:
        return super().counts(held) and bool(held)


@fault("lists-what-is-large")
class ListsWhatIsLarge(Client):
    def searches(self) -> bool:
        return super().searches() and (self.settings or {}).get("catalogSize", 0) < 100_000


@fault("unadvertised-unranked")
class UnadvertisedUnranked(Client):
    def ranked(self, query: str, tools: list[Json]) -> list[Json]:
        return super().ranked(query, tools) if self.settings is not None else tools


@fault("unadvertised-is-an-error-for-all")
class UnadvertisedIsAnErrorForAll(Client):
    def search_all(self, query: str) -> list[Json]:
        if self.settings is None:
            raise Invalid("the server cannot search")
        return super().search_all(query)


@fault("unadvertised-first-page-only")
class UnadvertisedFirstPageOnly(Client):
    def listed(self) -> list[Json]:
        return super().listed() if self.settings is not None else self.request("tools/list", {})["tools"]


@fault("empty-list-page-ends")
class EmptyListPageEnds(Client):
    def listed(self) -> list[Json]:
        first = self.request("tools/list", {})["tools"]
        return first and super().listed()


@fault("unadvertised-is-an-error")
class UnadvertisedIsAnError(Client):
    def searches(self) -> bool:
        if self.settings is None:
            raise Invalid("the server cannot search")
        return True


@fault("unknown-method-is-an-error")
class UnknownMethodIsAnError(Client):
    def instead(self, error: Refused | Invalid, query: str) -> list[Json]:
        if isinstance(error, Refused) and error.code == -32601:
            raise error
        return super().instead(error, query)


@fault("missing-capability-is-an-error")
class MissingCapabilityIsAnError(Client):
    def instead(self, error: Refused | Invalid, query: str) -> list[Json]:
        if isinstance(error, Refused) and error.code == -32021:
            raise error
        return super().instead(error, query)


@fault("invalid-result-is-an-error")
class InvalidResultIsAnError(Client):
    def instead(self, error: Refused | Invalid, query: str) -> list[Json]:
        if isinstance(error, Invalid):
            raise error
        return super().instead(error, query)


@fault("later-refusal-is-the-end")
class LaterRefusalIsTheEnd(Client):
    def page(self, params: Json) -> Json:
        try:
            return super().page(params)
        except Refused as error:
            if "cursor" not in params or error.code == -32602:
                raise
            return {"tools": []}


@fault("later-invalid-result-is-the-end")
class LaterInvalidResultIsTheEnd(Client):
    def page(self, params: Json) -> Json:
        try:
            return super().page(params)
        except Invalid:
            if "cursor" not in params:
                raise
            return {"tools": []}


@fault("invalid-cursor-ignored")
class InvalidCursorIgnored(Client):
    def checked(self, result: Json) -> Json:
        if not isinstance(result.get("nextCursor", ""), str):
            del result["nextCursor"]
        return super().checked(result)
