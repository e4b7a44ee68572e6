"""Convert parts of ToolRet to datasets for `benchmarks.retrieval`: `python -m benchmarks.toolret FOLDER OUT`.

Nothing is downloaded. ToolRet (Shi et al., "Retrieval Models Aren't Tool-Savvy", 2025) has requests and tools from many
benchmarks. Put each part in its own folder, as a JSON array or as JSON lines:

    FOLDER/gorilla-huggingface/tools.json      {"id", "documentation": {"name", "description", ...}}
    FOLDER/gorilla-huggingface/queries.json    {"id", "query", "instruction"?, "labels": [{"id"}]}

Repositories of work on ToolRet have parts in this layout; some state no license, so they are for measuring only. Each
part makes two sets: `OUT/PART` has the requests as they are, and in `OUT/PART-instructed` the instruction stands before
them. A tool says everything that its documentation says: what is neither name nor description nor a parameter follows
the description.
"""

from __future__ import annotations

import json
from collections.abc import Iterator, Mapping, Sequence
from pathlib import Path
from typing import Any, TypeAlias, cast

import click

from benchmarks.options import DIRECTORY

_Row: TypeAlias = Mapping[str, Any]


def converted_tool(row: _Row) -> dict[str, Any]:
    """Return a line of `tools.jsonl` for a ToolRet tool."""
    found = row["documentation"]
    documentation = {**cast("_Row", found)} if isinstance(found, dict) else {"description": str(found)}
    name, description = (str(documentation.pop(key, "") or "") for key in ("name", "description"))
    properties = dict(_properties(documentation.get("parameters")))
    if properties:
        del documentation["parameters"]
    told = (f"{key}: {_text(value)}" for key, value in documentation.items() if value not in ("", "N/A", None, [], {}))
    return {
        "id": row["id"],
        "name": name or row["id"],
        "description": "\n".join([description, *told]),
        "inputSchema": {"type": "object", "properties": properties},
    }


def converted_query(row: _Row, *, is_instructed: bool) -> dict[str, Any]:
    """Return a line of `queries.jsonl` for a ToolRet request."""
    said = [row.get("instruction") if is_instructed else None, row["query"]]
    relevant = [label["id"] for label in row["labels"] if label.get("relevance", 1) > 0]
    return {"id": row["id"], "query": "\n".join(filter(None, said)), "relevant": relevant}


def _properties(parameters: object) -> Iterator[tuple[str, _Row]]:
    """Yield the named parameters from a list of objects or an object of objects."""
    if isinstance(parameters, list):
        for parameter in cast("list[Any]", parameters):
            if isinstance(parameter, dict) and "name" in parameter:
                own = cast("dict[str, Any]", parameter)
                yield own["name"], {"description": own.get("description", "")}
    elif isinstance(parameters, dict):
        for name, parameter in cast("dict[str, Any]", parameters).items():
            yield name, parameter if isinstance(parameter, dict) else {"description": str(parameter)}


def _text(value: object) -> str:
    return value if isinstance(value, str) else json.dumps(value, ensure_ascii=False)


def _rows(file: Path) -> Sequence[_Row]:
    text = file.read_text(encoding="utf-8")
    return json.loads(text) if text.lstrip().startswith("[") else list(map(json.loads, text.splitlines()))


def _write(file: Path, rows: Sequence[_Row]) -> None:
    file.parent.mkdir(parents=True, exist_ok=True)
    file.write_text("".join(json.dumps(row, ensure_ascii=False) + "\n" for row in rows), encoding="utf-8")


@click.command()
@click.argument("folder", type=DIRECTORY)
@click.argument("out", type=click.Path(file_okay=False, path_type=Path))
def main(folder: Path, out: Path) -> None:
    """Create datasets in OUT from the parts of ToolRet in FOLDER, each a folder with tools.json and queries.json."""
    parts = sorted(file.parent for file in folder.glob("*/tools.json") if (file.parent / "queries.json").exists())
    if not parts:
        raise click.ClickException(f"{folder} has no folder with tools.json and queries.json: see --help")
    options: list[str] = []
    for part in parts:
        tools, queries = _rows(part / "tools.json"), _rows(part / "queries.json")
        for name, is_instructed in ((part.name, False), (f"{part.name}-instructed", True)):
            _write(out / name / "tools.jsonl", list(map(converted_tool, tools)))
            asked = [converted_query(query, is_instructed=is_instructed) for query in queries]
            _write(out / name / "queries.jsonl", [query for query in asked if query["relevant"]])
            options.append(f"--data {out / name}")
    command = "python -m benchmarks.retrieval --split all --ranker fielded --ranker 'bm25s, stemmed' "
    click.echo(f"{len(options)} sets. Measure them with:\n{command}{' '.join(options)}")


if __name__ == "__main__":
    main()
