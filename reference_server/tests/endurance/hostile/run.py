"""A gateway over healthy servers, used first without hostile ones and then with them."""

from __future__ import annotations

import json
import os
import secrets
import signal
import subprocess
import sys
import time
from collections.abc import Callable, Generator, Mapping, Sequence
from contextlib import contextmanager, suppress
from dataclasses import dataclass, field
from pathlib import Path
from random import Random
from statistics import quantiles
from typing import Any, Final

import anyio
import anyio.to_thread
import httpx2
from fleet import Fleet, codeword
from gateways import free_ports, resident_mib, running_gateway, write_entries
from hostile.server import HTTP_MODES, STDIO_MODES
from mcp_ext_tools_search.types import EXTENSION_ID
from mcp_types import CLIENT_CAPABILITIES_META_KEY, CLIENT_INFO_META_KEY, PROTOCOL_VERSION_META_KEY
from mcp_types.version import LATEST_MODERN_VERSION

SERVER: Final = Path(__file__).with_name("server.py")
_FLEET: Final = Fleet(20, 400)
_MARK: Final = "TOOLS_SEARCH_HOSTILE_RUN"
"""Variable of every process of a run, by which those that are left over are found."""
_QUIET_SHARE: Final = 0.2
_MAX_MORE_MEMORY_MIB: Final = 128
_MAX_TIMES_QUIET: Final = 3
_MAX_LOG_BYTES: Final = 20_000_000
_ENVELOPE: Final[Mapping[str, Any]] = {
    PROTOCOL_VERSION_META_KEY: LATEST_MODERN_VERSION,
    CLIENT_INFO_META_KEY: {"name": "endurance", "version": "0"},
    CLIENT_CAPABILITIES_META_KEY: {"extensions": {EXTENSION_ID: {}}},
}


@dataclass
class Phase:
    """Answers to callers of healthy servers while the gateway was used for a while."""

    milliseconds: list[float] = field(default_factory=list[float])
    wrong: list[str] = field(default_factory=list[str])
    memory_mib: list[float] = field(default_factory=list[float])
    states: Mapping[str, str] = field(default_factory=dict[str, str])
    """The states of the hostile servers at the end, with the reasons."""

    @property
    def p99(self) -> float:
        """The 99th percentile of the milliseconds."""
        return quantiles(self.milliseconds, n=100)[98] if len(self.milliseconds) > 1 else 0.0


@dataclass(frozen=True)
class Outcome:
    """Two phases."""

    quiet: Phase
    hostile: Phase

    def failures(self) -> list[str]:
        """Return every effect of hostile servers on anything but themselves."""
        failures = [f"{name}: {wrong}" for name, phase in vars(self).items() for wrong in phase.wrong[:20]]
        if (more := max(self.hostile.memory_mib) - max(self.quiet.memory_mib)) > _MAX_MORE_MEMORY_MIB:
            failures.append(f"hostile servers cost {more:.0f} MiB")
        if self.hostile.p99 > _MAX_TIMES_QUIET * self.quiet.p99:
            failures.append(
                f"99th percentile: {self.hostile.p99:.0f} ms with hostile servers, {self.quiet.p99:.0f} without"
            )
        return failures


async def run(
    modes: Sequence[str], callers: int, *, seconds: float, seed: int, folder: Path, say: Callable[[str], None]
) -> Outcome:
    """Use a gateway without hostile servers, then with them; everything is on loopback.

    Args:
        modes: One hostile server each.
        callers: How many use the healthy servers at the same time.
        seconds: Time with hostile servers; a fifth of it before without.
        seed: Repeats the requests, in the order of each caller.
        folder: Where configurations and logs are written.
        say: Called with a line of progress now and then.
    """
    quiet = await _phase([], callers, seconds * _QUIET_SHARE, seed, folder / "quiet.json", say)
    return Outcome(quiet, await _phase(modes, callers, seconds, seed, folder / "hostile.json", say))


async def _phase(
    modes: Sequence[str], callers: int, seconds: float, seed: int, file: Path, say: Callable[[str], None]
) -> Phase:
    phase, mark = Phase(), {_MARK: secrets.token_hex(8)}
    healthy = {server.name: {**_FLEET.stdio_entry(server), "env": mark} for server in _FLEET.upstreams}
    with _hostile_servers(modes, mark) as hostile:
        write_entries(file, {**healthy, **hostile})
        with running_gateway(file, env=mark) as gateway:
            await gateway.until(
                lambda health: (
                    healthy.keys() <= {server["name"] for server in health["servers"] if server["state"] == "ready"}
                )
            )
            say(f"{len(healthy)} healthy servers are ready, with {len(modes)} hostile ones")
            limits = httpx2.Limits(max_connections=200)
            async with httpx2.AsyncClient(trust_env=False, timeout=60, limits=limits) as http:
                stop = anyio.Event()
                async with anyio.create_task_group() as tasks:
                    tasks.start_soon(_watch, phase, gateway.process.pid, stop, say)
                    for number in range(callers):
                        random = Random(f"{seed} {number}")  # noqa: S311 - to be repeated
                        tasks.start_soon(_call_healthy, phase, http, gateway.url, random, stop)
                    for mode in modes:
                        tasks.start_soon(_call_hostile, http, gateway.url, mode, stop)
                    await anyio.sleep(seconds)
                    stop.set()
            phase.states = {
                server["name"]: f"{server['state']}: {server['reason']}" if server["reason"] else server["state"]
                for server in (await gateway.health())["servers"]
                if server["name"] in modes
            }
            if (code := await anyio.to_thread.run_sync(gateway.stop)) != 0:
                phase.wrong.append(f"the gateway ended with {code}, not 0")
    if error := gateway.logged_error():
        phase.wrong.append(f"the log has an error: {error}")
    if (size := gateway.log.stat().st_size) > _MAX_LOG_BYTES:
        phase.wrong.append(f"{size} bytes of log")
    phase.wrong += [f"a process is left: {left}" for left in _end_marked(mark[_MARK])]
    return phase


@contextmanager
def _hostile_servers(modes: Sequence[str], mark: Mapping[str, str]) -> Generator[dict[str, Any]]:
    """Start those that serve HTTP, and give the entries of all."""
    common = {"startup_timeout_sec": 10, "tool_timeout_sec": 10}
    entries: dict[str, Any] = {
        mode: {"command": sys.executable, "args": [str(SERVER), mode], "env": mark, **common}
        for mode in modes
        if mode in STDIO_MODES
    }
    over_http = [mode for mode in modes if mode in HTTP_MODES]
    running: list[subprocess.Popen[bytes]] = []
    try:
        for mode, port in zip(over_http, free_ports(len(over_http)), strict=True):
            running.append(subprocess.Popen([sys.executable, str(SERVER), mode, str(port)], env={**os.environ, **mark}))
            entries[mode] = {"url": f"http://127.0.0.1:{port}/mcp", **common}
        yield entries
    finally:
        for process in running:
            process.kill()
            process.wait()


async def _watch(phase: Phase, process: int, stop: anyio.Event, say: Callable[[str], None]) -> None:
    said = 0.0
    while not stop.is_set():
        phase.memory_mib.append(resident_mib(process))
        if time.monotonic() - said > 10:
            said = time.monotonic()
            say(f"{len(phase.milliseconds)} answers, {len(phase.wrong)} wrong, {phase.memory_mib[-1]:.0f} MiB")
        await anyio.sleep(0.2)


async def _call_healthy(phase: Phase, http: httpx2.AsyncClient, url: str, random: Random, stop: anyio.Event) -> None:
    """Call tools and search for them, each of a healthy server, and check every answer."""
    names = list(_FLEET.by_public_name)
    while not stop.is_set():
        name = random.choice(names)
        upstream, own = _FLEET.by_public_name[name]
        arguments = {"text": f"{random.getrandbits(64):x}"}
        began = time.perf_counter()
        try:
            if random.random() < 0.5:
                answer = await _ask(http, url, "tools/call", {"name": name, "arguments": arguments})
                proof: dict[str, Any] = answer.get("structuredContent") or {}
                expected = (upstream.name, own, arguments)
                is_right = (proof.get("server"), proof.get("tool"), proof.get("arguments")) == expected
            else:
                answer = await _ask(http, url, "tools/search", {"query": codeword(upstream.tools[own]), "limit": 3})
                is_right = [tool["name"] for tool in answer.get("tools", ())][:1] == [name]
        except httpx2.HTTPError as error:
            answer, is_right = {"error": repr(error)}, False
        phase.milliseconds.append(1000 * (time.perf_counter() - began))
        if not is_right:
            phase.wrong.append(f"{name} was answered with {json.dumps(answer)[:500]}")
        await anyio.sleep(random.uniform(0, 0.4))


async def _call_hostile(http: httpx2.AsyncClient, url: str, mode: str, stop: anyio.Event) -> None:
    """Call a tool of a hostile server again and again; its answers do not matter."""
    while not stop.is_set():
        with anyio.move_on_after(20), suppress(httpx2.HTTPError):
            await _ask(http, url, "tools/call", {"name": f"{mode}__echo", "arguments": {"a": "a" * 40}})
        with anyio.move_on_after(3):
            await stop.wait()


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
