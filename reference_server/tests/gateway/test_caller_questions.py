"""What servers ask back while they work: who is asked, what comes back, and what is said where nobody can be asked."""

from __future__ import annotations

import json
import subprocess
from pathlib import Path
from typing import Any

import anyio
import anyio.lowlevel
import anyio.to_thread
import httpx2
import pytest
from clients import call, library, server_entry
from mcp import Client
from mcp_types import (
    CreateMessageRequestParams,
    CreateMessageResult,
    ElicitCompleteNotification,
    ElicitRequestParams,
    ElicitResult,
    ListRootsResult,
    Root,
    TextContent,
)

pytestmark = pytest.mark.anyio

either_upstream = pytest.mark.parametrize("upstream", ["modern", "legacy"])


async def answer(context: Any, params: ElicitRequestParams) -> ElicitResult:
    return ElicitResult(action="accept", content={"name": params.message})


async def write(context: Any, params: CreateMessageRequestParams) -> CreateMessageResult:
    return CreateMessageResult(role="assistant", content=TextContent(text=str(params.max_tokens)), model="m")


async def roots(context: Any) -> ListRootsResult:
    return ListRootsResult(roots=[Root(uri="file:///home")])  # pyright: ignore[reportArgumentType] - read as a URL


EVERYTHING: dict[str, Any] = {
    "elicitation_callback": answer,
    "sampling_callback": write,
    "list_roots_callback": roots,
}


async def ask(client: Client, kind: str, **arguments: Any) -> tuple[bool, str]:
    return await call(client, "one__ask", kind=kind, **arguments)


@pytest.mark.rotating
@either_upstream
@pytest.mark.parametrize("transport", ["stdio", "http"])
async def test_a_legacy_caller_is_asked_and_its_answer_goes_back(
    connect: Any, configuration: Any, transport: str, upstream: str
) -> None:
    file = str(configuration(one=library(upstream, "one")))
    with anyio.fail_after(60):
        async with connect(transport, "legacy", "--config", file, **EVERYTHING) as client:
            elicited = await ask(client, "elicitation")
            sampled = await ask(client, "sampling")
    assert elicited[0] is sampled[0] is False
    assert json.loads(elicited[1]) in (
        [{"action": "accept", "content": {"name": "Your name?"}}],
        {"action": "accept", "content": {"name": "Your name?"}},
    )
    assert '"text": "5"' in sampled[1]


async def test_a_modern_server_may_ask_a_legacy_caller_several_times_but_not_for_ever(gateway: Any) -> None:
    with anyio.fail_after(60):
        async with gateway("legacy", one=library("modern", "one"), client=EVERYTHING) as client:
            most = await ask(client, "roots", rounds=10)
            endless = [await ask(client, "elicitation", rounds=rounds) for rounds in (11, 99)]
    assert json.loads(most[1]) == [{"roots": [{"uri": "file:///home"}]}] * 10
    why = "asks for more input before it continues, but cannot get it: it asks more than 10 times."
    assert endless == [(True, f"The MCP server 'one' {why}")] * 2


async def test_a_modern_server_may_ask_a_legacy_caller_only_so_many_questions_at_once(gateway: Any) -> None:
    async def say(client: Client, count: int) -> tuple[bool, str]:
        questions = {f"q{number}": {"method": "roots/list"} for number in range(count)}
        return await call(client, "one__say", result={"resultType": "input_required", "inputRequests": questions})

    asked = 0

    async def roots(_: Any) -> ListRootsResult:
        nonlocal asked
        asked += 1
        return ListRootsResult(roots=[])

    with anyio.fail_after(60):
        entry = server_entry("answering.py", "modern")
        async with gateway("legacy", one=entry, client={"list_roots_callback": roots}) as client:
            refused = await say(client, 17)
            assert asked == 0
            await say(client, 16)
    assert refused[0]
    assert "it asks more than 16 questions at once" in refused[1]
    assert asked >= 16


@either_upstream
async def test_the_time_in_which_a_person_thinks_is_no_time_of_the_call(gateway: Any, upstream: str) -> None:
    seconds = 0.5

    async def think(context: Any, params: ElicitRequestParams) -> ElicitResult:
        await anyio.sleep(2 * seconds)  # the time itself is what is tested
        return await answer(context, params)

    with anyio.fail_after(60):
        client_options = {"elicitation_callback": think}
        async with gateway(
            "legacy", one=library(upstream, "one"), call_timeout=seconds, client=client_options
        ) as client:
            answered = await ask(client, "elicitation")
    assert answered[0] is False
    assert "Your name?" in answered[1]


async def test_no_call_is_given_up_until_the_last_person_has_answered(gateway: Any) -> None:
    seconds, asked, both = 0.5, 0, anyio.Event()
    answers: list[tuple[bool, str]] = []

    async def think(context: Any, params: ElicitRequestParams) -> ElicitResult:
        nonlocal asked
        asked += 1
        if asked == 1:
            await both.wait()
        else:
            both.set()
            await anyio.sleep(2 * seconds)  # the time itself is what is tested
        return await answer(context, params)

    async def call_it(client: Client) -> None:
        answers.append(await ask(client, "elicitation"))

    with anyio.fail_after(60):
        client_options = {"elicitation_callback": think}
        async with (
            gateway("legacy", one=library("legacy", "one"), call_timeout=seconds, client=client_options) as client,
            anyio.create_task_group() as tasks,
        ):
            tasks.start_soon(call_it, client)
            tasks.start_soon(call_it, client)
    assert [is_error for is_error, _ in answers] == [False, False]


@either_upstream
@pytest.mark.parametrize("kind", ["elicitation", "sampling"])
async def test_a_caller_that_cannot_be_asked_is_told_what_it_lacks(gateway: Any, upstream: str, kind: str) -> None:
    with anyio.fail_after(60):
        async with gateway("legacy", one=library(upstream, "one")) as client:
            refused = await ask(client, kind)
    assert f"does not declare the capability '{kind}'" in refused[1]


async def test_a_legacy_server_cannot_ask_a_modern_caller_and_is_told_why(gateway: Any) -> None:
    with anyio.fail_after(60):
        async with gateway("auto", one=library("legacy", "one"), client=EVERYTHING) as client:
            refused = await ask(client, "elicitation")
            roots_refused = await ask(client, "roots")
    assert "the server uses an older revision" in refused[1]
    assert "not supported" in roots_refused[1]


@either_upstream
async def test_a_question_travels_on_the_response_to_the_request_that_it_is_about(
    servers: Any, configuration: Any, upstream: str
) -> None:
    info = {"protocolVersion": "2025-11-25", "clientInfo": {"name": "quiet", "version": "1"}}
    file = str(configuration(one=library(upstream, "one")))
    url = await anyio.to_thread.run_sync(lambda: servers.start_http("--config", file))
    headers = {"Accept": "application/json, text/event-stream"}
    asked: list[str] = []
    told: dict[str, Any] = {}
    # A client need not open the stream that belongs to no request, and this one does not.
    with anyio.fail_after(30):
        async with httpx2.AsyncClient(headers=headers, trust_env=False) as http:

            def message(**members: Any) -> dict[str, Any]:
                return {"url": url, "json": {"jsonrpc": "2.0", **members}}

            declared: dict[str, Any] = {"capabilities": {"elicitation": {}}}
            greeted = await http.post(**message(id=0, method="initialize", params=info | declared))
            http.headers["Mcp-Session-Id"] = greeted.headers["mcp-session-id"]
            await http.post(**message(method="notifications/initialized"))
            question = {"name": "one__ask", "arguments": {"kind": "elicitation"}}
            async with http.stream("POST", **message(id=1, method="tools/call", params=question)) as response:
                async for line in response.aiter_lines():
                    told = json.loads(line.removeprefix("data:")) if line.startswith("data: {") else told
                    if "method" in told and told["id"] not in asked:
                        asked.append(told["id"])
                        await http.post(**message(id=told["id"], result={"action": "decline"}))
    assert len(asked) == 1
    assert "decline" in told["result"]["content"][0]["text"]


@either_upstream
async def test_a_caller_without_a_session_is_not_asked_and_not_told_that_it_declares_too_little(
    connect: Any, configuration: Any, upstream: str
) -> None:
    file = str(configuration(one=library(upstream, "one")))
    with anyio.fail_after(60):
        async with connect("http", "legacy", "--config", file, "--stateless", **EVERYTHING) as client:
            refused = await ask(client, "elicitation")
    assert "the client's connection cannot carry requests to the client" in refused[1]


async def test_no_client_is_asked_what_may_be_for_another(connect: Any, configuration: Any, servers: Any) -> None:
    asked, go_on = anyio.Event(), anyio.Event()
    results: list[tuple[bool, str]] = []

    async def think(context: Any, params: ElicitRequestParams) -> ElicitResult:
        asked.set()
        await go_on.wait()
        return await answer(context, params)

    async def first(client: Client) -> None:
        results.append(await ask(client, "elicitation"))

    file = str(configuration(one=library("legacy", "one")))
    with anyio.fail_after(60):
        url = await anyio.to_thread.run_sync(lambda: servers.start_http("--config", file))
        async with (
            Client(url, mode="legacy", elicitation_callback=think) as one,
            Client(url, mode="legacy", elicitation_callback=answer) as other,
            anyio.create_task_group() as tasks,
        ):
            tasks.start_soon(first, one)
            await asked.wait()
            results.append(await ask(other, "elicitation"))
            go_on.set()
    assert "several clients" in results[0][1]
    assert "Your name?" in results[1][1]


async def test_a_client_that_was_sent_to_a_page_is_told_that_it_was_answered_there(gateway: Any) -> None:
    finished: list[str] = []

    async def on_message(message: object) -> None:
        if isinstance(message, ElicitCompleteNotification):
            finished.append(message.params.elicitation_id)

    client_options = {"elicitation_callback": answer, "message_handler": on_message}
    with anyio.fail_after(60):
        async with gateway("legacy", one=library("legacy", "one"), client=client_options) as client:
            await ask(client, "elicitation")
            assert finished == []
            assert (await ask(client, "url"))[0] is False
            while not finished:
                await anyio.lowlevel.checkpoint()
    assert finished == ["e1"]


class RawClient:
    """A legacy client on stdio without an SDK, with the capabilities it declares, and one answer to every question."""

    def __init__(
        self,
        servers: Any,
        file: Path,
        declared: dict[str, Any],
        answered: dict[str, Any],
        version: str = "2025-11-25",
    ) -> None:
        self._process = servers.start("-m", "tools_search_server", "--config", str(file), stdin=subprocess.PIPE)
        self._answered = answered
        self._calls = 0
        self.asked: list[dict[str, Any]] = []
        info = {"protocolVersion": version, "clientInfo": {"name": "odd", "version": "1"}}
        self._send(id=0, method="initialize", params=info | {"capabilities": declared})

    def call(self, name: str, arguments: dict[str, Any]) -> dict[str, Any]:
        """Call a tool, and answer everything that is asked meanwhile."""
        if not self._calls:
            self._process.stdout.readline()
            self._send(method="notifications/initialized")
        self._calls += 1
        self._send(id=self._calls, method="tools/call", params={"name": name, "arguments": arguments})
        while (message := json.loads(self._process.stdout.readline())).get("id") != self._calls or "method" in message:
            if "method" in message and "id" in message:
                self.asked.append(message)
                self._send(id=message["id"], result=self._answered)
        return message

    def _send(self, **message: Any) -> None:
        self._process.stdin.write(json.dumps({"jsonrpc": "2.0", **message}) + "\n")
        self._process.stdin.flush()


@pytest.mark.rotating
@either_upstream
@pytest.mark.parametrize("kind", ["elicitation", "sampling"])
@pytest.mark.parametrize("answered", [{"action": 5, "content": [7], "role": {}}, {}])
async def test_an_answer_that_is_none_costs_the_call_that_it_was_asked_for(
    servers: Any, configuration: Any, upstream: str, kind: str, answered: dict[str, Any]
) -> None:
    def use(client: RawClient) -> None:
        asked = client.call("one__ask", {"kind": kind})
        seen = client.call("one__seen", {})
        assert "the client answered with an invalid result" in str(asked)
        assert not seen["result"].get("isError"), seen

    file = configuration(one=library(upstream, "one"))
    with anyio.fail_after(60):
        client = RawClient(servers, file, {"elicitation": {}, "sampling": {}}, answered)
        await anyio.to_thread.run_sync(use, client)


FORM: dict[str, Any] = {"mode": "form", "message": "Who?", "requestedSchema": {"type": "object", "properties": {}}}
URL: dict[str, Any] = {"mode": "url", "message": "Sign in", "url": "https://example.org"}
TOOL: dict[str, Any] = {"name": "look", "inputSchema": {"type": "object"}}
ASKED: dict[str, Any] = {"messages": [], "maxTokens": 5}


@either_upstream
@pytest.mark.parametrize(
    ("method", "params", "declared", "lacking"),
    [
        ("elicitation/create", FORM, {"elicitation": {}}, None),
        ("elicitation/create", FORM, {"elicitation": {"form": {}, "url": {}}}, None),
        ("elicitation/create", FORM, {"elicitation": {"url": {}}}, "'elicitation' for forms"),
        ("elicitation/create", URL, {"elicitation": {"url": {}}}, None),
        ("elicitation/create", URL, {"elicitation": {}}, "'elicitation' for URLs"),
        ("sampling/createMessage", ASKED, {"sampling": {}}, None),
        ("sampling/createMessage", ASKED | {"tools": [TOOL]}, {"sampling": {"tools": {}}}, None),
        ("sampling/createMessage", ASKED | {"tools": [TOOL]}, {"sampling": {}}, "'sampling' with tools"),
    ],
)
async def test_a_client_is_asked_only_in_the_ways_that_it_declares(
    servers: Any,
    configuration: Any,
    upstream: str,
    method: str,
    params: dict[str, Any],
    declared: dict[str, Any],
    lacking: str | None,
) -> None:
    own_id = {"elicitationId": "e1"} if upstream == "legacy" and params is URL else {}
    question = {"method": method, "params": params | own_id}
    said = {"action": "accept", "role": "assistant", "content": {"type": "text", "text": "hello"}, "model": "m"}
    asking = {"ask": question, "result": {"resultType": "input_required", "inputRequests": {"q": question}}}
    file = configuration(one=server_entry("answering.py", upstream))
    with anyio.fail_after(60):
        client = RawClient(servers, file, declared, said)
        answer = await anyio.to_thread.run_sync(client.call, "one__say", asking)
    text = answer["result"]["content"][0]["text"]
    assert [asked["method"] for asked in client.asked] == ([] if lacking else [method])
    assert f"does not declare the capability {lacking}" in text if lacking else "hello" in text
    if client.asked and params is URL:
        assert client.asked[0]["params"]["elicitationId"]  # which modern servers do not have


@either_upstream
async def test_a_client_is_not_asked_what_its_revision_does_not_have(
    servers: Any, configuration: Any, upstream: str
) -> None:
    file = configuration(one=library(upstream, "one"))
    with anyio.fail_after(60):
        client = RawClient(servers, file, {"elicitation": {}}, {}, "2025-03-26")
        answer = await anyio.to_thread.run_sync(client.call, "one__ask", {"kind": "elicitation"})
    assert "protocol revision 2025-03-26 has no such request" in str(answer["result"])
    assert client.asked == []


@pytest.mark.rotating
@pytest.mark.parametrize("is_own", [True, False])
async def test_a_question_that_may_be_for_a_request_given_up_a_moment_ago_is_put_to_nobody_else(
    servers: Any, configuration: Any, raw: Any, until: Any, tmp_path: Path, is_own: bool
) -> None:
    asked: list[str] = []

    async def give_up(client: Client) -> None:
        async with anyio.create_task_group() as tasks:
            tasks.start_soon(client.session.call_tool, "one__plain")
            await until((tmp_path / "withheld").exists)
            tasks.cancel_scope.cancel()

    async def note(context: Any, params: ElicitRequestParams) -> ElicitResult:
        asked.append(params.message)
        return await answer(context, params)

    file = configuration(one=raw("belated", tmp_path))
    url = await anyio.to_thread.run_sync(lambda: servers.start_http("--config", str(file)))
    with anyio.fail_after(60):
        async with Client(url, mode="legacy") as first, Client(url, mode="legacy", elicitation_callback=note) as second:
            await give_up(second if is_own else first)
            result: Any = await second.session.call_tool("one__plain", {})
    text = result.content[0].text
    if is_own:
        assert asked == ["Whose?"]
        assert "accept" in text
    else:
        assert asked == []
        assert "cannot tell whom to ask" in text
