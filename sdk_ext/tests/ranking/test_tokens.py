from __future__ import annotations

import pytest
from hypothesis import given
from hypothesis import strategies as st
from mcp_ext_tools_search.ranking.language import LONGEST_WORD, is_character, words


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
    assert [len(word) for word in words("x" * 100_000)] == [LONGEST_WORD]


@given(st.text(st.sampled_from("abc xyz-_.")))
def test_plain_text_reads_alike_in_capitals(text: str):
    assert list(words(text)) == list(words(text.upper()))


@given(st.text())
def test_words_are_folded_and_never_empty(text: str):
    for word in words(text):
        assert word
        assert not word.isspace()
        assert len(word) <= 4 * LONGEST_WORD
