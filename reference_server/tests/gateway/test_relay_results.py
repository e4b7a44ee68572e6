"""A result that its protocol revision does not allow is never an empty success, in any pair of revisions."""

from __future__ import annotations

import json
import sys
from collections.abc import Callable
from pathlib import Path
from typing import Any, cast

import anyio
import pytest
from anyio.abc import ByteReceiveStream, ByteSendStream, Process
from anyio.streams.buffered import BufferedByteReceiveStream
from mcp import Client, MCPError
from mcp_ext_tools_search.client import raw_request
from mcp_types import INTERNAL_ERROR, INVALID_PARAMS

UPSTREAMS = Path(__file__).parents[1] / "servers"
VERSIONS = {"auto": "2026-07-28", "legacy": "2025-11-25"}

pytestmark = pytest.mark.anyio

each_pair_of_eras = pytest.mark.parametrize(
    ("mode", "era"), [("auto", "modern"), ("auto", "legacy"), ("legacy", "modern"), ("legacy", "legacy")]
)

GOOD = {"type": "text", "text": "DELETE FAILED"}
BAD_BLOCKS = [
    ({"type": "resource", "resource": {"uri": "x://1"}}, "resource.text: Field required"),
    ({"type": "image", "data": "aGk="}, "mimeType: Field required"),
    ({"type": "video", "data": "aGk="}, "type: Unknown kind"),
    ({"type": "text"}, "text: Field required"),
    ({"type": "text", "text": 5}, "text: Input should be a valid string"),
    ({"text": "no type"}, "type: Field required"),
    (7, "content.1: Input should be"),
    (None, "content.1: Input should be"),
]


def answering(era: str) -> dict[str, Any]:
    return {"command": sys.executable, "args": [str(UPSTREAMS / "answering.py"), era]}


def of(era: str, **members: Any) -> dict[str, Any]:
    return {"resultType": "complete", **members} if era == "modern" else members


async def call(client: Client, result: Any, **arguments: Any) -> dict[str, Any]:
    params = {"name": "odd__say", "arguments": {"result": result, **arguments}}
    return await raw_request(client, "tools/call", params, seconds=20)


def texts(result: dict[str, Any]) -> list[str]:
    return [block["text"] for block in result["content"]]


@each_pair_of_eras
async def test_a_bad_content_block_costs_neither_the_good_ones_nor_what_the_result_says_of_itself(
    gateway: Any, mode: str, era: str, caplog: pytest.LogCaptureFixture
) -> None:
    with anyio.fail_after(60):
        async with gateway(mode, odd=answering(era)) as client:
            for bad, mistake in BAD_BLOCKS:
                content = [GOOD, bad, {"type": "image", "data": "aGk=", "mimeType": "image/png"}]
                sent = of(era, content=content, isError=True, structuredContent={"a": 1}, _meta={"com.example/m": 1})
                result = await call(client, sent)
                first, note, last = result["content"]
                assert first == GOOD
                assert last["type"] == "image"
                assert "'odd'" in note["text"]
                assert VERSIONS[mode] in note["text"]
                assert "content.1" in note["text"]
                assert mistake in note["text"]
                assert result["isError"] is True
                assert result["structuredContent"] == {"a": 1}
                assert result["_meta"]["com.example/m"] == 1
                succeeded = await call(client, of(era, content=content))
                assert not succeeded.get("isError")
                assert len(succeeded["content"]) == 3
    assert "a result is invalid in protocol revision" in caplog.text


@each_pair_of_eras
async def test_a_result_of_which_nothing_can_be_read_is_an_error_that_says_so(
    gateway: Any, mode: str, era: str
) -> None:
    nothing: list[Any] = [
        of(era),
        of(era, content=5),
        of(era, content=None),
        of(era, content={}),
        of(era, content=[{"type": "image", "data": "aGk="}]),
        of(era, messages=[]),
        of(era, content=5, isError=False),
        # Members of the other kind of result say nothing in one that is complete.
        of(era, inputRequests={}, requestState="x"),
    ]
    with anyio.fail_after(60):
        async with gateway(mode, odd=answering(era)) as client:
            for sent in nothing:
                result = await call(client, sent)
                assert result["isError"] is True
                assert "'odd'" in texts(result)[-1]
                assert "may or may not have taken effect" in texts(result)[-1]


@each_pair_of_eras
async def test_what_a_careless_result_plainly_means_is_what_the_caller_gets(gateway: Any, mode: str, era: str) -> None:
    with anyio.fail_after(60):
        async with gateway(mode, odd=answering(era)) as client:
            structured = await call(client, of(era, structuredContent={"temperature": "4 °C"}))
            single = await call(client, of(era, content=GOOD, isError=True))
            plain = await call(client, of(era, content="it is done"))
            strings = await call(client, of(era, content=["it is", "done"]))
            unsure = await call(client, of(era, content=[GOOD], isError="quite"))
            noted = await call(client, of(era, content=[GOOD], _meta=[]))
            both = await call(client, of(era, content=[GOOD], inputRequests={}, requestState="x"))
    assert structured["structuredContent"] == {"temperature": "4 °C"}
    assert texts(structured) == ['{"temperature": "4 °C"}']
    assert not structured.get("isError")
    assert (single["content"], single["isError"]) == ([GOOD], True)
    assert (texts(plain), texts(strings)) == (["it is done"], ["it is", "done"])
    assert unsure["isError"] is True
    assert unsure["content"][0] == GOOD
    assert "isError: Input should be a valid boolean" in texts(unsure)[1]
    assert noted["content"] == both["content"] == [GOOD]
    assert "requestState" not in both


@each_pair_of_eras
@pytest.mark.parametrize(
    ("method", "params", "sent", "place"),
    [
        ("prompts/get", {"name": "odd__say"}, {}, "messages"),
        ("prompts/get", {"name": "odd__say"}, {"messages": 5}, "messages"),
        (
            "prompts/get",
            {"name": "odd__say"},
            {"messages": [{"role": "user", "content": GOOD}, {"role": "user", "content": {"type": "image"}}]},
            "messages.1.content.data",
        ),
        ("resources/read", {}, {}, "contents"),
        ("resources/read", {}, {"contents": [{"uri": "x:1", "text": "good"}, {"uri": "x:2"}]}, "contents.1.text"),
        ("completion/complete", {"ref": {"type": "ref/prompt", "name": "odd__say"}}, {}, "completion"),
        (
            "completion/complete",
            {"ref": {"type": "ref/prompt", "name": "odd__say"}},
            {"completion": {"values": ["good", 5]}},
            "completion.values.1",
        ),
    ],
)
async def test_other_methods_answer_with_an_error_that_names_server_revision_and_place(
    gateway: Any, mode: str, era: str, method: str, params: dict[str, Any], sent: dict[str, Any], place: str
) -> None:
    told = json.dumps(of(era, **sent))
    match method:
        case "prompts/get":
            params = params | {"arguments": {"result": told}}
        case "resources/read":
            params = {"uri": f"gateway://odd/say:{told}"}
        case _:
            params = params | {"argument": {"name": "result", "value": told}}
    with anyio.fail_after(60):
        async with gateway(mode, odd=answering(era)) as client:
            with pytest.raises(MCPError) as refused:
                await raw_request(client, method, params, seconds=20)
    assert refused.value.code == INTERNAL_ERROR
    assert f"'odd' answered with a result that revision {VERSIONS[mode]} does not allow: {place}" in str(refused.value)


@pytest.mark.parametrize("mode", ["auto", "legacy"])
async def test_a_lifetime_that_is_none_does_not_cost_what_was_read(gateway: Any, mode: str) -> None:
    with anyio.fail_after(60):
        async with gateway(mode, odd=answering("modern")) as client:
            for ttl in ("soon", -5, 1.5, None):
                sent = of("modern", contents=[{"uri": "x:1", "text": "good"}], ttlMs=ttl, cacheScope="everyone")
                params = {"uri": f"gateway://odd/say:{json.dumps(sent)}"}
                result = await raw_request(client, "resources/read", params, seconds=20)
                assert result["contents"][0]["text"] == "good"
                assert (result.get("ttlMs"), result.get("cacheScope")) in ((0, "private"), (None, None))


@pytest.mark.parametrize("mode", ["auto", "legacy"])
@pytest.mark.parametrize(
    ("sent", "problem"),
    [
        ({}, "does not say what it needs"),
        ({"inputRequests": {"one": {"method": "tools/list", "params": {}}}}, "inputRequests.one"),
        ({"inputRequests": {"one": 5}}, "inputRequests.one"),
        ({"inputRequests": [5]}, "inputRequests: Input should be"),
        ({"inputRequests": {"one": {"method": "elicitation/create", "params": {}}}}, "inputRequests.one.params"),
        ({"requestState": {"a": 1}}, "requestState: Input should be a valid string"),
    ],
)
async def test_a_result_that_asks_for_nothing_that_can_be_answered_is_an_error(
    gateway: Any, mode: str, sent: dict[str, Any], problem: str
) -> None:
    with anyio.fail_after(60):
        async with gateway(mode, odd=answering("modern")) as client:
            result = await call(client, {"resultType": "input_required", **sent})
    assert result["isError"] is True
    assert "'odd'" in texts(result)[0]
    assert problem in texts(result)[0]


@pytest.mark.parametrize("mode", ["auto", "legacy"])
async def test_a_kind_of_result_that_the_method_does_not_have_is_an_error(gateway: Any, mode: str) -> None:
    asking = json.dumps({"resultType": "input_required", "requestState": "x"})
    reference = {"ref": {"type": "ref/prompt", "name": "odd__say"}, "argument": {"name": "result", "value": asking}}
    with anyio.fail_after(60):
        async with gateway(mode, odd=answering("modern")) as client:
            with pytest.raises(MCPError, match="asks for more input, which revision"):
                await raw_request(client, "completion/complete", reference, seconds=20)
            for kind in (["complete"], {"a": 1}, 5, "com.example/" + "x" * 1000):
                result = await call(client, {"resultType": kind, "content": [GOOD]})
                assert result["isError"] is True
                [text] = texts(result)
                assert "'odd' answered with a result of type" in text
                assert len(text) < 250


@pytest.mark.parametrize("mode", ["auto", "legacy"])
async def test_members_of_the_newer_revision_mean_nothing_in_the_answer_of_an_older_server(
    gateway: Any, mode: str
) -> None:
    with anyio.fail_after(60):
        async with gateway(mode, odd=answering("legacy")) as client:
            for kind in ("input_required", "com.example/odd", 5):
                result = await call(client, {"resultType": kind, "content": [GOOD], "requestState": "x"})
                assert result["content"] == [GOOD]
                assert result.get("resultType", "complete") == "complete"


@pytest.mark.parametrize("transport", ["stdio", "http"])
async def test_a_failure_stays_a_failure_for_callers_of_the_program(
    connect: Any, configuration: Any, transport: str
) -> None:
    file = configuration(odd=answering("legacy"))
    with anyio.fail_after(90):
        async with connect(transport, "2026-07-28", "--config", str(file)) as client:
            result = await call(client, {"content": [GOOD, {"type": "image", "data": "aGk="}], "isError": True})
            empty = await call(client, {})
    assert (result["content"][0], result["isError"]) == (GOOD, True)
    assert empty["isError"] is True


QUESTIONS: dict[str, dict[str, Any]] = {
    "elicitation/create": {"message": "Your name?", "requestedSchema": {"type": "object", "properties": {}}},
    "sampling/createMessage": {"messages": [{"role": "user", "content": GOOD}], "maxTokens": 5},
    "roots/list": {},
}
NO_ANSWERS: list[tuple[str, dict[str, Any]]] = [
    ("elicitation/create", {}),
    ("elicitation/create", {"action": "perhaps"}),
    ("elicitation/create", {"action": "accept", "content": {"name": {"a": 1}}}),
    ("sampling/createMessage", {"role": "assistant", "model": "m", "content": {"type": "image"}}),
    ("sampling/createMessage", {"role": "assistant", "model": "m", "content": "Hello"}),
    ("roots/list", {"roots": [5]}),
]


class RawCaller:
    """A legacy client without an SDK, which may answer anything, of a gateway in a process of its own."""

    def __init__(self, process: Process) -> None:
        self._process = process
        self._lines = BufferedByteReceiveStream(cast("ByteReceiveStream", process.stdout))

    async def send(self, **message: Any) -> None:
        stdin = cast("ByteSendStream", self._process.stdin)
        await stdin.send(json.dumps({"jsonrpc": "2.0", **message}).encode() + b"\n")

    async def next(self, wanted: Callable[[dict[str, Any]], bool]) -> dict[str, Any]:
        while True:
            message = json.loads(await self._lines.receive_until(b"\n", 1_000_000))
            if wanted(message):
                return message

    async def ask(self, number: int, method: str, params: dict[str, Any]) -> None:
        await self.send(id=number, method=method, params=params)

    async def answer_to(self, number: int) -> dict[str, Any]:
        return await self.next(lambda message: message.get("id") == number and "method" not in message)


@pytest.mark.parametrize("era", ["modern", "legacy"])
async def test_a_client_that_answers_a_question_with_what_is_no_answer_is_named_as_the_one_at_fault(
    configuration: Any, era: str
) -> None:
    argv = [sys.executable, "-m", "tools_search_server", "--config", str(configuration(odd=answering(era)))]
    capabilities: dict[str, Any] = {"elicitation": {}, "sampling": {}, "roots": {}}
    greeting = {"protocolVersion": "2025-11-25", "capabilities": capabilities}
    with anyio.fail_after(90):
        async with await anyio.open_process(argv) as process:
            caller = RawCaller(process)
            await caller.ask(1, "initialize", greeting | {"clientInfo": {"name": "raw", "version": "0"}})
            await caller.answer_to(1)
            await caller.send(method="notifications/initialized")
            asked = [(method, answer) for method, answer in NO_ANSWERS if era == "modern" or method != "roots/list"]
            for number, (method, answer) in enumerate(asked, start=2):
                question = {"method": method, "params": QUESTIONS[method]}
                result = {"resultType": "input_required", "inputRequests": {"one": question}}
                told = {"result": result, **({"ask": question} if era == "legacy" else {})}
                await caller.ask(number, "tools/call", {"name": "odd__say", "arguments": told})
                request = await caller.next(lambda message: message.get("method") in QUESTIONS)
                await caller.send(id=request["id"], result=answer)
                outcome = (await caller.answer_to(number))["result"]
                assert "the client answered with an invalid result" in texts(outcome)[0]
            await cast("ByteSendStream", process.stdin).aclose()
            await process.wait()


async def test_answers_that_are_none_are_refused_to_a_modern_caller_before_the_server_sees_them(gateway: Any) -> None:
    params: dict[str, Any] = {"name": "odd__say", "arguments": {"result": {}}, "requestState": "x"}
    with anyio.fail_after(60):
        async with gateway("auto", odd=answering("modern")) as client:
            good = await raw_request(
                client, "tools/call", params | {"inputResponses": {"one": {"action": "decline"}}}, seconds=20
            )
            with pytest.raises(MCPError) as refused:
                await raw_request(
                    client, "tools/call", params | {"inputResponses": {"one": {"action": "perhaps"}}}, seconds=20
                )
    assert json.loads(texts(good)[0]) == {"one": {"action": "decline"}}
    assert refused.value.code == INVALID_PARAMS
