"""The command `call`: what it asks, prints and refuses."""

from __future__ import annotations

import io
import json
import os
import pty
import shlex
import signal
import subprocess
import sys
from collections.abc import Callable
from contextlib import closing
from pathlib import Path
from typing import Any

import anyio
import pytest
from tools_search_client.cli.arguments import type_of
from tools_search_hosts import HttpTarget

from ..chat.terminal import Terminal  # noqa: TID252
from .conftest import Run, Write, command_line

PROGRAM = [sys.executable, "-m", "tools_search_client"]

SLOW = """
import base64, sys
from pathlib import Path
import anyio
from mcp.server.mcpserver import Context, Image, MCPServer
from mcp_types import BlobResourceContents, EmbeddedResource

server = MCPServer("slow")


@server.tool()
async def pack(ctx: Context):
    await ctx.report_progress(3, 8, "the bags")
    await anyio.to_thread.run_sync(Path(sys.argv[1]).read_text)
    blob = base64.b64encode(bytes(9_000)).decode()
    contents = BlobResourceContents(uri="bags:all", blob=blob)
    return [Image(data=bytes(9_000), format="png"), EmbeddedResource(type="resource", resource=contents)]


server.run()
"""
"""A tool that reports its progress, and returns a picture and a file when something is written to a pipe."""


@pytest.fixture
def plain_config(plain_server: HttpTarget, write_configuration: Write) -> Path:
    """One server under a name."""
    return write_configuration({"plain": {"url": plain_server.url}})


def test_call_prints_the_text_of_the_result(run: Run, config: Path):
    outcome = run("call", "add_numbers", '{"first": 2, "second": 3}', "--config", config, "--yes")
    assert (outcome.code, outcome.output) == (0, "5\n")


def test_call_as_json_prints_the_whole_result(run: Run, config: Path):
    arguments = ("call", "plain__add_numbers", '{"first": 2, "second": 3}', "--config", config, "--yes", "--json")
    assert run(*arguments).json["result"]["structuredContent"] == {"result": 5}


def test_a_tool_that_fails_ends_with_one(run: Run, plain_server: HttpTarget):
    outcome = run("call", "fail_always", "--url", plain_server.url, "--yes")
    assert outcome.code == 1
    assert "returned an error" in outcome.errors


@pytest.mark.parametrize("fault", ["none", "read-only"])
def test_no_tool_is_called_where_nobody_can_be_asked_whatever_it_says_of_itself(run: Run, liar: Any, fault: str):
    server = liar(fault)
    outcome = run("call", "make_alpha", "--command", command_line(server.target))
    assert outcome.code == 2
    assert "pass --yes to call it, or add it to its server's `alwaysAllow`" in outcome.errors
    assert server.asked("tools/call") == []


@pytest.mark.parametrize(
    ("members", "code"),
    [
        ({"alwaysAllow": ["make_alpha"]}, 0),
        ({"autoApprove": ["*"]}, 0),
        ({"trust": True}, 0),
        ({"alwaysAllow": ["make_beta", "good__make_alpha"], "trust": False}, 2),
    ],
)
def test_the_operators_configuration_ends_the_asking(
    run: Run,
    liar: Any,
    write_configuration: Callable[[dict[str, object]], Path],
    members: dict[str, Any],
    code: int,
):
    server = liar()
    config = write_configuration({"good": server.as_configured() | members})
    assert run("call", "make_alpha", "--config", str(config)).code == code
    assert len(server.asked("tools/call")) == (code == 0)


@pytest.mark.parametrize(("answer", "code", "calls"), [("y", 0, 1), ("n", 2, 0)])
def test_a_tool_is_called_after_consent(liar: Any, answer: str, code: int, calls: int):
    server = liar("read-only")
    program = ["-m", "tools_search_client", "call", "make_alpha", "--command", command_line(server.target)]
    with closing(Terminal(program, {})) as terminal:
        asked = terminal.until("Call it? [y/N]: ")
        terminal.enter(answer)
        ended, _ = terminal.until_end()
    assert ended == code
    assert "Make a alpha thing" in asked or "(no description)" in asked
    assert len(server.asked("tools/call")) == calls


def test_arguments_can_come_from_standard_input(run: Run, liar: Any, monkeypatch: pytest.MonkeyPatch):
    monkeypatch.setattr(sys, "stdin", io.StringIO('\ufeff{"size": 7}'))
    outcome = run("call", "make_alpha", "-", "--command", command_line(liar().target), "--yes")
    assert '"size": 7' in outcome.output


@pytest.mark.parametrize("arguments", ["{", "{5", "5", "size:={", "@/nowhere.json", "=5"])
def test_arguments_that_are_no_object_are_refused_before_anything_starts(run: Run, liar: Any, arguments: str):
    server = liar()
    outcome = run("call", "make_alpha", arguments, "--command", command_line(server.target), "--yes")
    assert outcome.code == 2
    assert server.asked() == []


@pytest.mark.parametrize(
    "arguments",
    [
        ("first=2", "second=3"),
        ("first:=2", "second:=3"),
        ('{"first": 2, "second": 9}', "second=3"),
        ("@FILE", "second=3"),
    ],
)
@pytest.mark.parametrize("name", ["add_numbers", "plain__add_numbers", "plain:add_numbers"])
def test_arguments_are_typed_in_any_form_and_take_the_type_of_the_schema(
    run: Run, plain_config: Path, tmp_path: Path, name: str, arguments: tuple[str, ...]
):
    file = tmp_path / "arguments.json"
    file.write_bytes(b'\xef\xbb\xbf{"first": 2}\r\n')  # as on Windows
    typed = [argument.replace("FILE", str(file)) for argument in arguments]
    outcome = run("call", name, *typed, "--config", plain_config, "--yes")
    assert (outcome.code, outcome.output) == (0, "5\n")


def test_text_stays_text_where_the_tool_takes_text(run: Run, plain_config: Path):
    assert run("call", "reverse_text", "text=12=3", "--config", plain_config, "--yes").output == "3=21\n"


def test_arguments_that_do_not_fit_are_refused_with_what_the_tool_takes(run: Run, liar: Any):
    server = liar("schema")
    outcome = run("call", "make_alpha", "size=big", "--command", command_line(server.target), "--yes")
    assert outcome.code == 2
    assert outcome.errors.splitlines() == [
        "Error: make_alpha was not called:",
        "  - size: 'big' is not of type 'integer'",
        "  - arguments: 'color' is a required property",
        "It takes:",
        "  size (integer, default 3) How big",
        '  color ("red" or "green", required)',
    ]
    assert server.asked("tools/call") == []


def test_a_misspelled_parameter_which_servers_ignore_is_not_sent_unless_in_an_object(run: Run, liar: Any):
    server = liar("schema")
    line = ("--command", command_line(server.target), "--yes")
    outcome = run("call", "make_alpha", "colr=red", 'color="red"', "color=red", *line)
    assert outcome.code == 2
    assert outcome.errors.splitlines()[1] == (
        "  - colr: it has no such parameter; the closest is 'color'; in a JSON object, it is sent all the same"
    )
    assert server.asked("tools/call") == []
    assert run("call", "make_alpha", '{"colr": "red", "color": "red"}', *line).code == 0


def test_describe_shows_every_parameter(run: Run, liar: Any):
    line = command_line(liar("schema").target)
    assert run("describe", "make_alpha", "--command", line).output.splitlines()[-3:] == [
        "parameter\ttype\tneed\tdescription",
        "size\tinteger\tdefault 3\tHow big",
        'color\t"red" or "green"\trequired\t',
    ]
    assert run("describe", "make_alpha", "--command", line, "--json").json["tool"]["inputSchema"]["required"] == [
        "color"
    ]


def test_describe_says_that_a_tool_takes_nothing(run: Run, plain_config: Path):
    assert "It takes no arguments." in run("describe", "plain:fail_always", "--config", plain_config).output


@pytest.mark.parametrize(
    ("schema", "shown"),
    [
        ({"type": "array", "items": {"type": "integer"}}, "array of integer"),
        ({"anyOf": [{"type": "integer"}, {"type": "null"}]}, "integer or null"),
        ({"type": ["string", "null"]}, "string or null"),
        ({"enum": list(range(9))}, "0 or 1 or 2 or 3 or 4 or 5 or 6 or 7 or …"),
        ({"const": "a"}, '"a"'),
        ({"oneOf": "x", "type": 5}, "any"),
        (True, "any"),
    ],
)
def test_a_type_is_said_in_a_few_words(schema: Any, shown: str):
    assert type_of(schema) == shown


def test_a_type_without_end_is_cut_short():
    endless: dict[str, Any] = {"type": "array"}
    endless["items"] = endless
    assert type_of(endless) == "array of array of array of array of array"


def test_the_name_of_a_server_is_answered_with_its_tools(run: Run, config: Path):
    for command in (("describe",), ("call", "--yes")):
        outcome = run(*command, "plain", "--config", config)
        assert outcome.code == 2
        told = "no tool is named 'plain', which is the name of a server, with tools such as plain__add_numbers, "
        assert told in outcome.errors
    outcome = run("call", "one", "--yes", "--config", config)
    assert "no tool is named 'one', which is the name of a server" in outcome.errors


def test_an_unknown_tool_is_answered_with_the_closest(run: Run, config: Path):
    outcome = run("call", "reverse_txet", "--config", config, "--json")
    assert outcome.code == 2
    assert "plain__reverse_text" in outcome.json["error"]["message"]
    assert outcome.json["error"]["type"] == "UnknownToolError"


def test_content_that_is_no_text_and_structured_content_alone_are_printed_as_json(run: Run, liar: Any):
    for fault, told in (("image", '"mimeType": "image/png"'), ("structured", '"sum": 5')):
        assert told in run("call", "make_alpha", "--command", command_line(liar(fault).target), "--yes").output


def test_a_tool_may_take_as_long_as_the_user_says(run: Run, liar: Any):
    line = command_line(liar("call-hangs").target)
    outcome = run("call", "make_alpha", "--command", line, "--yes", "--call-timeout", "0.2", "--json")
    assert (outcome.code, outcome.json["error"]["type"]) == (1, "ServerTimeoutError")


def test_an_error_of_a_server_stays_on_one_line(run: Run, liar: Any):
    outcome = run("call", "make_alpha", "--command", command_line(liar("call-refused").target), "--yes")
    assert (outcome.code, outcome.errors) == (1, "Error: make_alpha: no Error: all is well (-32000)\n")


def test_a_terminal_shows_how_far_a_call_is_and_the_size_of_a_file(tmp_path: Path):
    (tmp_path / "server.py").write_text(SLOW, encoding="utf-8")
    os.mkfifo(tmp_path / "go-on")
    line = shlex.join([sys.executable, str(tmp_path / "server.py"), str(tmp_path / "go-on")])
    with closing(Terminal(["-m", "tools_search_client", "call", "pack", "--yes", "--command", line], {})) as terminal:
        terminal.until("calling pack … 3 of 8 the bags")
        (tmp_path / "go-on").write_text("")
        code, shown = terminal.until_end()
    assert code == 0
    assert '"data": "12,000 characters of base64, which --json prints"' in shown
    assert '"blob": "12,000 characters of base64, which --json prints"' in shown


def test_what_was_typed_before_the_question_does_not_answer_it(plain_server: HttpTarget) -> None:
    program = ["-m", "tools_search_client", "call", "add_numbers", "first=1", "second=2", "--url", plain_server.url]
    with closing(Terminal(program, {})) as terminal:
        terminal.enter("y")
        terminal.until("Call it? [y/N]: ")
        terminal.enter("n")
        code, shown = terminal.until_end()
    assert (code, shown.split("\n")[-2:]) == (2, ["Error: add_numbers was not called", ""])


def test_a_question_without_an_answer_keeps_its_line(plain_server: HttpTarget) -> None:
    program = ["-m", "tools_search_client", "call", "add_numbers", "first=1", "second=2", "--url", plain_server.url]
    with closing(Terminal(program, {})) as terminal:
        terminal.until("Call it? [y/N]: ")
        terminal.type("\x04")
        code, shown = terminal.until_end()
    assert (code, shown.split("\n")[-2:]) == (130, ["Error: aborted", ""])


@pytest.mark.anyio
async def test_a_question_is_interrupted_as_well(plain_server: HttpTarget) -> None:
    program = [*PROGRAM, "call", "add_numbers", '{"first": 1, "second": 2}', "--url", plain_server.url]
    ours, theirs = pty.openpty()
    with anyio.fail_after(30):
        async with await anyio.open_process(program, stdin=theirs) as process:
            os.close(theirs)
            assert process.stderr is not None
            asked = b""
            while b"Call it?" not in asked:
                asked += await process.stderr.receive()
            while process.returncode is None:
                # One that comes just before the program waits for the answer is only heard with the next one.
                process.send_signal(signal.SIGINT)
                with anyio.move_on_after(5):
                    await process.wait()
            assert process.returncode == 128 + signal.SIGINT
    os.close(ours)


def test_where_nobody_can_be_asked_since_the_input_is_closed_a_tool_is_not_called(plain_server: HttpTarget) -> None:
    line = [*PROGRAM, "call", "add_numbers", '{"first": 1, "second": 2}', "--url", plain_server.url]
    done = subprocess.run(
        ["bash", "-c", 'exec "$@" <&-', "bash", *line], capture_output=True, text=True, timeout=30, check=False
    )
    assert done.returncode == 2
    assert "pass --yes" in done.stderr


@pytest.mark.parametrize("columns", [60, 80])
def test_a_terminal_breaks_errors_between_words_and_a_pipe_does_not(tmp_path: Path, run: Run, columns: int):
    config = tmp_path / "mcp.json"
    config.write_text(json.dumps({"mcpServers": {"gone": {"command": "/nowhere/program"}}}))
    arguments = ("describe", "gone:find_order", "--config", str(config))
    error = "Error: '/nowhere/program' was not found; install it, or give its full path as `command`"
    assert run(*arguments).errors == f"{error}\n"
    with closing(Terminal(["-m", "tools_search_client", *arguments], {}, columns=columns)) as terminal:
        code, shown = terminal.until_end()
    lines = shown[shown.index("Error: ") :].splitlines()
    assert (code, " ".join(map(str.strip, lines))) == (1, error)
    assert all(len(line) <= columns for line in lines)
