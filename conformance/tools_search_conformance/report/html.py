"""The run as one offline page: the verdict first, then what is wrong, then every check in every cell."""

from __future__ import annotations

import json
from collections.abc import Mapping
from functools import cache
from importlib.resources import files
from typing import Any, Final

from jinja2 import Environment, FunctionLoader, StrictUndefined
from markupsafe import Markup

from tools_search_conformance.model import SEVERITY
from tools_search_conformance.report.plain import plain

__all__ = ["MARKS", "WORDS", "page", "render"]

_SHOWN: Final = ("error", "fail", "unverified", "warn")
MARKS: Final = {
    "pass": "✓",
    "fail": "✗",
    "warn": "!",
    "advice": "~",
    "unverified": "?",
    "skip": "–",  # noqa: RUF001
    "info": "i",
    "error": "‼",
}
WORDS: Final = {
    "pass": "passed",
    "fail": "failed",
    "warn": "not followed",
    "advice": "advice not taken",
    "unverified": "could not be verified",
    "skip": "not applicable",
    "info": "for information",
    "error": "ended by a fault of the suite",
}


def page(document: Mapping[str, Any]) -> str:
    """Return the text of `report.html`. It needs no script and asks for nothing from elsewhere."""
    results: dict[str, dict[str, Any]] = {}
    for result in document["results"]:
        results.setdefault(result["check"], {})[result["cell"]] = result
    checks = [{**check, **_verdict(results[check["id"]])} for check in document["checks"]]
    return render(
        "report.html.jinja",
        document=document,
        target=_target(document),
        good=document["verdict"]["exitStatus"] == 0,
        checks=checks,
        problems=sorted(filter(_is_wrong, checks), key=lambda check: SEVERITY.index(check["worst"])),
        advice=[check for check in checks if check["worst"] == "advice"],
    )


def render(template: str, **facts: Any) -> str:
    """Return a page made from one of the templates beside this module; everything in `facts` is escaped."""
    return _environment().get_template(template).render(marks=MARKS, words=WORDS, **facts)


def _is_wrong(check: Mapping[str, Any]) -> bool:
    return check["worst"] in _SHOWN and (check["level"] != "ADVICE" or check["worst"] == "error")


def _verdict(by_cell: Mapping[str, Any]) -> dict[str, Any]:
    """Return what came of one check: its results by cell, the worst status, and each message with its cells."""
    worst = min((result["status"] for result in by_cell.values()), key=SEVERITY.index)
    told: dict[str, list[str]] = {}
    for cell, result in by_cell.items():
        if result["status"] == worst:
            told.setdefault(result.get("message", ""), []).append(cell)
    first = next(result for result in by_cell.values() if result["status"] == worst)
    return {"results": by_cell, "worst": worst, "told": told, "first": first}


def _target(document: Mapping[str, Any]) -> str:
    targets = document["target"].get("servers") or document["target"]["clients"]
    return "; ".join(str(server.get("url") or " ".join(server["argv"])) for server in targets)


@cache
def _environment() -> Environment:
    environment = Environment(
        loader=FunctionLoader(lambda name: (files(__package__ or "") / name).read_text(encoding="utf-8")),
        autoescape=True,
        undefined=StrictUndefined,
        trim_blocks=True,
        lstrip_blocks=True,
    )
    environment.filters |= {"plain": plain, "pretty": _pretty, "prose": _prose}
    return environment


def _prose(text: str) -> Markup:
    """Return a sentence of ours with what stands between backticks as code."""
    parts = text.split("`")
    return Markup().join(Markup("<code>{}</code>").format(part) if i % 2 else part for i, part in enumerate(parts))


def _pretty(value: Any) -> str:
    text = json.dumps(value, ensure_ascii=False, indent=2)
    return "\n".join(plain(line, most=4000) for line in text.split("\n"))
