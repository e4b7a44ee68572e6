"""The command that starts the dataset's servers and writes their tools to `tools.jsonl`."""

from __future__ import annotations

import json
import os
from collections.abc import AsyncIterator, Sequence
from pathlib import Path
from tempfile import TemporaryDirectory
from typing import Final

import anyio
import click
from mcp import Client, StdioServerParameters
from mcp_types import Tool
from pydantic import BaseModel, TypeAdapter
from tools_search_hosts.counts import number_of

from benchmarks.datasets import REAL
from benchmarks.options import FILE

_SECONDS: Final = 300
"""In seconds. Long, because a server's first start installs it."""
_MEMBERS: Final = {"name", "title", "description", "input_schema"}


class Server(BaseModel):
    """A server, and how to start it without an account: keys and files can be dummies, because it only lists tools."""

    package: str
    version: str
    license: str
    command: list[str]
    env: dict[str, str] = {}
    files: dict[str, str] = {}
    """Contents of the files in its working folder, by name."""


def read_servers() -> dict[str, Server]:
    """Return the dataset's servers by name."""
    return TypeAdapter(dict[str, Server]).validate_json((REAL / "servers.json").read_bytes())


async def _listed(client: Client) -> AsyncIterator[Tool]:
    cursor: str | None = None
    while True:
        page = await client.list_tools(cursor=cursor)
        for tool in page.tools:
            yield tool
        if (cursor := page.next_cursor) is None:
            return


async def lines(name: str, server: Server) -> Sequence[str]:
    """Start a server in an empty folder, which is also its home, and return a JSON line for each of its tools.

    Raises:
        Exception: The server does not start, or does not list its tools.
    """
    with TemporaryDirectory() as folder:
        for file, text in server.files.items():
            (Path(folder) / file).write_text(text, encoding="utf-8")
        # Keep downloads, but not what a server writes.
        kept = {"npm_config_cache": str(Path.home() / ".npm"), "UV_CACHE_DIR": str(Path.home() / ".cache" / "uv")}
        env = {**os.environ, **kept, **server.env, "HOME": folder}
        program, *arguments = server.command
        parameters = StdioServerParameters(command=program, args=arguments, env=env, cwd=folder)
        about = {"package": server.package, "version": server.version, "license": server.license}
        with anyio.fail_after(_SECONDS):
            async with Client(parameters, mode="legacy") as client:
                return [
                    json.dumps(
                        {"id": f"{name}::{tool.name}", "server": name, **about}
                        | tool.model_dump(mode="json", by_alias=True, include=_MEMBERS, exclude_none=True),
                        ensure_ascii=False,
                    )
                    for tool in [tool async for tool in _listed(client)]
                ]


@click.command()
@click.option("--server", "names", multiple=True, help="Only this server; can be repeated. [default: all]")
@click.option("--out", type=FILE, default=REAL / "tools.jsonl", help="File to write. [default: the dataset's]")
def main(names: Sequence[str], out: Path) -> None:
    """Start each of the dataset's servers with npx or uvx, and write a line for each of its tools."""
    servers = read_servers()
    with out.open("w", encoding="utf-8") as file:
        for name in names or servers:
            found = anyio.run(lines, name, servers[name])
            click.echo(f"{name}: {number_of(len(found), 'tool')}", err=True)
            file.writelines(f"{line}\n" for line in found)


if __name__ == "__main__":
    main()
