"""What a client takes for a message."""

from __future__ import annotations

import http.client
import json
import os
from collections.abc import Iterator
from typing import IO

from .client_library import Client
from .miniature_transports import HttpTransport, Json, StdioTransport

_PIECE = 65536


class _PieceByPiece(StdioTransport):
    def lines(self, stdout: IO[bytes]) -> Iterator[bytes]:
        text = ""
        while piece := os.read(stdout.fileno(), _PIECE):
            *lines, text = (text + piece.decode(errors="replace")).split("\n")
            yield from (line.encode() for line in lines)


class PiecesDecodedAlone(Client):
    stdio_transport = _PieceByPiece


class _ChunkByChunk(HttpTransport):
    def body(self, response: http.client.HTTPResponse) -> bytes:
        if not response.chunked:
            return super().body(response)
        return "".join(chunk.decode(errors="replace") for chunk in iter(response.read1, b"")).encode()


class ChunksDecodedAlone(Client):
    http_transport = _ChunkByChunk


class _LineByLine(HttpTransport):
    def events(self, response: http.client.HTTPResponse) -> Iterator[Json]:
        for line in iter(response.readline, b""):
            if line.startswith(b"data:"):
                yield json.loads(line[5:])


class DataLineTakenForEvent(Client):
    http_transport = _LineByLine
