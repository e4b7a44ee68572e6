"""The server that is measured: `python -m benchmarks.endtoend.server CATALOG [--port N] [--relists]`.

It is the catalog server of this project, on the SDK's low-level `Server`, with two methods more: one that does
nothing, and one that returns its processor time. Both pass the transport, session, middleware and
serialization that a search passes. `ping` is no such request, since revision 2026-07-28 has none.
"""

from __future__ import annotations

from contextlib import nullcontext
from pathlib import Path
from time import process_time
from typing import Any, Final

import anyio
import click
from mcp.server import Server, ServerRequestContext
from mcp_ext_tools_search.server import ToolsSearch
from mcp_types import ListToolsResult, PaginatedRequestParams, RequestParams
from tools_search_server.base.limits import Limits
from tools_search_server.catalog.catalog_file import read_catalog
from tools_search_server.programs.catalog import CatalogChoice, catalog_program
from tools_search_server.programs.serving import Address, Program, serve

__all__ = ["NOTHING", "PROCESSOR_TIME"]

NOTHING: Final = "com.example/nothing"
PROCESSOR_TIME: Final = "com.example/processorTime"


@click.command()
@click.argument("file", type=click.Path(dir_okay=False, path_type=Path))
@click.option("--port", type=int, help="Serve HTTP here; stdio without it.")
@click.option("--relists", is_flag=True, help="Install the search with its defaults: each search lists first.")
def main(file: Path, port: int | None, relists: bool) -> None:
    """Serve the tools of a catalog file."""
    program = _relisting(file) if relists else catalog_program(CatalogChoice(file, fixture=False), Limits())
    program.server.add_request_handler(NOTHING, RequestParams, _nothing)
    program.server.add_request_handler(PROCESSOR_TIME, RequestParams, _processor_time)
    anyio.run(serve, program, None if port is None else Address("127.0.0.1", port))


def _relisting(file: Path) -> Program:
    """Return what one line makes of a server that has `tools/list`."""
    tools, size = read_catalog(file).tools, Limits().page_size

    async def list_tools(_ctx: ServerRequestContext[Any], params: PaginatedRequestParams | None) -> ListToolsResult:
        start = int(params.cursor) if params and params.cursor else 0
        end = start + size
        return ListToolsResult(tools=list(tools[start:end]), next_cursor=str(end) if end < len(tools) else None)

    server = Server[Any]("relisting", on_list_tools=list_tools)
    ToolsSearch().install(server)
    return Program(server, lifespan=nullcontext, on_stop=lambda: None)


async def _nothing(_ctx: ServerRequestContext[Any, Any], _params: RequestParams) -> dict[str, Any]:
    return {}


async def _processor_time(_ctx: ServerRequestContext[Any, Any], _params: RequestParams) -> dict[str, Any]:
    return {"seconds": process_time()}


if __name__ == "__main__":
    main()
