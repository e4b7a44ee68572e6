"""Drivers that are none end in their verdict, soon and with bounded memory, and pass nothing."""

from __future__ import annotations

from collections.abc import Callable

import anyio
import pytest
from tools_search_conformance.clients.judge import judge_client
from tools_search_conformance.run.options import Options
from tools_search_conformance.wire.process import TargetError

pytestmark = pytest.mark.anyio

Command = Callable[..., tuple[str, ...]]
Build = Callable[..., Options]


async def refusal(options: Options) -> str:
    with anyio.fail_after(60), pytest.raises(TargetError) as found:
        await judge_client(options)
    assert len(str(found.value)) < 900
    return str(found.value)


@pytest.mark.parametrize(
    ("kind", "reason"),
    [
        ("mute", "did not answer `frobnicate-"),
        ("yes", "cannot be trusted"),
        ("garbage", "no JSON"),
        ("deep", "nested deeper"),
        ("other-id", "answered `frobnicate-"),
        ("crash", "exit status 3; stderr: about to crash"),
        ("flood", "a line of more than"),
    ],
)
async def test_a_driver_that_cannot_be_trusted_is_not_judged(
    kind: str, reason: str, target: Command, client_options: Build
):
    options = client_options(argv=target("null_drivers", kind), start_timeout=2 if kind == "mute" else 20)
    assert reason in await refusal(options)


@pytest.mark.parametrize(
    ("kind", "reason"),
    [
        ("deaf", "does not support `connect`"),
        ("fails", "did not connect: the error 'no'"),
        ("boasts", "did not open the connection"),
        ("shapeless", "answer to `search` is not one of DRIVER.md: $.tools"),
        ("both", "is not one of DRIVER.md"),
        ("later-mute", "did not answer `connect`"),
        ("later-crash", "the driver ended at `connect`"),
    ],
)
async def test_a_driver_that_does_nothing_is_not_judged_either(
    kind: str, reason: str, target: Command, client_options: Build
):
    options = client_options(argv=target("null_drivers", kind), timeout=1)
    told = await refusal(options)
    assert told.startswith("there is nothing to judge: ")
    assert reason in told


async def test_a_driver_that_cannot_be_started_is_told(client_options: Build):
    assert "cannot start `no-such-driver`" in await refusal(client_options(argv=("no-such-driver",)))


async def test_a_driver_without_a_feature_is_not_asked_for_it(target: Command, client_options: Build):
    argv = target("miniature_client", "--without", "http", "--without", "federation", "--without", "authorization")
    with anyio.fail_after(60):
        run = await judge_client(client_options("federation-*", "cache-private", argv=argv))
    assert {cell.name for cell in run.cells} == {"stdio-2026-07-28", "stdio-2025-11-25"}
    assert {(entry.cell.transport, entry.expected) for entry in run.unavailable} == {("http", False)}
    assert {result.status for result in run.results} == {"skip"}
    assert {result.skip for result in run.results} == {"driver-feature", "era"}
