"""Pages: when a search ends, scores of pages, and refused cursors."""

from __future__ import annotations

from typing import Any

from .client_library import EXTENSION_ID, Client, InvalidError, RefusedError
from .miniature_transports import Json


def score_of(tool: Json) -> float:
    """Return what the server says of how well a tool fits."""
    return tool.get("_meta", {}).get(EXTENSION_ID, {}).get("score", 0)


class _FromTheEighthPage(Client):
    """Changes the params of later pages from the eighth one on."""

    pages = 1

    def all_pages(self, query: str, *, again: bool = False) -> list[Json]:
        self.pages = 1
        return super().all_pages(query, again=again)

    def next_params(self, query: str, cursor: str) -> Json:
        self.pages += 1
        params = super().next_params(query, cursor)
        return {**params, **self.late(params)} if self.pages >= 8 else params

    def late(self, params: Json) -> Json:
        return params


class QueryTrimmedFromTheEighthPage(_FromTheEighthPage):
    def late(self, params: Json) -> Json:
        return {"query": params["query"].strip()}


class CursorTrimmedFromTheEighthPage(_FromTheEighthPage):
    def late(self, params: Json) -> Json:
        return {"cursor": params["cursor"].strip()}


class CursorOfTheLastPageOfAnySearch(Client):
    """Reads every page of each search, and continues all of them from the cursor that came last."""

    cursor = ""

    def search(self, query: str, limit: int | None = None) -> list[Json]:
        return super().search(query, limit) if limit else self.search_all(query)

    def next_params(self, query: str, cursor: str) -> Json:
        self.cursor = cursor
        return super().next_params(query, cursor)

    def request(self, method: str, params: Json) -> Json:
        continues = method == f"{self.path}/search" and "cursor" in params
        return super().request(method, {**params, "cursor": self.cursor} if continues else params)


class EmptyStartEnds(Client):
    begun = False

    def all_pages(self, query: str, *, again: bool = False) -> list[Json]:
        self.begun = False
        return super().all_pages(query, again=again)

    def is_last(self, page: Json) -> bool:
        first, self.begun = not self.begun, True
        return super().is_last(page) or (first and not page["tools"])


class EmptyPageEnds(Client):
    def is_last(self, page: Json) -> bool:
        return super().is_last(page) or not page["tools"]


class PageWithoutValidToolsEnds(Client):
    listed_some = True

    def all_pages(self, query: str, *, again: bool = False) -> list[Json]:
        self.listed_some = True
        return super().all_pages(query, again=again)

    def checked(self, result: Json) -> Json:
        page = super().checked(result)
        self.listed_some = bool(page["tools"]) or not result["tools"]
        return page

    def is_last(self, page: Json) -> bool:
        return super().is_last(page) or not self.listed_some


class CursorsInArrays(Client):
    def next_params(self, query: str, cursor: str) -> Json:
        params = super().next_params(query, cursor)
        return {**params, "cursor": [params["cursor"]]}


class NullCursorSent(Client):
    """Takes `null` for a cursor, once."""

    asked_with = ""

    def checked(self, result: Json) -> Json:
        page = super().checked(result)
        return {**page, "nextCursor": "None"} if result.get("nextCursor", "") is None else page

    def cursor_refused(self, query: str, tools: list[Json]) -> list[Json]:
        return tools if self.asked_with == "None" else super().cursor_refused(query, tools)

    def next_params(self, query: str, cursor: str) -> Json:
        self.asked_with = cursor
        return super().next_params(query, cursor)


class NullCursorInvalid(Client):
    def checked(self, result: Json) -> Json:
        if result.get("nextCursor", "") is None:
            raise RefusedError({"message": "no cursor"})
        return super().checked(result)


class EmptyCursorEnds(Client):
    def is_last(self, page: Json) -> bool:
        return not page.get("nextCursor")


class CircleFollowed(Client):
    def all_pages(self, query: str, *, again: bool = False) -> list[Json]:
        try:
            return super().all_pages(query, again=again)
        except RefusedError as error:
            if error.code is not None:
                raise
        params: Json = {"query": query}
        while not self.is_last(page := self.page(params)):
            params = self.next_params(query, page["nextCursor"])
        return []


class CircleOfOneFoundOnly(Client):
    def came_before(self, cursor: str, cursors: list[str]) -> bool:
        return cursors[-1:] == [cursor]


class ScoresCompared(Client):
    def all_pages(self, query: str, *, again: bool = False) -> list[Json]:
        return sorted(super().all_pages(query, again=again), key=lambda tool: -score_of(tool))


class StopsWhereScoresRise(Client):
    """Takes a page whose best score is above the last one of the page before for the last page."""

    lowest = 1.0

    def page(self, params: Json) -> Json:
        page = super().page(params)
        scores = [score_of(tool) for tool in page["tools"]] or [0]
        above, self.lowest = "cursor" in params and scores[0] > self.lowest, scores[-1]
        return {name: value for name, value in page.items() if not above or name != "nextCursor"}


class RefusedCursorEnds(Client):
    """Stops at a refused cursor with what it has, as it may."""

    def cursor_refused(self, query: str, tools: list[Json]) -> list[Json]:
        return tools


class RefusedCursorKeepsCachedPages(Client):
    """Of the cached pages before a refused cursor, only the first is dropped."""

    def cursor_refused(self, query: str, tools: list[Json]) -> list[Json]:
        self.kept = {key: page for key, page in self.kept.items() if '"cursor"' in key}
        return self.all_pages(query, again=True)


class RefusedCursorAddsPages(Client):
    def cursor_refused(self, query: str, tools: list[Json]) -> list[Json]:
        return tools + self.all_pages(query, again=True)


class RefusedCursorTwice(Client):
    starts = 0

    def search_all(self, query: str) -> list[Json]:
        self.starts = 0
        return super().search_all(query)

    def all_pages(self, query: str, *, again: bool = False) -> list[Json]:
        self.starts += 1
        return super().all_pages(query, again=again and self.starts > 2)


class RefusedCursorOfNothingUncounted(Client):
    """Counts a refused cursor only if there are tools to discard."""

    def cursor_refused(self, query: str, tools: list[Json]) -> list[Json]:
        return self.all_pages(query, again=bool(tools))


class RefusedCursorForEver(Client):
    def all_pages(self, query: str, *, again: bool = False) -> list[Json]:
        return super().all_pages(query)


class RefusedCursorDropsLastPage(Client):
    """Of the pages before, only the one that had the cursor is discarded."""

    last = 0

    def page(self, params: Json) -> Json:
        page = super().page(params)
        self.last = len(page["tools"])
        return page

    def cursor_refused(self, query: str, tools: list[Json]) -> list[Json]:
        return tools[: len(tools) - self.last] + super().cursor_refused(query, tools)


class RefusedCursorCountedByProgress(Client):
    """A page that comes makes the refusals before it forgotten."""

    pages = 0

    def all_pages(self, query: str, *, again: bool = False) -> list[Json]:
        self.pages = 0
        return super().all_pages(query, again=again)

    def page(self, params: Json) -> Json:
        page = super().page(params)
        self.pages += 1
        return page

    def cursor_refused(self, query: str, tools: list[Json]) -> list[Json]:
        self.kept.clear()
        return self.all_pages(query, again=self.pages < 2)


class RefusalWithoutDataIsNone(Client):
    """Starts over as often as it takes, unless the refusal names the field."""

    named = True

    def request(self, method: str, params: Json) -> Json:
        try:
            return super().request(method, params)
        except RefusedError as error:
            self.named = self.names(error)
            raise

    def names(self, error: RefusedError) -> bool:
        return bool(error.data)

    def all_pages(self, query: str, *, again: bool = False) -> list[Json]:
        return super().all_pages(query, again=again and self.named)


class RefusalKnownByItsText(RefusalWithoutDataIsNone):
    def names(self, error: RefusedError) -> bool:
        return "cursor" in str(error)


class ReadsOn(Client):
    """Breaks no rule: reads as many pages as there have to be for a limit, and all of them without one."""

    def search(self, query: str, limit: int | None = None) -> list[Json]:
        if not self.searches():
            return super().search(query, limit)
        tools: list[Json] = []
        first: Json = {"query": query} | self.limited(limit)
        params = first
        try:
            for _ in range(50):
                page = self.page(params)
                tools += page["tools"]
                if self.is_last(page) or len(tools) >= (limit or 1000) or self.ends(page, limit):
                    break
                params = {**first, **self.next_params(query, page["nextCursor"])}
        except (RefusedError, InvalidError) as error:
            tools = tools or self.instead(error, query)
        return self.cut(tools, limit)

    def ends(self, page: Json, limit: int | None) -> bool:
        return False

    def cut(self, tools: list[Json], limit: int | None) -> list[Json]:
        return tools[:limit]


class EmptyPageEndsWithLimit(ReadsOn):
    def ends(self, page: Json, limit: int | None) -> bool:
        return limit is not None and not page["tools"]


class EmptyPageEndsWithoutLimit(ReadsOn):
    def ends(self, page: Json, limit: int | None) -> bool:
        return limit is None and not page["tools"]


class CutByScore(ReadsOn):
    def cut(self, tools: list[Json], limit: int | None) -> list[Json]:
        best = sorted(tools, key=lambda tool: -score_of(tool))[:limit]
        return [tool for tool in tools if tool in best]


class HigherScoreKeptOfTwo(Client):
    def all_pages(self, query: str, *, again: bool = False) -> list[Json]:
        kept: dict[str, Json] = {}
        for tool in super().all_pages(query, again=again):
            before = kept.get(tool["name"])
            if before is None or score_of(tool) > score_of(before):
                kept[tool["name"]] = tool
        return list(kept.values())


class LowScoresLeftOutWhereverTheyAre(Client):
    """Breaks no rule: no score is compared with another."""

    def checked(self, result: Json) -> Json:
        page = super().checked(result)
        return {**page, "tools": [tool for tool in page["tools"] if score_of(tool) == 0 or score_of(tool) > 0.3]}


class FourEmptyPagesEnd(Client):
    empty = 0

    def page(self, params: Json) -> Json:
        page = super().page(params)
        self.empty = 0 if page["tools"] or "cursor" not in params else self.empty + 1
        return page

    def is_last(self, page: Json) -> bool:
        return self.empty >= 4 or super().is_last(page)


class RefusedCursorKeepsDefinitions(Client):
    def cursor_refused(self, query: str, tools: list[Json]) -> list[Json]:
        before = {tool["name"]: tool for tool in tools}
        return [before.get(tool["name"], tool) for tool in super().cursor_refused(query, tools)]


class EmptyPageEndsWhenBegunAgain(Client):
    again = False

    def all_pages(self, query: str, *, again: bool = False) -> list[Json]:
        self.again = again
        return super().all_pages(query, again=again)

    def is_last(self, page: Json) -> bool:
        return super().is_last(page) or (self.again and not page["tools"])


class EmptyPageEndsOnceThereAreEnough(Client):
    count = 0

    def page(self, params: Json) -> Json:
        page = super().page(params)
        self.count = len(page["tools"]) + (self.count if "cursor" in params else 0)
        return page

    def is_last(self, page: Json) -> bool:
        return (not page["tools"] and self.count >= 10) or super().is_last(page)


class SixEmptyPagesEnd(FourEmptyPagesEnd):
    def is_last(self, page: Json) -> bool:
        return self.empty >= 6 or Client.is_last(self, page)


class EmptyCursorOfLaterPagesEnds(Client):
    pages = 0

    def page(self, params: Json) -> Json:
        self.pages = self.pages + 1 if "cursor" in params else 0
        return super().page(params)

    def is_last(self, page: Json) -> bool:
        return super().is_last(page) or (self.pages > 0 and not page["nextCursor"])


class RefusedCursorOnceForEachPage(Client):
    """Starts over once for each number of pages after which a cursor was refused."""

    pages = 0

    def search_all(self, query: str) -> list[Json]:
        self.refused_after: set[int] = set()
        return super().search_all(query)

    def all_pages(self, query: str, *, again: bool = False) -> list[Json]:
        self.pages = 0
        return super().all_pages(query)

    def page(self, params: Json) -> Json:
        page = super().page(params)
        self.pages += 1
        return page

    def cursor_refused(self, query: str, tools: list[Json]) -> list[Json]:
        if self.pages in self.refused_after:
            raise RefusedError({"message": "refused again"})
        self.refused_after.add(self.pages)
        return super().cursor_refused(query, tools)


class EmptyPageWithEmptyCursorEnds(Client):
    def is_last(self, page: Json) -> bool:
        return super().is_last(page) or not (page["tools"] or page["nextCursor"])


class EmptyPageWithEmptyCursorIsAnError(Client):
    def checked(self, result: Json) -> Json:
        page = super().checked(result)
        if not page["tools"] and page.get("nextCursor") == "":
            raise InvalidError("nothing at all")
        return page


class StopsWhereScoresFallFar(Client):
    """Takes a page whose best score is far below that of the first page for the last page."""

    best = 0.0

    def page(self, params: Json) -> Json:
        page = super().page(params)
        best = max(map(score_of, page["tools"]), default=0)
        self.best = self.best if "cursor" in params else best
        return {name: value for name, value in page.items() if best >= self.best / 10 or name != "nextCursor"}


class StopsWhereScoresAreLow(Client):
    """Breaks no rule: no score is compared with another, and a client may stop after any number of pages."""

    def is_last(self, page: Json) -> bool:
        return super().is_last(page) or 0 < max(map(score_of, page["tools"]), default=0) < 0.1


class RefusedCursorLeavesOutWhatCameBefore(Client):
    """Each tool is taken once, from the pages before or from those of the new search."""

    def cursor_refused(self, query: str, tools: list[Json]) -> list[Json]:
        names = {tool["name"] for tool in tools}
        return [tool for tool in super().cursor_refused(query, tools) if tool["name"] not in names]


class KeptEmptyPageEnds(Client):
    kept_one = False

    def page(self, params: Json) -> Json:
        before = self.ids
        page = super().page(params)
        self.kept_one = self.ids == before
        return page

    def is_last(self, page: Json) -> bool:
        return super().is_last(page) or (self.kept_one and not page["tools"])


class CircleOfEmptyPagesFollowed(CircleFollowed):
    """Looks for a circle only where there are tools."""

    had_tools = False

    def is_last(self, page: Json) -> bool:
        self.had_tools = bool(page["tools"])
        return Client.is_last(self, page)

    def came_before(self, cursor: str, cursors: list[str]) -> bool:
        return self.had_tools and super().came_before(cursor, cursors)


class StopsAfterTwoPages(Client):
    """Breaks no rule: a client may stop after any number of pages."""

    most = 2
    pages = 0

    def all_pages(self, query: str, *, again: bool = False) -> list[Json]:
        self.pages = 0
        return super().all_pages(query, again=again)

    def is_last(self, page: Json) -> bool:
        self.pages += 1
        return super().is_last(page) or self.pages >= self.most


class StopsAfterFivePages(StopsAfterTwoPages):
    most = 5


class ToldApartByName(Client):
    """Keeps the first item of each name, even where another member distinguishes items."""

    def all_pages(self, query: str, *, again: bool = False) -> list[Json]:
        names: dict[Any, Json] = {}
        for item in super().all_pages(query, again=again):
            names.setdefault(item.get("name"), item)
        return list(names.values())


class RefusedCursorKeepsWhatNothingReplaces(Client):
    """Discards the pages before a refused cursor only where a new search finds something."""

    def cursor_refused(self, query: str, tools: list[Json]) -> list[Json]:
        return super().cursor_refused(query, tools) or tools


class ScoresComparedAsShares(Client):
    """Orders all tools by their scores, each as a share of the highest on its page."""

    def page(self, params: Json) -> Json:
        page = super().page(params)
        highest = max(map(score_of, page["tools"]), default=0) or 1
        self.shares = {
            **getattr(self, "shares", {}),
            **{tool["name"]: score_of(tool) / highest for tool in page["tools"]},
        }
        return page

    def all_pages(self, query: str, *, again: bool = False) -> list[Json]:
        return sorted(super().all_pages(query, again=again), key=lambda tool: -self.shares[tool["name"]])


class LeftOutWhereScoresRise(Client):
    """Leaves out tools of later pages whose scores are above the lowest of the first page."""

    lowest = 1.0

    def page(self, params: Json) -> Json:
        page = super().page(params)
        if "cursor" not in params:
            self.lowest = min((score for score in map(score_of, page["tools"]) if score), default=1)
            return page
        return {**page, "tools": [tool for tool in page["tools"] if score_of(tool) <= self.lowest]}


class RefusedCursorForgivenAfterThreePages(RefusedCursorCountedByProgress):
    def cursor_refused(self, query: str, tools: list[Json]) -> list[Json]:
        self.kept.clear()
        return self.all_pages(query, again=self.pages < 4)


class StopsAfterOnePage(StopsAfterTwoPages):
    most = 1


class AsksTwiceForEachPage(Client):
    """Breaks no rule: a server should accept a cursor more than once."""

    def page(self, params: Json) -> Json:
        if "cursor" in params:
            super().page(params)
        return super().page(params)


class AsksTwiceForEachOfFivePages(StopsAfterFivePages):
    """Breaks no rule: it takes the answer that comes first."""

    def page(self, params: Json) -> Json:
        super().page(params)
        return super().page(params)


class AsksTwiceForEachFirstPage(Client):
    """Breaks no rule: a search that is sent again before any cursor was refused does not start over."""

    def page(self, params: Json) -> Json:
        if "cursor" not in params:
            super().page(params)
        return super().page(params)


class EmptyPageAfterAFullOneEnds(Client):
    """Asks for 20 tools a page."""

    was_full = False

    def page(self, params: Json) -> Json:
        return super().page({"limit": 20, **params})

    def is_last(self, page: Json) -> bool:
        ends = self.was_full and not page["tools"]
        self.was_full = len(page["tools"]) == 20
        return super().is_last(page) or ends


class QueryTrimmedWhereLimited(ReadsOn):
    def next_params(self, query: str, cursor: str) -> Json:
        return super().next_params(query.strip(), cursor)


class BlankCursorEnds(Client):
    def is_last(self, page: Json) -> bool:
        return super().is_last(page) or (page["nextCursor"] != "" and not page["nextCursor"].strip())


class CursorThatSaysSoEnds(Client):
    def is_last(self, page: Json) -> bool:
        return super().is_last(page) or page["nextCursor"] in {"end", "none", "false", "undefined", "-1", "None"}


class CircleByBeginnings(Client):
    """Takes a cursor for one that it followed before if both begin alike."""

    def came_before(self, cursor: str, cursors: list[str]) -> bool:
        return cursor[:64] in {each[:64] for each in cursors}

    def in_a_circle(self) -> None:
        """Keep what was found, as it may."""
