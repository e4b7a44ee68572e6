from __future__ import annotations

from collections.abc import Callable
from math import log

import pytest
from mcp_ext_tools_search.ranking.floor import Floor
from mcp_ext_tools_search.ranking.language import STOP_WORDS
from mcp_types import Tool
from tools_search_ranking import DEFAULT_LEAST_CONFIDENCE, FieldedRanker, default_ranker
from tools_search_ranking.confidence import WEIGHTS, confidence

_SURE = 0.4
_UNFIT = "Which current text should I read about the history of ancient Rome this week?"


@pytest.fixture
def tools(make_tool: Callable[..., Tool]) -> list[Tool]:
    return [
        make_tool("send_invoice", "Send an invoice to a customer."),
        make_tool("refund_payment", "Pay a charge back to the customer."),
        make_tool("read_mail", "Get the text and headers of one message."),
        make_tool("current_weather", "Current temperature at a place."),
        make_tool("read_file", "Read the text of a file."),
        make_tool("查询天气", "查询指定城市的天气预报"),
        *(make_tool(f"device_{place}", f"Switch appliance number {place}.") for place in range(300)),
    ]


def test_a_request_that_shares_but_generic_words_with_the_tools_finds_nothing(tools: list[Tool]):
    assert FieldedRanker()(tools).search(_UNFIT)
    assert not FieldedRanker(least_confidence=_SURE)(tools).search(_UNFIT)


@pytest.mark.parametrize(
    "query", ["bill the customer: send the invoice by post", "what is the temperature", "read_file"]
)
def test_a_request_that_fits_finds_its_tool(tools: list[Tool], query: str):
    all_hits, sure = FieldedRanker()(tools).search(query), FieldedRanker(least_confidence=_SURE)(tools).search(query)
    assert list(sure) == list(all_hits) != []


@pytest.mark.parametrize("query", ["read", "the", "text of one message", "place"])
def test_the_floor_of_a_request_that_is_held_back_is_in_the_order_of_the_ranking(tools: list[Tool], query: str):
    found = list(FieldedRanker(least_confidence=1.0)(tools).search(query))
    without_stop_words = " ".join(word for word in query.split() if word not in STOP_WORDS)
    demanded = {hit.name for asked in (query, without_stop_words) for hit in Floor(tools).under(asked, [])}
    assert [hit.name for hit in found] == [
        hit.name for hit in FieldedRanker()(tools).search(query) if hit.name in demanded
    ]
    assert found[0].score == 1.0


@pytest.mark.parametrize("query", ["What's 1+1?", "2 + 2", "who are you", "is it"])
def test_a_request_without_a_word_that_says_anything_finds_what_the_floor_demands(
    tools: list[Tool], make_tool: Callable[..., Tool], query: str
):
    excel = make_tool("write_cells", "Writes values, from row 1 on. It is done at once, 2 cells a time.")
    index = FieldedRanker(least_confidence=DEFAULT_LEAST_CONFIDENCE)([*tools, excel])
    demanded = {hit.name for hit in Floor([*tools, excel]).under(query, [])}
    assert {hit.name for hit in index.search(query)} == demanded


def test_without_a_least_confidence_numbers_are_found_wherever_they_are(make_tool: Callable[..., Tool]):
    tools = [make_tool("report", schema={"type": "object", "properties": {"2024": {}}})]
    assert [hit.name for hit in FieldedRanker()(tools).search("2024")] == ["report"]
    assert not FieldedRanker(least_confidence=DEFAULT_LEAST_CONFIDENCE)(tools).search("2024")


def test_words_of_a_script_without_spaces_are_not_judged(tools: list[Tool]):
    query = "明天上海的天气会怎么样"
    assert FieldedRanker(least_confidence=1.0)(tools).search(query)[0].name == "查询天气"


def test_the_threshold_outlives_a_change(tools: list[Tool]):
    index = FieldedRanker(least_confidence=_SURE)(tools).updated(["device_1"], [])
    assert not index.search(_UNFIT)
    assert index.search("send an invoice")


def test_hidden_tools_make_nobody_surer(tools: list[Tool]):
    seen = {"send_invoice", "refund_payment", "read_mail", "device_1"}
    ranker = FieldedRanker()
    only = ranker([tool for tool in tools if tool.name in seen])
    assert ranker(tools).signs(_UNFIT, visible=seen) == only.signs(_UNFIT) != ranker(tools).signs(_UNFIT)


def test_more_in_common_makes_surer(tools: list[Tool]):
    index = FieldedRanker()(tools)
    fits, fits_less, fits_not = map(
        index.signs, ["send an invoice to my customer Bob", "an invoice for the garden party of Bob", _UNFIT]
    )
    assert confidence(fits) > confidence(fits_less) > confidence(fits_not)
    assert confidence(fits_less) > DEFAULT_LEAST_CONFIDENCE


def test_pasted_text_makes_a_request_that_fits_no_less_likely_to_be_served_than_one_of_fifty_words(tools: list[Tool]):
    request = "send this invoice to my customer by mail"
    index = FieldedRanker()(tools)
    of_fifty, of_more = (confidence(index.signs(f"{request} {_pasted(words)}")) for words in (46, 120))
    assert of_more == pytest.approx(of_fifty, abs=0.01)
    assert of_more > DEFAULT_LEAST_CONFIDENCE


def _pasted(words: int) -> str:
    return " ".join(f"{place:x}kqzx{place:x}" for place in range(words))


@pytest.mark.parametrize("query", ["send an invoice to my customer Bob", "an invoice for the garden party", _UNFIT])
def test_evidence_never_speaks_against_a_tool(tools: list[Tool], query: str):
    found = FieldedRanker()(tools).signs(query)
    assert found is not None
    none = found._replace(score=0.0, shared_evidence=0.0, query_share=0.0)
    assert confidence(none) <= confidence(found)
    assert min(WEIGHTS[1][:3]) > 0


def test_many_instances_of_a_server_hold_back_no_more_than_one(tools: list[Tool]):
    server = tools[:5]
    # Underscores at the end of a name are no part of a word.
    instances = [tool.model_copy(update={"name": tool.name + "_" * place}) for place in range(100) for tool in server]
    request = "an unpaid invoice for the garden party of Bob"
    one, many = (confidence(FieldedRanker()(known).signs(request)) for known in (server, instances))
    assert many == pytest.approx(one, abs=0.1)
    assert FieldedRanker(least_confidence=DEFAULT_LEAST_CONFIDENCE)(instances).search(request)


def test_a_catalog_larger_than_any_that_was_judged_counts_as_the_largest_of_those(make_tool: Callable[..., Tool]):
    many = FieldedRanker()([make_tool(f"device_{place}", "Switch an appliance.") for place in range(3_000)])
    of_many = many.signs("switch the light on")
    assert of_many is not None
    assert of_many.tools == pytest.approx(log(2_500))


def test_a_request_most_of_whose_telling_words_no_tool_knows_finds_nothing(tools: list[Tool]):
    mostly, wholly = (
        "does napoleon switch horses",  # which is as likely to be served as what is found below
        "resurrect a mummified pharaoh and show the text",
    )
    for query in (mostly, wholly):
        assert FieldedRanker()(tools).search(query)
        assert not FieldedRanker(least_confidence=DEFAULT_LEAST_CONFIDENCE)(tools).search(query)
    for found in ("send the pharaoh his invoice", "switch horses", "pharaoh papyrus charge"):
        assert default_ranker()(tools).search(found)
    assert not default_ranker(least_confidence=0.9)(tools).search("pharaoh papyrus charge")
    assert default_ranker()(tools).search("send the pharaoh his invoice")[0].name == "send_invoice"
