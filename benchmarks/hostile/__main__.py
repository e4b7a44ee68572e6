"""A gateway over healthy servers, used first without hostile ones and then with all of them."""

from __future__ import annotations

import json
import os
import secrets
import signal
import subprocess
import sys
import time
from collections.abc import AsyncGenerator, Callable, Mapping, Sequence
from contextlib import AsyncExitStack, asynccontextmanager, suppress
from dataclasses import dataclass, field
from pathlib import Path
from random import Random
from statistics import quantiles
from tempfile import TemporaryDirectory
from typing import IO, Any, Final, cast

import anyio
import anyio.to_thread
import click
import httpx2
from mcp_ext_tools_search.types import EXTENSION_ID
from mcp_types import CLIENT_CAPABILITIES_META_KEY, CLIENT_INFO_META_KEY, PROTOCOL_VERSION_META_KEY
from mcp_types.version import LATEST_MODERN_VERSION

from benchmarks.hostile.server import HTTP_MODES, STDIO_MODES
from benchmarks.soak.run import free_ports
from benchmarks.soak.world import World, codeword

_ROOT: Final = Path(__file__).parents[2]
_SERVER: Final = Path(__file__).with_name("server.py")
_MARK: Final = "BENCHMARK_HOSTILE_RUN"
"""Variable of every process of a run, by which those that are left over are found."""
_QUIET_SHARE: Final = 0.2
_START_SECONDS: Final = 120
_STOP_SECONDS: Final = 10
_MOST_MORE_MEMORY_MIB: Final = 128
_MOST_TIMES_QUIET: Final = 3
_MOST_LOG_BYTES: Final = 20_000_000
_ENVELOPE: Final[Mapping[str, Any]] = {
    PROTOCOL_VERSION_META_KEY: LATEST_MODERN_VERSION,
    CLIENT_INFO_META_KEY: {"name": "benchmark", "version": "0"},
    CLIENT_CAPABILITIES_META_KEY: {"extensions": {EXTENSION_ID: {}}},
}


@dataclass(frozen=True)
class Settings:
    """What the command line says."""

    seconds: float
    callers: int
    modes: Sequence[str]
    seed: int
    log: Path | None = None


@dataclass
class Phase:
    """What callers of healthy servers got while the gateway was used for a while."""

    milliseconds: list[float] = field(default_factory=list[float])
    wrong: list[str] = field(default_factory=list[str])
    memory_mib: list[float] = field(default_factory=list[float])
    log_bytes: int = 0
    stop_seconds: float = 0
    states: Mapping[str, str] = field(default_factory=dict[str, str])

    def figures(self) -> dict[str, Any]:
        """Return it in numbers; milliseconds and MiB."""
        cuts = quantiles(self.milliseconds, n=100) if len(self.milliseconds) > 1 else [0.0] * 99
        return {
            "answers": len(self.milliseconds),
            "wrong": len(self.wrong),
            "p50": round(cuts[49], 1),
            "p99": round(cuts[98], 1),
            "max": round(max(self.milliseconds, default=0), 1),
            "memory_before": round(self.memory_mib[0], 1),
            "memory_peak": round(max(self.memory_mib), 1),
            "log_bytes": self.log_bytes,
            "stop_seconds": round(self.stop_seconds, 2),
            "states": dict(self.states),
        }


@dataclass(frozen=True)
class Report:
    """Outcome."""

    figures: Mapping[str, Any]
    failures: Sequence[str]


async def run(settings: Settings, say: Callable[[str], None]) -> Report:
    """Use a gateway without hostile servers, then with all of them; everything is on loopback.

    Args:
        settings: How long, by how many, with which.
        say: Called with a line of progress now and then.
    """
    world = World(20, 400)
    quiet = await _phase(settings, world, [], settings.seconds * _QUIET_SHARE, say)
    hostile = await _phase(settings, world, settings.modes, settings.seconds, say)
    failures = [*_failures(quiet, "alone"), *_failures(hostile, "beside hostile servers")]
    before, after = quiet.figures(), hostile.figures()
    if (more := after["memory_peak"] - before["memory_peak"]) > _MOST_MORE_MEMORY_MIB:
        failures.append(f"hostile servers cost {more:.0f} MiB")
    if after["p99"] > _MOST_TIMES_QUIET * before["p99"]:
        failures.append(f"the 99th percentile is {after['p99']} ms beside hostile servers, {before['p99']} without")
    return Report({"quiet": before, "hostile": after}, failures)


def _failures(phase: Phase, when: str) -> list[str]:
    failures = [f"{when}: {wrong}" for wrong in phase.wrong[:20]]
    if phase.log_bytes > _MOST_LOG_BYTES:
        failures.append(f"{when}: {phase.log_bytes} bytes of log")
    return failures


async def _phase(
    settings: Settings, world: World, modes: Sequence[str], seconds: float, say: Callable[[str], None]
) -> Phase:
    phase, mark = Phase(), secrets.token_hex(8)
    with TemporaryDirectory() as folder:
        async with AsyncExitStack() as running:
            log = settings.log if settings.log and modes else Path(folder) / "log"
            entries = {**_healthy(world, mark), **await _hostile(modes, mark, running)}
            process, url = await running.enter_async_context(_gateway(Path(folder), entries, log, mark))
            http = await running.enter_async_context(
                httpx2.AsyncClient(trust_env=False, timeout=60, limits=httpx2.Limits(max_connections=200))
            )
            await _until_ready(http, url, world)
            say(f"{world.upstreams} healthy servers are ready beside {len(modes)} hostile ones")
            stop = anyio.Event()
            async with anyio.create_task_group() as tasks:
                tasks.start_soon(_watch, phase, process.pid, stop, say)
                for number in range(settings.callers):
                    random = Random(f"{settings.seed} {number}")  # noqa: S311 - to be repeated
                    tasks.start_soon(_call_healthy, phase, http, url, world, random, stop)
                tasks.start_soon(_call_hostile, http, url, modes, stop)
                await anyio.sleep(seconds)
                stop.set()
            health = (await http.get(url.replace("/mcp", "/healthz"))).json()
            phase.states = {
                server["name"]: f"{server['state']}: {server['reason']}" if server["reason"] else server["state"]
                for server in health["servers"]
                if server["name"] in modes
            }
            began = time.monotonic()
            process.send_signal(signal.SIGTERM)
            code = await anyio.to_thread.run_sync(lambda: _ended(process))
            phase.stop_seconds = time.monotonic() - began
            if code != 0:
                phase.wrong.append(f"the gateway ended with {code}, not 0")
        text = log.read_text(errors="replace")
        phase.log_bytes = len(text)
        if "Traceback" in text:
            phase.wrong.append(f"the log has an error: …{text[text.index('Traceback') :][:2000]}")
        for left in _end_marked(mark):
            phase.wrong.append(f"a process is left: {left}")
    return phase


def _healthy(world: World, mark: str) -> dict[str, Any]:
    numbers = [str(world.upstreams), str(world.tools)]
    return {
        plan.name: {
            "command": sys.executable,
            "args": ["-m", "benchmarks.soak.stdio_server", *numbers, plan.name],
            "cwd": str(_ROOT),
            "env": {_MARK: mark},
        }
        for plan in world.plans
    }


async def _hostile(modes: Sequence[str], mark: str, running: AsyncExitStack) -> dict[str, Any]:
    entries: dict[str, Any] = {}
    common = {"startup_timeout_sec": 10, "tool_timeout_sec": 10}
    over_http = [mode for mode in modes if mode in HTTP_MODES]
    for mode, port in zip(over_http, free_ports(len(over_http)), strict=True):
        argv = [sys.executable, str(_SERVER), mode, str(port)]
        process = subprocess.Popen(argv, env={**os.environ, _MARK: mark})  # noqa: S603, ASYNC220 - of this package
        running.callback(process.wait)
        running.callback(process.kill)
        entries[mode] = {"url": f"http://127.0.0.1:{port}/mcp", **common}
    for mode in modes:
        if mode in STDIO_MODES:
            entries[mode] = {"command": sys.executable, "args": [str(_SERVER), mode], "env": {_MARK: mark}, **common}
    return entries


@asynccontextmanager
async def _gateway(
    folder: Path, entries: Mapping[str, Any], log: Path, mark: str
) -> AsyncGenerator[tuple[subprocess.Popen[str], str]]:
    file = folder / "mcp.json"
    file.write_text(json.dumps({"mcpServers": entries}))
    argv = [sys.executable, "-m", "tools_search_server", "--config", str(file), "--http", "127.0.0.1:0"]
    with log.open("w") as stderr:
        process = await anyio.to_thread.run_sync(
            lambda: subprocess.Popen(  # noqa: S603 - see argv
                argv, stdout=subprocess.PIPE, stderr=stderr, text=True, env={**os.environ, _MARK: mark}
            )
        )
        try:
            said = cast("IO[str]", process.stdout)
            yield process, json.loads(await anyio.to_thread.run_sync(said.readline))["url"]
        finally:
            process.kill()
            with anyio.CancelScope(shield=True):
                await anyio.to_thread.run_sync(lambda: _ended(process))


def _ended(process: subprocess.Popen[str]) -> int:
    try:
        process.communicate(timeout=_STOP_SECONDS)
    except subprocess.TimeoutExpired:
        process.kill()
        process.communicate()
    return process.returncode


async def _until_ready(http: httpx2.AsyncClient, url: str, world: World) -> None:
    healthy = {plan.name for plan in world.plans}
    with anyio.fail_after(_START_SECONDS):
        while True:
            health = (await http.get(url.replace("/mcp", "/healthz"), timeout=_START_SECONDS)).json()
            if healthy <= {server["name"] for server in health["servers"] if server["state"] == "ready"}:
                return
            await anyio.sleep(0.1)


async def _watch(phase: Phase, process: int, stop: anyio.Event, say: Callable[[str], None]) -> None:
    said = 0.0
    while not stop.is_set():
        phase.memory_mib.append(_resident_mib(process))
        if time.monotonic() - said > 10:
            said = time.monotonic()
            say(f"{len(phase.milliseconds)} answers, {len(phase.wrong)} wrong, {phase.memory_mib[-1]:.0f} MiB")
        await anyio.sleep(0.2)


def _resident_mib(process: int) -> float:
    lines = Path(f"/proc/{process}/status").read_text().splitlines()
    return next((int(line.split()[1]) / 1024 for line in lines if line.startswith("VmRSS")), 0.0)


async def _call_healthy(
    phase: Phase, http: httpx2.AsyncClient, url: str, world: World, random: Random, stop: anyio.Event
) -> None:
    """Call tools and search for them, each of a healthy server, and check every answer."""
    names = list(world.by_public_name)
    while not stop.is_set():
        name = random.choice(names)
        plan, own = world.by_public_name[name]
        arguments = {"text": f"{random.getrandbits(64):x}"}
        began = time.perf_counter()
        try:
            if random.random() < 0.5:
                answer = await _ask(http, url, "tools/call", {"name": name, "arguments": arguments})
                proof: dict[str, Any] = answer.get("structuredContent") or {}
                expected = (plan.name, own, arguments)
                is_right = (proof.get("server"), proof.get("tool"), proof.get("arguments")) == expected
            else:
                answer = await _ask(http, url, "tools/search", {"query": codeword(plan.tools[own]), "limit": 3})
                is_right = [tool["name"] for tool in answer.get("tools", ())][:1] == [name]
        except httpx2.HTTPError as error:
            answer, is_right = {"error": repr(error)}, False
        phase.milliseconds.append(1000 * (time.perf_counter() - began))
        if not is_right:
            phase.wrong.append(f"{name} was answered with {json.dumps(answer)[:500]}")
        await anyio.sleep(random.uniform(0, 0.4))


async def _call_hostile(http: httpx2.AsyncClient, url: str, modes: Sequence[str], stop: anyio.Event) -> None:
    """Call a tool of each hostile server again and again; what it answers does not matter."""

    async def call(mode: str) -> None:
        while not stop.is_set():
            with anyio.move_on_after(20):
                with suppress(httpx2.HTTPError):
                    await _ask(http, url, "tools/call", {"name": f"{mode}__echo", "arguments": {"a": "a" * 40}})
            with anyio.move_on_after(3):
                await stop.wait()

    async with anyio.create_task_group() as tasks:
        for mode in modes:
            tasks.start_soon(call, mode)


async def _ask(http: httpx2.AsyncClient, url: str, method: str, params: Mapping[str, Any]) -> dict[str, Any]:
    headers = {
        "accept": "application/json, text/event-stream",
        "mcp-protocol-version": LATEST_MODERN_VERSION,
        "mcp-method": method,
        **({"mcp-name": params["name"]} if method == "tools/call" else {}),
    }
    body = {"jsonrpc": "2.0", "id": 1, "method": method, "params": {**params, "_meta": _ENVELOPE}}
    answer = await http.post(url, json=body, headers=headers)
    text = answer.text
    if answer.headers.get("content-type", "").startswith("text/event-stream"):
        text = [line.removeprefix("data:") for line in text.splitlines() if line.startswith("data:")][-1]
    message = json.loads(text)
    return message.get("result") or message  # an error is shown as it is


def _end_marked(mark: str) -> list[str]:
    """End the processes of this run that are still there, and return their command lines."""
    left: list[str] = []
    for process in Path("/proc").iterdir():
        try:
            if process.name.isdigit() and f"{_MARK}={mark}".encode() in (process / "environ").read_bytes():
                left.append((process / "cmdline").read_bytes().replace(b"\0", b" ").decode(errors="replace"))
                os.kill(int(process.name), signal.SIGKILL)
        except OSError:
            continue
    return left


_MODES: Final = [*STDIO_MODES, *HTTP_MODES]


@click.command()
@click.option(
    "--seconds", type=click.IntRange(5, 86_400), default=60, show_default=True, help="Beside hostile servers."
)
@click.option("--callers", type=click.IntRange(1, 200), default=20, show_default=True, help="Callers at the same time.")
@click.option("--mode", "modes", type=click.Choice(_MODES), multiple=True, help="May be repeated. [default: all]")
@click.option("--seed", type=int, help="Repeats what is asked for, in the order of each caller.")
@click.option("--json", "json_file", type=click.Path(dir_okay=False, path_type=Path), help="Write the figures here.")
@click.option("--log", type=click.Path(dir_okay=False, path_type=Path), help="Keep the gateway's log here.")
def main(
    *, seconds: int, callers: int, modes: Sequence[str], seed: int | None, json_file: Path | None, log: Path | None
) -> None:
    """Use twenty healthy servers through a gateway while hostile servers behind it do their worst.

    Every answer of a healthy server is checked and timed, first without hostile servers and then with them.

    Exit codes: 0 hostile servers cost nothing but themselves, 1 they did, 2 the command line is wrong.
    """
    settings = Settings(seconds, callers, modes or _MODES, secrets.randbelow(2**32) if seed is None else seed, log)
    report = anyio.run(run, settings, _say)
    figures = {"settings": {"seconds": seconds, "callers": callers, "seed": settings.seed}, **report.figures}
    text = json.dumps({**figures, "failures": report.failures}, indent=2)
    if json_file:
        json_file.write_text(text + "\n", encoding="utf-8")
    click.echo(text)
    sys.exit(1 if report.failures else 0)


def _say(line: str) -> None:
    click.echo(line, err=True)


if __name__ == "__main__":
    main()
