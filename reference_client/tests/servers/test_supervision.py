"""One task per server: connected when needed, reported when lost, tried again after a pause."""

from __future__ import annotations

import traceback
from collections.abc import AsyncGenerator, Awaitable, Callable
from contextlib import AbstractAsyncContextManager, asynccontextmanager
from typing import Any, cast

import anyio
import pytest
from tools_search_client.errors import ServerError, ServerTimeoutError, ServerUnavailableError
from tools_search_client.servers import supervision
from tools_search_client.servers.diagnostics import Diagnostics
from tools_search_client.servers.server_tools import ServerTools
from tools_search_client.servers.supervision import Backoff, SupervisedServer

pytestmark = pytest.mark.anyio

Until = Callable[[Callable[[], bool]], Awaitable[None]]


class Tools:
    """What is asked of the tools of a connection."""

    def ending(self) -> ServerUnavailableError:
        return ServerUnavailableError("the connection ended: it had enough")


TOOLS = cast("ServerTools", Tools())


class Doubles:
    """Connections that are opened and lost by hand, and a clock that is set by hand."""

    def __init__(self) -> None:
        self.opened = 0
        self.failures: list[ServerError] = []
        self.hangs = False
        self.lose: Callable[[], None] = lambda: None
        self.now = 0.0

    def __call__(
        self, *, on_close: Callable[[], None], diagnostics: Diagnostics
    ) -> AbstractAsyncContextManager[ServerTools]:
        self.lose = on_close
        diagnostics.file.write("one moment\n")
        diagnostics.file.flush()
        return self.connection()

    @asynccontextmanager
    async def connection(self) -> AsyncGenerator[ServerTools]:
        self.opened += 1
        if self.hangs:
            await anyio.sleep_forever()
        if self.failures:
            raise self.failures.pop(0)
        yield TOOLS

    def server(self, **options: Any) -> SupervisedServer:
        return SupervisedServer(self, backoff=Backoff(1.0, 4.0), **options)


def depth(error: BaseException) -> int:
    return len(traceback.extract_tb(error.__traceback__))


@pytest.fixture
def doubles(monkeypatch: pytest.MonkeyPatch) -> Doubles:
    doubles = Doubles()
    monkeypatch.setattr(supervision, "monotonic", lambda: doubles.now)
    return doubles


@asynccontextmanager
async def running(server: SupervisedServer) -> AsyncGenerator[SupervisedServer]:
    with anyio.fail_after(5):
        async with anyio.create_task_group() as tasks:
            tasks.start_soon(server.run)
            yield server
            tasks.cancel_scope.cancel()


async def test_nothing_is_connected_before_somebody_needs_it(doubles: Doubles):
    async with running(doubles.server()) as server:
        await anyio.wait_all_tasks_blocked()
        assert (doubles.opened, server.connected) == (0, None)


async def test_many_who_ask_at_once_share_one_connection(doubles: Doubles):
    async with running(doubles.server()) as server, anyio.create_task_group() as tasks:
        for _ in range(5):
            tasks.start_soon(server.tools)
    assert doubles.opened == 1


async def test_a_failure_is_told_to_everybody_who_waited(doubles: Doubles):
    doubles.failures = [ServerUnavailableError("closed for the day")]
    told: list[str] = []

    async def ask(server: SupervisedServer) -> None:
        with pytest.raises(ServerUnavailableError) as error:
            await server.tools()
        told.append(str(error.value))

    async with running(doubles.server()) as server, anyio.create_task_group() as tasks:
        for _ in range(3):
            tasks.start_soon(ask, server)
    assert told == ["closed for the day"] * 3


async def test_a_server_that_failed_is_left_alone_for_a_while_and_then_tried_again(doubles: Doubles):
    doubles.failures = [ServerUnavailableError("not yet")]
    async with running(doubles.server()) as server:
        for _ in range(3):
            with pytest.raises(ServerUnavailableError):
                await server.tools()
        assert doubles.opened == 1
        doubles.now = 1.0
        assert await server.tools() is TOOLS
        assert doubles.opened == 2


async def test_a_connection_that_was_lost_is_made_again_for_the_next_who_asks(doubles: Doubles, until: Until):
    async with running(doubles.server()) as server:
        await server.tools()
        doubles.lose()
        await until(lambda: server.connected is None)
        with pytest.raises(ServerUnavailableError, match="it had enough"):
            await server.tools()
        doubles.now = 1.0
        assert await server.tools() is TOOLS


async def test_an_attempt_that_takes_too_long_fails(doubles: Doubles):
    doubles.hangs = True
    async with running(doubles.server(connect_timeout=0.01)) as server:
        with pytest.raises(ServerTimeoutError, match=r"not ready after 0\.01 seconds; it last said: one moment"):
            await server.tools()


def test_pauses_double_up_to_a_bound():
    assert [Backoff(1.0, 10.0).after(failures) for failures in (1, 2, 3, 4, 5, 1000)] == [1, 2, 4, 8, 10, 10]


async def test_an_error_that_several_callers_get_has_the_traceback_of_one(doubles: Doubles):
    doubles.failures = [ServerUnavailableError("not there")]
    async with running(doubles.server()) as server:
        depths: list[int] = []
        for _ in range(4):
            with pytest.raises(ServerUnavailableError) as raised:
                await server.tools()
            depths.append(depth(raised.value))
    assert len(set(depths[1:])) == 1
