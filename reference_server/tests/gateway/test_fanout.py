"""Which servers a search asks on which page, if many fail."""

from __future__ import annotations

from functools import partial

import anyio
import pytest
from mcp import MCPError
from tools_search_server.gateway.fanout import ask_all
from tools_search_server.upstreams.delegated_search import NoAnswerError


@pytest.mark.anyio
async def test_servers_that_failed_are_left_out_of_later_pages_as_far_as_the_cursor_has_room_for_them() -> None:
    asked: list[str] = []

    async def ask(name: str) -> None:
        asked.append(name)
        raise NoAnswerError(name)

    asks = {f"server {number}": partial(ask, f"server {number}") for number in range(102)}
    with anyio.fail_after(10):
        found, note = await ask_all(asks, None)
        assert (found, len(asked)) == ({}, 102)
        assert len(note) <= 1_024, "what a cursor carries for its server"
        asked.clear()
        with pytest.raises(MCPError, match="server 100"):
            await ask_all(asks, note)
    assert asked == ["server 100", "server 101"]
