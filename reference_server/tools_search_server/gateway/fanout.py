"""Asks several upstreams concurrently, and keeps track of the ones that failed.

A server that failed on the first page is omitted from the following pages too, so that all pages belong to one answer.
Cursors carry the failed servers to the next page, as marks that do not reveal their names.
"""

from __future__ import annotations

import hashlib
import logging
from collections.abc import Awaitable, Callable, Collection, Mapping
from typing import Final, TypeVar

import anyio
from mcp import MCPError
from mcp_types import INTERNAL_ERROR

from tools_search_server.upstreams.delegated_search import NoAnswerError

logger = logging.getLogger(__name__)

_MARK_CHARS: Final = 8
_MAX_MARKS: Final = 100

_Found = TypeVar("_Found")


async def ask_all(
    asks: Mapping[str, Callable[[], Awaitable[_Found]]],
    note: str | None,
    needed: Callable[[list[str]], Collection[str]] = lambda _: (),
) -> tuple[dict[str, _Found], str]:
    """Return the upstreams' answers, by name and in the order of `asks`, and the note for the next page.

    Args:
        asks: Functions that ask an upstream, by its name.
        note: The note from the previous page, whose absent servers are not asked; `None` on the first page.
        needed: Returns which of the given servers the first page requires. Later pages require every server that
            earlier pages included, since its results were in them.

    Raises:
        MCPError: -32603, an upstream that this page requires did not answer.
    """
    absent = note or ""
    marks = {absent[start : start + _MARK_CHARS] for start in range(0, len(absent), _MARK_CHARS)}
    asked = {name: ask for name, ask in asks.items() if _mark(name) not in marks}
    found: dict[str, _Found] = {}

    async def answer(name: str, ask: Callable[[], Awaitable[_Found]]) -> None:
        try:
            found[name] = await ask()
        except NoAnswerError as failure:
            logger.warning("a search goes without its answer: %s", failure, extra={"server": name})

    async with anyio.create_task_group() as tasks:
        for name, ask in asked.items():
            tasks.start_soon(answer, name, ask)
    failed = [name for name in asked if name not in found]
    if missed := needed(failed) if note is None else failed:
        text = f"The MCP server {next(iter(missed))!r} did not answer its part of this search in time; try again"
        raise MCPError(INTERNAL_ERROR, text)
    # The note of a cursor holds 1,024 characters. Servers beyond the last mark are asked again on the next page.
    following = (absent + "".join(map(_mark, failed)))[: _MARK_CHARS * _MAX_MARKS]
    return {name: found[name] for name in asked if name in found}, following


def _mark(server: str) -> str:
    return hashlib.sha256(server.encode()).hexdigest()[:_MARK_CHARS]
