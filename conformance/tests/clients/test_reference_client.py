"""Clients on the Python SDK, driven as an implementer would drive them: the reference client is green in every cell."""

from __future__ import annotations

import sys
from collections.abc import Callable
from pathlib import Path

import anyio
import pytest
from tools_search_conformance.clients.judge import judge_client
from tools_search_conformance.report.verdict import exit_status
from tools_search_conformance.run.options import Options

pytestmark = pytest.mark.anyio

DRIVERS = Path(__file__).parents[2] / "drivers"
CELLS = ("stdio-2026-07-28", "stdio-2025-11-25", "http-2026-07-28", "http-2025-11-25")
SOME = CELLS[1:3]
"""Both transports and both eras, and HTTP in the era that has rules of its own there."""


async def test_the_reference_client_is_green_in_every_cell(client_options: Callable[..., Options]):
    await require_green(client_options, "reference_client.py", {"era", "transport"})


@pytest.mark.thorough
async def test_a_host_that_is_the_sdk_and_one_file_is_green_in_every_cell(client_options: Callable[..., Options]):
    await require_green(client_options, "one_server.py", {"era", "transport", "driver-feature"})


async def require_green(client_options: Callable[..., Options], driver: str, skipped: set[str]) -> None:
    with anyio.fail_after(240):
        argv = (sys.executable, str(DRIVERS / driver))
        run = await judge_client(client_options(argv=argv, effort="quick"))
    assert {cell.name for cell in run.cells} == {*CELLS}
    assert run.unavailable == ()
    assert [
        (result.check, result.cell.name, result.message)
        for result in run.of("fail", "warn", "advice", "unverified", "error")
    ] == []
    assert {result.skip for result in run.of("skip")} == skipped
    assert exit_status(run) == 0


@pytest.mark.rotating
async def test_the_plain_sdk_fails_only_the_checks_of_headers(client_options: Callable[..., Options]):
    with anyio.fail_after(240):
        argv = (sys.executable, str(DRIVERS / "python_sdk.py"))
        run = await judge_client(client_options(argv=argv, cells=SOME, effort="quick"))
    assert {cell.name for cell in run.cells} == {*SOME}
    assert {result.check.removeprefix("tools-search-client-") for result in run.of("fail")} == {
        "http-invalid-tool-left-out",
        "http-param-headers",
    }
    assert run.of("warn", "advice", "unverified", "error") == []
    assert exit_status(run) == 1
