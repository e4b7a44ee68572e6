"""The run as JUnit XML: a suite for each cell, a case for each check."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

from junitparser import Error, Failure, JUnitXml, Skipped, TestCase, TestSuite

from tools_search_conformance.report.plain import plain

__all__ = ["junit"]


def junit(document: Mapping[str, Any]) -> str:
    """Return the text of `junit.xml`.

    What JUnit has no word for is told by the nearest one: a recommendation that is not followed is skipped, and so are
    advice that is not taken and what could not be verified, unless it counts against the target.
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
        tree.add_testsuite(_missing(entry))
    tree.update_statistics()
    return str(tree.tostring(), "utf-8")  # pyright: ignore[reportUnknownArgumentType, reportUnknownMemberType] - untyped


def _case(result: Mapping[str, Any], document: Mapping[str, Any]) -> TestCase:
    case = TestCase(name=result["check"], classname=result["cell"], time=round(result["milliseconds"] / 1000, 4))
    status, message = result["status"], plain(result.get("message", ""))
    binding = result["level"] == "MUST" or (result["level"] == "SHOULD" and document["verdict"]["strict"])
    if "expected" in result:
        case.result = [Skipped(f"expected: {plain(result['expected'])}: {message}", type_="expected")]
    elif (
        status == "fail"
        or (status == "unverified" and binding and document["profile"] == "fixture")
        or (status == "warn" and binding)
    ):
        case.result = [_failure(message, status, result.get("replay"))]
    elif status == "error":
        case.result = [Error(message, type_=status)]
    elif status in {"warn", "advice", "unverified", "skip"}:
        case.result = [Skipped(f"{status}: {message}", type_=status)]
    return case


def _failure(message: str, status: str, replay: str | None) -> Failure:
    failure = Failure(message, type_=status)
    if replay is not None:
        failure.text = plain(replay)
    return failure


def _missing(entry: Mapping[str, Any]) -> TestSuite:
    suite = TestSuite(name=entry["cell"])
    case = TestCase(name="cell", classname=entry["cell"])
    reason = plain(entry["reason"])
    case.result = [Error(reason, type_="missing") if entry["expected"] else Skipped(reason, type_="not offered")]
    suite.add_testcase(case)
    return suite
