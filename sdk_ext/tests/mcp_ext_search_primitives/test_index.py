"""How items are ranked: by which of their members, and by what they say."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from copy import deepcopy
from typing import Any

import pytest
from hypothesis import example, given
from hypothesis import strategies as st
from mcp_ext_search_primitives import PROMPTS, RESOURCE_TEMPLATES, RESOURCES
from mcp_ext_search_primitives.index import PrimitiveIndex
from mcp_ext_tools_search.ranking import Hit, Ranker, SimpleRanker, ToolIndex
from mcp_ext_tools_search.ranking.floor import terms
from mcp_ext_tools_search.types import EXTENSION_ID, Primitive
from mcp_types import Tool
from tools_search_ranking import default_ranker

every_ranker = pytest.mark.parametrize("ranker", [SimpleRanker(), default_ranker()], ids=["readable", "engine"])


def index(
    primitive: Primitive[Any], items: list[dict[str, Any]], ranker: Ranker, texts: Mapping[str, str] | None = None
) -> PrimitiveIndex:
    return PrimitiveIndex(primitive, {item[primitive.key]: item for item in items}, ranker, texts)


GUIDES: list[dict[str, Any]] = [
    {"uri": "file:///guides/M%C3%BCnchen%20plan.md", "name": "plan"},
    {"uri": "file:///guides/kitchen.md", "name": "kitchen.md", "title": "Cooking", "description": "How to boil eggs."},
    {
        "uri": "file:///guides/garden.md",
        "name": "garden.md",
        "_meta": {EXTENSION_ID: {"group": "outdoors", "aliases": ["yard"]}},
    },
]


@every_ranker
@pytest.mark.parametrize(
    ("query", "uri", "matched"),
    [
        ("München", "file:///guides/M%C3%BCnchen%20plan.md", "name"),
        ("cooking", "file:///guides/kitchen.md", "title"),
        ("boil eggs", "file:///guides/kitchen.md", "description"),
        ("kitchen", "file:///guides/kitchen.md", "uri"),
        ("outdoors", "file:///guides/garden.md", "_meta"),
        ("yard", "file:///guides/garden.md", "_meta"),
        ("garden", "file:///guides/garden.md", "name"),
        ("tomatoes", "file:///guides/garden.md", "contents"),
    ],
)
def test_every_member_of_a_resource_is_searched(ranker: Ranker, query: str, uri: str, matched: str) -> None:
    texts = {"file:///guides/garden.md": "Tomatoes need sun. " * 2_000}
    best = index(RESOURCES, GUIDES, ranker, texts).search(query)[0]
    assert best.name == uri
    assert matched in best.matched


@every_ranker
def test_text_far_into_a_content_is_searched(ranker: Ranker) -> None:
    texts = {"file:///guides/kitchen.md": "word " * 12_000 + "saffron"}
    assert index(RESOURCES, GUIDES, ranker, texts).search("saffron")[0].name == "file:///guides/kitchen.md"


@every_ranker
def test_a_long_content_does_not_push_a_name_down(ranker: Ranker) -> None:
    texts = {
        "file:///guides/garden.md": "garden " + "soil and water and sun " * 3_000,
        "file:///guides/kitchen.md": "From garden to plate.",
    }
    assert index(RESOURCES, GUIDES, ranker, texts).search("garden")[0].name == "file:///guides/garden.md"


@every_ranker
def test_the_text_that_says_the_query_goes_before_a_name_that_is_akin_to_one_word_of_it(ranker: Ranker) -> None:
    texts = {
        "file:///guides/kitchen.md": "Delete old stock from the freezer before you buy more.",
        "file:///guides/removal.md": "How to move house.",
    }
    items = [*GUIDES, {"uri": "file:///guides/removal.md", "name": "remove.md"}]
    found = index(RESOURCES, items, ranker, texts).search("delete old stock of the freezer")
    assert found[0].name == "file:///guides/kitchen.md"
    assert found[0].matched == ("contents",)


@every_ranker
def test_name_and_content_that_say_parts_of_a_query_together_go_before_either(ranker: Ranker) -> None:
    items = [{"uri": f"n:{number}", "name": name} for number, name in enumerate(("invoices", "invoices", "letters"))]
    texts = {"n:0": "about paper", "n:1": "what a late fee is", "n:2": "what a late fee is"}
    assert index(RESOURCES, items, ranker, texts).search("late fee invoices")[0].name == "n:1"


@every_ranker
def test_contents_that_another_server_found_follow_the_best_content_found_here_in_their_order(ranker: Ranker) -> None:
    texts = {"file:///guides/garden.md": "Saffron needs sun."}
    claimed = {"other:second": 2, "other:first": 1}
    hits = index(RESOURCES, [*GUIDES, {"uri": "other:first", "name": "first"}], ranker, texts).search(
        "saffron", claimed=claimed
    )
    assert [hit.name for hit in hits] == ["file:///guides/garden.md", "other:first", "other:second"]
    assert {hit.matched for hit in hits} == {("contents",)}


_texts = st.lists(st.sampled_from(["the", "of", "plan", "getPlan", "München", "नमस्ते"]), max_size=3).map(" ".join)


@given(st.lists(st.tuples(_texts, _texts, _texts), min_size=1, max_size=3), _texts.map(lambda text: text or "-"))
@example([("the", "", "")], "the")
@example([("the", "", "of")], "the of")
@example([("", "", "The")], "the")
@example([("", "", "München the")], "the")
@example([("plan", "", "the"), ("", "", "plan the")], "plan the")
@example([("the of", "", ""), ("the", "", ""), ("", "", "of the")], "the of")
def test_a_resource_is_found_if_its_definition_and_content_together_have_every_term(
    resources: list[tuple[str, str, str]], query: str
) -> None:
    items = [{"uri": f"a:{n}", "name": name, "title": title} for n, (name, title, _) in enumerate(resources)]
    texts = {f"a:{n}": text for n, (_, _, text) in enumerate(resources) if text}
    hits = index(RESOURCES, items, SimpleRanker(), texts).search(query)
    wanted = {*terms(query)}
    whole = {item["uri"]: f"{item['name']} {item['title']} {texts.get(item['uri'], '')}" for item in items}
    assert {uri for uri, text in whole.items() if wanted and wanted <= {*terms(text)}} <= {hit.name for hit in hits}
    assert wanted or not hits
    assert [hit.score for hit in hits] == sorted((hit.score for hit in hits), reverse=True)
    assert all(0 < hit.score <= 1 and hit.matched for hit in hits)


@pytest.mark.parametrize(("query", "text"), [("is", "this thistle"), ("नमस", "नमस्ते")])
def test_a_resource_whose_content_has_a_term_only_as_part_of_a_word_is_not_found(query: str, text: str) -> None:
    assert not index(RESOURCES, [{"uri": "a:1", "name": "x"}], SimpleRanker(), {"a:1": text}).search(query)


@every_ranker
def test_a_template_is_found_by_its_variables(ranker: Ranker) -> None:
    templates = [
        {"uriTemplate": "repo://{owner}/{repository}/contents{/path*}", "name": "file"},
        {"uriTemplate": "weather://{city}/{+date}", "name": "forecast"},
    ]
    found = index(RESOURCE_TEMPLATES, templates, ranker)
    assert found.search("weather of a city")[0] == found.search("weather://{city}/{+date}")[0]._replace(
        matched=found.search("weather of a city")[0].matched
    )
    assert found.search("repository owner")[0].name.startswith("repo://")


@every_ranker
def test_a_prompt_is_found_by_its_arguments(ranker: Ranker) -> None:
    prompts = [
        {"name": "write", "arguments": [{"name": "recipient", "description": "Who gets the postcard"}]},
        {"name": "read", "arguments": None},
        {"name": "odd", "arguments": "not a list"},
    ]
    found = index(PROMPTS, prompts, ranker)
    assert [hit.name for hit in found.search("postcard")] == ["write"]
    assert found.search("postcard")[0].matched == ("arguments",)
    assert [hit.name for hit in found.search("odd")] == []  # no valid prompt


@every_ranker
def test_what_cannot_be_seen_changes_nothing(ranker: Ranker) -> None:
    texts = {item["uri"]: "sun and rain" for item in GUIDES}
    visible = {GUIDES[0]["uri"], GUIDES[1]["uri"]}
    part = index(RESOURCES, GUIDES[:2], ranker, {uri: texts[uri] for uri in visible})
    for query in ("sun", "guides", "file:///guides/garden.md", "garden.md", "plan"):
        for claimed in ({}, {GUIDES[1]["uri"]: 1}):
            hits = index(RESOURCES, GUIDES, ranker, texts).search(query, visible=visible, claimed=claimed)
            assert hits == part.search(query, claimed=claimed)


@every_ranker
def test_an_index_built_from_the_previous_one_finds_the_same_and_ranks_unchanged_definitions_no_more(
    ranker: Ranker,
) -> None:
    ranked: list[int] = []

    def counted(tools: Sequence[Tool]) -> ToolIndex:
        ranked.append(len(tools))
        return ranker(tools)

    garden = "file:///guides/garden.md"
    changes: list[tuple[list[dict[str, Any]], dict[str, str]]] = [
        (GUIDES, {}),
        (GUIDES, {garden: "Tomatoes need sun."}),
        (deepcopy(GUIDES), {garden: "Beans need rain.", GUIDES[0]["uri"]: "Sun in the plan."}),
        ([*GUIDES[:2], {**GUIDES[2], "title": "Rain"}], {garden: "Beans need rain."}),
        (GUIDES[:2], {garden: "Beans need rain.", GUIDES[1]["uri"]: "Sun-dried tomatoes."}),
    ]
    previous: PrimitiveIndex | None = None
    for items, texts in changes:
        previous = PrimitiveIndex(RESOURCES, {item["uri"]: item for item in items}, counted, texts, previous)
        whole = index(RESOURCES, items, ranker, texts)
        for query in ("sun", "rain", "garden tomatoes", "plan", "beans", garden, "boil eggs"):
            assert previous.search(query) == whole.search(query)
    assert ranked == [3, 3, 2]


@pytest.mark.parametrize(
    ("query", "missing"), [("eggs boil", "file:///guides/kitchen.md"), ("the plan", "named:1"), ("the of", "said:1")]
)
def test_hits_of_a_ranker_that_is_anyones_are_kept_to_the_items(query: str, missing: str) -> None:
    class Odd:
        def search(self, query: str, *, visible: Any = None) -> list[Hit]:
            return [Hit(GUIDES[0]["uri"], 0.5, ("name", "inputSchema"))]

    described = {"uri": "said:1", "name": "x", "description": "the"}
    items = [*GUIDES, {"uri": "named:1", "name": "plan", "title": "The one"}, described]
    found = index(RESOURCES, items, lambda _: Odd(), {"said:1": "of"}).search(query)
    assert [hit.name for hit in found] == [GUIDES[0]["uri"], missing]
    assert found[0].matched == ("uri",)


def test_what_a_ranker_makes_up_is_not_found_among_contents() -> None:
    class Odd:
        def search(self, query: str, *, visible: Any = None) -> list[Hit]:
            return [Hit("file:///made/up", 1.0, ("name",))]

    texts = {"file:///guides/garden.md": "Tomatoes need sun."}
    found = index(RESOURCES, GUIDES, lambda _: Odd(), texts).search("tomatoes")
    assert [hit.name for hit in found] == ["file:///guides/garden.md"]


@pytest.mark.parametrize("query", ["", " ", "\u200b", "x" * 100_000, "\ud800", "🦙", "{", "(((", "[a-z]+"])
def test_no_query_is_too_odd(query: str) -> None:
    index(RESOURCES, GUIDES, SimpleRanker(), {GUIDES[0]["uri"]: "text \ud800 [a-z]+"}).search(query)
