"""No server is found wanting for doing what the draft permits."""

from __future__ import annotations

from collections.abc import Callable
from pathlib import Path
from typing import Final

import anyio
import pytest
from tools_search_conformance import catalogs
from tools_search_conformance.invocation import Options, judge_servers
from tools_search_conformance.report.verdict import exit_status

pytestmark = pytest.mark.anyio

Command = Callable[..., tuple[str, ...]]

VARIANTS: Final = (
    "all-terms-wanted",
    "everything-matches",
    "fewer-than-asked-for",
    "first-page-empty",
    "one-tool-a-page",
    "strict",
    "talkative",
    "without-legacy-output-schemas",
)


@pytest.mark.parametrize("variant", VARIANTS)
async def test_a_server_that_uses_its_freedom_is_green(variant: str, target: Command, options: Callable[..., Options]):
    with anyio.fail_after(120):
        run = await judge_servers(options(argv=target("miniature", "--variant", variant)), lambda _: None)
    assert [(r.check, r.cell.name, r.message) for r in run.of("fail", "warn", "unverified", "error")] == []
    assert [cell.name for cell in run.cells] == ["stdio-2026-07-28", "stdio-2025-11-25"]
    assert exit_status(run) == 0


@pytest.mark.parametrize("catalog", ["single", "empty"])
@pytest.mark.parametrize("variant", VARIANTS)
async def test_neither_is_one_with_next_to_no_tools(
    variant: str, catalog: str, target: Command, options: Callable[..., Options], tmp_path: Path
):
    variable = {"TOOLS_SEARCH_CATALOG": str(catalogs.write(catalog, tmp_path))}
    chosen = options(argv=target("miniature", "--variant", variant), profile="live", env=variable)
    with anyio.fail_after(60):
        run = await judge_servers(chosen, lambda _: None)
    assert [(r.check, r.cell.name, r.message) for r in run.of("fail", "warn", "unverified", "error")] == []
    assert exit_status(run) == 0


async def test_an_empty_cursor_of_a_single_tool_is_told_once(
    target: Command, options: Callable[..., Options], tmp_path: Path
):
    variable = {"TOOLS_SEARCH_CATALOG": str(catalogs.write("single", tmp_path))}
    chosen = options(argv=target("miniature", "--fault", "last-cursor-empty"), profile="live", env=variable)
    with anyio.fail_after(60):
        run = await judge_servers(chosen, lambda _: None)
    assert {r.check for r in run.of("fail", "warn", "unverified", "error")} == {"tools-search-server-cursor-nonempty"}
