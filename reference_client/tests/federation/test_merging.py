"""One answer out of many: names, duplicates and order."""

from __future__ import annotations

from collections.abc import Sequence

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from mcp_ext_tools_search.ranking import Ranker, SimpleRanker
from mcp_ext_tools_search.types import HitMetadata
from mcp_types import Tool
from tools_search_client.federation import merging
from tools_search_client.federation.merging import RememberingRanker, merge, named_among_servers, tools_index
from tools_search_client.found import Found, FoundTool
from tools_search_hosts import HttpTarget, ServerEntry, StdioTarget
from tools_search_ranking import FieldedRanker
from tools_search_ranking.ranker import FieldedIndex


def entry(name: str, *arguments: str) -> ServerEntry:
    return ServerEntry(name, StdioTarget("program", arguments))


def found(*names: str) -> Found:
    tools = [
        Tool(name=name, description=f"To {name.replace('_', ' ')}", input_schema={"type": "object"}) for name in names
    ]
    return Found(tuple(FoundTool(tool.name, "", tool, HitMetadata(score=1.0)) for tool in tools), "search")


def merged(*answers: tuple[ServerEntry, Found], query: str = "read mail", limit: int = 10) -> list[str]:
    targets = [server.target for server, _ in answers]
    named = [(targets.index(server.target), named_among_servers(server.name, own).tools) for server, own in answers]
    return [tool.name for tool in merge(query, named, limit=limit, index=tools_index(FieldedRanker()))]


def test_one_servers_order_is_left_as_it_is():
    assert merged((entry("a"), found("write_mail", "read_mail"))) == ["a__write_mail", "a__read_mail"]


def test_the_tool_that_fits_comes_first_whichever_server_has_it():
    answers = [(entry(f"s{n}", str(n)), found(f"bake_cake_{n}")) for n in range(20)]
    answers.insert(7, (entry("post", "post"), found("read_mail", "send_mail")))
    assert merged(*answers)[0] == "post__read_mail"


def test_a_tool_that_the_query_names_comes_first_whatever_the_servers_think():
    ranked = [(entry(f"s{n}", str(n)), found("mail", f"mail_{n}", "zip")) for n in range(3)]
    assert merged(*ranked, (entry("x", "x"), found("mail_mail", "mail_it", "zap")), query="zap", limit=1) == ["x__zap"]
    assert merged(*ranked, query="s1__zip", limit=1) == ["s1__zip"]


def test_a_tool_that_only_its_own_server_understands_is_not_lost():
    assert "x__frobnicate" in merged((entry("x", "1"), found("frobnicate")), (entry("y", "2"), found("read_mail")))


def test_the_same_server_configured_twice_offers_each_tool_once():
    assert merged((entry("a"), found("read_mail")), (entry("b"), found("read_mail"))) == ["a__read_mail"]


def test_a_server_that_is_configured_twice_has_one_say():
    aloud, post = (entry("aloud", "1"), found("read_mail_aloud")), (entry("a"), found("post_mail"))
    alone = merged(aloud, post, query="read mail aloud")
    assert alone == ["aloud__read_mail_aloud", "a__post_mail"]
    assert merged(aloud, post, (entry("b"), found("post_mail")), query="read mail aloud") == alone


def test_servers_that_differ_in_their_keys_alone_are_two():
    keys = (ServerEntry(name, HttpTarget("https://host/mcp", {"Authorization": name})) for name in ("mine", "yours"))
    assert sorted(merged(*((key, found("read_mail")) for key in keys))) == ["mine__read_mail", "yours__read_mail"]


def test_equal_definitions_of_different_servers_are_different_tools():
    names = merged((entry("first", "1.db"), found("query")), (entry("second", "2.db"), found("query")))
    assert sorted(names) == ["first__query", "second__query"]


def test_the_limit_holds():
    assert len(merged((entry("a"), found("x", "y", "z")), (entry("b", "b"), found("u", "v")), limit=4)) == 4


def test_a_lying_score_moves_nothing():
    humble, boastful = found("read_mail"), found("spam")
    boastful = Found((FoundTool("x", "", boastful.tools[0].tool, HitMetadata(score=1.0)),), "search")
    humble = Found((FoundTool("x", "", humble.tools[0].tool, HitMetadata(score=0.01)),), "search")
    assert merged((entry("b", "b"), boastful), (entry("a"), humble))[0] == "a__read_mail"


def test_nothing_found_is_an_empty_answer():
    assert merged((entry("a"), found()), (entry("b", "b"), found())) == []
    assert merged() == []


_WORDS = ("read", "mail", "send", "chart", "weather", "forecast", "mailbox")
_catalogs = st.dictionaries(st.sampled_from("abcdefgh"), st.lists(st.sampled_from(_WORDS), max_size=5), max_size=6)


def tools(catalog: dict[str, list[str]]) -> list[Tool]:
    return [
        Tool(name=name, description=" ".join(words), input_schema={"type": "object"}) for name, words in catalog.items()
    ]


@pytest.mark.parametrize("ranker", [FieldedRanker(), SimpleRanker()])
@settings(deadline=None, max_examples=40)
@given(catalogs=st.lists(_catalogs, max_size=6), most_kept=st.sampled_from([4, 100]))
def test_it_answers_as_if_it_had_seen_nothing_before(
    ranker: Ranker, catalogs: list[dict[str, list[str]]], most_kept: int
):
    remembering = RememberingRanker(ranker)
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(merging, "_MAX_REMEMBERED", most_kept)
        for catalog in map(tools, catalogs):
            for query in ("mail", "read the forecast", "wether"):
                fresh = ranker(catalog)
                assert list(remembering(catalog).search(query)) == list(fresh.search(query))
                assert list(remembering(catalog).search(query, visible=["a", "x"])) == list(
                    fresh.search(query, visible={"a", "x"} & {tool.name for tool in catalog})
                )


def test_what_it_has_seen_is_not_read_again(monkeypatch: pytest.MonkeyPatch):
    monkeypatch.setattr(merging, "_MAX_REMEMBERED", 5)
    read: list[int] = []

    def counting(catalog: Sequence[Tool]) -> FieldedIndex:
        read.append(len(catalog))
        return FieldedRanker()(catalog)

    remembering = RememberingRanker(counting)
    for catalog in ({"a": ["read"], "b": ["mail"]}, {"b": ["mail"], "c": ["chart"]}, {"a": ["read"]}):
        remembering(tools(catalog))
    assert read == [2]
    remembering(tools({name: ["send"] for name in "defgh"}))
    assert read == [2, 5], "with more than it keeps it begins anew"
