"""Messages in pieces: each arrives on its own, since some clients' libraries join what arrives together."""

from __future__ import annotations

import asyncio

import pytest
from tools_search_conformance.clients.http_connection import HttpConnection, divided

_MESSAGE = {"jsonrpc": "2.0", "id": 1, "result": {"tools": [{"name": "鶴", "description": 'A "crane"\\'}]}}


@pytest.mark.parametrize("anyio_backend", ["asyncio"])
async def test_a_client_that_reads_at_once_reads_each_piece_of_an_event_alone(anyio_backend: str) -> None:
    async def serve(reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        connection = HttpConnection(reader, writer)
        await connection.request(1_000)
        await connection.start_stream()
        await connection.send_event(_MESSAGE, in_pieces=True)
        await connection.end_stream()
        writer.close()

    server = await asyncio.start_server(serve, "127.0.0.1", 0)
    async with server:
        reader, writer = await asyncio.open_connection(*server.sockets[0].getsockname())
        writer.write(b"GET / HTTP/1.1\r\nHost: x\r\n\r\n")
        reads: list[bytes] = []
        while read := await reader.read(1_000_000):
            reads.append(read)
        writer.close()
    chunks: list[bytes] = []
    for read in reads[1:]:
        size, _, rest = read.partition(b"\r\n")
        if b"\r\n0\r\n" not in read and size != b"0":
            chunks.append(rest[: int(size, 16)])
    assert len(reads) >= len(divided(b"".join(chunks))) > 10
