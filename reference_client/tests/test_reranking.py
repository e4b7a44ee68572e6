"""A re-ranker: its input, the use of its answer, and the order without one."""

from __future__ import annotations

import math
import sys
import threading
from collections.abc import Callable, Generator, Sequence
from contextlib import contextmanager
from subprocess import run
from typing import Any

import anyio
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from mcp_types import Tool
from tools_search_client import (
    Configuration,
    Conversation,
    FederationOptions,
    FoundTool,
    ListedSource,
    LocalError,
    Reply,
    Reranking,
    RerankingError,
    ToolCall,
    ToolDiscovery,
    open_federation,
)
from tools_search_hosts import HttpTarget, ServerEntry

pytestmark = pytest.mark.anyio

NAMES = [f"make_{number}" for number in range(30)]
TOOLS = [Tool(name=name, description="Make a thing.", input_schema={"type": "object"}) for name in NAMES]
FOUND = [FoundTool(name, "", Tool(name=name, input_schema={"type": "object"})) for name in ("a", "b", "c", "d")]


class Backwards:
    """Turns the order around, and remembers what it was given."""

    def __init__(self) -> None:
        self.given: list[list[str]] = []

    async def __call__(self, query: str, tools: Sequence[FoundTool]) -> list[str]:
        self.given.append([tool.name for tool in tools])
        return self.given[-1][::-1]


def ordered(names: Sequence[str]) -> Callable[[str, Sequence[FoundTool]], Any]:
    return lambda query, tools: names


async def in_order(reranker: Any, **options: Any) -> tuple[list[str], str | None]:
    tools, fault = await Reranking(reranker, **options).order("query", FOUND)
    return [tool.name for tool in tools], None if fault is None else str(fault)


async def test_what_it_leaves_out_follows_as_it_was():
    assert await in_order(ordered(["c"])) == (["c", "a", "b", "d"], None)


async def test_it_may_be_a_function_a_coroutine_or_a_function_that_returns_one():
    async def later(query: str, tools: Sequence[FoundTool]) -> list[str]:
        await anyio.lowlevel.checkpoint()
        return ["d", "c"]

    for reranker in (ordered(["d", "c"]), later, lambda query, tools: later(query, tools)):  # pyright: ignore
        assert await in_order(reranker) == (["d", "c", "a", "b"], None)


@pytest.mark.parametrize(
    ("answer", "told"),
    [
        (["b", "z"], "named 'z' although it was not given that"),
        (["b", "b"], "named 'b' twice"),
        ([*FOUND], "although it was not given that"),
        ([], "no list of names"),
        ("b", "no list of names"),
        (None, "no list of names"),
        ({"b"}, "no list of names"),
        ([["b"]], "named \"['b']\" although"),
    ],
    ids=str,
)
async def test_nonsense_leaves_the_plain_order_and_is_reported(answer: Any, told: str):
    names, fault = await in_order(ordered(answer))
    assert names == ["a", "b", "c", "d"]
    assert fault is not None
    assert told in fault


async def test_what_it_raises_is_the_cause_of_the_fault():
    async def failing(query: str, tools: Sequence[FoundTool]) -> list[str]:
        raise ConnectionError("the model is asleep")

    tools, fault = await Reranking(failing).order("query", FOUND)
    assert list(tools) == FOUND
    assert str(fault) == "the re-ranker failed: ConnectionError"
    assert isinstance(fault and fault.__cause__, ConnectionError)


@contextmanager
def blocking() -> Generator[Callable[..., list[str]]]:
    """A re-ranker that blocks its thread until the block ends."""
    gate = threading.Event()

    def wait(query: str, tools: Sequence[FoundTool]) -> list[str]:
        gate.wait(30)
        return ["d"]

    try:
        yield wait
    finally:
        gate.set()


async def test_one_that_is_late_is_not_waited_for_be_it_async_or_not():
    async def forever(query: str, tools: Sequence[FoundTool]) -> list[str]:
        await anyio.sleep_forever()
        return []

    with blocking() as stuck, anyio.fail_after(20):
        for reranker in (forever, stuck):
            names, fault = await in_order(reranker, deadline=0.05)
            assert (names, fault) == (["a", "b", "c", "d"], "the re-ranker took longer than 0.05 seconds")


async def test_one_that_never_ends_takes_few_threads_however_often_it_is_called():
    held: list[int] = []

    with blocking() as stuck, anyio.fail_after(20):

        def holding(query: str, tools: Sequence[FoundTool]) -> list[str]:
            held.append(threading.get_ident())
            return stuck(query, tools)

        reranking = Reranking(holding, deadline=0.05)
        async with anyio.create_task_group() as tasks:
            for _ in range(30):
                tasks.start_soon(reranking.order, "query", FOUND)
        for _ in range(12):  # one after the other, each after the time of the one before
            await reranking.order("query", FOUND)
        assert len(held) <= 8


def test_one_that_never_ends_does_not_keep_the_program_from_exiting(liar: Any):
    program = (
        "import sys, threading; import anyio; import tools_search_client as c\n"
        "def never(query, tools): threading.Event().wait()\n"
        "async def main():\n"
        "    options = c.FederationOptions(reranking=c.Reranking(never, deadline=0.1))\n"
        "    async with c.open_federation(c.command_server(sys.argv[1:]), options) as servers:\n"
        "        print((await servers.search('alpha')).fault)\n"
        "anyio.run(main)"
    )
    command = [liar().target.command, *liar().target.args]
    ended = run([sys.executable, "-c", program, *command], capture_output=True, text=True, timeout=30, check=True)
    assert ended.stdout == "the re-ranker took longer than 0.1 seconds\n"


async def test_one_that_held_up_its_threads_is_asked_again_once_they_are_free():
    with anyio.fail_after(20):
        with blocking() as stuck:
            reranking = Reranking(stuck, deadline=0.1)
            for _ in range(9):
                assert (await reranking.order("query", FOUND))[1] is not None
        while (await reranking.order("query", FOUND))[1] is not None:  # noqa: ASYNC110 - threads end, not tasks
            await anyio.sleep(0.01)


@settings(deadline=None, max_examples=100)
@given(answer=st.lists(st.sampled_from("abcdxyz"), max_size=6))
def test_no_tool_is_ever_lost_or_doubled(answer: list[str]):
    names, fault = anyio.run(in_order, ordered(answer))
    assert sorted(names) == ["a", "b", "c", "d"]
    is_sense = bool(answer) and len({*answer}) == len(answer) and {*answer} <= {*"abcd"}
    assert names[: len(answer)] == answer if is_sense else names == ["a", "b", "c", "d"]
    assert (fault is None) == is_sense


@pytest.mark.parametrize("options", [{"pool": 0}, {"deadline": 0}, {"deadline": math.nan}])
def test_a_pool_or_a_deadline_of_nothing_is_refused(options: Any):
    with pytest.raises(LocalError, match=r"must be at least 1$|must be a number of seconds above 0$"):
        Reranking(ordered([]), **options)


@pytest.mark.parametrize("place", ["nowhere", "extensions"])
async def test_a_federation_gives_it_a_pool_of_servers_that_search_and_that_list(liar: Any, place: str):
    entries = [ServerEntry(name, liar(place=place).target) for name in ("one", "two")]
    backwards = Backwards()
    with anyio.fail_after(40):
        async with open_federation(
            Configuration(tuple(entries)), FederationOptions(reranking=Reranking(backwards, pool=5))
        ) as federation:
            answer = await federation.search("make a thing", limit=2)
            plain = await federation.search("make a thing", limit=10, reranks=False)
            named = await federation.search("make_gamma", limit=2)
    assert backwards.given[0] == [tool.name for tool in plain.tools]
    assert len(plain.tools) == 10
    assert [tool.name for tool in answer.tools] == backwards.given[0][:-3:-1]
    assert answer.fault is None
    assert named.tools[0].tool.name == "make_gamma", "what the query names is first whatever a re-ranker says"


async def test_a_federation_reports_a_fault_and_answers_in_the_plain_order(liar: Any):
    with anyio.fail_after(40):
        async with open_federation(
            Configuration((ServerEntry("one", liar().target),)),
            FederationOptions(reranking=Reranking(ordered(["rm -rf"]))),
        ) as federation:
            answer = await federation.search("make a thing", limit=2)
            plain = await federation.search("make a thing", limit=2, reranks=False)
    assert isinstance(answer.fault, RerankingError)
    assert answer.tools == plain.tools


@pytest.mark.parametrize("place", ["nowhere", "extensions"])
async def test_a_conversation_over_servers_re_ranks_as_its_federation_does_and_once(
    liar: Any, plain_server: HttpTarget, place: str
):
    entries = (ServerEntry("one", liar(place=place).target), ServerEntry("plain", plain_server))
    configuration = Configuration(entries, ToolDiscovery(enabled=True, defer_all=True, max_search_results=1))
    backwards = Backwards()
    with anyio.fail_after(40):
        async with open_federation(
            configuration, FederationOptions(reranking=Reranking(backwards, pool=6))
        ) as federation:
            conversation = Conversation(federation)
            await conversation.begin_turn()
            reply = await conversation.take(ToolCall("search_tools", {"query": "make a thing"}))
    assert isinstance(reply, Reply)
    (given_once,) = backwards.given
    assert len(given_once) == 6
    assert (reply.loaded, reply.fault) == ((given_once[-1],), None)


async def test_a_conversation_over_listed_tools_re_ranks_what_the_model_searches():
    backwards = Backwards()
    conversation = listed(Reranking(backwards))
    await conversation.begin_turn()
    reply = await conversation.take(ToolCall("search_tools", {"query": "make a thing"}))
    assert isinstance(reply, Reply)
    assert len(backwards.given[0]) == 12, "four times the three that a search may find"
    assert list(reply.loaded) == backwards.given[0][:-4:-1]


async def test_searches_before_the_turn_of_the_model_are_re_ranked():
    async def delegate(text: str) -> list[str]:
        return ["make a thing"]

    backwards = Backwards()
    begun = await listed(Reranking(backwards), delegate=delegate).begin_turn("I want a thing made")
    assert list(begun.loaded) == backwards.given[0][:-4:-1]


async def test_a_conversation_reports_a_fault_to_the_host_and_not_to_the_model():
    async def delegate(text: str) -> list[str]:
        return ["make a thing"]

    wrong = Reranking(ordered(["nonsense"]))
    plain = await listed(None, delegate=delegate).begin_turn("I want a thing made")
    begun = await listed(wrong, delegate=delegate).begin_turn("I want a thing made")
    assert isinstance(begun.fault, RerankingError)
    assert begun.loaded == plain.loaded
    assert plain.fault is None
    conversation = listed(wrong)
    await conversation.begin_turn()
    reply = await conversation.take(ToolCall("search_tools", {"query": "make a thing"}))
    assert isinstance(reply, Reply)
    assert (reply.loaded, reply.is_error) == (begun.loaded, False)
    assert isinstance(reply.fault, RerankingError)
    assert "re-ranker" not in reply.text


def listed(reranking: Reranking | None, **options: Any) -> Conversation:
    discovery = ToolDiscovery(enabled=True, defer_all=True, max_search_results=3)
    return Conversation(ListedSource.of({"s": TOOLS}), discovery, reranking=reranking, **options)
