"""What a client takes for a message, which response for which request, and which requests are cancelled."""

from __future__ import annotations

import http.client
import json
import os
import threading
from abc import ABC, abstractmethod
from collections.abc import Iterator
from contextlib import suppress
from itertools import takewhile
from typing import IO, Any

from .client_library import Client
from .miniature_transports import HttpTransport, Json, StdioTransport, TransportError

_PIECE = 65536


class _PieceByPiece(StdioTransport):
    def lines(self, stdout: IO[bytes]) -> Iterator[bytes]:
        text = ""
        while piece := os.read(stdout.fileno(), _PIECE):
            *lines, text = (text + piece.decode(errors="replace")).split("\n")
            yield from (line.encode() for line in lines)


class PiecesDecodedAlone(Client):
    stdio_transport = _PieceByPiece


class _ShortLines(StdioTransport):
    def lines(self, stdout: IO[bytes]) -> Iterator[bytes]:
        return takewhile(lambda line: len(line) <= _PIECE, super().lines(stdout))


class EndsAtLongLine(Client):
    stdio_transport = _ShortLines


class _ShortEvents(HttpTransport):
    def events(self, response: http.client.HTTPResponse) -> Iterator[Json]:
        return takewhile(lambda event: len(json.dumps(event)) <= _PIECE, super().events(response))


class EndsAtLongEvent(Client):
    http_transport = _ShortEvents


class _ShortBodies(HttpTransport):
    def body(self, response: http.client.HTTPResponse) -> bytes:
        return super().body(response)[:_PIECE]


class BodiesCutShort(Client):
    http_transport = _ShortBodies


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


class AnyAnswerTaken(Client):
    def is_answer(self, request: Json, response: Json) -> bool:
        return super().is_answer(request, response) if self.over_http else True


class AnswersConfounded(Client):
    """What comes while another search is under way is taken for the answer to that one, too."""

    def __init__(self, target: Json, era: str) -> None:
        self.under_way = 0
        self.came: Json | None = None
        super().__init__(target, era)

    def request(self, method: str, params: Json) -> Json:
        self.under_way += 1
        try:
            result = super().request(method, params)
        finally:
            self.under_way -= 1
        self.came, result = (result if self.under_way else None), self.came or result
        return result


class AnswersTakenInOrder(Client):
    """Each answer is for the oldest request."""

    def __init__(self, target: Json, era: str) -> None:
        self.unanswered: list[Any] = []
        super().__init__(target, era)

    def message(self, method: str, params: Json) -> Json:
        message = super().message(method, params)
        if method != "subscriptions/listen":
            self.unanswered.append(message["id"])
        return message

    def is_answer(self, request: Json, response: Json) -> bool:
        if self.over_http or request["id"] not in self.unanswered:  # one of another list is no fault of this client
            return super().is_answer(request, response)
        if response.get("id") not in range(1, self.ids + 1) or request["id"] != self.unanswered[0]:
            return False
        del self.unanswered[0]
        return True

    def cancel(self, number: Any) -> None:
        self.unanswered.remove(number)
        super().cancel(number)


class CancellationUnsent(Client):
    def cancel(self, number: Any) -> None:
        pass


class CancellationUnanswered(Client):
    def cancel(self, number: Any) -> None:
        threading.Event().wait()


class LastRequestCancelled(Client):
    def notify_cancelled(self, number: Any) -> None:
        super().notify_cancelled(self.ids)


class CancelledByText(Client):
    def notify_cancelled(self, number: Any) -> None:
        super().notify_cancelled(str(number))


class CancelledAll(Client):
    def cancel(self, number: Any) -> None:
        for each in self.asked.values():
            super().cancel(each)


class AnswerToNobodyTaken(Client):
    def is_answer(self, request: Json, response: Json) -> bool:
        return response.get("id") is None or super().is_answer(request, response)


class _EachField(HttpTransport, ABC):
    @abstractmethod
    def data_with(self, data: bytes, field: bytes, value: bytes) -> bytes:
        """Return the data of an event after another field."""

    def events(self, response: http.client.HTTPResponse) -> Iterator[Json]:
        name, data = b"", b""
        for line in iter(response.readline, b""):
            field, _, value = line.rstrip(b"\r\n").partition(b":")
            if field == b"event":
                name = value.strip()
            elif line.strip():
                data = self.data_with(data, field, value)
            else:
                with suppress(ValueError):
                    if name in {b"", b"message"}:
                        yield json.loads(data)
                name, data = b"", b""


class _LastDataLine(_EachField):
    def data_with(self, data: bytes, field: bytes, value: bytes) -> bytes:
        return value if field == b"data" else data


class LastDataLineTakenForAll(Client):
    http_transport = _LastDataLine


class _CommentsAsData(_EachField):
    def data_with(self, data: bytes, field: bytes, value: bytes) -> bytes:
        return data + value if field in {b"data", b""} else data


class CommentTakenForData(Client):
    http_transport = _CommentsAsData


class UnknownNotificationsFatal(Client):
    def notified(self, notification: Json) -> None:
        if "id" not in notification and not notification["method"].endswith(("list_changed", "acknowledged")):
            raise TransportError(f"there is no {notification['method']}")
        super().notified(notification)


class RequestsOfServersFatal(Client):
    def notified(self, notification: Json) -> None:
        if "id" in notification:
            raise TransportError("a server has nothing to ask")
        super().notified(notification)


class _FirstEvent(HttpTransport):
    def request(self, message: Json, headers: dict[str, str]) -> Json:
        first = next(self._exchange(message, headers))
        return {"result": {}} if "method" in first else first


class FirstEventTaken(Client):
    """Takes the first event of a stream for the response."""

    http_transport = _FirstEvent
