"""Callers of a gateway who check every answer that they get."""

from __future__ import annotations

from collections.abc import AsyncGenerator, Awaitable, Callable, Mapping, Sequence
from contextlib import asynccontextmanager
from dataclasses import dataclass, field
from random import Random
from typing import Any, Final

import anyio
import httpx2
from fleet import TOPICS, Era, Fleet, codeword
from mcp import Client, MCPError
from mcp.client.streamable_http import streamable_http_client
from mcp_ext_tools_search.client import TOOLS_SEARCH, raw_request
from mcp_types import INVALID_PARAMS
from soak.observations import Observations

__all__ = ["Caller", "client_of"]

_ANSWER_SECONDS: Final = 30
_PATIENCE_SECONDS: Final = 0.05
_MAX_HITS: Final = 50
"""Hits of one page, as the gateway says."""
_OPERATIONS_OF_A_CONNECTION: Final = (20, 200)


@asynccontextmanager
async def client_of(url: str, era: Era) -> AsyncGenerator[Client]:
    """Connect to the gateway as a client of one era."""
    async with (
        httpx2.AsyncClient(trust_env=False, timeout=60) as http,
        Client(
            streamable_http_client(url, http_client=http, max_sse_event_size=None),
            mode="auto" if era == "modern" else "legacy",
            extensions=[TOOLS_SEARCH],
            cache=None,
        ) as client,
    ):
        yield client


@dataclass
class Caller:
    """A client that uses the gateway next to others."""

    url: str
    era: Era
    fleet: Fleet
    seen: Observations
    random: Random
    lists: bool
    """Whether it is one of the few who read the whole list and compare searches with it."""
    stop: anyio.Event
    longest_pause: float = 1.0
    """In seconds, between two operations."""
    _client: Client = field(init=False)

    async def run(self) -> None:
        """Use the gateway until `stop` is set, over one connection after the other."""
        while not self.stop.is_set():
            try:
                async with client_of(self.url, self.era) as client:
                    await self.use(client, self.random.randint(*_OPERATIONS_OF_A_CONNECTION))
            except Exception as error:  # the gateway is never down, so the end of a connection is its fault
                self.seen.fail(f"a {self.era} connection to the gateway was lost: {error!r}")
                await anyio.sleep(1)

    async def use(self, client: Client, operations: int) -> None:
        """Use one connection for so many operations, or until `stop` is set."""
        self._client = client
        kinds = [self._call, self._find_and_call, self._search, self._give_up, self._call_unknown]
        weights = [45, 25, 20, 6, 4]
        if self.lists:
            kinds, weights = [self._compare, self._call], [1, 20]
        for _ in range(operations):
            if self.stop.is_set():
                return
            [kind] = self.random.choices(kinds, weights)
            await self._checked(kind)
            await anyio.sleep(self.random.uniform(0, self.longest_pause))

    async def compare_all(self, client: Client) -> None:
        """Compare a search for each topic, page by page, with the whole list, while nothing changes."""
        self._client = client
        began = anyio.current_time()
        listed = await self._listed(began) or []
        for topic in TOPICS:
            asked: dict[str, Any] = {"query": topic, "limit": _MAX_HITS}
            hits: list[str] = []
            while True:
                page = await self._ask("tools/search", asked)
                hits += self._known(page)
                if (cursor := page.get("nextCursor")) is None:
                    break
                asked = {**asked, "cursor": cursor}
            about = {name for name in listed if topic in name.split("_")}
            if len(hits) != len(set(hits)) or not about <= set(hits) <= set(listed):
                self.seen.fail(f"a search for {topic} found {len(hits)} tools; {len(about)} of that name are listed")
            else:
                self.seen.succeed("compare", began)
            began = anyio.current_time()

    async def _checked(self, operation: Callable[[], Awaitable[None]]) -> None:
        try:
            await operation()
        except MCPError as error:
            self.seen.fail(f"{operation.__name__} of a {self.era} caller: {error.code} {error.message}")

    async def _ask(self, method: str, params: Mapping[str, Any]) -> dict[str, Any]:
        return await raw_request(self._client, method, params, seconds=_ANSWER_SECONDS)

    async def _call(self) -> None:
        await self._call_tool(self.random.choice(list(self.fleet.by_public_name)))

    async def _call_tool(self, name: str) -> None:
        began = anyio.current_time()
        upstream, own = self.fleet.by_public_name[name]
        arguments = {"text": f"{self.random.getrandbits(64):x}"}
        try:
            result = await self._ask("tools/call", {"name": name, "arguments": arguments})
        except MCPError:
            if not self.seen.was_down(upstream.name, began):
                raise
            self.seen.excused["call"] += 1
            return
        said: dict[str, Any] = result.get("structuredContent") or {}
        if (said.get("server"), said.get("tool"), said.get("arguments")) == (upstream.name, own, arguments):
            self.seen.succeed("call", began)
        elif result.get("isError") and self.seen.was_down(upstream.name, began):
            self.seen.excused["call"] += 1
        else:
            self.seen.fail(f"{name} with {arguments} was answered with {result}"[:500])

    async def _find_and_call(self) -> None:
        began = anyio.current_time()
        name = self.random.choice(list(self.fleet.by_public_name))
        upstream, own = self.fleet.by_public_name[name]
        hits = self._known(await self._ask("tools/search", {"query": codeword(upstream.tools[own])}))
        if name in hits[:1]:
            self.seen.succeed("find", began)
            await self._call_tool(name)
        elif self.seen.was_down(upstream.name, began):
            self.seen.excused["find"] += 1
        else:
            self.seen.fail(f"a search for the one word of {name} found {hits}")

    async def _search(self) -> None:
        began = anyio.current_time()
        asked: dict[str, Any] = {"query": f"{self.random.choice(TOPICS)} of a customer", "limit": 20}
        first = await self._ask("tools/search", asked)
        hits = self._known(first)
        if (cursor := first.get("nextCursor")) is not None:
            try:
                hits += self._known(await self._ask("tools/search", {**asked, "cursor": cursor}))
            except MCPError as error:
                if error.code != INVALID_PARAMS or not self.seen.any_was_down(began):
                    raise
                self.seen.excused["search"] += 1  # another catalog: its pages are others
                return
        if len(hits) == len(set(hits)) and (hits or self.seen.any_was_down(began)):
            self.seen.succeed("search", began)
        else:
            self.seen.fail(f"a search for {asked} found {hits}")

    async def _give_up(self) -> None:
        began = anyio.current_time()
        name = self.random.choice(list(self.fleet.by_public_name))
        upstream, _ = self.fleet.by_public_name[name]
        result: dict[str, Any] = {}
        try:
            with anyio.move_on_after(_PATIENCE_SECONDS) as patience:
                result = await self._ask("tools/call", {"name": name, "arguments": {"text": "late", "seconds": 20}})
        except MCPError:
            if not self.seen.was_down(upstream.name, began):
                raise
            self.seen.excused["cancel"] += 1
            return
        if patience.cancelled_caught:
            self.seen.succeed("cancel", began)
        elif result.get("isError") and self.seen.was_down(upstream.name, began):
            self.seen.excused["cancel"] += 1
        else:
            self.seen.fail(f"{name} was to take 20 s and answered at once: {result}"[:500])

    async def _call_unknown(self) -> None:
        began = anyio.current_time()
        try:
            result = await self._ask("tools/call", {"name": "no_such_server__tool", "arguments": {}})
        except MCPError as error:
            if error.code != INVALID_PARAMS:
                raise
            self.seen.succeed("unknown", began)
        else:
            self.seen.fail(f"an unknown tool was answered with {result}"[:500])

    async def _compare(self) -> None:
        """Search between two listings: where these are equal, what is found stands in them."""
        began = anyio.current_time()
        before = await self._listed(began)
        hits = self._known(await self._ask("tools/search", {"query": self.random.choice(TOPICS), "limit": 50}))
        after = await self._listed(began)
        if before is None or after is None or before != after:
            self.seen.excused["list"] += 1
            if not self.seen.any_was_down(began):
                self.seen.fail("a listing changed although no server was down")
        elif not set(hits) <= set(before):
            self.seen.fail(f"found and not listed: {sorted(set(hits) - set(before))[:5]}")
        else:
            self.seen.succeed("list", began)

    async def _listed(self, began: float) -> Sequence[str] | None:
        """Return the whole list, or `None` where a page was gone; check that it holds what it must, and once."""
        names: list[str] = []
        cursor: dict[str, str] = {}
        while True:
            try:
                page = await self._ask("tools/list", cursor)
            except MCPError as error:
                if error.code == INVALID_PARAMS and self.seen.any_was_down(began):
                    return None
                raise
            names += self._known(page)
            if (following := page.get("nextCursor")) is None:
                break
            cursor = {"cursor": following}
        missing = self.fleet.by_public_name.keys() - set(names)
        lost = [name for name in missing if not self.seen.was_down(self.fleet.by_public_name[name][0].name, began)]
        if lost or len(names) != len(set(names)):
            self.seen.fail(f"a list lacks {len(lost)} tools, such as {lost[:3]}, or has one twice")
        return names

    def _known(self, result: Mapping[str, Any]) -> list[str]:
        """Return the names of the tools of a result; they have to be those that the servers offer, to the letter."""
        names: list[str] = []
        for tool in result["tools"]:
            name = tool["name"]
            names.append(name)
            upstream, own = self.fleet.by_public_name.get(name, (None, ""))
            expected = upstream.tools[own] | {"name": name} if upstream else {}
            if {member: tool.get(member) for member in expected} != expected or not upstream:
                self.seen.fail(f"{name} is not as any server offers it: {tool}"[:500])
        return names
