"""A server that is asked over and over is neither waited for nor blamed for how many ask it."""

from __future__ import annotations

import anyio
import anyio.lowlevel
import pytest
from tools_search_server.upstreams import remote_bounds
from tools_search_server.upstreams.remote_bounds import Bounds, NotAnswered

pytestmark = pytest.mark.anyio

AT_ONCE = 8


@pytest.fixture
def bounds(monkeypatch: pytest.MonkeyPatch) -> Bounds:
    monkeypatch.setattr(remote_bounds, "BOUND_SECONDS", 0.1)
    return Bounds("vast")


async def answer() -> str:
    await anyio.lowlevel.checkpoint()
    return "answer"


async def test_one_that_does_not_answer_is_left_alone_for_a_while(bounds: Bounds):
    with anyio.fail_after(5):
        with pytest.raises(NotAnswered, match=r"it took more than 0\.1 s"):
            await bounds.within(anyio.sleep_forever)
        with pytest.raises(NotAnswered, match="a moment ago"):
            await bounds.within(answer)


async def test_one_that_so_many_ask_that_some_get_no_turn_is_asked_again(
    bounds: Bounds, monkeypatch: pytest.MonkeyPatch
):
    done = anyio.Event()
    with anyio.fail_after(5):
        async with anyio.create_task_group() as tasks:
            monkeypatch.setattr(remote_bounds, "BOUND_SECONDS", 5)
            for _ in range(AT_ONCE):
                tasks.start_soon(bounds.within, done.wait)
            await anyio.wait_all_tasks_blocked()
            monkeypatch.setattr(remote_bounds, "BOUND_SECONDS", 0.1)
            with pytest.raises(NotAnswered):
                await bounds.within(answer)
            done.set()
        assert await bounds.within(answer) == "answer"
