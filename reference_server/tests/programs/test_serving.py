"""Listening: answers leave as soon as they are written."""

from __future__ import annotations

import asyncio
import socket

import anyio
import pytest
from tools_search_server.base.address import Address
from tools_search_server.programs.serving import listening

pytestmark = pytest.mark.anyio


async def test_a_small_answer_is_sent_at_once_and_not_held_back_for_more() -> None:
    accepted: list[int] = []

    async def answer(_: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        connection: socket.socket = writer.get_extra_info("socket")
        accepted.append(connection.getsockopt(socket.IPPROTO_TCP, socket.TCP_NODELAY))
        writer.close()

    with anyio.fail_after(10), listening(Address("127.0.0.1", 0)) as listener:
        port: int = listener.getsockname()[1]
        server = await asyncio.start_server(answer, sock=listener)
        async with server, await anyio.connect_tcp("127.0.0.1", port) as client:
            with pytest.raises(anyio.EndOfStream):
                await client.receive()
    assert accepted == [1]
