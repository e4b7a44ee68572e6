"""How targets are started, and that nothing of them is left."""

from __future__ import annotations

import math
import os
import sys
from collections.abc import Callable
from contextlib import aclosing, suppress
from pathlib import Path
from urllib.parse import urlsplit

import anyio
import pytest
from tools_search_conformance import catalogs
from tools_search_conformance.catalogs import document, made_tool
from tools_search_conformance.model import Cell
from tools_search_conformance.run.options import Options
from tools_search_conformance.target.bench import Bench
from tools_search_conformance.target.judge import targets_of
from tools_search_conformance.target.server import Opening, Server
from tools_search_conformance.target.target import HttpCommandTarget, StdioTarget, UrlTarget
from tools_search_conformance.wire.connection import Transport
from tools_search_conformance.wire.eras import MODERN
from tools_search_conformance.wire.process import TargetError
from tools_search_conformance.wire.record import Recorder

pytestmark = pytest.mark.anyio

TELLS_WHO_IT_IS = "import os, sys; open(sys.argv[1], 'a').write(f'{os.getpid()}\\n'); sys.stdin.read()"

LISTENS_LATE = """
import json, socket, time
server = socket.socket()
server.bind(("127.0.0.1", 0))
print(json.dumps({"url": f"http://127.0.0.1:{server.getsockname()[1]}/mcp"}), flush=True)
time.sleep(0.3)
server.listen()
time.sleep(60)
"""


def is_alive(pid: int) -> bool:
    with suppress(ProcessLookupError):
        os.kill(pid, 0)
        return True
    return False


def pids_in(file: Path) -> list[int]:
    return [int(line) for line in file.read_text().splitlines()] if file.exists() else []


@pytest.mark.parametrize(
    ("catalog", "needed", "started"), [("core", math.inf, 3), ("core", 2, 2), ("single", math.inf, 2), (None, 9, 2)]
)
async def test_each_connection_has_a_process_of_its_own_and_fixtures_one_ahead_while_more_are_needed(
    catalog: str | None, needed: float, started: int, options: Callable[..., Options], tmp_path: Path
):
    file = tmp_path / "pids"
    pids: list[int] = []
    with anyio.fail_after(30):
        async with anyio.create_task_group() as tasks:
            argv = (sys.executable, "-c", TELLS_WHO_IT_IS, str(file))
            target = StdioTarget(argv, options(), tasks, tmp_path, needed=needed)
            transports = [await target.connect(lambda _: None, catalog) for _ in range(2)]
            while len(pids := pids_in(file)) < started:  # noqa: ASYNC110 - another process sets no events
                await anyio.sleep(0.02)
            assert len({*pids}) == started
            assert all(map(is_alive, pids))
            for transport in transports:
                await transport.aclose()
            await target.aclose()
            tasks.cancel_scope.cancel()
    assert pids_in(file) == pids
    assert not any(map(is_alive, pids))


SERVES_NOTHING = """
import json, os, socket, sys
server = socket.create_server(("127.0.0.1", 0))
open(sys.argv[1], "a").write(f"{os.getpid()}\\n")
print(json.dumps({"url": f"http://127.0.0.1:{server.getsockname()[1]}/mcp"}), flush=True)
while True:
    server.accept()
"""


async def test_a_fixture_over_http_without_connections_ends_when_another_starts_unless_it_is_the_usual_one(
    options: Callable[..., Options], tmp_path: Path
):
    file = tmp_path / "pids"
    with anyio.fail_after(30):
        async with anyio.create_task_group() as tasks:
            http = HttpCommandTarget((sys.executable, "-c", SERVES_NOTHING, str(file)), options(), tasks, tmp_path)

            async def connect(name: str = "") -> Transport:
                return await http.connect(lambda _: None, "core", {"NAME": name} if name else {})

            await (await connect()).aclose()
            held, left, again = await connect("one"), await connect("two"), await connect("two")
            await left.aclose()
            await connect("three")  # with a connection to each of the earlier ones
            await again.aclose()
            usual, *others = pids_in(file)
            assert all(map(is_alive, [usual, *others]))
            await connect("four")
            while is_alive(others[1]):  # noqa: ASYNC110 - another process sets no events
                await anyio.sleep(0.02)
            assert all(map(is_alive, [usual, others[0], others[2]]))
            await connect()
            await connect("two")
            assert len(pids_in(file)) == 6  # one for each, and another for the one that ended
            await held.aclose()
            await http.aclose()
            tasks.cancel_scope.cancel()
    assert not any(map(is_alive, pids_in(file)))


async def test_a_process_of_its_own_has_had_no_earlier_requests_over_http(
    target: Callable[..., tuple[str, ...]], options: Callable[..., Options], tmp_path: Path
):
    urls = list[str | None]()
    with anyio.fail_after(30):
        async with anyio.create_task_group() as tasks:
            chosen = options(http_argv=target("miniature", "--http"))
            http = HttpCommandTarget(chosen.http_argv, chosen, tasks, tmp_path)
            cell = Cell(transport="http", era=MODERN)
            async with aclosing(Bench(Server(chosen, cell, http, Recorder(cell.name)))) as bench:
                for _ in range(2):
                    async with bench.fresh(own_process=True) as one, bench.fresh(own_process=True) as other:
                        urls += [one.server.transport.url, other.server.transport.url]
            await http.aclose()
            tasks.cancel_scope.cancel()
    assert len({*urls}) == 4


async def test_only_the_fixtures_that_were_used_last_stay_open_between_checks(
    target: Callable[..., tuple[str, ...]], options: Callable[..., Options], tmp_path: Path
):
    with anyio.fail_after(30):
        async with anyio.create_task_group() as tasks:
            chosen = options(argv=target("miniature"))
            stdio = StdioTarget(chosen.argv, chosen, tasks, tmp_path)
            cell = Cell(transport="stdio", era=MODERN)
            async with aclosing(Bench(Server(chosen, cell, stdio, Recorder(cell.name)))) as bench:
                first, *others = [await bench.fixture(f"{number}", Opening()) for number in range(8)]
                await bench.fixture("0", Opening())
                transports = [each.server.transport for each in (first, *others)]
                await bench.close_unused()
                assert [transport.ended is None for transport in transports] == [True, False, False, *[True] * 5]
                assert (await bench.fixture("1", Opening())).server.transport.ended is None
            await stdio.aclose()
            tasks.cancel_scope.cancel()


async def test_a_server_may_say_where_it_is_before_it_listens(options: Callable[..., Options], tmp_path: Path):
    argv = (sys.executable, "-c", LISTENS_LATE)
    with anyio.fail_after(30):
        async with anyio.create_task_group() as tasks:
            late = HttpCommandTarget(argv, options(), tasks, tmp_path)
            url = (await late.connect(lambda _: None, None)).url
            await (await anyio.connect_tcp("127.0.0.1", urlsplit(url).port or 0)).aclose()
            await late.aclose()
            tasks.cancel_scope.cancel()


async def test_what_one_target_of_a_run_is_given_to_serve_is_not_changed_for_the_other(
    target: Callable[..., tuple[str, ...]], options: Callable[..., Options], tmp_path: Path
):
    listed: list[tuple[str, list[str]]] = []
    with anyio.fail_after(30):
        async with anyio.create_task_group() as tasks:
            chosen = options(argv=target("miniature"), http_argv=target("miniature", "--http"))
            both = targets_of(chosen, tasks, tmp_path)
            for each in both:
                each.place("changing", document([made_tool(each.transport)]))
            for each in both:
                cell = Cell(transport=each.transport, era=MODERN)
                bench = Bench(Server(chosen, cell, each, Recorder(cell.name), Opening(catalog="changing")))
                listed.append((each.transport, [*(await bench.server.listing()).by_key]))
                await bench.aclose()
                await each.aclose()
            tasks.cancel_scope.cancel()
    assert listed == [("stdio", ["meadow_stdio"]), ("http", ["meadow_http"])]


async def test_a_server_that_is_running_already_is_given_no_catalog(options: Callable[..., Options]):
    with pytest.raises(TargetError, match="have the suite start the server"):
        UrlTarget("http://127.0.0.1:1/mcp", options()).place("core", {"tools": []})


def test_a_catalog_that_changes_has_a_later_time_in_whole_seconds_and_another_one_the_same(tmp_path: Path):
    times: list[int] = []
    for names in (["one"], ["two"], ["two"], ["one"]):
        catalogs.place("changing", {"tools": [{"name": name} for name in names]}, tmp_path)
        times.append(int((tmp_path / "changing.json").stat().st_mtime))
    assert times[0] < times[1] == times[2] < times[3]
