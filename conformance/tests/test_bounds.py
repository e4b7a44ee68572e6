"""What keeps the judge small and its runs short: shown by the parts that do it."""

from __future__ import annotations

import json
from contextlib import suppress
from functools import partial
from pathlib import Path
from typing import Any

import anyio
import pytest
from anyio.abc import ByteStream
from tools_search_conformance.clients.sockets import open_listener, serve_connections
from tools_search_conformance.target.patience import Patience
from tools_search_conformance.wire import record
from tools_search_conformance.wire.large import abridged, cut_within, memory
from tools_search_conformance.wire.record import Answer, Recorder

pytestmark = pytest.mark.anyio


def test_a_large_value_is_shown_by_its_beginning_and_says_so():
    value: dict[str, Any] = {"text": "x" * 1_000_000, "items": list(range(100_000)), "n" * 1000: {"deep": [[[[]]]]}}
    shown = abridged(value)
    assert len(json.dumps(shown)) < 10_000
    assert shown["text"].endswith("(1000000 characters)")
    assert "more items" in shown["items"][-1]


def test_a_long_message_keeps_its_end_which_says_what_is_wrong():
    shown = cut_within(f"{'W' * 3000} is listed otherwise", 100)
    assert shown.startswith("WWW")
    assert "… (3020 characters) …" in shown
    assert shown.endswith("W is listed otherwise")
    assert len(shown) == 100
    assert cut_within("short", 100) == "short"


def test_a_small_value_is_shown_whole():
    value: dict[str, Any] = {"a": [1, 2.5, None, True, "text"], "b": {"c": {}}}
    assert abridged(value) == value


def test_memory_grows_with_what_a_value_holds():
    assert memory({"a": "x" * 1000}) < memory({"a": "x" * 100_000}) < memory({"a": "\U0001f527" + "x" * 100_000})
    assert memory([[]] * 1000) > 50_000


def test_exchanges_that_nobody_holds_any_more_take_no_memory():
    recorder = Recorder("cell")
    held = recorder.add({"id": 1}, {}, Answer(message={"x": "y" * 100_000}), 1)
    recorder.begin("next")
    assert recorder.held > 100_000
    del held
    assert recorder.held == 0


def test_a_log_ends_after_its_bound_and_says_so(tmp_path: Path, monkeypatch: pytest.MonkeyPatch):
    monkeypatch.setattr(record, "_LOG_BYTES", 1000)
    recorder = Recorder("cell", log := tmp_path / "cell.jsonl")
    for _ in range(100):
        recorder.note("x" * 100)
    recorder.close()
    assert log.stat().st_size < 1500
    assert "ends after 1000 bytes" in json.loads(log.read_text().splitlines()[-1])["note"]


def test_a_method_that_is_never_answered_is_soon_waited_for_no_longer():
    patience = Patience(10)
    waits: list[float] = []
    for _ in range(5):
        waits.append(patience.for_request("m"))
        patience.waited("m")
    assert waits == [10, 10, 10, 0.2, 0.2]
    assert patience.for_request("other") == 10
    patience.answered("m")
    assert patience.for_request("m") == 10


def test_one_that_is_answered_now_and_then_is_waited_for_less_as_well():
    patience = Patience(10)
    for _ in range(12):
        patience.waited("m")
        patience.answered("m")
    assert patience.for_request("m") == 1


def test_two_failed_starts_in_a_row_are_enough():
    patience = Patience(10, 20)
    patience.failed("it died")
    patience.answered("m")
    patience.failed("it died")
    assert patience.gone is None
    assert patience.for_start() == 2
    patience.failed("it died again")
    assert "it died again" in str(patience.gone)


async def test_of_too_many_connections_the_oldest_is_closed():
    async def wait(stream: ByteStream) -> None:
        await anyio.sleep_forever()

    with anyio.fail_after(20), open_listener("127.0.0.1") as listener:
        async with anyio.create_task_group() as tasks:
            tasks.start_soon(partial(serve_connections, listener, wait, tasks, most=2))
            port = listener.getsockname()[1]
            streams = [await anyio.connect_tcp("127.0.0.1", port) for _ in range(3)]
            with pytest.raises((anyio.EndOfStream, anyio.BrokenResourceError)):
                await streams[0].receive()
            for stream in streams:
                await stream.aclose()
            tasks.cancel_scope.cancel()


async def test_a_socket_carries_bytes_both_ways_until_it_ends():
    async def echo(stream: ByteStream) -> None:
        with suppress(anyio.EndOfStream, anyio.BrokenResourceError):
            while True:
                await stream.send(await stream.receive(7))

    with anyio.fail_after(20), open_listener("127.0.0.1") as listener:
        async with anyio.create_task_group() as tasks:
            tasks.start_soon(partial(serve_connections, listener, echo, tasks, most=2))
            async with await anyio.connect_tcp("127.0.0.1", listener.getsockname()[1]) as stream:
                await stream.send(b"more than seven bytes")
                received = b""
                while len(received) < 21:
                    received += await stream.receive()
                assert received == b"more than seven bytes"
            tasks.cancel_scope.cancel()
