"""Rendering of the templates in this folder, with filters that escape the text of a target in each format."""

from __future__ import annotations

import json
import re
from functools import cache
from importlib.resources import files
from typing import Any, Final

from jinja2 import Environment, FunctionLoader, StrictUndefined, select_autoescape
from markupsafe import Markup

from tools_search_conformance.wire.display import number_of, plain

_MARKS: Final = {
    "pass": "✓",
    "fail": "✗",
    "warn": "!",
    "advice": "~",
    "unverified": "?",
    "skip": "–",  # noqa: RUF001
    "error": "‼",
}
"""Each status in one character."""

_WORDS: Final = {
    "pass": "passed",
    "fail": "failed",
    "warn": "not followed",
    "advice": "not taken",
    "unverified": "could not be verified",
    "skip": "not applicable",
    "error": "ended by a fault of the suite",
}
_LONGEST_CELL: Final = 300


def markdown(text: str, most: int = _LONGEST_CELL) -> str:
    """Return a target's text with every character escaped that may have a meaning in Markdown."""
    return re.sub(r"([\\`*_{}\[\]<>#|~!&@:])", r"\\\1", plain(text, most=most))


def _prose(text: str) -> Markup:
    """Return a sentence of the suite as HTML, with the text between backticks as code."""
    parts = text.split("`")
    return Markup().join(Markup("<code>{}</code>").format(part) if i % 2 else part for i, part in enumerate(parts))


def _pretty(value: Any) -> str:
    lines = json.dumps(value, ensure_ascii=False, indent=2).split("\n")
    return "\n".join(plain(line, most=4000) for line in lines)


@cache
def _environment() -> Environment:
    environment = Environment(
        loader=FunctionLoader(lambda name: (files(__package__ or "") / name).read_text(encoding="utf-8")),
        autoescape=select_autoescape(["html.jinja"], default_for_string=False),
        undefined=StrictUndefined,
        trim_blocks=True,
        lstrip_blocks=True,
    )
    filters: dict[str, Any] = {"number_of": number_of, "plain": plain, "pretty": _pretty, "prose": _prose}
    environment.filters.update(filters, markdown=markdown)
    return environment


def render(template: str, **facts: Any) -> str:
    """Return a report made from one of the templates; in HTML everything in `facts` is escaped."""
    return _environment().get_template(template).render(marks=_MARKS, words=_WORDS, **facts)
