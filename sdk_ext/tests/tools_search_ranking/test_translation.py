from __future__ import annotations

import json
from collections import Counter
from collections.abc import Sequence
from pathlib import Path
from time import process_time
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st
from mcp_ext_tools_search.ranking import SimpleRanker
from mcp_ext_tools_search.ranking.language import STOP_WORDS, runs, stem
from mcp_ext_tools_search.ranking.query import MAX_QUERY_LENGTH, Request, read
from mcp_types import Tool
from tools_search_ranking import default_ranker, translation
from tools_search_ranking.translation import in_english, senses_of

FOLDER = Path(translation.__file__).with_name("languages")
LANGUAGES: dict[str, Any] = json.loads((FOLDER / "languages.json").read_text("utf-8"))
TABLES: dict[str, list[str]] = {name: json.loads((FOLDER / f"{name}.json").read_text("utf-8")) for name in LANGUAGES}
TOOLS = [
    ("get_weather", "Get the weather forecast for a place."),
    ("delete_invoice", "Delete an invoice."),
    ("create_invoice", "Create an invoice for a customer."),
    ("list_issues", "List the issues of a GitHub repository, open or closed."),
    ("cancel_event", "Cancel an event in the calendar."),
    ("turn_on_light", "Turn on the light in a room."),
    ("send_email", "Send an email."),
    ("convert_currency", "Convert an amount of money to another currency."),
    ("search_flights", "Search for flights between two airports."),
]
DEFINITIONS = [Tool(name=name, description=text, input_schema={"type": "object"}) for name, text in TOOLS]
INDEX = SimpleRanker(in_english)(DEFINITIONS)


def read_query(query: str) -> Request:
    return read(query, in_english)


def folded(text: str) -> list[str]:
    return [run.casefold() for run in runs(text)]


def first(query: str) -> str | None:
    hits = INDEX.search(query)
    return hits[0].name if hits else None


@pytest.mark.parametrize(
    ("query", "expected"),
    [
        ("lösche bitte die alte Rechnung", "delete_invoice"),
        ("wie wird morgen das Wetter", "get_weather"),
        ("supprime cette facture s'il te plaît", "delete_invoice"),
        ("quel temps fait-il demain, est-ce qu'il va pleuvoir", "get_weather"),
        ("borra esta factura por favor", "delete_invoice"),
        ("¿va a llover mañana?", "get_weather"),
        ("удали этот счёт", "delete_invoice"),
        ("какая завтра погода", "get_weather"),
        ("删除这张发票", "delete_invoice"),
        ("明天天气怎么样", "get_weather"),
        ("刪除這張發票", "delete_invoice"),  # in traditional characters
    ],
)
def test_a_request_in_another_language_finds_the_tool_by_words(query: str, expected: str):
    assert first(query) == expected
    assert default_ranker()(DEFINITIONS).search(query)[0].name == expected  # whose words it knows, so it is confident


def test_a_compound_says_what_its_parts_say():
    assert "wetterrechnung" not in " ".join(TABLES["de"])
    assert {stem("weather"), stem("invoice")} <= read_query("zeig mir die Wetterrechnungen").stems.keys()


def test_a_part_of_a_compound_may_be_english():
    assert {stem("flight"), stem("status")} <= read_query("wie ist der Flugstatus").stems.keys()


def test_an_umlaut_may_be_written_as_two_letters():
    assert first("bitte loesche die Rechnung") == first("bitte lösche die Rechnung") == "delete_invoice"


def test_a_verb_and_its_prefix_may_be_far_apart():
    assert stem("cancel") in read_query("sag bitte den Termin beim Arzt morgen ab").stems
    assert stem("cancel") not in read_query("sag bitte den Termin beim Arzt morgen").stems


def test_two_neighbors_lead_to_what_they_mean_together():
    assert stem("count") in read_query("wie viele Kunden haben wir").stems


def test_words_of_english_in_a_request_in_another_language_stay():
    said = read_query("zeig mir die open issues in github").stems
    assert {"open", stem("issues"), "github", stem("display")} <= said.keys()
    assert said["github"] == 1.0
    assert first("zeig mir die open issues in github") == "list_issues"


def test_a_word_that_no_table_has_stays():
    assert "zwackelmann" in read_query("wo ist der Zwackelmann").stems
    assert "zwackelmann" not in read_query("wo ist der Zwackelmann").foreign


def test_a_word_that_leads_to_english_is_looked_up_itself_too():
    tools = [*TOOLS, ("rechnungen", "Rechnungen")]
    index = SimpleRanker(in_english)(
        [Tool(name=name, description=text, input_schema={"type": "object"}) for name, text in tools]
    )
    assert index.search("wo sind die Rechnungen")[0].name == "rechnungen"


def test_function_words_are_no_words_of_a_request():
    assert read_query("was ist denn das für ein Wetter").stems.keys() == {"wetter", "weather", "forecast"}


def test_a_request_of_function_words_alone_keeps_them():
    assert read_query("nicht").stems.keys() == {"nicht"}


def test_the_longest_chinese_word_counts():
    meant = senses_of(["天气预报"])
    assert meant is not None
    assert meant[0] is not None
    assert "weather" in meant[0]
    assert meant[0] != senses_of(["预报"])


def test_a_chinese_character_alone_has_no_english():
    assert senses_of(["查"]) == [None]


def test_a_word_of_several_senses_says_each_of_them_in_part():
    lines = Counter(word for line in TABLES["de"] for word in line.split(": ")[1].split())
    word = next(word for word, count in lines.items() if count == 2 and "-" not in word)
    meant = senses_of(["der", "nicht", word])
    assert meant is not None
    assert meant[2] is not None
    assert max(meant[2].values()) == 0.5


@pytest.mark.parametrize(
    "query",
    [
        "delete the old invoice",
        "die casting machines",
        "in an hour",
        "flights to Los Angeles",
        "El Paso weather",
        "play la vie en rose",
        "Van der Waals forces",
        "restaurants near Place de la Concorde",
        "how do I say 'wo ist der Bahnhof' in English, and what is the answer to it",
        "what are the 八字 of a boy",
        "what does the word погода mean",
        "データを削除",
        "東京の天気",
        "날씨 검색",
        "",
        "42",
    ],
)
def test_a_request_in_english_or_in_a_language_without_a_table_is_left_alone(query: str):
    assert senses_of(folded(query)) is None
    assert not read_query(query).foreign


@given(st.lists(st.sampled_from([*sorted(STOP_WORDS), "invoice", "delete", "weather"])).map(" ".join))
def test_no_english_word_of_grammar_makes_a_request_one_in_another_language(query: str):
    assert senses_of(folded(query)) is None


@pytest.mark.parametrize(
    "query", ["ab an " * 4_000, "rechnung" * 1_000, "testtest" * 8, "天气" * 4_000, "погода " * 1_000]
)
def test_the_work_for_a_request_is_bounded(query: str):
    read_query("lösche die Datei, 删除, удали")  # the tables are loaded once
    before = process_time()
    read_query(f"der die das nicht {query}"[:MAX_QUERY_LENGTH])
    assert process_time() - before < 2


@pytest.mark.parametrize("language", LANGUAGES)
def test_each_line_of_a_table_leads_from_folded_words_to_english_ones(language: str):
    seen = Counter[str]()
    for line in TABLES[language]:
        meant, said = line.split(": ")
        assert 1 <= len(meant.split()) <= 4, line
        assert all(word.isascii() and word.isalpha() and word.islower() for word in meant.split()), line
        assert not STOP_WORDS.intersection(meant.split()), line
        for word in said.split():
            assert "-".join(folded(word)) == word, word
            assert word.count("-") <= 1, word
            assert word not in meant.split(), word
        assert len(line) <= 112
        seen.update(said.split())
    assert max(seen.values()) <= 3


@pytest.mark.parametrize("language", LANGUAGES)
def test_no_function_word_has_a_sense(language: str):
    said = {word for line in TABLES[language] for word in line.split(": ")[1].split()}
    assert said.isdisjoint(_words(LANGUAGES[language]["functionWords"]))


@pytest.mark.parametrize("language", LANGUAGES)
def test_the_words_that_tell_a_language_are_folded_words_of_it(language: str):
    rules = LANGUAGES[language]
    said = {word for line in TABLES[language] for word in line.split(": ")[1].split()}
    assert _words(rules["marks"]) <= said
    assert _words(rules["alsoEnglish"]) <= _words(rules["functionWords"])
    for word in _words(rules["functionWords"]) | _words(rules["marks"]):
        assert folded(word) == [word]


@pytest.mark.parametrize("language", LANGUAGES)
def test_a_request_in_each_word_of_a_table_can_be_read(language: str):
    for line in TABLES[language]:
        for word in line.split(": ")[1].split():
            meant = senses_of(
                [word if len(word) > 1 else f"请{word}"]
                if language == "zh"
                else [*_KNOWN_BY[language], *word.split("-")]
            )
            assert meant is not None
            assert any(meant), word


_KNOWN_BY: dict[str, Sequence[str]] = {
    "de": ["ich", "nicht", "ist", "und"],
    "fr": ["avec", "cette", "je"],
    "es": ["esta", "cuando", "muy"],
    "ru": ["какая", "нужна"],
}


def _words(lines: Sequence[str]) -> set[str]:
    return set(" ".join(lines).split())
