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


@fault("invalid-cursor-ignored")
class InvalidCursorIgnored(Client):
    def checked(self, result: Json) -> Json:
        if not isinstance(result.get("nextCursor", ""), str):
            del result["nextCursor"]
        return super().checked(result)


@fault("result-without-tools-is-empty")
class ResultWithoutToolsIsEmpty(Client):
    def checked(self, result: Json) -> Json:
        return super().checked({"tools": [], **result} if "resultType" in result else result)


@fault("invalid-tool-spoils-the-page")
class InvalidToolSpoilsThePage(Client):
    def checked(self, result: Json) -> Json:
        if isinstance(result.get("tools"), list) and not all(map(self.is_tool, result["tools"])):
            raise Refused({"message": "no tool"})
        return super().checked(result)


@fault("nearly-tools-kept")
class NearlyToolsKept(Client):
    def is_tool(self, entry: Any) -> bool:
        return super().is_tool(entry) or entry == {"name": "no_schema"}


class _Busy(Client):
    def instead(self, error: Refused | Invalid, query: str) -> list[Json]:
        if isinstance(error, Refused) and self.is_busy(error) and self.gives_up():
            return self.ranked(query, self.listed())
        return super().instead(error, query)

    def gives_up(self) -> bool:
        raise NotImplementedError


@fault("busy-is-listed")
class BusyIsListed(_Busy):
    def gives_up(self) -> bool:
        return True


@fault("busy-is-listed-where-small")
class BusyIsListedWhereSmall(_Busy):
    def gives_up(self) -> bool:
        return (self.settings or {}).get("catalogSize", 5000) < 100


@fault("busy-is-listed-the-third-time")
class BusyIsListedTheThirdTime(_Busy):
    times = 0

    def gives_up(self) -> bool:
        self.times += 1
        return self.times >= 3


@fault("busy-later-is-listed")
class BusyLaterIsListed(Client):
    def page(self, params: Json) -> Json:
        try:
            return super().page(params)
        except Refused as error:
            if "cursor" in params and self.is_busy(error):
                raise Invalid("the search stopped half-way") from error
            raise
