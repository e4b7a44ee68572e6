"""Step: tools that were found are called, and what they did is looked at without asking the server."""

from __future__ import annotations

import zipfile
from collections.abc import Callable
from dataclasses import dataclass
from typing import Any

from mcp_types import TextContent

from tools_search_client.demo.stage import Stage
from tools_search_client.demo.step import Shown, StepFailed
from tools_search_client.demo.workspace import Workspace, git
from tools_search_client.text import shorten

__all__ = ["call", "queries"]

_BRANCH = "prices"


@dataclass(frozen=True, slots=True)
class _Errand:
    """Something to get done: how it is asked for, the tool that does it, and how to see that it was done."""

    query: str
    tool: str
    arguments: Callable[[Workspace], dict[str, Any]]
    effect: Callable[[Workspace], str | None]
    """What is there now; `None` where nothing is."""


def _branch_arguments(workspace: Workspace) -> dict[str, Any]:
    return {"repo_path": str(workspace.repository), "branch_name": _BRANCH}


def _branch_effect(workspace: Workspace) -> str | None:
    listed = git(workspace.repository, "branch", "--list", _BRANCH)
    return f"git branch --list: {listed}" if listed else None


def _workbook_arguments(workspace: Workspace) -> dict[str, Any]:
    return {"path": str(workspace.workbook), "sheets": ["Budget"]}


def _workbook_effect(workspace: Workspace) -> str | None:
    if not zipfile.is_zipfile(workspace.workbook):
        return None
    with zipfile.ZipFile(workspace.workbook) as book:
        sheets = sum(name.startswith("xl/worksheets/") for name in book.namelist())
    return f"{workspace.workbook.name}: {workspace.workbook.stat().st_size} bytes, {sheets} sheet"


_BRANCHING = _Errand("create a new branch", "git__git_create_branch", _branch_arguments, _branch_effect)
_WORKBOOK = _Errand("create a new Excel workbook", "excel__create_workbook", _workbook_arguments, _workbook_effect)


def queries(workspace: Workspace) -> dict[str, str]:
    """Return the searches of the demo, each with the tool that is right for it; those of the errands are among them."""
    sheets = {"rename a worksheet": "excel__rename_sheet"}
    return {
        **({_BRANCHING.query: _BRANCHING.tool} if workspace.no_git is None else sheets),
        "current time in Tokyo": "time__get_current_time",
        _WORKBOOK.query: _WORKBOOK.tool,
    }


async def call(stage: Stage) -> Shown:
    """Call what the searches found, and show the effects."""
    errands = [errand for errand in (_BRANCHING, _WORKBOOK) if errand.query in stage.answers]
    if not errands:
        raise StepFailed("nothing was found that could be called")
    before = len(list(stage.meter.exchanges("tools/list")))
    done = [await _run(stage, errand) for errand in errands]
    listed = len(list(stage.meter.exchanges("tools/list"))) - before
    if listed:
        raise StepFailed("a tool that was found had to be listed before it could be called")
    lines = [
        line
        for one in done
        for line in (f"call  {one['tool']}", f"      said  {one['said']}", f"      seen  {one['seen']}")
    ]
    return Shown({"calls": done, "listRequests": listed}, [*lines, "no tools/list was sent for this"])


async def _run(stage: Stage, errand: _Errand) -> dict[str, Any]:
    found = [tool.name for tool in stage.answers[errand.query].tools]
    if found[:1] != [errand.tool]:
        raise StepFailed(f"{errand.query!r} did not find {errand.tool} first but {', '.join(found) or 'nothing'}")
    if errand.effect(stage.workspace) is not None:
        raise StepFailed(f"{errand.tool} has nothing left to do")
    result = await stage.gateway.call(errand.tool, errand.arguments(stage.workspace))
    said = " ".join(block.text for block in result.content if isinstance(block, TextContent))
    if result.is_error:
        raise StepFailed(f"{errand.tool} reports an error: {said}")
    seen = errand.effect(stage.workspace)
    if seen is None:
        raise StepFailed(f"{errand.tool} says that it is done, but nothing has changed")
    return {"tool": errand.tool, "said": shorten(said or "nothing", 60), "seen": seen}
