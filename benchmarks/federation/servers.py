"""Servers that answer searches, each knowing its own tools alone, and one that knows the tools of all."""

from __future__ import annotations

from collections.abc import Collection, Mapping, Sequence
from pathlib import Path

from mcp_ext_tools_search.ranking import Ranker
from mcp_ext_tools_search.types import HitMetadata
from mcp_types import Tool
from tools_search_client.found import Found, FoundTool
from tools_search_hosts import ServerEntry, StdioTarget, qualified_name
from tools_search_ranking import floored

from benchmarks.retrieval.datasets import read_servers

__all__ = ["Answers", "Servers"]

Answers = Sequence[tuple[ServerEntry, Found]]
"""What each server found, as the client's fan-out returns it."""


class Servers:
    """The servers of one data set, in one process: what is measured is the order of the answers, not the way to them.

    Args:
        directory: A data set.
        own_ranker: Ranks the tools of each server, as the server itself would.
        ranker: Ranks the tools of all, where they are in one index.

    Raises:
        OSError: A file is missing.
        pydantic.ValidationError: A line is not of the format.
    """

    def __init__(self, directory: Path, *, own_ranker: Ranker, ranker: Ranker) -> None:
        servers = read_servers(directory)
        self.ids = {
            qualified_name(server, tool.name): key for server in servers for key, tool in servers[server].items()
        }
        self.number = len(servers)
        self._tools: Mapping[str, Mapping[str, Tool]] = {
            server: {tool.name: tool for tool in own.values()} for server, own in servers.items()
        }
        self._indexes = {server: floored(own_ranker)(list(own.values())) for server, own in self._tools.items()}
        self._everything = floored(ranker)(
            [
                tool.model_copy(update={"name": qualified_name(server, name)})
                for server, own in self._tools.items()
                for name, tool in own.items()
            ]
        )

    def search(self, query: str, *, limit: int, known: Collection[str] = ()) -> Answers:
        """Return the answer of every server, `limit` tools at most from each.

        Args:
            query: What is searched.
            limit: Upper bound of each answer.
            known: Ids of tools that their servers put first, wherever their ranking has them.
        """
        return [
            (ServerEntry(server, StdioTarget(server)), self._found(server, query, limit, known))
            for server in self._tools
        ]

    def search_one_index(self, query: str, *, limit: int) -> Sequence[str]:
        """Return the full names of the best tools of all servers, for which every definition has to be at hand."""
        return [hit.name for hit in self._everything.search(query)[:limit]]

    def _found(self, server: str, query: str, limit: int, known: Collection[str]) -> Found:
        hits = self._indexes[server].search(query)[:limit]
        hits = sorted(hits, key=lambda hit: self.ids[qualified_name(server, hit.name)] not in known)
        tools = self._tools[server]
        found = (FoundTool(hit.name, "", tools[hit.name], HitMetadata(score=hit.score)) for hit in hits)
        return Found(tuple(found), "search")
