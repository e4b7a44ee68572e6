"""Several servers' tools, and requests with the tools they need."""

from __future__ import annotations

import random
import re
from collections.abc import Collection, Iterator, Mapping, Sequence
from dataclasses import dataclass
from functools import cached_property
from pathlib import Path
from typing import Any, TypeAlias

import click
from mcp_types import Tool

from benchmarks.datasets import read_dataset, read_servers

ToolKey: TypeAlias = tuple[str, str]
"""A server and its own name for one of its tools."""

_WORD = re.compile(r"\w+")
_STEP = re.compile(r"(?P<task>.+)-s(?P<number>\d+)")


@dataclass(frozen=True)
class Task:
    """A user's request, and the tools it needs."""

    text: str
    needed: frozenset[ToolKey]
    steps: tuple[Task, ...] = ()
    """The steps in order, if it is searched step by step; together they need the same tools."""


@dataclass(frozen=True)
class Catalog:
    """Each server's tools. Server names consist of letters, digits and dashes, so that every peer can use them."""

    servers: Mapping[str, Sequence[Tool]]

    @cached_property
    def tools(self) -> Mapping[ToolKey, Tool]:
        """All tools, in the order of the servers."""
        return {(server, tool.name): tool for server, tools in self.servers.items() for tool in tools}

    @cached_property
    def prefixed(self) -> Mapping[str, ToolKey]:
        """Tools by the names that hosts give them: `server_tool`."""
        return {f"{server}_{name}": (server, name) for server, name in self.tools}

    def of_servers(self, count: int, tasks: Sequence[Task]) -> Catalog:
        """Return `count` servers, chosen one at a time so that as many tasks as possible need no others.

        A smaller number of servers is always a subset of a larger one.
        """
        needed = [{server for server, _ in task.needed} for task in tasks]
        chosen: set[str] = set()
        while len(chosen) < min(count, len(self.servers)):
            missing = [servers - chosen for servers in needed if not servers <= chosen]
            ranks = {
                server: (sum(servers == {server} for servers in missing), sum(server in servers for servers in missing))
                for server in sorted(self.servers)
                if server not in chosen
            }
            chosen.add(max(ranks, key=lambda server: ranks[server]))
        return Catalog({name: tools for name, tools in self.servers.items() if name in chosen})

    def sample(self, size: int, seed: int) -> Catalog:
        """Return `size` tools from randomly drawn servers; the last server might only have some of its tools."""
        names = sorted(self.servers)
        random.Random(seed).shuffle(names)  # noqa: S311  # the same sample in every run
        servers: dict[str, Sequence[Tool]] = {}
        for name in names:
            room = size - sum(map(len, servers.values()))
            if room > 0:
                servers[name] = self.servers[name][:room]
        return Catalog(servers)


def read_catalog(
    directory: Path, split: str, *, by_steps: bool = False, slices: Collection[str] = ()
) -> tuple[Catalog, Sequence[Task]]:
    """Return a dataset's tools and tasks; `split` selects the tasks, or is `all`.

    Requests that no tool serves, or that any of several tools serves, are excluded, as are requests outside `slices`,
    if given. With `by_steps`, only tasks that have steps are included: requests named `ID-sNUMBER`, if the task's id
    starts with ID.

    Raises:
        OSError: A file is missing.
        pydantic.ValidationError: A line has the wrong format.
    """
    servers = {re.sub(r"[^A-Za-z0-9-]+", "-", name): tools for name, tools in read_servers(directory).items()}
    keys = {key: (server, tool.name) for server, tools in servers.items() for key, tool in tools.items()}
    queries = read_dataset(directory, split).queries
    read = {
        query.id: Task(query.query, frozenset(keys[tool] for tool in query.relevant))
        for query in queries
        if query.relevant and not query.alternatives and (not slices or query.slice in (None, *slices))
    }
    catalog = Catalog({server: list(tools.values()) for server, tools in servers.items()})
    if not by_steps:
        return catalog, [*read.values()]
    steps: dict[str, list[tuple[int, Task]]] = {}
    for key, step in read.items():
        if found := _STEP.fullmatch(key):
            steps.setdefault(found["task"], []).append((int(found["number"]), step))
    tasks: list[Task] = []
    for key, task in read.items():
        starts = [start for start in steps if key.startswith(start) and not _STEP.fullmatch(key)]
        numbered = sorted((step for start in starts[:1] for step in steps[start]), key=lambda step: step[0])
        ordered = tuple(step for _, step in numbered)
        if len(ordered) > 1:
            tasks.append(Task(task.text, frozenset[ToolKey]().union(*(step.needed for step in ordered)), ordered))
    return catalog, tasks


def read_parts(
    directories: Sequence[Path],
    split: str,
    tasks: int | None,
    sizes: Sequence[int] = (),
    *,
    by_steps: bool = False,
    slices: Collection[str] = (),
) -> Iterator[tuple[dict[str, Any], Catalog, Sequence[Task]]]:
    """Yield the counts, tools and first `tasks` tasks of each dataset, or of a number of its servers.

    Raises:
        click.UsageError: No task can be served.
    """
    for directory in directories:
        whole, read = read_catalog(directory, split, by_steps=by_steps, slices=slices)
        for size in [size for size in sizes if size <= len(whole.servers)] or [len(whole.servers)]:
            catalog = whole.of_servers(size, read)
            own = [task for task in read if task.needed <= catalog.tools.keys()][:tasks]
            if not own:
                raise click.UsageError(f"{directory.name}: {size} servers cannot serve any task")
            numbers = {"tools": len(catalog.tools), "servers": len(catalog.servers), "tasks": len(own)}
            yield {"dataset": directory.name, **numbers}, catalog, own


def definition(name: str, tool: Tool) -> dict[str, Any]:
    """Return a tool's definition as sent by a host that changes nothing but its name."""
    return {"name": name, "description": tool.description or "", "parameters": tool.input_schema}


def words_of(tool: Tool) -> frozenset[str]:
    """Return the lower-case words in a definition's name, description and parameter names."""
    properties: Mapping[str, Any] = tool.input_schema.get("properties") or {}
    text = " ".join([tool.name, tool.title or "", tool.description or "", *properties])
    return frozenset(_WORD.findall(text.replace("_", " ").casefold()))
