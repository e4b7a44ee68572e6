"""The scripted endpoint as a stream: it can hang in the middle, break off, or talk nonsense."""

from __future__ import annotations

import json
import threading
from collections.abc import Generator, Iterator, Mapping, Sequence
from contextlib import contextmanager
from dataclasses import dataclass, field
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from typing import Any, Literal

from ..providers.endpoint import ScriptedModel, Step, streamed_chat, streamed_messages  # noqa: TID252

Json = dict[str, Any]

_DEADLINE = 30.0
"""Seconds after which an endpoint that hangs gives up on a client that does not go away."""


@dataclass(frozen=True)
class Play(Step):
    """A step and how its stream ends."""

    ending: Literal["whole", "hangs", "breaks-off", "nonsense"] = "whole"
    is_streamed: bool = True
    """Whether it is a stream, as requested, and not one JSON document."""
    headers: Mapping[str, str] = field(default_factory=dict[str, str])
    said: str = "as the script says"
    """The message of an error."""


def _none_yet() -> threading.Semaphore:
    return threading.Semaphore(0)


@dataclass
class Stage(ScriptedModel):
    """An endpoint whose clients can be seen to go."""

    hanging: threading.Semaphore = field(default_factory=_none_yet)
    """Released when a stream hangs."""
    left: threading.Semaphore = field(default_factory=_none_yet)
    """Released when a client went away from a stream that hangs."""

    models: Sequence[str] = ()
    """What it lists, in pages of two as Anthropic does, or all at once as OpenAI does."""
    goes_in_circles: bool = False
    """Whether the list of models has no end."""
    is_a_web_page: bool = False
    """Whether every address has a page for people, as in front of many a service."""

    def models_after(self, path: str) -> tuple[int, Json]:
        """Return the list of models, or the page of it that a path asks for."""
        address, _, query = path.partition("?")
        if not self.models or not address.endswith("/models"):
            return 404, {"error": {"message": f"nothing is at {address}"}}
        if "/v1/v1/" not in address:
            listed = [{"id": name, "object": "model", "created": 1, "owned_by": "nobody"} for name in self.models]
            return 200, {"object": "list", "data": listed}
        after = query.partition("after_id=")[2].partition("&")[0]
        start = self.models.index(after) + 1 if after and not self.goes_in_circles else 0
        page = self.models[start : start + 2]
        has_more = self.goes_in_circles or start + 2 < len(self.models)
        shown = [
            {"type": "model", "id": name, "display_name": name, "created_at": "2026-01-01T00:00:00Z"} for name in page
        ]
        return 200, {"data": shown, "has_more": has_more, "first_id": page[0], "last_id": page[-1]}

    def next_step(self) -> Play:
        number = len(self.requests)
        step = self.steps[number] if number < len(self.steps) else Play()
        assert isinstance(step, Play)
        return step


@contextmanager
def stage(*steps: Play) -> Generator[Stage]:
    """Serve the steps; `url` is one for OpenAI's SDK, Anthropic's adds the version itself."""
    played = Stage(steps)

    class Handler(_Handler):
        stage = played

    server = ThreadingHTTPServer(("127.0.0.1", 0), Handler)
    server.daemon_threads = True
    played.url = f"http://127.0.0.1:{server.server_port}/v1"
    thread = threading.Thread(target=server.serve_forever, kwargs={"poll_interval": 0.01})
    thread.start()
    try:
        yield played
    finally:
        server.shutdown()
        thread.join()
        server.server_close()


class _Handler(BaseHTTPRequestHandler):
    protocol_version = "HTTP/1.1"
    stage: Stage

    def do_POST(self) -> None:
        body = json.loads(self.rfile.read(int(self.headers["content-length"])))
        self.stage.headers.append(dict(self.headers))
        if self.stage.is_a_web_page:
            self._show_page()
            return
        play = self.stage.next_step()
        status, answer = self.stage.answer(self.path, body)
        if status == 200 and play.is_streamed:
            self._stream(play, list(_events(answer)))
            return
        if play.status != 200:
            answer["error"]["message"] = play.said
        self._begin(status, "application/json", play.headers)
        self._pieces([json.dumps(answer), ""])

    def do_GET(self) -> None:
        self.stage.headers.append(dict(self.headers))
        if self.stage.is_a_web_page:
            self._show_page()
            return
        status, answer = self.stage.models_after(self.path)
        self._begin(status, "application/json", {})
        self._pieces([json.dumps(answer), ""])

    def _show_page(self) -> None:
        self._begin(200, "text/html; charset=utf-8", {})
        self._pieces(["<!doctype html><title>Welcome</title>", ""])

    def _stream(self, play: Play, events: list[str]) -> None:
        self._begin(200, "text/event-stream", {})
        if play.ending == "whole":
            self._pieces([*events, ""])
            return
        self._pieces(events[: len(events) // 2])
        if play.ending == "nonsense":
            self._pieces(["event: content_block_delta\ndata: {nonsense\n\n", ""])
        elif play.ending == "hangs":
            self.stage.hanging.release()
            self.connection.settimeout(_DEADLINE)
            if not self.connection.recv(1):
                self.stage.left.release()
        self.close_connection = True

    def _begin(self, status: int, kind: str, headers: Mapping[str, str]) -> None:
        self.send_response(status)
        for name, value in {"content-type": kind, "transfer-encoding": "chunked", **headers}.items():
            self.send_header(name, value)
        self.end_headers()

    def _pieces(self, texts: Sequence[str]) -> None:
        for data in (text.encode() for text in texts):
            self.wfile.write(b"%x\r\n%s\r\n" % (len(data), data))
            self.wfile.flush()

    def log_message(self, format: str, *args: object) -> None:  # noqa: A002 - named by the base class
        """Write nothing."""


def _events(answer: Json) -> Iterator[str]:
    if "choices" in answer:
        return streamed_chat(answer)
    return _streamed_response(answer) if "output" in answer else streamed_messages(answer)


def _streamed_response(answer: Json) -> Iterator[str]:
    events: list[Json] = [{"type": "response.created", "response": answer | {"output": [], "status": "in_progress"}}]
    for place, item in enumerate(answer["output"]):
        for part in item.get("content", ()):
            delta = {"type": "response.output_text.delta", "item_id": item["id"], "output_index": place}
            pieces = [part["text"][start : start + 7] for start in range(0, len(part["text"]), 7)]
            events += [delta | {"content_index": 0, "delta": piece, "logprobs": []} for piece in pieces]
    events.append({"type": f"response.{answer['status']}", "response": answer})
    for number, event in enumerate(events):
        yield f"event: {event['type']}\ndata: {json.dumps(event | {'sequence_number': number})}\n\n"
