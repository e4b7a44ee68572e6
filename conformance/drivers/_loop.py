"""The loop of the Python drivers in this folder: requests in, operations of a client, answers out.

For a driver in a single file, start from `skeleton.py` instead.
"""

# ruff: noqa: E402 - the garbage collector is disabled before the other imports
from __future__ import annotations

import gc

gc.disable()  # imports create little garbage, and looking for it takes a third of the startup time

import json
import sys
from collections.abc import Awaitable, Callable, Mapping, Sequence
from contextlib import AbstractAsyncContextManager
from dataclasses import dataclass
from functools import partial
from typing import Any, TypeAlias

import anyio
import anyio.to_thread
from anyio.abc import TaskGroup
from mcp import StdioServerParameters
from mcp.client.stdio import stdio_client
from pydantic import BaseModel

Json: TypeAlias = dict[str, Any]
Operation: TypeAlias = Callable[[Json], Awaitable[Json]]
Connect: TypeAlias = Callable[[Json], AbstractAsyncContextManager[Mapping[str, Operation]]]
"""Opens the connection that a request asks for, and yields the operations on it."""


def dump(model: BaseModel) -> Json:
    return model.model_dump(mode="json", by_alias=True, exclude_none=True)


async def tools_of(found: Awaitable[Sequence[BaseModel]]) -> Json:
    return {"tools": [dump(tool) for tool in await found]}


async def call(client: Callable[[str, Json], Awaitable[BaseModel]], request: Json) -> Json:
    return {"result": dump(await client(request["name"], request["arguments"]))}


def sdk_server(target: Json) -> Any:
    """Return a `target` in the form that the SDK's `Client` takes."""
    if target["transport"] == "http":
        return target["url"]
    return stdio_client(StdioServerParameters(command=target["command"], args=target["args"], env=target["env"]))


async def read_request() -> Json:
    """Return the next request; the end of stdin counts as `bye`."""
    line = await anyio.to_thread.run_sync(sys.stdin.buffer.readline, abandon_on_cancel=True)
    return json.loads(line) if line else {"id": 0, "op": "bye"}


def answer(request: Json, outcome: Json) -> None:
    sys.stdout.write(json.dumps({"id": request["id"], **outcome}) + "\n")
    sys.stdout.flush()


def failure(error: Exception) -> Json:
    code = getattr(error, "code", None)
    shown: Json = {"message": str(error) or type(error).__name__}
    return {"error": shown | ({"code": code} if isinstance(code, int) else {})}


class BackgroundSearch:
    def __init__(self) -> None:
        self.scope, self.ended, self.outcome = anyio.CancelScope(), anyio.Event(), Json()

    async def run(self, search: Callable[[], Awaitable[Json]]) -> None:
        with self.scope:
            self.outcome = await search()
        self.ended.set()


@dataclass(frozen=True)
class Driver:
    hello: Json
    connecting: Mapping[str, Connect]
    """How to connect, by operation: `connect`, or `federate` for several servers."""
    errors: tuple[type[Exception], ...]
    """Errors that the client's caller gets."""

    async def run(self) -> None:
        gc.freeze()
        gc.enable()
        request: Json = {"op": ""}
        while request["op"] != "bye":
            request = await read_request()
            if request["op"] in self.connecting:
                request = await self._serve_connection(request)
            elif request["op"] == "hello":
                answer(request, {"ok": self.hello})
            else:
                answer(request, {"ok": {}} if request["op"] in {"close", "bye"} else {"unsupported": True})

    async def _serve_connection(self, request: Json) -> Json:
        """Connect, serve the requests on that connection, and return the last one that was answered."""
        searches: dict[str, BackgroundSearch] = {}
        outcome: Json = {"ok": {}}
        try:
            async with self.connecting[request["op"]](request) as operations, anyio.create_task_group() as tasks:
                answer(request, outcome)
                while (request := await read_request())["op"] not in {"close", "bye"}:
                    answer(request, await self._outcome(request, operations, searches, tasks))
                tasks.cancel_scope.cancel()
        except Exception as error:  # the SDK wraps a server's faults in groups of many kinds
            outcome = failure(error)
        answer(request, outcome)
        return request

    async def _outcome(
        self,
        request: Json,
        operations: Mapping[str, Operation],
        searches: dict[str, BackgroundSearch],
        tasks: TaskGroup,
    ) -> Json:
        match request["op"]:
            case "begin":
                search = searches[request["as"]] = BackgroundSearch()
                tasks.start_soon(search.run, partial(self._do, operations["search"], request))
                return {"ok": {}}
            case "await" | "cancel":
                search = searches.pop(request["of"])
                if request["op"] == "cancel":
                    search.scope.cancel()
                await search.ended.wait()
                return {"ok": {}} if request["op"] == "cancel" else search.outcome
            case op if op in operations:
                return await self._do(operations[op], request)
            case _:
                return {"unsupported": True}

    async def _do(self, operation: Operation, request: Json) -> Json:
        try:
            return {"ok": await operation(request)}
        except self.errors as error:
            return failure(error)
