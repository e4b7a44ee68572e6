"""The files that a run leaves behind."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

from tools_search_conformance.model import Run
from tools_search_conformance.report.badge import badge_json, badge_svg
from tools_search_conformance.report.document import report
from tools_search_conformance.report.failures import write_failures
from tools_search_conformance.report.html import page
from tools_search_conformance.report.junit import junit
from tools_search_conformance.report.official import official_checks
from tools_search_conformance.report.summary import summary

__all__ = ["write_reports"]


def write_reports(run: Run, out: Path, *, sep: int | None = None) -> None:
    """Write every report into the folder `out`, in place of those of an earlier run.

    With `sep`, the number of a proposal, `checks.json` names checks as that proposal's traceability file does.
    """
    out.mkdir(parents=True, exist_ok=True)
    document = report(run, out)
    write_failures(run, out)
    _write_json(out / "report.json", document)
    _write_json(out / "checks.json", official_checks(run, sep=sep))
    _write_json(out / "badge.json", badge_json(document))
    for name, text in {
        "badge.svg": badge_svg(document),
        "junit.xml": junit(document),
        "report.html": page(document),
        "summary.md": summary(document),
    }.items():
        (out / name).write_text(text, encoding="utf-8")


def _write_json(path: Path, value: Any) -> None:
    # Escaped, because a target may have sent what UTF-8 or a viewer cannot take.
    path.write_text(json.dumps(value, indent=2, ensure_ascii=True) + "\n", encoding="utf-8")
