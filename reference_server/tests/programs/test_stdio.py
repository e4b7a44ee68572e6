"""Output goes out as fast as it is read, and never holds up the event loop."""

from __future__ import annotations

import os
import threading

import anyio
import pytest
from tools_search_server.programs.stdio import OutputText

pytestmark = pytest.mark.anyio

_TEXT = "".join(f"{number}\n" for number in range(100_000))


@pytest.mark.parametrize("unread", [b"", b"0123456789"])
async def test_more_than_a_pipe_holds_arrives_whole_while_the_event_loop_goes_on(unread: bytes) -> None:
    reads, writes = os.pipe()
    os.write(writes, unread)
    read = bytearray()
    held_up = threading.Event()

    def rescue() -> None:
        held_up.set()
        while len(read) < len(_TEXT) + len(unread):
            read.extend(os.read(reads, 1 << 16))

    watch = threading.Timer(20, rescue)
    watch.start()
    try:
        with anyio.fail_after(60):
            async with anyio.create_task_group() as tasks:
                tasks.start_soon(OutputText(writes).write, _TEXT)
                while len(read) < len(_TEXT) + len(unread) and not held_up.is_set():
                    await anyio.wait_readable(reads)
                    read += os.read(reads, 3_000)
    finally:
        watch.cancel()
        os.close(reads)
        os.close(writes)
    assert not held_up.is_set()
    assert read == unread + _TEXT.encode()


async def test_what_is_no_pipe_is_written_to_as_well(tmp_path: os.PathLike[str]) -> None:
    file = os.path.join(tmp_path, "output")  # noqa: PTH118 - a descriptor is what is wanted
    descriptor = os.open(file, os.O_CREAT | os.O_RDWR)
    await OutputText(descriptor).write(_TEXT)
    assert os.pread(descriptor, len(_TEXT) + 1, 0) == _TEXT.encode()
    os.close(descriptor)
