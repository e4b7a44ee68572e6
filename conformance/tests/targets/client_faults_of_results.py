"""Results that are misread, and the fallback to a listing."""

from __future__ import annotations

from typing import Any

from .client_library import MODERN, PAGE, Client, InvalidError, RefusedError
from .miniature_transports import Json


class LegacyMembersChecked(Client):
    def checked(self, result: Json) -> Json:
        page = super().checked(result)
        if page.get("resultType", "complete") != "complete":
            raise InvalidError("an unknown kind of result")
        return page


class LegacyTtlObeyed(Client):
    def ttl(self, page: Json) -> float:
        ttl = page.get("ttlMs", 0)
        return ttl if isinstance(ttl, int) else 0


class LegacyTtlOfZeroObeyed(Client):
    def ttl(self, page: Json) -> float:
        return super().ttl(page) if self.era == MODERN else 0 if page.get("ttlMs") == 0 else 30_000


class UnknownMembersOfToolsRefused(Client):
    def checked(self, result: Json) -> Json:
        if any(isinstance(tool, dict) and "future" in tool for tool in result.get("tools") or ()):
            raise InvalidError("unknown members")
        return super().checked(result)


class UnknownMembersRefused(Client):
    def checked(self, result: Json) -> Json:
        if "tools" in result and not set(result) <= PAGE:
            raise InvalidError("unknown members")
        return super().checked(result)


class EmptySettingsAreNone(Client):
    def counts(self, held: Any) -> bool:
        return super().counts(held) and bool(held)


class ListsWhatIsLarge(Client):
    def searches(self) -> bool:
        return super().searches() and (self.settings or {}).get("catalogSize", 0) < 100_000


class UnadvertisedUnranked(Client):
    def ranked(self, query: str, tools: list[Json]) -> list[Json]:
        return super().ranked(query, tools) if self.settings is not None else tools


class UnadvertisedIsAnErrorForAll(Client):
    def search_all(self, query: str) -> list[Json]:
        if self.settings is None:
            raise InvalidError("the server cannot search")
        return super().search_all(query)


class UnadvertisedFirstPageOnly(Client):
    def listed(self) -> list[Json]:
        return super().listed() if self.settings is not None else self.request("tools/list", {})["tools"]


class EmptyListPageEnds(Client):
    def listed(self) -> list[Json]:
        first = self.request("tools/list", {})["tools"]
        return first and super().listed()


class UnadvertisedIsAnError(Client):
    def searches(self) -> bool:
        if self.settings is None:
            raise InvalidError("the server cannot search")
        return True


class UnknownMethodIsAnError(Client):
    def instead(self, error: RefusedError | InvalidError, query: str) -> list[Json]:
        if isinstance(error, RefusedError) and error.code == -32601:
            raise error
        return super().instead(error, query)


class MissingCapabilityIsAnError(Client):
    def instead(self, error: RefusedError | InvalidError, query: str) -> list[Json]:
        if isinstance(error, RefusedError) and error.code == -32021:
            raise error
        return super().instead(error, query)


class InvalidResultIsAnError(Client):
    def instead(self, error: RefusedError | InvalidError, query: str) -> list[Json]:
        if isinstance(error, InvalidError):
            raise error
        return super().instead(error, query)


class InvalidCursorIgnored(Client):
    def checked(self, result: Json) -> Json:
        if not isinstance(result.get("nextCursor", ""), str):
            del result["nextCursor"]
        return super().checked(result)


class ResultWithoutToolsIsEmpty(Client):
    def checked(self, result: Json) -> Json:
        return super().checked({"tools": [], **result} if "resultType" in result else result)


class InvalidToolSpoilsThePage(Client):
    def checked(self, result: Json) -> Json:
        if isinstance(result.get("tools"), list) and not all(map(self.is_tool, result["tools"])):
            raise RefusedError({"message": "no tool"})
        return super().checked(result)


class NearlyToolsKept(Client):
    def is_tool(self, entry: Any) -> bool:
        return super().is_tool(entry) or entry == {"name": "no_schema"}


class _Busy(Client):
    def instead(self, error: RefusedError | InvalidError, query: str) -> list[Json]:
        if isinstance(error, RefusedError) and self.is_busy(error) and self.gives_up():
            return self.ranked(query, self.listed())
        return super().instead(error, query)

    def gives_up(self) -> bool:
        raise NotImplementedError


class BusyIsListed(_Busy):
    def gives_up(self) -> bool:
        return True


class BusyIsListedWhereSmall(_Busy):
    def gives_up(self) -> bool:
        return (self.settings or {}).get("catalogSize", 5000) < 100


class BusyIsListedTheThirdTime(_Busy):
    times = 0

    def gives_up(self) -> bool:
        self.times += 1
        return self.times >= 3


class BusyLaterIsListed(Client):
    def page(self, params: Json) -> Json:
        try:
            return super().page(params)
        except RefusedError as error:
            if "cursor" in params and self.is_busy(error):
                raise InvalidError("the search stopped half-way") from error
            raise
