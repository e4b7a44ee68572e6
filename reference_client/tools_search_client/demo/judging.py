"""Step: the verdict of the conformance suite on the server that was just used."""

from __future__ import annotations

from typing import Any

from tools_search_client.demo.programs import SERVER, judged
from tools_search_client.demo.stage import Stage
from tools_search_client.demo.step import Shown, StepFailed

__all__ = ["judge"]


async def judge(stage: Stage) -> Shown:
    """Run the suite as a process and show its words."""
    report = await judged(SERVER, stage.progress)
    verdict: dict[str, Any] = report["verdict"]
    cells: list[dict[str, Any]] = report["cells"]
    shown = Shown(
        {"exitStatus": verdict["exitStatus"], "verdict": verdict["text"], "cells": cells},
        ["tools-search-conformance server -- tools-search-server", *_cell_lines(cells), str(verdict["text"])],
    )
    if verdict["exitStatus"]:
        raise StepFailed(str(verdict["text"]))
    return shown


def _cell_lines(cells: list[dict[str, Any]]) -> list[str]:
    return [f"{cell['name']:<24} {_counts(cell['counts'])}" for cell in cells]


def _counts(levels: dict[str, dict[str, int]]) -> str:
    parts = [
        f"{level}: " + ", ".join(f"{count} {status}" for status, count in counts.items() if count)
        for level, counts in levels.items()
    ]
    return "   ".join(parts)
