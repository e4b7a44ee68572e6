"""stdio, with real processes: what comes back, what does not, and that nothing is left behind."""

from __future__ import annotations

import os
import sys
from collections.abc import AsyncGenerator, Awaitable, Callable
from contextlib import asynccontextmanager
from pathlib import Path
from typing import Any

import anyio
import pytest
from tools_search_conformance.model import Run
from tools_search_conformance.wire.codec import Limits
from tools_search_conformance.wire.eras import MODERN
from tools_search_conformance.wire.process import STDERR_BYTES, TargetError, TargetProcess, environment
from tools_search_conformance.wire.stdio import StdioTransport

pytestmark = pytest.mark.anyio

ECHO = "import sys\nfor line in sys.stdin: sys.stdout.write(line.replace('method', 'was')); sys.stdout.flush()"


def request(number: Any = 1) -> dict[str, Any]:
    return {"jsonrpc": "2.0", "id": number, "method": "ping"}


@asynccontextmanager
async def speaking_to(
    program: str, *, limits: Limits | None = None, notes: list[str] | None = None
) -> AsyncGenerator[StdioTransport]:
    with anyio.fail_after(20):
        async with anyio.create_task_group() as tasks:
            process = await TargetProcess.start([sys.executable, "-c", program], tasks=tasks, env={})
            told = notes if notes is not None else []
            transport = StdioTransport(process, tasks=tasks, limits=limits or Limits(), note=told.append)
            try:
                yield transport
            finally:
                await transport.aclose()


@pytest.mark.parametrize("number", [1, 0, "1", "", "ü"])
async def test_a_response_is_found_by_its_id(number: Any):
    async with speaking_to(ECHO) as transport:
        answer = await transport.request(request(number), {}, 5)
        assert answer.message == {"jsonrpc": "2.0", "id": number, "was": "ping"}


async def test_an_id_of_another_type_is_kept_for_who_asked_with_it():
    async with speaking_to(ECHO.replace("'was')", "'was').replace('1', '\"1\"')")) as transport:
        answer = await transport.request(request(1), {}, 5)
        assert answer.message == {"jsonrpc": "2.0", "id": "1", "was": "ping"}


async def test_an_id_of_another_request_answers_none():
    notes: list[str] = []
    async with speaking_to(ECHO.replace("'was')", "'was').replace('1', '2')"), notes=notes) as transport:
        answer = await transport.request(request(1), {}, 0.5)
        assert answer.message is None
        assert answer.fault == "no response within 0.5 s, but one with the id 2"
        assert [stray["id"] for stray in transport.strays] == [2]
        assert "answers no request" in notes[0]


REFUSAL = '{"jsonrpc": "2.0", "id": null, "error": {"code": -32602, "message": "no"}}'


async def test_a_refusal_without_an_id_is_of_the_only_request_there_is():
    async with speaking_to(f"import sys\nfor _ in sys.stdin: print('{REFUSAL}', flush=True)") as transport:
        for number in (1, 2):
            assert (await transport.request(request(number), {}, 5)).message is not None
        assert transport.strays == []


async def test_a_refusal_without_an_id_may_be_of_the_notification_before():
    program = (
        "import sys\nfor line in sys.stdin:\n"
        f"    print(line.replace('method', 'was').strip() if 'id' in line else '{REFUSAL}', flush=True)"
    )
    async with speaking_to(program) as transport:
        await transport.notify({"jsonrpc": "2.0", "method": "note"}, {}, 5)
        answer = await transport.request(request(), {}, 5)
        assert answer.message == {"jsonrpc": "2.0", "id": 1, "was": "ping"}
        assert len(transport.strays) == 1


async def test_an_id_that_is_spelled_with_a_fraction_of_zero_is_the_same_id():
    async with speaking_to(ECHO.replace("'was')", "'was').replace('1', '1.0')")) as transport:
        answer = await transport.request(request(1), {}, 5)
        assert answer.message is not None


@pytest.mark.parametrize(
    ("line", "begun"),
    [("Ready", False), ("", False), ("[1, 2]", False), ('{"level": "info"}', False), ('{"jsonrpc": "2.0", "id', True)],
)
async def test_a_line_that_began_as_a_message_is_told_from_one_that_never_did(line: str, begun: bool):
    async with speaking_to(f"print({line!r}, flush=True)\n" + ECHO) as transport:
        assert (await transport.request(request(), {}, 5)).message is not None
        assert (len(transport.malformed), len(transport.noise)) == ((1, 0) if begun else (0, 1))


async def test_a_process_that_ends_with_its_input_is_heard_to_the_end():
    async with speaking_to(ECHO + "\nprint('Goodbye', flush=True)") as transport:
        assert await transport.hang_up(10)
        assert "Goodbye" in transport.noise[0]


async def test_a_process_that_outlives_its_input_is_told():
    async with speaking_to(ECHO + "\nimport threading; threading.Event().wait()") as transport:
        assert not await transport.hang_up(0.5)


async def test_answers_in_another_order_find_their_requests():
    program = (
        "import sys\na, b = (sys.stdin.readline() for _ in 'ab')\nsys.stdout.write((b + a).replace('method', 'was'))"
    )
    answers: dict[int, Any] = {}
    async with speaking_to(program) as transport:

        async def ask(number: int) -> None:
            answers[number] = await transport.request(request(number), {}, 5)

        async with anyio.create_task_group() as tasks:
            tasks.start_soon(ask, 1)
            tasks.start_soon(ask, 2)
    assert {number: answer.message["id"] for number, answer in answers.items()} == {1: 1, 2: 2}


async def test_lines_that_are_no_message_are_kept_apart():
    program = 'print(\'Server started\'); print(\'{"jsonrpc":"2.0","method":"note"}\', flush=True)\n' + ECHO
    notes: list[str] = []
    async with speaking_to(program, notes=notes) as transport:
        answer = await transport.request(request(), {}, 5)
        assert answer.message is not None
        assert "Server started" in transport.noise[0]
        assert (len(transport.noise), transport.malformed) == (1, [])
        assert len(notes) == 2


async def test_a_response_behind_a_banner_without_an_end_of_line_is_not_waited_for():
    async with speaking_to("print('Listening {on} stdio ', end='')\n" + ECHO) as transport:
        answer = await transport.request(request(), {}, 15)
        assert (
            answer.fault == "the line of the response begins with text that is not a message: 'Listening {on} stdio '"
        )
        assert (await transport.request(request(2), {}, 5)).message is not None


async def test_what_came_in_place_of_a_response_is_told():
    async with speaking_to("print('Usage: server PORT', flush=True); import time; time.sleep(60)") as transport:
        answer = await transport.request(request(), {}, 2)
        assert answer.fault is not None
        assert answer.fault.startswith("no response within 2 s, but a line that is not a message")
        assert answer.fault.endswith("Usage: server PORT")


async def test_what_a_process_says_at_its_end_is_told():
    stderr = "starting\nTypeError: q is undefined\n    at error (search.js:3)\n"
    program = f"import sys; sys.stdin.readline(); sys.stderr.write({stderr!r}); sys.exit(1)"
    async with speaking_to(program) as transport:
        answer = await transport.request(request(), {}, 10)
        assert answer.fault == "the process ended with exit status 1; stderr: TypeError: q is undefined"


async def test_the_end_of_a_process_ends_the_wait():
    async with speaking_to("import sys; sys.stdin.readline(); sys.exit(7)") as transport:
        answer = await transport.request(request(), {}, 10)
        assert answer.fault == "the process ended with exit status 7"
        later = await transport.request(request(2), {}, 10)
        assert later.fault == answer.fault
        assert (await transport.notify(request(3), {}, 1)).fault == answer.fault


async def test_a_process_that_ended_before_it_was_spoken_to_is_reported():
    async with speaking_to("import os; os.close(0); os.close(1)") as transport:
        answers = [await transport.request(request(number), {}, 5) for number in range(3)]
        assert all(answer.message is None and answer.fault for answer in answers)


async def test_a_target_that_does_not_read_is_not_waited_for():
    async with speaking_to("import time; time.sleep(60)") as transport:
        answer = await transport.notify({"jsonrpc": "2.0", "method": "x" * 4_000_000}, {}, 0.3)
        assert "did not read" in str(answer.fault)


@pytest.mark.parametrize(
    ("limits", "fault"),
    [
        (Limits(message_bytes=1000), "a line of more than 1000 bytes"),
        (Limits(message_bytes=10**9, total_bytes=100_000), "more than 100000 bytes"),
        (Limits(messages=10), "more than 10 lines"),
    ],
)
async def test_a_flood_ends_the_connection(limits: Limits, fault: str):
    program = "import sys\nwhile True: sys.stdout.write('x' * 5000)"
    if "lines" in fault:
        program = program.replace("'x' * 5000", "'x\\n'")
    async with speaking_to(program, limits=limits) as transport:
        answer = await transport.request(request(), {}, 10)
        assert answer.fault == fault


@pytest.mark.parametrize("how", ["", ", start_new_session=True"])
async def test_what_a_target_started_ends_with_it(how: str, tmp_path: Path):
    # The grandchild holds the pipe open for as long as it lives.
    pipe = tmp_path / "alive"
    os.mkfifo(pipe)
    child = f"import time; pipe = open({str(pipe)!r}, 'w'); pipe.write('born'); pipe.flush(); time.sleep(600)"
    program = f"import subprocess, sys; subprocess.Popen([sys.executable, '-c', {child!r}]{how})\n" + ECHO
    async with speaking_to(program) as transport:
        reading = await anyio.to_thread.run_sync(pipe.open, abandon_on_cancel=True)
        assert await anyio.to_thread.run_sync(reading.read, 4, abandon_on_cancel=True) == "born"
        assert (await transport.request(request(), {}, 10)).message is not None
    with reading, anyio.fail_after(5):
        assert await anyio.to_thread.run_sync(reading.read, abandon_on_cancel=True) == ""


async def test_a_target_that_ignores_goodbyes_is_killed():
    program = (
        "import signal, time\nsignal.signal(signal.SIGTERM, signal.SIG_IGN)\nprint(1, flush=True)\ntime.sleep(600)"
    )
    with anyio.fail_after(20):
        async with anyio.create_task_group() as tasks:
            process = await TargetProcess.start([sys.executable, "-c", program], tasks=tasks, env={})
            await process.stdout.receive()
            await process.end()
            assert process.returncode == -9


async def test_only_the_end_of_stderr_is_kept():
    program = "import sys\nsys.stderr.write('x' * 1_000_000 + 'the end')"
    started: list[TargetProcess] = []
    with anyio.fail_after(20):
        async with anyio.create_task_group() as tasks:  # left when stderr has been read to its end
            started.append(await TargetProcess.start([sys.executable, "-c", program], tasks=tasks, env={}))
        assert started[0].stderr_tail().endswith("the end")
        assert len(started[0].stderr_tail(10**9)) == STDERR_BYTES
        await started[0].end()


async def test_a_program_that_is_not_there_is_named():
    async with anyio.create_task_group() as tasks:
        with pytest.raises(TargetError, match="no-such-program"):
            await TargetProcess.start(["no-such-program"], tasks=tasks, env={})


def test_a_target_gets_a_short_environment_and_what_was_asked_for(monkeypatch: pytest.MonkeyPatch):
    monkeypatch.setenv("SECRET_TOKEN", "s3cret")
    found = environment({"WANTED": "1"})
    assert found["WANTED"] == "1"
    assert "PATH" in found
    assert "SECRET_TOKEN" not in found


async def test_a_server_that_ends_lines_at_other_separators_too_does_not_answer_queries_that_contain_them(
    target: Callable[..., tuple[str, ...]], judge: Callable[..., Awaitable[Run]]
):
    argv = target("miniature", "--fault", "lines-end-at-separators")
    run = await judge("query-unusual-characters", argv=argv, era=MODERN, brief=True, timeout=1)
    (found,) = run.results
    assert found.status == "fail"
    assert "got no response" in found.message
