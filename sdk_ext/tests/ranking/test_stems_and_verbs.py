from __future__ import annotations

import pytest
from hypothesis import given
from hypothesis import strategies as st
from mcp_ext_tools_search.ranking.language import related_words, spelled_out, stem, without_fillers
from mcp_ext_tools_search.ranking.lexicon import (
    ABBREVIATIONS,
    CHINESE_VERB_GROUPS,
    NOUN_GROUPS,
    STOP_WORDS,
    VERB_GROUPS,
)


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


def test_a_verb_knows_the_others_of_its_group():
    assert stem("remove") in related_words(stem("delete"))
    assert stem("delete") in related_words(stem("removing"))
    assert related_words(stem("weather")) == ()


def test_a_chinese_verb_of_one_character_leads_to_those_of_two_and_none_leads_to_it():
    assert "搜索" in related_words("找")
    assert "查找" in related_words("搜索")
    assert "找" not in related_words("搜索")


def test_no_word_is_its_own_relative():
    for word in " ".join(VERB_GROUPS + CHINESE_VERB_GROUPS + NOUN_GROUPS).split():
        assert stem(word) not in related_words(stem(word))
        assert word in STOP_WORDS or related_words(stem(word))


def test_nouns_that_name_the_same_thing_know_each_other():
    assert stem("email") in related_words(stem("mails"))
    assert stem("mail") in related_words(stem("emails"))


def test_an_abbreviation_is_spelled_out_and_a_word_has_its_abbreviation():
    assert spelled_out("pr") == (stem("pull"), stem("request"))
    assert spelled_out("db") == (stem("database"),)
    assert spelled_out(stem("databases")) == ("db",)
    assert spelled_out(stem("request")) == ()


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
