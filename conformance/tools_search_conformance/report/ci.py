"""The run as CI systems and READMEs show it: JUnit XML, a badge, and the outputs of a job's step."""

from __future__ import annotations

from collections.abc import Mapping
from pathlib import Path
from typing import Any, Final
from xml.sax.saxutils import escape

from junitparser import Error, Failure, JUnitXml, Skipped, TestCase, TestSuite

from tools_search_conformance.wire.display import plain

_LABEL: Final = "tools/search"
_GREEN, _RED, _GREY = "#2e7d32", "#c62828", "#616161"
_LETTER_PIXELS: Final = 6.6
"""Width of a letter at the badge's size, on average."""


def junit(document: Mapping[str, Any]) -> str:
    """Return the text of `junit.xml`: a suite for each cell, a case for each check.

    A status that JUnit does not have becomes the nearest one: a recommendation that is not followed is skipped, and so
    are advice that is not taken and a rule that could not be verified, unless it counts against the target.
    """
    tree = JUnitXml(name="tools-search-conformance")
    for cell in document["cells"]:
        suite = TestSuite(name=cell["name"])
        suite.timestamp = document["started"]
        suite.add_property("verdict", plain(document["verdict"]["text"]))
        suite.add_property("seed", str(document["seed"]))
        for result in document["results"]:
            if result["cell"] == cell["name"]:
                suite.add_testcase(_case(result, document))
        tree.add_testsuite(suite)
    for entry in document["unavailable"]:
        suite, case = TestSuite(name=entry["cell"]), TestCase(name="cell", classname=entry["cell"])
        reason = plain(entry["reason"])
        case.result = [Error(reason, type_="missing") if entry["expected"] else Skipped(reason, type_="not offered")]
        suite.add_testcase(case)
        tree.add_testsuite(suite)
    tree.update_statistics()
    return str(tree.tostring(), "utf-8")  # pyright: ignore[reportUnknownArgumentType, reportUnknownMemberType] - untyped


def _case(result: Mapping[str, Any], document: Mapping[str, Any]) -> TestCase:
    case = TestCase(name=result["check"], classname=result["cell"], time=round(result["milliseconds"] / 1000, 4))
    status, message = result["status"], plain(result.get("message", ""))
    binding = result["level"] == "MUST" or (result["level"] == "SHOULD" and document["verdict"]["strict"])
    counts = binding and (status == "warn" or (status == "unverified" and document["profile"] == "fixture"))
    if "expected" in result:
        case.result = [Skipped(f"expected: {plain(result['expected'])}: {message}", type_="expected")]
    elif status == "fail" or counts:
        failure = Failure(message, type_=status)
        if (replay := result.get("replay")) is not None:
            failure.text = plain(replay)
        case.result = [failure]
    elif status == "error":
        case.result = [Error(message, type_=status)]
    elif status in {"warn", "advice", "unverified", "skip"}:
        case.result = [Skipped(f"{status}: {message}", type_=status)]
    return case


def badge_json(document: Mapping[str, Any]) -> dict[str, Any]:
    """Return the badge as an endpoint of shields has it."""
    message, color = _badge(document)
    return {"schemaVersion": 1, "label": _LABEL, "message": message, "color": color.removeprefix("#")}


def badge_svg(document: Mapping[str, Any]) -> str:
    """Return the badge as an SVG image that loads nothing from elsewhere."""
    message, color = _badge(document)
    left, right = (round(len(text) * _LETTER_PIXELS) + 12 for text in (_LABEL, message))
    return (
        f'<svg xmlns="http://www.w3.org/2000/svg" width="{left + right}" height="20" role="img"'
        f' aria-label="{escape(_LABEL)}: {escape(message)}">'
        f'<rect width="{left}" height="20" fill="#424242"/>'
        f'<rect x="{left}" width="{right}" height="20" fill="{color}"/>'
        '<g fill="#fff" font-family="Verdana,DejaVu Sans,sans-serif" font-size="11" text-anchor="middle">'
        f'<text x="{left / 2}" y="14">{escape(_LABEL)}</text>'
        f'<text x="{left + right / 2}" y="14">{escape(message)}</text></g></svg>\n'
    )


def _badge(document: Mapping[str, Any]) -> tuple[str, str]:
    """Return how many MUST checks passed, never a grade, and a color that is green only where nothing is missing."""
    passed, total = _must_passed(document)
    verdict = document["verdict"]
    if verdict["exitStatus"] == 1:
        color = _RED
    else:
        color = _GREEN if verdict["exitStatus"] == 0 and passed == total and not verdict["partial"] else _GREY
    return f"{passed}/{total} MUST", color


def outputs(document: Mapping[str, Any], path: Path) -> str:
    """Return lines `NAME=VALUE` for later steps of a CI job, about the `report.json` at `path`, which is `document`.

    No value has a line break, not even from a target or a path, so that none can pass for another output.
    """
    passed, total = _must_passed(document)
    values = {
        "verdict": document["verdict"]["text"],
        "must-passed": str(passed),
        "must-total": str(total),
        "report": str(path),
    }
    return "".join(f"{name}={plain(value)}\n" for name, value in values.items())


def _must_passed(document: Mapping[str, Any]) -> tuple[int, int]:
    """Return how many MUST checks passed in every cell in which they apply, and how many apply in any."""
    statuses: dict[str, set[str]] = {}
    for result in document["results"]:
        if result["level"] == "MUST" and result["status"] != "skip":
            statuses.setdefault(result["check"], set()).add(result["status"])
    return sum(found == {"pass"} for found in statuses.values()), len(statuses)
