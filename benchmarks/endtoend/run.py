"""One catalog measured over every transport and with every client."""

from __future__ import annotations

import gc
import json
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from tempfile import TemporaryDirectory
from typing import Final

from benchmarks.endtoend.connections import CLIENTS, TRANSPORTS, connection
from benchmarks.endtoend.measure import Row, measure, measure_lists
from benchmarks.endtoend.parts import Parts, parts
from benchmarks.endtoend.requests import DO_NOTHING, LIMITS, Way, search_of, ways_of
from benchmarks.endtoend.weights import Weight, weigh
from benchmarks.speed.corpus import Corpus

__all__ = ["Connected", "Size", "measure_size"]

_LISTS: Final = 10
_RELISTING_PART: Final = 10
_WEIGHED: Final = 100


@dataclass(frozen=True)
class Connected:
    """What one client took over one transport."""

    transport: str
    client: str
    rows: Sequence[Row]


@dataclass(frozen=True)
class Size:
    """All that was measured with one catalog."""

    tools: int
    connected: Sequence[Connected]
    relisting: Connected
    """A server on which the search was installed with its defaults, so that each search lists first."""

    weights: Sequence[Weight]
    parts: Parts


async def measure_size(corpus: Corpus, requests: int) -> Size:
    """Serve the tools of `corpus`, and put each kind of request so many times over each connection.

    Each connection has a server of its own, one after the other. The list is read a few times, and the server
    that lists first is asked a tenth as often.
    """
    queries = corpus.queries
    ways = ways_of(queries)
    with TemporaryDirectory() as folder:
        file = Path(folder) / "catalog.json"
        tools = [tool.model_dump(by_alias=True, mode="json", exclude_none=True) for tool in corpus.tools]
        file.write_text(json.dumps({"tools": tools}), encoding="utf-8")
        del tools
        gc.collect()
        gc.freeze()  # the catalog is not the client's, so that looking through it is not its work either
        connected = [
            await _connected(str(file), ways, requests, transport, client)
            for transport in TRANSPORTS
            for client in CLIENTS
        ]
        few = {way: ways[way] for way in (DO_NOTHING, search_of(LIMITS[-1]))}
        async with connection("stdio", "raw", [str(file), "--relists"]) as opened:
            rows = await measure(opened, few, max(2, requests // _RELISTING_PART))
        async with connection("stdio", "raw", [str(file)]) as opened:
            weights = await weigh(opened, ways, min(requests, _WEIGHED))
            own = await parts(opened, corpus.tools, queries[:requests])
    gc.unfreeze()
    return Size(len(corpus.tools), connected, Connected("stdio", "raw", rows), weights, own)


async def _connected(file: str, ways: Mapping[str, Way], requests: int, transport: str, client: str) -> Connected:
    async with connection(transport, client, [file]) as opened:
        rows = await measure(opened, ways, requests)
        return Connected(transport, client, [*rows, *await measure_lists(opened, rows[0], _LISTS)])
