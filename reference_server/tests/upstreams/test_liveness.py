"""A server that hangs or is suspended is noticed and started again; one that is only busy is left alone."""

from __future__ import annotations

import os
import signal
import sys
from collections.abc import Generator
from contextlib import suppress
from pathlib import Path
from typing import Any

import anyio
import httpx2
import pytest
from mcp import Client, MCPError
from mcp_ext_tools_search.client import raw_request
from mcp_types import ElicitRequestParams, ElicitResult
from tools_search_server.upstreams import liveness, questions

UPSTREAMS = Path(__file__).parents[1] / "servers"

pytestmark = pytest.mark.anyio


@pytest.fixture
def hasty(monkeypatch: pytest.MonkeyPatch) -> None:
    """Shorten every wait of the rule, so that what takes minutes takes seconds."""
    for name, seconds in {"QUIET": 0.3, "IDLE": 1, "ANSWER": 2, "SUSPENDED": 0.5, "POLL": 0.1}.items():
        monkeypatch.setattr(liveness, f"_{name}_SECONDS", seconds)


@pytest.fixture
def suspended() -> Generator[list[int]]:
    """Suspend the processes that are put into it, and let them go at the end."""
    pids: list[int] = []
    yield pids
    for pid in pids:
        with suppress(ProcessLookupError):
            os.kill(pid, signal.SIGKILL)


def thinking(folder: Path, *how: str) -> dict[str, Any]:
    return {"command": sys.executable, "args": [str(UPSTREAMS / "thinking.py"), str(folder), *how]}


def stop(folder: Path, suspended: list[int]) -> int:
    pid = int((folder / "pid").read_text())
    os.kill(pid, signal.SIGSTOP)
    suspended.append(pid)
    return pid


async def call(client: Client, name: str, **arguments: Any) -> tuple[bool, str]:
    result = await raw_request(client, "tools/call", {"name": name, "arguments": arguments}, seconds=50)
    return bool(result.get("isError")), result["content"][0]["text"]


async def test_a_program_that_is_suspended_during_a_call_is_named_and_started_again(
    servers: Any, configuration: Any, suspended: list[int], tmp_path: Path
) -> None:
    log = tmp_path / "log"
    file = configuration(frozen=thinking(tmp_path))
    with anyio.fail_after(120), log.open("w") as errors:
        url = await anyio.to_thread.run_sync(lambda: servers.start_http("--config", str(file), stderr=errors))
        async with Client(url) as client, httpx2.AsyncClient(trust_env=False) as http:
            _, first = await call(client, "frozen__work")
            assert int(first) == stop(tmp_path, suspended)
            began = anyio.current_time()
            # More than a pipe holds: what is sent to it gets stuck as well.
            is_error, text = await call(client, "frozen__work", load="x" * 200_000)
            seconds = anyio.current_time() - began
            assert is_error
            assert "'frozen' went away during this request: its process is suspended (SIGSTOP)" in text
            assert seconds < 30
            while (server := (await _servers(http, url))[0])["state"] != "ready":
                assert server["state"] in ("starting", "down")
                await anyio.sleep(0.02)
            _, second = await call(client, "frozen__work")
    assert second != first
    assert "frozen is down: its process is suspended (SIGSTOP)" in log.read_text()


async def _servers(http: httpx2.AsyncClient, url: str) -> list[dict[str, Any]]:
    return (await http.get(url.replace("/mcp", "/healthz"))).json()["servers"]


@pytest.mark.parametrize("launcher", [[], ["/bin/sh", "-c", '"$@"; exit', "sh"]])
async def test_a_program_that_is_suspended_while_nothing_is_asked_of_it_is_started_again(
    gateway: Any, hasty: None, suspended: list[int], until: Any, tmp_path: Path, launcher: list[str]
) -> None:
    command = [*launcher, sys.executable, str(UPSTREAMS / "thinking.py"), str(tmp_path)]
    with anyio.fail_after(60):
        async with gateway("auto", frozen={"command": command[0], "args": command[1:]}) as client:
            await client.list_tools()
            pid = stop(tmp_path, suspended)
            await until(lambda: int((tmp_path / "pid").read_text() or pid) != pid)


async def test_a_job_of_a_server_may_be_suspended(
    gateway: Any, hasty: None, suspended: list[int], tmp_path: Path, caplog: pytest.LogCaptureFixture
) -> None:
    file = str(tmp_path / "job")
    job = f"import os, time; os.setpgid(0, 0); open({file!r}, 'w').write(str(os.getpid())); time.sleep(99)"
    line = f'"{sys.executable}" -c "{job}" & exec "$@"'
    command = ["-c", line, "sh", sys.executable, str(UPSTREAMS / "thinking.py"), str(tmp_path)]
    with anyio.fail_after(60):
        async with gateway("auto", jobs={"command": "/bin/sh", "args": command}) as client:
            _, first = await call(client, "jobs__work")
            while not (tmp_path / "job").exists() or not (tmp_path / "job").read_text():  # noqa: ASYNC110
                await anyio.sleep(0.02)
            suspended.append(int((tmp_path / "job").read_text()))
            os.kill(suspended[0], signal.SIGSTOP)
            assert await call(client, "jobs__work", seconds=1.5) == (False, first)
    assert "is down" not in caplog.text


async def test_a_program_that_hangs_in_a_call_is_started_again_when_the_call_has_had_its_time(
    gateway: Any, hasty: None, tmp_path: Path, caplog: pytest.LogCaptureFixture, until: Any
) -> None:
    with anyio.fail_after(60):
        async with gateway("auto", hung=thinking(tmp_path), call_timeout=1) as client:
            with pytest.raises(MCPError, match="did not answer in time"):
                await call(client, "hung__hang")
            pid = int((tmp_path / "pid").read_text())
            await until(lambda: int((tmp_path / "pid").read_text() or pid) != pid)
            await until(lambda: "hung is down: it hangs" in caplog.text)


async def test_a_server_of_one_thread_that_is_busy_is_not_taken_for_dead(
    gateway: Any, hasty: None, tmp_path: Path, caplog: pytest.LogCaptureFixture
) -> None:
    with anyio.fail_after(60):
        async with gateway("auto", busy=thinking(tmp_path)) as client:
            _, first = await call(client, "busy__work")
            assert await call(client, "busy__work", seconds=4) == (False, first)
    assert "is down" not in caplog.text


async def test_a_server_that_works_on_what_its_caller_has_given_up_is_not_taken_for_dead(
    gateway: Any, hasty: None, tmp_path: Path, until: Any, caplog: pytest.LogCaptureFixture
) -> None:
    with anyio.fail_after(60):
        async with gateway("auto", busy=thinking(tmp_path)) as client:
            _, first = await call(client, "busy__work")
            (tmp_path / "working").unlink()
            async with anyio.create_task_group() as tasks:
                tasks.start_soon(lambda: call(client, "busy__work", seconds=4))
                await until((tmp_path / "working").exists)
                tasks.cancel_scope.cancel()
            assert await call(client, "busy__work") == (False, first)
    assert "is down" not in caplog.text


async def test_a_server_that_waits_for_an_answer_of_its_client_is_not_taken_for_dead(
    gateway: Any, hasty: None, tmp_path: Path, caplog: pytest.LogCaptureFixture
) -> None:
    async def answer(*_: Any) -> ElicitResult:
        await anyio.sleep(4)  # as a person who thinks
        return ElicitResult(action="decline")

    with anyio.fail_after(60):
        async with gateway(
            "legacy", asking=thinking(tmp_path), call_timeout=1, client={"elicitation_callback": answer}
        ) as client:
            is_error, _ = await call(client, "asking__ask")
    assert not is_error
    assert "is down" not in caplog.text


async def test_a_server_that_ignores_what_it_does_not_know_is_not_taken_for_dead(
    gateway: Any, hasty: None, tmp_path: Path, caplog: pytest.LogCaptureFixture
) -> None:
    with anyio.fail_after(60):
        async with gateway("auto", deaf=thinking(tmp_path, "deaf"), other=thinking(tmp_path)) as client:
            _, first = await call(client, "deaf__work")
            await call(client, "other__work", seconds=5)
            assert await call(client, "deaf__work") == (False, first)
    assert "is down" not in caplog.text


async def test_a_server_that_ends_when_it_is_asked_for_a_sign_of_life_is_asked_once(
    gateway: Any, hasty: None, tmp_path: Path, caplog: pytest.LogCaptureFixture
) -> None:
    with anyio.fail_after(60):
        async with gateway("auto", frail=thinking(tmp_path, "frail"), other=thinking(tmp_path)) as client:
            while (await call(client, "frail__work"))[0]:  # noqa: ASYNC110 - calls are the only thing to look at
                await anyio.sleep(0.1)
            await call(client, "other__work", seconds=4)
            assert not (await call(client, "frail__work"))[0]
    assert caplog.text.count("frail is ready") <= 2


@pytest.mark.rotating
@pytest.mark.parametrize(
    ("program", "kind", "tool"),
    [
        (["versatile.py", "{folder}", "--http"], "http", "frozen__echo"),
        (["versatile.py", "{folder}", "--legacy", "--http"], "http", "frozen__echo"),
        (["over_sse.py"], "sse", "frozen__ancient"),
    ],
    ids=["modern", "legacy", "old transport"],
)
async def test_a_server_over_http_that_is_suspended_is_down_until_it_goes_on(
    servers: Any,
    gateway: Any,
    hasty: None,
    suspended: list[int],
    unused_tcp_port: int,
    tmp_path: Path,
    program: list[str],
    kind: str,
    tool: str,
    caplog: pytest.LogCaptureFixture,
) -> None:
    name, *options = (word.format(folder=tmp_path) for word in program)
    process = servers.start(str(UPSTREAMS / name), *options, str(unused_tcp_port))
    (tmp_path / "pid").write_text(str(process.pid))
    entry = {"url": f"http://127.0.0.1:{unused_tcp_port}/{'sse' if kind == 'sse' else 'mcp'}", "type": kind}
    with anyio.fail_after(90):
        async with gateway("auto", frozen=entry, call_timeout=2, start_deadline=30) as client:
            while (await call(client, tool))[0]:  # noqa: ASYNC110 - until it serves
                await anyio.sleep(0.1)
            pid = stop(tmp_path, suspended)
            with suppress(MCPError):  # the call is late, or the server is taken for dead in the middle of it
                assert (await call(client, tool))[0]
            while "frozen is down: it hangs" not in caplog.text:  # noqa: ASYNC110 - the log is the only thing to look at
                await anyio.sleep(0.1)
            os.kill(pid, signal.SIGCONT)
            while (await call(client, tool))[0]:  # noqa: ASYNC110 - calls are the only thing to look at
                await anyio.sleep(0.1)


async def test_progress_gives_a_call_more_time_whether_its_caller_wants_to_hear_of_it_or_not(
    gateway: Any, tmp_path: Path
) -> None:
    with anyio.fail_after(60):
        async with gateway("auto", long=thinking(tmp_path), call_timeout=2) as client:
            is_error, _ = await call(client, "long__work", seconds=0.5, steps=8)
            assert not is_error
            with pytest.raises(MCPError, match="did not answer in time"):
                await call(client, "long__work", seconds=8)


async def test_the_time_in_which_a_person_thinks_is_not_taken_from_what_progress_may_add(
    gateway: Any, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(questions, "_MAX_EXTENSION", 2)

    async def think(context: Any, params: ElicitRequestParams) -> ElicitResult:
        await anyio.sleep(2.1)  # the time itself is what is tested
        return ElicitResult(action="decline")

    with anyio.fail_after(60):
        async with gateway(
            "legacy", long=thinking(tmp_path), call_timeout=1, client={"elicitation_callback": think}
        ) as client:
            is_error, _ = await call(client, "long__ask", seconds=0.5, steps=3)
    assert not is_error


async def test_progress_without_end_does_not_keep_a_call_for_ever(gateway: Any, tmp_path: Path) -> None:
    with anyio.fail_after(60):
        async with gateway("auto", endless=thinking(tmp_path), call_timeout=0.5) as client:
            began = anyio.current_time()
            with pytest.raises(MCPError, match="did not answer in time"):
                await call(client, "endless__work", seconds=0.1, steps=1_000_000)
            assert anyio.current_time() - began < 20
