"""Catalogs with queries and the tools that answer them, read from a directory.

Each line of `tools.jsonl` is `{"id", "server"?, "name", "title"?, "description"?, "inputSchema"?}`, and each line of
`queries.jsonl` is `{"id", "query", "relevant": [tool ids], "split"?, "slice"?, "alternatives"?}`.
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
"""The included dataset with invented servers."""

REAL: Final = Path(__file__).parent / "real"
"""The included dataset with real servers."""


class Query(BaseModel):
    """A request and the ids of the tools that serve it."""

    model_config = ConfigDict(frozen=True)

    id: str
    query: str
    relevant: tuple[str, ...]
    """Ids of the tools; empty if no tool serves the request."""

    split: str | None = None
    """`dev` or `test`; a query without one belongs to both."""

    slice: str | None = None
    """The kind of request, if a dataset has several."""

    alternatives: bool = False
    """Whether any one of the tools is enough; otherwise all of them are needed."""


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
    """Each tool's id in the data, by name."""

    queries: Sequence[Query]


def read_dataset(directory: Path, split: str) -> Dataset:
    """Read a directory; `split` selects the queries, or is `all`.

    Raises:
        OSError: A file is missing.
        pydantic.ValidationError: A line has the wrong format.
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
    """Return each server's tools by id, with their original names.

    Tools without a server belong to one named after the directory.

    Raises:
        OSError: The file is missing.
        pydantic.ValidationError: A line has the wrong format.
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
    """Give each tool a unique name with the same words as its name in the data.

    Names repeat across a catalog's servers, but an index identifies tools by name. Trailing underscores distinguish
    tools without being part of a word.
    """
    taken = set[str]()
    for row in rows:
        name = row.name
        while name in taken:
            name += "_"
        taken.add(name)
        yield name, row


def _tool(name: str, row: _ToolRow) -> Tool:
    """Return the tool as a gateway publishes it, with its server as its group."""
    meta = {EXTENSION_ID: {"group": row.server}} if row.server else None
    return _as_published(row).model_copy(update={"name": name, "meta": meta})


def _as_published(row: _ToolRow) -> Tool:
    return Tool(name=row.name, title=row.title, description=row.description, input_schema=row.input_schema)
