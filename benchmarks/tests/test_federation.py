from __future__ import annotations

import json
from pathlib import Path
from typing import Any

import pytest
from click.testing import CliRunner
from tools_search_ranking import FieldedRanker

from benchmarks.federation import ONE_INDEX, ORDERS, SHIPPED, Servers, main


@pytest.fixture
def directory(tmp_path: Path) -> Path:
    tools: list[dict[str, Any]] = [
        {"id": f"{server}::{verb}", "server": server, "name": f"{verb}_{thing}", "description": f"To {verb} {thing}."}
        for server, thing in (("post", "mail"), ("bakery", "cake"), ("garage", "cars"))
        for verb in ("read", "send", "count")
    ]
    queries = [{"id": "1", "query": "read my mail", "relevant": ["post::read"], "split": "dev"}]
    for name, lines in (("tools", tools), ("queries", queries)):
        (tmp_path / f"{name}.jsonl").write_text("".join(json.dumps(line) + "\n" for line in lines), encoding="utf-8")
    return tmp_path


def found(servers: Servers, query: str, *known: str) -> dict[str, list[str]]:
    answers = servers.search(query, limit=2, known=known)
    return {entry.name: [hit.tool.name for hit in answer.tools] for entry, answer in answers}


def test_each_server_answers_of_its_own_tools_by_their_own_names(directory: Path):
    servers = Servers(directory, own_ranker=FieldedRanker(), ranker=FieldedRanker())
    assert found(servers, "read") == {"post": ["read_mail"], "bakery": ["read_cake"], "garage": ["read_cars"]}


def test_an_informed_server_puts_what_is_right_first(directory: Path):
    servers = Servers(directory, own_ranker=FieldedRanker(), ranker=FieldedRanker())
    assert found(servers, "read or send: read mail")["post"] == ["read_mail", "send_mail"]
    assert found(servers, "read or send: read mail", "post::send")["post"] == ["send_mail", "read_mail"]


def test_the_command_compares_all_orders(directory: Path, tmp_path: Path):
    report = tmp_path / "federation.json"
    outcome = CliRunner().invoke(main, ["--data", str(directory), "--server-ranker", "simple", "--json", str(report)])
    assert outcome.exit_code == 0, outcome.output
    orders = {row["order"]: row for row in json.loads(report.read_text())["orders"]}
    assert list(orders) == [*ORDERS, ONE_INDEX]
    assert orders[SHIPPED]["ndcg_at_10"] == orders[ONE_INDEX]["ndcg_at_10"] == 1.0
    assert f"| {SHIPPED} | 1.000 |" in outcome.output
