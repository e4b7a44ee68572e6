"""The server in plain JavaScript, judged by the suite, and what no run of the suite shows of it."""

from __future__ import annotations

import json
import os
import shutil
import subprocess
import sys
from pathlib import Path
from typing import Any

import pytest

pytestmark = pytest.mark.skipif(shutil.which("node") is None, reason="Node.js is not installed")

PROGRAM = str(Path(__file__).parents[1] / "plain_server.mjs")
IDENTIFIER = "io.github.tools-search/tools-search"
META: dict[str, Any] = {
    "io.modelcontextprotocol/protocolVersion": "2026-07-28",
    "io.modelcontextprotocol/clientCapabilities": {"extensions": {IDENTIFIER: {}}},
}
RUN_SECONDS = 300
ANSWER_SECONDS = 60


@pytest.fixture
def catalog(tmp_path: Path) -> Path:
    tools = [{"name": f"send_{kind}", "inputSchema": {"type": "object"}} for kind in ("invoice", "letter", "parcel")]
    file = tmp_path / "catalog.json"
    file.write_text(json.dumps({"tools": tools}), encoding="utf-8")
    return file


def _answers(catalog: Path, *searches: dict[str, Any], key: str = "") -> list[dict[str, Any]]:
    """Send all searches at once to a server of their own, and return the answers in the order of the searches."""
    lines = [
        json.dumps({"jsonrpc": "2.0", "id": number, "method": "tools/search", "params": {"_meta": META, **params}})
        for number, params in enumerate(searches)
    ]
    done = subprocess.run(
        ["node", PROGRAM],
        env=os.environ | {"TOOLS_SEARCH_CATALOG": str(catalog), "TOOLS_SEARCH_CURSOR_KEY": key},
        input="\n".join([*lines, ""]),
        capture_output=True,
        encoding="utf-8",
        timeout=ANSWER_SECONDS,
        check=True,
    )
    assert done.stderr == ""
    answers: list[dict[str, Any]] = [json.loads(line) for line in done.stdout.splitlines()]
    assert sorted(answer["id"] for answer in answers) == list(range(len(searches)))
    return sorted(answers, key=lambda answer: answer["id"])


@pytest.mark.rotating
def test_the_suite_finds_nothing_wrong_on_either_transport_in_either_era(tmp_path: Path) -> None:
    judge = [sys.executable, "-m", "tools_search_conformance", "server", "--json", "--strict", "--effort", "quick"]
    options = ["--fixture-features", "delay,callers,replicas", "--seed", "1", "--out", str(tmp_path)]
    done = subprocess.run(
        [*judge, *options, "--http-command", f"node '{PROGRAM}' --http 127.0.0.1:0", "--", "node", PROGRAM],
        capture_output=True,
        text=True,
        timeout=RUN_SECONDS,
        check=False,
    )
    assert done.returncode == 0, done.stdout[-4000:] + done.stderr
    results: list[dict[str, Any]] = json.loads(done.stdout)["results"]
    assert len({json.dumps(result["cell"]) for result in results if result["status"] == "pass"}) == 4
    assert {result["status"] for result in results} == {"pass", "skip"}


def test_searches_beyond_the_bound_are_answered_as_too_busy_and_the_others_are_served(catalog: Path) -> None:
    answers = _answers(catalog, *[{"query": "invoice"}] * 500)
    served = [answer["result"] for answer in answers if "result" in answer]
    refused = [answer["error"] for answer in answers if "error" in answer]
    assert {tool["name"] for result in served for tool in result["tools"]} == {"send_invoice"}
    assert {error["code"] for error in refused} == {-32603}
    assert all(error["data"]["retryAfterMs"] > 0 for error in refused)


def test_a_replica_with_the_same_key_honors_a_cursor_and_a_server_with_another_key_refuses_it(catalog: Path) -> None:
    first = {"query": "send", "limit": 1}
    (page,) = _answers(catalog, first, key="shared")
    following = {**first, "cursor": page["result"]["nextCursor"]}
    (same,) = _answers(catalog, following, key="shared")
    (other,) = _answers(catalog, following, key="another")
    assert [tool["name"] for tool in same["result"]["tools"]] == ["send_letter"]
    assert (other["error"]["code"], other["error"]["data"]["field"]) == (-32602, "cursor")


def test_queries_that_differ_in_an_unpaired_surrogate_alone_do_not_share_cursors(catalog: Path) -> None:
    (page,) = _answers(catalog, {"query": "send \ud800", "limit": 1}, key="shared")
    (other,) = _answers(catalog, {"query": "send \ud801", "cursor": page["result"]["nextCursor"]}, key="shared")
    assert other["error"]["data"]["field"] == "cursor"


def test_of_names_that_differ_in_white_space_alone_the_one_that_the_query_is_comes_first(tmp_path: Path) -> None:
    names = [" draft", "draft ", "draft"]
    file = tmp_path / "catalog.json"
    tools = [{"name": name, "inputSchema": {"type": "object"}} for name in names]
    file.write_text(json.dumps({"tools": tools}), encoding="utf-8")
    answers = _answers(file, *({"query": query} for query in (*names, "  draft  ")))
    assert [answer["result"]["tools"][0]["name"] for answer in answers] == [*names, "draft"]
