"""What a host brings to a connection: its name, and answers to what servers ask."""

from __future__ import annotations

import math
import sys
from contextvars import ContextVar
from dataclasses import replace
from pathlib import Path
from typing import Any

import anyio
import pytest
from mcp.client import ClientRequestContext
from mcp_types import (
    CreateMessageRequestParams,
    CreateMessageResult,
    ElicitRequestFormParams,
    ElicitRequestParams,
    ElicitResult,
    Implementation,
    JSONRPCMessage,
    ListRootsResult,
    LoggingMessageNotificationParams,
    Root,
    TextContent,
)
from pydantic import FileUrl
from tools_search_client import (
    ConnectionOptions,
    DiscoveryOptions,
    HostError,
    ServerRefusedError,
    ServerTimeoutError,
    ServerTools,
    open_server,
    result_text,
)
from tools_search_client.servers import server_tools
from tools_search_hosts import EraChoice, HttpTarget, StdioTarget

ASKING = StdioTarget(sys.executable, (str(Path(__file__).parents[1] / "fixtures" / "servers" / "asking.py"),))

pytestmark = pytest.mark.anyio


class Person:
    """A user with a model and a folder, who is told what happens."""

    def __init__(self) -> None:
        self.logged: list[object] = []
        self.progress: list[str | None] = []

    async def answer(self, context: ClientRequestContext, params: ElicitRequestParams) -> ElicitResult:
        assert isinstance(params, ElicitRequestFormParams)
        return ElicitResult(action="accept", content={"city": "Oslo"})

    async def sample(self, context: ClientRequestContext, params: CreateMessageRequestParams) -> CreateMessageResult:
        return CreateMessageResult(role="assistant", content=TextContent(type="text", text="wool"), model="mine")

    async def roots(self, context: ClientRequestContext) -> ListRootsResult:
        return ListRootsResult(roots=[Root(uri=FileUrl("file:///home/ann"))])

    async def log(self, params: LoggingMessageNotificationParams) -> None:
        self.logged.append(params.data)

    async def report(self, progress: float, total: float | None, message: str | None) -> None:
        self.progress.append(message)

    def options(self, era: EraChoice) -> ConnectionOptions:
        return ConnectionOptions(
            era=era,
            client_info=Implementation(name="ann's host", version="1"),
            elicitation_callback=self.answer,
            sampling_callback=self.sample,
            list_roots_callback=self.roots,
            logging_callback=self.log,
            log_level="info",
        )


class Seen:
    """Everything that passes."""

    def __init__(self, *, raises: bool = False) -> None:
        self.texts: list[str] = []
        self.raises = raises

    def sent(self, message: JSONRPCMessage) -> None:
        self.texts.append(message.model_dump_json())
        if self.raises:
            raise KeyError

    def received(self, message: JSONRPCMessage) -> None:
        self.sent(message)

    def closed(self) -> None:
        if self.raises:
            raise KeyError


@pytest.mark.parametrize("era", ["auto", "legacy"])
async def test_what_a_server_asks_is_answered_by_the_host_in_either_era(era: EraChoice):
    ann = Person()
    with anyio.fail_after(20):
        async with open_server(ASKING, ann.options(era)) as tools:
            result = await tools.call("travel", progress=ann.report)
    (text,) = result.content
    assert isinstance(text, TextContent)
    assert text.text == "ann's host: Oslo with wool in file:///home/ann"
    assert (ann.logged, ann.progress) == (["packing"], ["packed"])


CITY: ContextVar[str] = ContextVar("CITY")


@pytest.mark.parametrize("era", ["auto", "legacy"])
async def test_a_server_over_http_asks_in_the_context_of_the_call(asking_server: HttpTarget, era: EraChoice):
    answers: list[str] = []

    async def answer(context: ClientRequestContext, params: ElicitRequestParams) -> ElicitResult:
        return ElicitResult(action="accept", content={"city": CITY.get()})

    async def call(tools: ServerTools, city: str) -> None:
        CITY.set(city)
        answers.append(result_text(await tools.call("travel")))

    options = replace(Person().options(era), elicitation_callback=answer)
    with anyio.fail_after(20):
        async with open_server(asking_server, options) as tools, anyio.create_task_group() as tasks:
            for city in ("Oslo", "Rome"):
                tasks.start_soon(call, tools, city)
    assert [sum(city in answer for answer in answers) for city in ("Oslo", "Rome")] == [1, 1]


@pytest.mark.parametrize("era", ["auto", "legacy"])
async def test_a_server_that_asks_a_host_without_answers_is_refused_that_call(
    asking_server: HttpTarget, era: EraChoice
):
    with anyio.fail_after(20):
        async with open_server(asking_server, ConnectionOptions(era=era)) as tools:
            with pytest.raises(ServerRefusedError, match="elicitation"):
                await tools.call("travel")


async def forgotten(*_: Any, **__: Any) -> Any:
    raise KeyError("password1")


@pytest.mark.parametrize("era", ["auto", "legacy"])
async def test_a_callback_that_raises_is_named_and_neither_the_server_nor_the_connection_suffers(
    asking_server: HttpTarget,
    era: EraChoice,
):
    ann, seen = Person(), Seen()
    with anyio.fail_after(20):
        for name, part in (("elicitation", "elicitation"), ("sampling", "sampling"), ("list_roots", "roots")):
            options = replace(ann.options(era), observer=seen, **{f"{name}_callback": forgotten})
            async with open_server(asking_server, options) as tools:
                with pytest.raises(HostError, match=f"the {part} callback of the host failed: KeyError") as error:
                    await tools.call("travel")
                assert await tools.list()
            assert isinstance(error.value.__cause__, KeyError)
    assert "password1" not in "".join(seen.texts)


@pytest.mark.parametrize("era", ["auto", "legacy"])
async def test_what_only_takes_note_costs_nothing_if_it_raises(
    asking_server: HttpTarget, era: EraChoice, caplog: pytest.LogCaptureFixture
):
    ann, seen = Person(), Seen(raises=True)
    options = replace(ann.options(era), logging_callback=forgotten, message_handler=forgotten, observer=seen)
    with anyio.fail_after(20):
        async with open_server(asking_server, options) as tools:
            assert not (await tools.call("travel", progress=forgotten)).is_error
    assert "the host's observer failed" in caplog.text


@pytest.mark.parametrize("era", ["auto", "legacy"])
async def test_no_call_is_given_up_while_a_person_thinks(asking_server: HttpTarget, era: EraChoice):
    ann = Person()
    deadlines: list[float] = []
    scope = anyio.CancelScope()

    async def think(context: ClientRequestContext, params: ElicitRequestParams) -> ElicitResult:
        deadlines.append(scope.deadline)
        return await ann.answer(context, params)

    async def note(context: ClientRequestContext) -> ListRootsResult:
        deadlines.append(scope.deadline)
        return await ann.roots(context)

    options = replace(ann.options(era), elicitation_callback=think, list_roots_callback=note)
    with anyio.fail_after(20):
        async with open_server(asking_server, options) as tools, tools.patience() as scope:
            started = scope.deadline
            assert not (await tools.call("travel")).is_error
    assert math.inf in deadlines
    assert started < scope.deadline < math.inf


def impatient(era: EraChoice, seconds: float, ann: Person) -> ConnectionOptions:
    return replace(ann.options(era), discovery=DiscoveryOptions(call_timeout=seconds))


@pytest.mark.parametrize("era", ["auto", "legacy"])
async def test_progress_gives_a_call_more_time_but_not_for_ever(asking_server: HttpTarget, era: EraChoice):
    ann = Person()
    with anyio.fail_after(60):
        async with open_server(asking_server, impatient(era, 2, ann)) as tools:
            assert result_text(await tools.call("tour", {"seconds": 0.5, "steps": 6})) == "Oslo"
            with pytest.raises(ServerTimeoutError):
                await tools.call("tour", {"seconds": 30, "steps": 1})
        async with open_server(asking_server, impatient(era, 0.5, ann)) as tools:
            with pytest.raises(ServerTimeoutError), anyio.fail_after(30):
                await tools.call("tour", {"seconds": 0.1, "steps": 1_000_000})


@pytest.mark.parametrize("era", ["auto", "legacy"])
async def test_the_time_in_which_a_person_thinks_is_not_taken_from_what_progress_may_add(
    asking_server: HttpTarget, era: EraChoice, monkeypatch: pytest.MonkeyPatch
):
    monkeypatch.setattr(server_tools, "_MAX_EXTENSION", 2)
    ann = Person()

    async def think(context: ClientRequestContext, params: ElicitRequestParams) -> ElicitResult:
        await anyio.sleep(2.1)  # the time itself is what is tested
        return await ann.answer(context, params)

    with anyio.fail_after(60):
        async with open_server(asking_server, replace(impatient(era, 1, ann), elicitation_callback=think)) as tools:
            assert result_text(await tools.call("tour", {"seconds": 0.5, "steps": 3})) == "Oslo"


@pytest.mark.parametrize("era", ["auto", "legacy"])
async def test_no_call_is_given_up_until_the_last_person_has_answered(asking_server: HttpTarget, era: EraChoice):
    ann, asked, deadlines = Person(), 0, list[float]()
    both, is_over = anyio.Event(), anyio.Event()

    async def think(context: ClientRequestContext, params: ElicitRequestParams) -> ElicitResult:
        nonlocal asked
        asked += 1
        if asked == 1:
            await both.wait()
        else:
            both.set()
            await is_over.wait()  # until the other call, whose person has answered, is over
        return await ann.answer(context, params)

    with anyio.fail_after(20):
        async with open_server(asking_server, replace(ann.options(era), elicitation_callback=think)) as tools:

            async def travel() -> None:
                await tools.call("travel")
                deadlines.append(scope.deadline)
                is_over.set()

            async with tools.patience() as scope, anyio.create_task_group() as calls:
                calls.start_soon(travel)
                calls.start_soon(travel)
    assert deadlines[0] == math.inf > deadlines[1]
