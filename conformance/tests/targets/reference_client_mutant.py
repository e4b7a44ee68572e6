"""The driver of the reference client, whose client has one rule broken.

    target.py reference_client_mutant FAULT

Its code stays the same: a fault replaces one function before the driver starts.
"""

from __future__ import annotations

import runpy
import sys
from collections.abc import AsyncIterator, Callable, Sequence
from contextlib import suppress
from pathlib import Path
from typing import Any, Final

from mcp import MCPError
from mcp_ext_search_primitives.client import primitives_settings
from mcp_ext_tools_search.client import iter_pages, search, search_tools
from mcp_ext_tools_search.types import SearchToolsResult
from mcp_types import INVALID_PARAMS
from tools_search_client.federation import federation, merging
from tools_search_client.federation.fanout import Answer
from tools_search_client.found import FoundTool
from tools_search_client.servers import discovery, faults, server_tools
from tools_search_client.servers.cache import ExpiringCache
from tools_search_client.servers.server_tools import ServerTools

DRIVER: Final = Path(__file__).parents[2] / "drivers" / "reference_client.py"

Pages = AsyncIterator[SearchToolsResult]


def replace(owner: object, name: str, by: object) -> None:
    """Replace the attribute `name` of `owner` by `by`."""
    if not hasattr(owner, name):
        raise SystemExit(f"{owner} has no {name} to be broken")
    setattr(owner, name, by)


def users_confounded() -> None:
    keep = ExpiringCache[Any].put

    def put(self: ExpiringCache[Any], key: str, value: Any, *, scope: str, **rest: Any) -> None:
        keep(self, key, value, scope="public", **rest)

    replace(ExpiringCache, "put", put)


def kept_beyond_its_time() -> None:
    keep = ExpiringCache[Any].put

    def put(self: ExpiringCache[Any], key: str, value: Any, *, ttl_seconds: float, **rest: Any) -> None:
        keep(self, key, value, ttl_seconds=ttl_seconds and 3600, **rest)

    replace(ExpiringCache, "put", put)


def changes_unheeded() -> None:
    def forget(self: ServerTools, *_: Any) -> None:
        return

    replace(ServerTools, "forget", forget)


def limits_confounded() -> None:
    get, put = ExpiringCache[Any].get, ExpiringCache[Any].put

    def query_alone(key: Any) -> Any:
        return key[0] if isinstance(key, tuple) else key  # pyright: ignore[reportUnknownVariableType] - of any key

    def get_of_query(self: ExpiringCache[Any], key: Any, **rest: Any) -> Any:
        return get(self, query_alone(key), **rest)

    def put_of_query(self: ExpiringCache[Any], key: Any, value: Any, **rest: Any) -> None:
        put(self, query_alone(key), value, **rest)

    replace(ExpiringCache, "get", get_of_query)
    replace(ExpiringCache, "put", put_of_query)


def refusals_reported() -> None:
    replace(discovery, "_UNSUPPORTED", frozenset[int]())


def busy_is_broken() -> None:
    def unread(_: MCPError) -> None:
        return

    replace(faults, "retry_after", unread)


def _reading_on(until: Callable[[Any], bool]) -> None:
    async def broken(*args: Any, **options: Any) -> Pages:
        pages: Pages = iter_pages(*args, **options)
        async for page in pages:
            yield page
            if until(page):
                return

    replace(search, "iter_pages", broken)


def empty_page_ends() -> None:
    _reading_on(lambda page: isinstance(page, SearchToolsResult) and not page.tools)


def empty_cursor_ends() -> None:
    _reading_on(lambda page: not page.next_cursor)


def refused_cursor_combines() -> None:
    async def broken(*args: Any, **options: Any) -> Pages:
        read = 0
        pages: Pages = iter_pages(*args, **options)
        try:
            async for page in pages:
                read += 1
                yield page
        except MCPError as error:
            if not read or error.code != INVALID_PARAMS:
                raise
            pages = iter_pages(*args, **options)
            with suppress(MCPError):
                async for page in pages:
                    yield page

    replace(search, "iter_pages", broken)


def _asking(change: Callable[[str, str], tuple[str, str]]) -> None:
    async def broken(target: Any, query: str, *, cursor: str | None = None, **options: Any) -> SearchToolsResult:
        if cursor is not None:
            query, cursor = change(query, cursor)
        return await search_tools(target, query, cursor=cursor, **options)

    replace(search, "search_tools", broken)


def query_lowered_with_cursor() -> None:
    _asking(lambda query, cursor: (query.lower(), cursor))


def cursor_trimmed() -> None:
    _asking(lambda query, cursor: (query, cursor.strip() or cursor))


def scores_decide() -> None:
    def merge(_: str, answers: Sequence[tuple[Any, Sequence[FoundTool]]], *, limit: int, **__: Any) -> list[FoundTool]:
        every = [tool for _, tools in answers for tool in tools]
        return sorted(every, key=lambda tool: -(tool.hit.score or 0))[:limit]

    replace(federation, "merge", merge)


def names_joined() -> None:
    def joined(server: str, tool: str) -> str:
        return f"{server}__{tool}"

    for module in (federation, merging):  # both name tools
        replace(module, "qualified_name", joined)


def failures_unreported() -> None:
    original = Answer[Any].report

    def report(self: Answer[Any], **rest: Any) -> Any:
        reported = original(self, **rest)
        object.__setattr__(reported, "failure", None)
        return reported

    replace(Answer, "report", report)


def empty_settings_are_none() -> None:
    def broken(target: Any) -> Any:
        found = primitives_settings(target)
        return found if found is not None and found.model_fields_set else None

    replace(server_tools, "primitives_settings", broken)


FAULTS: Final[dict[str, Callable[[], None]]] = {
    fault.__name__.replace("_", "-"): fault
    for fault in (
        users_confounded, kept_beyond_its_time, changes_unheeded, limits_confounded, refusals_reported, empty_page_ends,
        empty_cursor_ends, refused_cursor_combines, query_lowered_with_cursor, cursor_trimmed, scores_decide,
        names_joined, failures_unreported, empty_settings_are_none, busy_is_broken,
    )
}  # fmt: skip


def main() -> None:
    FAULTS[sys.argv[1]]()
    sys.path.insert(0, str(DRIVER.parent))  # where the driver finds its loop
    runpy.run_path(str(DRIVER), run_name="__main__")
