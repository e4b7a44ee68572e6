"""A run in the formats of CI systems, READMEs and the official suite: JUnit XML, step outputs, badge, `checks.json`."""

from __future__ import annotations

from collections.abc import Mapping
from itertools import product
from pathlib import Path
from typing import Any, Final
from xml.etree import ElementTree

from junitparser import Error, Failure, JUnitXml, Skipped, TestCase, TestSuite

from tools_search_conformance.model import SEVERITY, Level, Run, Status, grouped
from tools_search_conformance.report.explain import sep_check
from tools_search_conformance.report.render import render
from tools_search_conformance.report.terminal import answer_line, json_line, without_routine
from tools_search_conformance.report.verdict import counts_against
from tools_search_conformance.run.rows import is_base, place_of, rows_of
from tools_search_conformance.wire.display import plain

_OFFICIAL: Final[Mapping[Status, str]] = {
    "pass": "SUCCESS",
    "fail": "FAILURE",
    "warn": "WARNING",
    "advice": "INFO",
    "skip": "SKIPPED",
    "error": "FAILURE",
}
_OFFICIAL_UNVERIFIED: Final[Mapping[Level, str]] = {"MUST": "FAILURE", "SHOULD": "WARNING", "ADVICE": "INFO"}
_LABEL: Final = "tools/search"
_GREEN, _BLUE, _RED, _GREY = "#2e7d32", "#1565c0", "#c62828", "#616161"
_LETTER_PIXELS: Final = 6.6
"""Average width of a letter at the badge's size."""


def junit(run: Run, document: Mapping[str, Any]) -> str:
    """Return the text of `junit.xml` for a run and its `report.json`: a suite for each cell, a case for each check.

    Statuses that JUnit lacks become the nearest one: recommendations and advice that are not followed, and rules that
    could not be verified, are skipped unless they count against the target. Checks of the base protocol, which do not
    count, are in separate suites, in which nothing fails.
    """
    tree = JUnitXml(name="tools-search-conformance")
    against = {(result.check, result.cell.name) for result in run.results if counts_against(run, result)}
    for cell, base in product(document["cells"], (False, True)):
        results = [each for each in document["results"] if (each["cell"], each["base"]) == (cell["name"], base)]
        if base and not results:
            continue
        suite = TestSuite(name=f"{cell['name']} base protocol" if base else cell["name"])
        suite.timestamp = document["started"]
        for name, value in _properties(document).items():
            suite.add_property(name, value)
        suite.add_testcases([_case(result, document, (result["check"], cell["name"]) in against) for result in results])
        tree.add_testsuite(suite)
    for entry in document["unavailable"]:
        suite, case = TestSuite(name=entry["cell"]), TestCase(name="cell", classname=entry["cell"])
        reason = plain(entry["reason"])
        case.result = [Error(reason, type_="missing") if entry["expected"] else Skipped(reason, type_="not offered")]
        suite.add_testcase(case)
        tree.add_testsuite(suite)
    tree.update_statistics()
    text = tree.tostring()  # pyright: ignore[reportUnknownVariableType, reportUnknownMemberType] - untyped
    root = ElementTree.fromstring(text)  # noqa: S314 # pyright: ignore[reportUnknownArgumentType] - our own
    root.attrib.pop("skipped", None)  # some schemas, such as the one of Jenkins, do not allow it there
    return str(ElementTree.tostring(root, "utf-8", xml_declaration=True), "utf-8")


def _properties(document: Mapping[str, Any]) -> dict[str, str]:
    verdict, binding = document["verdict"], document["verdict"]["binding"]
    values = {
        "verdict": verdict["sentence"],
        "word": verdict["word"],
        "profile": verdict["profile"],
        "transports": " ".join(verdict["transports"]),
        "eras": " ".join(verdict["eras"]),
        "left-out": "; ".join(f"{entry['cell']}: {entry['reason']}" for entry in verdict["leftOut"]),
        "must-shown": str(binding["shown"]),
        "must-failed": str(binding["failed"]),
        "must-not-shown": str(binding["notShown"]),
        "base-failed": str(verdict["baseFailed"]),
        "next": " ".join(verdict["next"]),
        "seed": str(document["seed"]),
    }
    return {name: plain(value) for name, value in values.items()}


def _case(result: Mapping[str, Any], document: Mapping[str, Any], counts: bool) -> TestCase:
    case = TestCase(name=result["check"], classname=result["cell"], time=round(result["milliseconds"] / 1000, 4))
    status, message = result["status"], plain(result.get("message", ""))
    if result["base"] and not document["verdict"]["baseDecides"] and status in {"fail", "warn", "unverified"}:
        case.result = [Skipped(f"base protocol, does not count: {status}: {message}", type_="base-protocol")]
    elif "expected" in result:
        case.result = [Skipped(f"expected: {plain(result['expected'])}: {message}", type_="expected")]
    elif counts:
        cause = f" (probably because of {result['consequenceOf']})" if "consequenceOf" in result else ""
        failure = Failure(f"{message}{cause}", type_=status)
        failure.text = _account(result, document)
        case.result = [failure]
    elif status == "error":
        case.result = [Error(message, type_=status)]
    elif status in {"warn", "advice", "unverified", "skip"}:
        case.result = [Skipped(f"{status}: {message}", type_=status)]
    return case


def _account(result: Mapping[str, Any], document: Mapping[str, Any]) -> str:
    """Return the broken sentence and its place, the exchange that shows it, and the command that repeats it."""
    (check,) = (each for each in document["checks"] if each["id"] == result["check"])
    lines = [line for row in check["requirements"] for line in (f'"{row["text"]}"', f"{row['place']} ({row['id']})")]
    if (exchange := result.get("exchange")) is not None:
        lines.append(f"sent     {json_line(without_routine(exchange['sent']))}")
        lines.append(f"answer   {answer_line(exchange['answer'])}")
        lines.append(f"wire log {exchange['cell']}.jsonl, exchange {exchange['number']}")
    if (replay := result.get("replay")) is not None:
        lines.append(f"replay   {plain(replay)}")
    return "\n".join(lines)


def badge_json(document: Mapping[str, Any]) -> dict[str, Any]:
    """Return the badge in the format of a shields endpoint."""
    message, color = _badge(document)
    return {"schemaVersion": 1, "label": _LABEL, "message": message, "color": color.removeprefix("#")}


def badge_svg(document: Mapping[str, Any]) -> str:
    """Return the badge as a self-contained SVG image whose title is the whole verdict."""
    message, color = _badge(document)
    left, right = (round(len(text) * _LETTER_PIXELS) + 12 for text in (_LABEL, message))
    title = plain(document["verdict"]["sentence"])
    shown = {"label": _LABEL, "message": message, "title": title, "color": color, "left": left, "right": right}
    return render("badge.svg.jinja", **shown) + "\n"


def _badge(document: Mapping[str, Any]) -> tuple[str, str]:
    """Return the number of MUST checks shown, never a grade, and a color.

    Green means that every check was chosen and verified, and nothing failed; blue means the same for a run with the
    target's own tools.
    """
    verdict, binding = document["verdict"], document["verdict"]["binding"]
    match verdict["eras"]:
        case []:
            covered = "nothing run"
        case [era]:
            covered = f"{era} only"
        case _:
            covered = "both eras"
    how = [verdict["profile"]] if "servers" in document["target"] else []  # clients have only one profile
    transports = ["+".join(verdict["transports"])] if verdict["transports"] else []
    message = ", ".join([f"{binding['shown']}/{binding['total']} MUST", *how, *transports, covered])
    if verdict["exitStatus"] == 1:
        return message, _RED
    unverified = any("unverified" in cell["counts"]["MUST"] for cell in document["cells"])
    if unverified or not verdict["word"].startswith("CONFORMANT"):
        return message, _GREY
    return message, _BLUE if verdict["profile"] == "live" else _GREEN


def outputs(document: Mapping[str, Any], path: Path) -> str:
    """Return `NAME=VALUE` lines for later steps of a CI job, about the report `document` at `path`.

    No value contains a line break, even if it comes from a target or a path, so none can forge another output.
    """
    values = _properties(document) | {"exit-status": str(document["verdict"]["exitStatus"]), "report": str(path)}
    return "".join(f"{name}={plain(value)}\n" for name, value in values.items())


def official_checks(run: Run, *, sep: int | None = None) -> list[dict[str, Any]]:
    """Return the run as the official suite's `checks.json`: each check once, with its worst result in any cell."""
    entries: list[dict[str, Any]] = []
    for check, results in grouped((result.check, result) for result in run.results).items():
        worst = min(results, key=lambda result: SEVERITY.index(result.status))
        rows, unverified = rows_of(check), worst.status == "unverified"
        status = _OFFICIAL_UNVERIFIED[worst.level] if unverified else _OFFICIAL[worst.status]
        base = is_base(check)
        if base and worst.status != "error" and status == "FAILURE":
            status = "WARNING"
        marks = {"baseProtocol": base, "untestable": unverified, "harnessError": worst.status == "error"}
        details = {"cells": {result.cell.name: result.status for result in results}}
        details |= {name: True for name, holds in marks.items() if holds}
        entry: dict[str, Any] = {
            "id": check if sep is None else sep_check(sep, check),
            "name": check,
            "description": rows[0].text if rows else check,
            "status": status,
            "timestamp": run.started,
            "specReferences": [{"id": row.id, "url": place_of(row)} for row in rows],
            "details": details,
        }
        if status in {"FAILURE", "WARNING"}:
            entry["errorMessage"] = f"Not testable: {worst.message}" if unverified else worst.message
        entries.append(entry)
    return entries
