"""Pages: when a search ends, scores of pages, and refused cursors."""

from __future__ import annotations

from .client_library import EXTENSION_ID, Client, RefusedError
from .miniature_transports import Json


def score_of(tool: Json) -> float:
    """Return what the server says of how well a tool fits."""
    return tool.get("_meta", {}).get(EXTENSION_ID, {}).get("score", 0)


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


class RefusedCursorKeepsPages(Client):
    def cursor_refused(self, query: str, tools: list[Json]) -> list[Json]:
        return tools


class RefusedCursorKeepsCache(Client):
    def cursor_refused(self, query: str, tools: list[Json]) -> list[Json]:
        return self.page({"query": query})["tools"]


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


class RefusedCursorForEver(Client):
    def all_pages(self, query: str, *, again: bool = False) -> list[Json]:
        return super().all_pages(query)
