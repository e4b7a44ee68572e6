"""Clients after the contract of the official MCP suite: one process for each thing to do, which tells nothing.

The address of the server is the last argument; what to do stands in the environment. What such a client sends is
judged; what it makes of the answers cannot be.
"""

from __future__ import annotations

import json
from collections.abc import Callable, Mapping, Sequence
from typing import Any, Final

import anyio
from anyio.abc import TaskGroup

from tools_search_conformance.clients.contract import DriverError, Told
from tools_search_conformance.wire.codec import JsonObject
from tools_search_conformance.wire.process import TargetProcess

__all__ = ["OneShotClient"]

_SCENARIOS: Final = {"search": "search", "search_all": "search-all", "list_tools": "list-tools"}
_CHUNKS: Final = 1024
"""How much of its stdout a client may write; nobody reads it."""


class OneShotClient:
    """Does one thing on each connection, in a process of its own."""

    def __init__(
        self,
        argv: Sequence[str],
        *,
        tasks: TaskGroup,
        env: Mapping[str, str],
        cwd: str | None,
        seconds: float,
        note: Callable[[str], None],
    ) -> None:
        self.seconds = seconds
        self.ended: str | None = None
        self.hello: JsonObject = {"sdk": "one-shot client", "version": "unknown"}
        self._argv = tuple(argv)
        self._tasks = tasks
        self._env = dict(env)
        self._cwd = cwd
        self._note = note
        self._connected: JsonObject | None = None

    @property
    def features(self) -> frozenset[str]:
        """Such a client is given an address and nothing else."""
        return frozenset({"http"})

    async def ask(self, op: str, **members: Any) -> Told:
        """Run the client for `op`, once on each connection; connecting and closing come with it.

        Raises:
            DriverError: it cannot be started, or does not end in time.
        """
        if op in {"connect", "close"}:
            self._connected = members if op == "connect" else None
            return Told(op=op, answer={"id": 0, "ok": {}})
        if op not in _SCENARIOS or self._connected is None:
            return Told(op=op, answer={"id": 0, "unsupported": True})
        target, era, self._connected = self._connected["target"], self._connected["era"], None
        scenario = f"tools-search/{_SCENARIOS[op]}"
        env = {
            **self._env,
            "MCP_CONFORMANCE_SCENARIO": scenario,
            "MCP_CONFORMANCE_PROTOCOL_VERSION": era,
            "MCP_CONFORMANCE_CONTEXT": json.dumps({"name": scenario, **members}),
        }
        await self._run([*self._argv, target["url"]], env)
        return Told(op=op, answer=None)

    async def aclose(self) -> None:
        """Do nothing: each process has ended."""
        self.ended = self.ended or "the client was let go"

    async def _run(self, argv: Sequence[str], env: Mapping[str, str]) -> None:
        process = await TargetProcess.start(argv, tasks=self._tasks, env=env, cwd=self._cwd)
        self._note(f"to the client: {env['MCP_CONFORMANCE_SCENARIO']} {env['MCP_CONFORMANCE_CONTEXT']}")
        try:
            with anyio.fail_after(self.seconds):
                written = 0
                async for _ in process.stdout:
                    written += 1
                    if written > _CHUNKS:
                        raise DriverError("the client writes to its stdout without end")
                await process.settle()
        except TimeoutError as error:
            raise DriverError(f"the client did not end within {self.seconds:g} s") from error
        finally:
            self._note(f"from the client: {process.obituary()}; its stderr ends: {process.stderr_tail(500)}")
            await process.end()
