"""The door for client implementers: its snippet runs, its page to copy does what it says, its names exist."""

from __future__ import annotations

import os
import re
import runpy
import subprocess
import sys
import textwrap
from collections.abc import Callable
from pathlib import Path
from typing import Any

import anyio
import pytest
import tools_search_client
from mcp import Client, MCPError, StdioServerParameters
from mcp_ext_tools_search.client import TOOLS_SEARCH
from mcp_types import REQUEST_TIMEOUT
from tools_search_client import api, one_server
from tools_search_client.one_server import find_tools
from tools_search_hosts import HttpTarget, StdioTarget

from .providers.endpoint import Step, scripted_model

README = (Path(__file__).parents[1] / "README.md").read_text()
SNIPPETS = re.findall(r"```python\n(.*?)```", README, re.DOTALL)
RERANKED = Path(__file__).parents[2] / "examples" / "rerank_with_model.py"
HOST = Path(__file__).parents[2] / "examples" / "host_in_100_lines.py"


def test_the_snippet_runs_as_it_stands(
    plain_server: HttpTarget, write_configuration: Callable[[dict[str, object]], Path], tmp_path: Path
):
    plain = {"url": plain_server.url}
    write_configuration({"plain": plain, "gone": {"command": "/nowhere/program"}})
    snippet = SNIPPETS[0]
    done = subprocess.run(
        [sys.executable, "-c", snippet], cwd=tmp_path, capture_output=True, text=True, timeout=30, check=True
    )
    assert done.stdout.startswith("plain__add_numbers list")
    assert "gone failed:" in done.stdout


def test_the_heart_of_a_host_stands_in_the_example_to_the_letter():
    assert textwrap.indent(SNIPPETS[1], "    ") in HOST.read_text()


def test_the_lines_that_rank_with_a_model_are_those_of_the_example():
    page = (Path(__file__).parents[1] / "docs" / "ranking.md").read_text()
    program = "\n".join(line for line in RERANKED.read_text().splitlines() if '"""' not in line)
    stated = re.findall(r"```py\n(.*?)```", page, re.DOTALL)
    assert len(stated) == 2
    assert all(
        block.strip() in textwrap.dedent(program) or textwrap.indent(block, "    ") in program for block in stated
    )


@pytest.mark.rotating
@pytest.mark.parametrize(
    ("said", "first", "told"),
    [
        ("plain__reverse_text\nplain__add_numbers", "plain__reverse_text", ""),
        ("I would take plain__reverse_text", "plain__add_numbers", "not in the model's order: the re-ranker named 'I'"),
    ],
    ids=["in order", "nonsense"],
)
def test_a_model_behind_an_endpoint_has_the_last_say(
    plain_server: HttpTarget,
    write_configuration: Callable[[dict[str, object]], Path],
    said: str,
    first: str,
    told: str,
):
    path = write_configuration({"plain": {"url": plain_server.url}})
    with scripted_model(Step(said)) as model:
        settings = {"OPENAI_BASE_URL": f"{model.url}/v1", "OPENAI_API_KEY": "secret", "MODEL": "some"}
        done = subprocess.run(
            [sys.executable, str(RERANKED), str(path), "add two numbers or reverse a text"],
            env={**os.environ, **settings},
            capture_output=True,
            text=True,
            timeout=60,
            check=True,
        )
    assert model.faults == []
    asked = model.requests[0]["messages"][0]["content"]
    assert "add two numbers or reverse a text" in asked
    assert "plain__add_numbers: " in asked
    assert done.stdout.split()[0] == first
    assert told in done.stderr


def test_its_configuration_is_read(tmp_path: Path):
    (stated,) = re.findall(r"```jsonc\n(.*?)```", README, re.DOTALL)
    path = tmp_path / "mcp.json"
    path.write_text(stated)
    configuration = tools_search_client.load_configuration(path)
    assert [server.defer_loading for server in configuration.servers] == [False, True]
    assert configuration.tool_discovery.enabled
    assert list(configuration.tool_sets) == ["research"]


def test_it_fits_on_a_few_screens():
    assert len(README.splitlines()) < 250


def test_every_public_name_is_one_of_the_package():
    names = [name for name in vars(api) if not name.startswith("_")]
    assert "open_federation" in names
    assert all(getattr(tools_search_client, name) is getattr(api, name) for name in names)
    assert dir(tools_search_client) == sorted(names)
    assert tools_search_client.__all__ == names  # pyright: ignore[reportUnknownMemberType, reportAttributeAccessIssue]


def test_the_page_for_hosts_names_everything_that_is_public():
    page = (Path(__file__).parents[1] / "docs" / "hosts.md").read_text(encoding="utf-8")
    assert sorted(re.findall(r"`(\w+)`", page.partition("| for | names |")[2])) == dir(tools_search_client)


@pytest.mark.parametrize(
    ("arguments", "told"),
    [
        ([], "usage: python -m tools_search_client.one_server QUERY -- COMMAND"),
        (["query"], "usage: "),
        (["query", "--"], "usage: "),
        (["query", "--", "/nowhere/program"], "there is no program '/nowhere/program'"),
    ],
    ids=str,
)
def test_the_page_to_copy_says_how_it_is_used(
    arguments: list[str], told: str, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
):
    monkeypatch.setattr(sys, "argv", ["one_server", *arguments])
    with pytest.raises(SystemExit) as ended:
        runpy.run_path(one_server.__file__, run_name="__main__")
    shown = capsys.readouterr()
    assert (ended.value.code, shown.out) == (2, "")
    assert shown.err.startswith(told)


def _parameters(target: StdioTarget) -> StdioServerParameters:
    return StdioServerParameters(command=target.command, args=list(target.args))


@pytest.mark.anyio
@pytest.mark.parametrize(
    ("fault", "asked"),
    [
        ("none", ["tools/search"]),
        ("refuses:-32601", ["tools/search", "tools/list"]),
        ("refuses:-32021", ["tools/search", "tools/list"]),
        ("shapeless", ["tools/search", "tools/list"]),
        ("busy:20:2", ["tools/search", "tools/search", "tools/search"]),
        ("expires", ["tools/search"] * 5),
        ("expires-always", ["tools/search"] * 4),
        ("list-pages", ["tools/list", "tools/list", "tools/list"]),
        ("list-loops", ["tools/list", "tools/list"]),
    ],
)
async def test_the_page_to_copy_searches_or_falls_back(liar: Any, fault: str, asked: list[str]):
    server = liar(fault, place="nowhere" if fault.startswith("list") else "extensions")
    with anyio.fail_after(10):
        async with Client(_parameters(server.target), extensions=[TOOLS_SEARCH]) as client:
            found = await find_tools(client, "make an alpha")
    assert [tool.name for tool in found[:1]] == ([] if fault == "list-loops" else ["make_alpha"])
    assert server.asked("tools/search", "tools/list") == asked


@pytest.mark.anyio
@pytest.mark.parametrize(
    ("fault", "limit", "asked"),
    [
        ("none", 12, ["tools/search"]),  # without a limit, it returns ten
        ("pages", 3, ["tools/search"] * 2),  # of two tools each
        ("pages", 4, ["tools/search"] * 2),
        ("pages", None, ["tools/search"] * 7),
        ("refuses:-32601", 3, ["tools/search", "tools/list"]),
        ("refuses:-32601", None, ["tools/search", "tools/list"]),
        ("shapeless", 3, ["tools/search", "tools/list"]),
        ("list-pages", 3, ["tools/list"] * 7),
    ],
)
async def test_the_page_to_copy_returns_as_many_tools_as_wanted_and_reads_only_the_pages_for_them(
    liar: Any, fault: str, limit: int | None, asked: list[str]
):
    server = liar(fault, place="nowhere" if fault.startswith("list") else "extensions", more=8)
    with anyio.fail_after(10):
        async with Client(_parameters(server.target), extensions=[TOOLS_SEARCH]) as client:
            assert len(await find_tools(client, "make a thing", limit=limit)) == (limit or 14)
    assert server.asked("tools/search", "tools/list") == asked


@pytest.mark.anyio
@pytest.mark.parametrize("fault", ["refuses:-32602", "busy:60000"])
async def test_the_page_to_copy_raises_errors_that_listing_would_not_avoid(liar: Any, fault: str):
    server = liar(fault)

    async def find() -> None:
        async with Client(_parameters(server.target), extensions=[TOOLS_SEARCH]) as client:
            with pytest.raises(MCPError):
                await find_tools(client, "alpha")

    with anyio.fail_after(10):
        await find()
    assert server.asked("tools/list") == []


@pytest.mark.anyio
@pytest.mark.parametrize(("place", "method"), [("extensions", "tools/search"), ("nowhere", "tools/list")])
@pytest.mark.parametrize("limit", [5, None])
async def test_the_page_to_copy_stops_at_a_server_without_a_last_page(
    liar: Any, place: str, method: str, limit: int | None, monkeypatch: pytest.MonkeyPatch
):
    monkeypatch.setattr(one_server, "_MAX_PAGES", 20)
    server = liar("endless", place=place)
    with anyio.fail_after(20):
        async with Client(_parameters(server.target), extensions=[TOOLS_SEARCH]) as client:
            assert await find_tools(client, "make a thing", limit=limit) == []
    assert server.asked("tools/search", "tools/list") == [method] * 20


@pytest.mark.anyio
@pytest.mark.parametrize(("fault", "place"), [("hangs", "extensions"), ("list-hangs", "nowhere")])
async def test_the_page_to_copy_waits_as_long_as_its_client(liar: Any, fault: str, place: str):
    target = _parameters(liar(fault, place=place).target)
    with anyio.fail_after(10):
        async with Client(target, extensions=[TOOLS_SEARCH], read_timeout_seconds=1) as client:
            with pytest.raises(MCPError) as raised:
                await find_tools(client, "make an alpha")
    assert raised.value.code == REQUEST_TIMEOUT


@pytest.mark.anyio
async def test_the_program_of_the_page_to_copy_gives_up_on_a_server_that_hangs(
    liar: Any, monkeypatch: pytest.MonkeyPatch
):
    monkeypatch.setattr(one_server, "_SECONDS", 1.0)
    server = liar("hangs").target
    with anyio.fail_after(10):
        message = await one_server._main("alpha", [server.command, *server.args])  # pyright: ignore[reportPrivateUsage]
    assert message is not None
    assert message.startswith("the server failed: ")
    assert message.endswith(f" ({REQUEST_TIMEOUT})")


@pytest.mark.parametrize("fault", ["list-shapeless", "list-invalid-page"])
def test_the_page_to_copy_says_in_one_line_that_a_list_is_unusable(liar: Any, fault: str):
    server = liar(fault, place="nowhere").target
    program = [sys.executable, "-m", "tools_search_client.one_server", "alpha", "--", server.command, *server.args]
    done = subprocess.run(program, capture_output=True, text=True, check=False, timeout=30)
    assert (done.returncode, done.stderr) == (1, "the server failed: its list of tools is invalid\n")


def test_the_page_to_copy_says_in_one_line_what_a_server_refused(liar: Any):
    server = liar("refuses:-32602").target
    program = [sys.executable, "-m", "tools_search_client.one_server", "alpha", "--", server.command, *server.args]
    done = subprocess.run(program, capture_output=True, text=True, check=False, timeout=30)
    assert (done.returncode, done.stderr) == (1, "the server failed: '\\x1b[31mno' (-32602)\n")


@pytest.mark.parametrize("server", ["searching", "listed"])
def test_the_page_to_copy_runs_as_it_stands(server: str, reference_program: StdioTarget, plain_program: StdioTarget):
    target, query = (
        (reference_program, "create an invoice") if server == "searching" else (plain_program, "turn a text around")
    )
    program = [sys.executable, "-m", "tools_search_client.one_server", query, "--", target.command, *target.args]
    done = subprocess.run(program, capture_output=True, text=True, check=True, timeout=30)
    how, first = done.stdout.splitlines()[:2]
    assert ("tools/search" in how) == (server == "searching")
    assert first.startswith("'create_invoice'" if server == "searching" else "'reverse_text'")
