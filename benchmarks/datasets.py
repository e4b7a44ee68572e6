"""Catalogs with queries and the tools that answer them, read from a directory.

`tools.jsonl` holds `{"id", "server"?, "name", "title"?, "description"?, "inputSchema"?}` per line, and `queries.jsonl`
`{"id", "query", "relevant": [tool ids], "split"?, "slice"?, "alternatives"?}`.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any, Final

from mcp_ext_tools_search.types import EXTENSION_ID
from mcp_types import Tool
from pydantic import BaseModel, ConfigDict, Field

SMALL: Final = Path(__file__).parent / "small"
"""The set of invented servers that ships with the project."""

REAL: Final = Path(__file__).parent / "real"
"""The set over real servers that ships with the project."""


class Query(BaseModel):
    """One request and the ids of the tools that serve it."""

    model_config = ConfigDict(frozen=True)

    id: str
    query: str
    relevant: tuple[str, ...]
    """Ids of the tools; none for a request that no tool serves."""

    split: str | None = None
    """`dev` or `test`; a query without one belongs to both."""

    slice: str | None = None
    """The kind of request, where a set has several."""

    alternatives: bool = False
    """Whether each of the tools serves alone; otherwise it takes all of them."""


class _ToolRow(BaseModel):
    model_config = ConfigDict(frozen=True)

    id: str
    name: str
    server: str | None = None
    title: str | None = None
    description: str | None = None
    input_schema: dict[str, Any] = Field(default={"type": "object"}, alias="inputSchema")


@dataclass(frozen=True)
class Dataset:
    """A catalog and its queries."""

    name: str
    tools: Sequence[Tool]
    ids: Mapping[str, str]
    """Id in the data of each tool, by its name."""

    queries: Sequence[Query]


def read_dataset(directory: Path, split: str) -> Dataset:
    """Read one directory; `split` is that of the queries, or `all`.

    Raises:
        OSError: A file is missing.
        pydantic.ValidationError: A line is not of the format.
    """
    named = dict(_uniquely_named(_ToolRow.model_validate_json(line) for line in _lines(directory / "tools.jsonl")))
    queries = [Query.model_validate_json(line) for line in _lines(directory / "queries.jsonl")]
    return Dataset(
        name=directory.name,
        tools=[_tool(name, row) for name, row in named.items()],
        ids={name: row.id for name, row in named.items()},
        queries=[query for query in queries if split == "all" or query.split in (split, None)],
    )


def read_servers(directory: Path) -> Mapping[str, Mapping[str, Tool]]:
    """Return the tools of each server by their ids, under the very names that they have there.

    Tools that name no server are those of one that is called like the directory.

    Raises:
        OSError: The file is missing.
        pydantic.ValidationError: A line is not of the format.
    """
    servers: dict[str, dict[str, Tool]] = {}
    for line in _lines(directory / "tools.jsonl"):
        row = _ToolRow.model_validate_json(line)
        servers.setdefault(row.server or directory.name, {})[row.id] = _as_published(row)
    return servers


def _lines(path: Path) -> Iterator[str]:
    with path.open(encoding="utf-8") as file:
        yield from (line for line in file if line.strip())


def _uniquely_named(rows: Iterator[_ToolRow]) -> Iterator[tuple[str, _ToolRow]]:
    """Give each tool a name of its own with the very words of its name in the data.

    Names repeat across the servers of a catalog, and an index knows a tool by its name. Underscores at the end set
    two tools apart and are part of no word.
    """
    taken = set[str]()
    for row in rows:
        name = row.name
        while name in taken:
            name += "_"
        taken.add(name)
        yield name, row


def _tool(name: str, row: _ToolRow) -> Tool:
    """Return the tool as a gateway publishes it, which knows the server that it comes from as its group."""
    meta = {EXTENSION_ID: {"group": row.server}} if row.server else None
    return _as_published(row).model_copy(update={"name": name, "meta": meta})


def _as_published(row: _ToolRow) -> Tool:
    return Tool(name=row.name, title=row.title, description=row.description, input_schema=row.input_schema)
