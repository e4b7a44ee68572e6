"""Step: tools that were found are called, and what they did is looked at without asking the server."""

from __future__ import annotations

import zipfile
from collections.abc import Callable
from dataclasses import dataclass
from typing import Any

from mcp_types import TextContent

from tools_search_client.demo.stage import Stage
from tools_search_client.demo.step import Shown, StepFailed
from tools_search_client.demo.workspace import Workspace, git, git_program
from tools_search_client.text import shorten

__all__ = ["call", "queries"]

_MESSAGE = "Add the prices"


@dataclass(frozen=True, slots=True)
class _Errand:
    """Something to get done: how it is asked for, the tool that does it, and how to see that it was done."""

    query: str
    tool: str
    arguments: Callable[[Workspace], dict[str, Any]]
    effect: Callable[[Workspace], str | None]
    """What is there now; `None` where nothing is."""


def _commit_arguments(workspace: Workspace) -> dict[str, Any]:
    return {"repo_path": str(workspace.repository), "message": _MESSAGE}


def _commit_effect(workspace: Workspace) -> str | None:
    subject = git(workspace.repository, "log", "-1", "--format=%h %s")
    return f"git log -1: {subject}" if subject.endswith(_MESSAGE) else None


def _workbook_arguments(workspace: Workspace) -> dict[str, Any]:
    return {"path": str(workspace.workbook), "sheets": ["Budget"]}


def _workbook_effect(workspace: Workspace) -> str | None:
    if not zipfile.is_zipfile(workspace.workbook):
        return None
    with zipfile.ZipFile(workspace.workbook) as book:
        sheets = sum(name.startswith("xl/worksheets/") for name in book.namelist())
    return f"{workspace.workbook.name}: {workspace.workbook.stat().st_size} bytes, {sheets} sheet"


_COMMIT = _Errand("commit the staged changes", "git__git_commit", _commit_arguments, _commit_effect)
_WORKBOOK = _Errand("create a new Excel workbook", "excel__create_workbook", _workbook_arguments, _workbook_effect)


def queries() -> tuple[str, ...]:
    """Return the three searches of the demo; the errands of the call are among them."""
    first = [_COMMIT.query] if git_program() else ["a list of the worksheets"]
    return (*first, "what time is it in Tokyo", _WORKBOOK.query)


async def call(stage: Stage) -> Shown:
    """Call what the searches found, and show the effects."""
    errands = [errand for errand in (_COMMIT, _WORKBOOK) if errand.query in stage.answers]
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
    if errand.tool not in found:
        raise StepFailed(f"{errand.query!r} did not find {errand.tool} but {', '.join(found)}")
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
