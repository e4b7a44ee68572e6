"""A badge for a README: how many MUST checks passed. Never a grade, and green only where nothing is missing."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any, Final
from xml.sax.saxutils import escape

__all__ = ["badge_json", "badge_svg", "must_passed"]

_LABEL: Final = "tools/search"
_GREEN, _RED, _GREY = "#2e7d32", "#c62828", "#616161"
_LETTER: Final = 6.6
"""Width of a letter in pixels at the badge's size, on average."""


def badge_json(document: Mapping[str, Any]) -> dict[str, Any]:
    """Return the badge as an endpoint of shields has it."""
    message, colour = _badge(document)
    return {"schemaVersion": 1, "label": _LABEL, "message": message, "color": colour.removeprefix("#")}


def badge_svg(document: Mapping[str, Any]) -> str:
    """Return the badge as an SVG image that asks for nothing from elsewhere."""
    message, colour = _badge(document)
    left, right = (round(len(text) * _LETTER) + 12 for text in (_LABEL, message))
    return (
        f'<svg xmlns="http://www.w3.org/2000/svg" width="{left + right}" height="20" role="img"'
        f' aria-label="{escape(_LABEL)}: {escape(message)}">'
        f'<rect width="{left}" height="20" fill="#424242"/>'
        f'<rect x="{left}" width="{right}" height="20" fill="{colour}"/>'
        '<g fill="#fff" font-family="Verdana,DejaVu Sans,sans-serif" font-size="11" text-anchor="middle">'
        f'<text x="{left / 2}" y="14">{escape(_LABEL)}</text>'
        f'<text x="{left + right / 2}" y="14">{escape(message)}</text></g></svg>\n'
    )


def must_passed(document: Mapping[str, Any]) -> tuple[int, int]:
    """Return how many MUST checks passed in every cell in which they apply, and how many apply in any."""
    statuses: dict[str, set[str]] = {}
    for result in document["results"]:
        if result["level"] == "MUST" and result["status"] != "skip":
            statuses.setdefault(result["check"], set()).add(result["status"])
    return sum(found == {"pass"} for found in statuses.values()), len(statuses)


def _badge(document: Mapping[str, Any]) -> tuple[str, str]:
    passed, total = must_passed(document)
    status = document["verdict"]["exitStatus"]
    if status == 1:
        colour = _RED
    else:
        colour = _GREEN if status == 0 and passed == total and not document["verdict"]["partial"] else _GREY
    return f"{passed}/{total} MUST", colour
