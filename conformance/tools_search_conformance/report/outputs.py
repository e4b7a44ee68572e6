"""What later steps of a CI job want to know, a line each: `NAME=VALUE`."""

from __future__ import annotations

from collections.abc import Mapping
from pathlib import Path
from typing import Any

from tools_search_conformance.report.badge import must_passed
from tools_search_conformance.report.plain import plain

__all__ = ["outputs"]


def outputs(document: Mapping[str, Any], path: Path) -> str:
    """Return the lines for the `report.json` at `path`, which holds `document`.

    No value has a line break, whatever a target or a path holds, so that none can pass for another output.
    """
    passed, total = must_passed(document)
    values = {
        "verdict": document["verdict"]["text"],
        "must-passed": str(passed),
        "must-total": str(total),
        "report": str(path),
    }
    return "".join(f"{name}={plain(value)}\n" for name, value in values.items())
