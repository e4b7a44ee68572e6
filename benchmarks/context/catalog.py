"""The tools of several servers, and requests with the tools that they take."""

from __future__ import annotations

import random
import re
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from functools import cached_property
from pathlib import Path
from typing import Any, TypeAlias

from mcp_types import Tool

from benchmarks.retrieval.datasets import Query, read_dataset, read_servers

__all__ = ["Catalog", "Task", "ToolKey", "definition", "read_catalog", "words_of"]

ToolKey: TypeAlias = tuple[str, str]
"""A server and the name that it gives to one of its tools."""

_WORD = re.compile(r"\w+")


@dataclass(frozen=True)
class Task:
    """What a user asks for."""

    text: str
    needed: frozenset[ToolKey]


@dataclass(frozen=True)
class Catalog:
    """The tools of each server. Names of servers are of letters, digits and dashes, so that every peer can use them."""

    servers: Mapping[str, Sequence[Tool]]

    @cached_property
    def tools(self) -> Mapping[ToolKey, Tool]:
        """All of them, in the order of the servers."""
        return {(server, tool.name): tool for server, tools in self.servers.items() for tool in tools}

    @cached_property
    def prefixed(self) -> Mapping[str, ToolKey]:
        """Names as hosts make them of several servers: `server_tool`."""
        return {f"{server}_{name}": (server, name) for server, name in self.tools}

    def sample(self, size: int, seed: int) -> Catalog:
        """Return `size` tools of servers drawn at random, of which the last may be left with a part of its tools."""
        names = sorted(self.servers)
        random.Random(seed).shuffle(names)  # noqa: S311  # the same sample in every run
        servers: dict[str, Sequence[Tool]] = {}
        for name in names:
            room = size - sum(map(len, servers.values()))
            if room > 0:
                servers[name] = self.servers[name][:room]
        return Catalog(servers)


def read_catalog(directory: Path, split: str) -> tuple[Catalog, Sequence[Task]]:
    """Return the tools and the tasks of one data set; `split` is that of the tasks, or `all`.

    Raises:
        OSError: A file is missing.
        pydantic.ValidationError: A line is not of the format.
    """
    servers = {re.sub(r"[^A-Za-z0-9-]+", "-", name): tools for name, tools in read_servers(directory).items()}
    keys = {key: (server, tool.name) for server, tools in servers.items() for key, tool in tools.items()}
    tasks = [_task(query, keys) for query in read_dataset(directory, split).queries]
    return Catalog({server: list(tools.values()) for server, tools in servers.items()}), tasks


def definition(name: str, tool: Tool) -> dict[str, Any]:
    """Return what a host that does nothing to a tool but give it a name sends to its model."""
    return {"name": name, "description": tool.description or "", "parameters": tool.input_schema}


def words_of(tool: Tool) -> frozenset[str]:
    """Return the words of a definition in lower case: of its name, its description and its parameters' names."""
    properties: Mapping[str, Any] = tool.input_schema.get("properties") or {}
    text = " ".join([tool.name, tool.title or "", tool.description or "", *properties])
    return frozenset(_WORD.findall(text.replace("_", " ").casefold()))


def _task(query: Query, keys: Mapping[str, ToolKey]) -> Task:
    return Task(query.query, frozenset(keys[tool] for tool in query.relevant))
