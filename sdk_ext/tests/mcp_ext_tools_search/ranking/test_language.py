from __future__ import annotations

import pytest
from hypothesis import given
from hypothesis import strategies as st
from mcp_ext_tools_search.ranking.language import (
    ABBREVIATIONS,
    EVERYDAY,
    MAX_WORD_LENGTH,
    OTHER_GROUPS,
    SIMPLIFIED,
    STOP_WORDS,
    VERB_GROUPS,
    is_character,
    relatives,
    stem,
    without_fillers,
    words,
)


@pytest.mark.parametrize(
    ("text", "expected"),
    [
        ("get_user_info", ["get", "user", "info"]),
        ("getUserInfo", ["getuserinfo", "get", "user", "info"]),
        ("XMLHttpRequest", ["xmlhttprequest", "xml", "http", "request"]),
        ("sha256sum", ["sha256sum", "sha", "256", "sum"]),
        ("GET Title word 42", ["get", "title", "word", "42"]),
        ("Zürich café", ["zurich", "cafe"]),
        ("Łódź Ærø", ["lodz", "aero"]),
        ("\u0130stanbul", ["istanbul"]),
        ("Погода ПогодаСегодня", ["погода", "погодасегодня", "погода", "сегодня"]),
        ("Ещё Ёлка Йод", ["еще", "елка", "иод"]),
        ("\u0645\u064e\u0631\u0652\u062d\u064e\u0628\u0627", ["\u0645\u0631\u062d\u0628\u0627"]),
        ("\u0939\u093f\u0928\u094d\u0926\u0940", ["\u0939\u093f\u0928\u094d\u0926\u0940"]),
        ("天气预报", ["天气", "气预", "预报", "天", "气", "预", "报"]),
        ("用bing搜索", ["用", "bing", "搜索", "搜", "索"]),
        ("檢索", ["检索", "检", "索"]),
        ("ログ検索", ["ログ", "グ検", "検索", "検", "索"]),
        ("データ", ["デー", "ータ"]),
        ("\u304c\u3067", ["\u304c\u3067"]),  # voicing marks spell, so they stay
        ("날씨를", ["날씨", "씨를", "날", "씨", "를"]),
        ("", []),
    ],
)
def test_words_suit_the_script_they_are_written_in(text: str, expected: list[str]):
    assert list(words(text)) == expected


@pytest.mark.parametrize(
    ("word", "expected"),
    [("查", True), ("検", True), ("비", True), ("查询", False), ("か", False), ("ก", False), ("é", False)],
)
def test_a_character_is_one_of_chinese_or_a_syllable_of_korean(word: str, expected: bool):
    assert is_character(word) == expected


def test_a_blob_is_cut():
    assert [len(word) for word in words("x" * 100_000)] == [MAX_WORD_LENGTH]


@given(st.text(st.sampled_from("abc xyz-_.")))
def test_plain_text_reads_alike_in_capitals(text: str):
    assert list(words(text)) == list(words(text.upper()))


@given(st.text())
def test_words_are_folded_and_never_empty(text: str):
    for word in words(text):
        assert word
        assert not word.isspace()
        assert len(word) <= 4 * MAX_WORD_LENGTH


@pytest.mark.parametrize(
    "family",
    [
        "create creates created creating",
        "query queries queried querying",
        "file files filed filing",
        "stop stops stopped stopping",
        "call calls called calling",
        "box boxes",
        "search searches searched searching",
        "access accesses accessed",
        "invoice invoices invoiced",
    ],
)
def test_inflected_forms_share_a_stem(family: str):
    assert len({stem(word) for word in family.split()}) == 1


@pytest.mark.parametrize("pair", ["status state", "bus but", "this thing", "red ring", "need nee", "king ki"])
def test_different_words_keep_apart(pair: str):
    assert len({stem(word) for word in pair.split()}) == 2


@pytest.mark.parametrize("word", ["sms", "id", "256s", "données", "файлы", "天气"])
def test_what_is_short_or_not_english_is_its_own_stem(word: str):
    assert stem(word) == word


@given(st.text(st.characters(min_codepoint=97, max_codepoint=122), min_size=1))
def test_a_stem_is_never_empty(word: str):
    assert stem(word)


def related(word: str) -> list[str]:
    return [other for other, _ in relatives(word)]


def test_a_verb_knows_the_others_of_its_group():
    assert stem("remove") in related(stem("delete"))
    assert stem("delete") in related(stem("removing"))
    assert related("qwertz") == []


def test_a_chinese_verb_of_one_character_leads_to_those_of_two_and_none_leads_to_it():
    assert "搜索" in related("找")
    assert "查找" in related("搜索")
    assert "找" not in related("搜索")


def test_no_word_is_its_own_relative():
    for word in " ".join(VERB_GROUPS + OTHER_GROUPS).split():
        assert stem(word) not in related(stem(word))
        assert word in STOP_WORDS or related(stem(word))


def test_an_everyday_word_leads_to_those_of_definitions_and_none_of_them_leads_back():
    assert stem("latency") in related(stem("slow"))
    assert stem("slow") not in related(stem("latency"))


def test_each_everyday_word_is_looked_up_and_leads_to_another_word():
    for meant, said in EVERYDAY:
        assert meant not in STOP_WORDS
        for word in said.split():
            assert word not in STOP_WORDS
            assert stem(meant) in related(word.replace("-", "") if "-" in word else stem(word)), word


def test_two_neighbors_lead_to_what_they_mean_together():
    assert stem("count") in related("howmany")


def test_nouns_that_name_the_same_thing_know_each_other():
    assert stem("email") in related(stem("mails"))
    assert stem("mail") in related(stem("emails"))


def test_an_abbreviation_is_spelled_out_and_a_word_has_its_abbreviation():
    assert {stem("pull"), stem("request")} <= set(related("pr"))
    assert stem("database") in related("db")
    assert "db" in related(stem("databases"))
    assert "pr" not in related(stem("request"))


def test_no_abbreviation_has_two_meanings():
    long = list(ABBREVIATIONS.values())
    assert len(set(long)) == len(long)
    assert not set(long) & set(ABBREVIATIONS)


@pytest.mark.parametrize(
    ("text", "left"),
    [
        ("请帮我查一下天气", "查 天气"),
        ("我想申请一个证书", "申请 证书"),
        ("了解目的地", "了解目的地"),
        ("怎麼下載影片嗎", "下载影片"),
        ("get the weather, 谢谢", "get the weather,"),
    ],
)
def test_fillers_are_taken_out_of_a_request_and_words_that_look_like_them_are_not(text: str, left: str):
    assert " ".join(without_fillers(text).split()) == left


def test_traditional_characters_become_simplified_ones():
    assert "查詢資料庫".translate(SIMPLIFIED) == "查询资料库"


def test_what_is_simplified_stays():
    assert "查询 weather ログ".translate(SIMPLIFIED) == "查询 weather ログ"
    assert set(map(chr, SIMPLIFIED)).isdisjoint(SIMPLIFIED.values())


def test_every_character_is_mapped_once_and_to_one():
    assert len(SIMPLIFIED) == 700
    assert all(len(simple) == 1 for simple in SIMPLIFIED.values())
