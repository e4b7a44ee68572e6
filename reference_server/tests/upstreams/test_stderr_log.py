"""The standard error of a server in the log: with its name, bounded, to the last word."""

from __future__ import annotations

import sys
from contextlib import AbstractAsyncContextManager
from functools import partial
from itertools import pairwise
from typing import Any

import anyio
import pytest
from tools_search_hosts import StdioTarget
from tools_search_hosts.child_process import child_streams
from tools_search_hosts.endings import Ending
from tools_search_server.base.redaction import Secrets
from tools_search_server.upstreams.stderr_log import logged_stderr

pytestmark = pytest.mark.anyio


def started(server: str, command: str, *arguments: str) -> AbstractAsyncContextManager[Any]:
    target = StdioTarget(command, arguments)
    return child_streams(target, Ending(), errors=partial(logged_stderr, server=server, secrets=Secrets(target)))


async def test_what_a_server_writes_to_its_standard_error_is_logged_with_its_name_to_the_last_word(
    caplog: pytest.LogCaptureFixture,
) -> None:
    caplog.set_level("INFO")
    source = (
        "import sys\n"
        "sys.stderr.write('first\\n\\n  \\x1b[31msecond\\n' + 'x' * 1_000_000 + '\\n')\n"
        "sys.stderr.flush()\n"
        "sys.stdin.read()\n"
        "sys.stderr.write('y' * 200_000 + '\\nlast')\n"
    )
    with anyio.fail_after(30):
        async with started("talker", sys.executable, "-c", source):
            while "talker:    [31msecond" not in caplog.messages:  # noqa: ASYNC110 - a log sets no events
                await anyio.sleep(0.01)
    assert caplog.messages[0] == "talker: first"
    assert caplog.messages[-1] == "talker: last"
    assert max(map(len, caplog.messages)) < 4200


async def test_a_server_that_floods_its_standard_error_is_cut_and_keeps_nobody_waiting(
    caplog: pytest.LogCaptureFixture,
) -> None:
    caplog.set_level("INFO")
    logged = [0]
    with anyio.fail_after(30):
        async with started("flood", "sh", "-c", "yes >&2"):
            while not any("flood writes too much" in message for message in caplog.messages):
                await anyio.sleep(0.01)
                logged.append(len(caplog.messages))
    # Between two turns of another task, no more than what is logged in a second, which may end meanwhile.
    assert max(after - before for before, after in pairwise(logged)) <= 2 * 501
    assert len(caplog.messages) < 3000
