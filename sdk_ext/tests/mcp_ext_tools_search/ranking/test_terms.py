from __future__ import annotations

import unicodedata

import pytest
from hypothesis import given
from hypothesis import strategies as st
from mcp_ext_tools_search.ranking.floor import terms, tool_terms, trimmed
from mcp_types import Tool


@pytest.mark.parametrize(
    ("text", "expected"),
    [
        ("get_user-info.v2", ["get", "user", "info", "v2"]),
        ("getUserInfo", ["getuserinfo"]),
        ("Straße", ["strasse"]),
        ("\uff26\uff35\uff2c\uff2c\uff37\uff29\uff24\uff34\uff28", ["fullwidth"]),  # NFKC comes first
        ("café", ["café"]),
        ("weather, weather!", ["weather", "weather"]),
        ("天气预报 查询", ["天气预报", "查询"]),
        ("\u0939\u093f\u0928\u094d\u0926\u0940", ["\u0939\u093f\u0928\u094d\u0926\u0940"]),  # marks spell
        ("x\u00bdy", ["x1", "2y"]),  # NFKC writes the fraction out
        ("\u3007", []),  # a letter number is neither letter nor digit
        ("\u0664\u0665", ["\u0664\u0665"]),
        ("?!", []),
        ("", []),
    ],
)
def test_a_term_is_a_run_of_letters_marks_and_digits(text: str, expected: list[str]):
    assert terms(text) == expected


@given(st.text())
def test_terms_hold_nothing_but_letters_marks_and_digits(text: str):
    for term in terms(text):
        assert term
        assert all(unicodedata.category(character)[0] in "LM" or character.isdecimal() for character in term)


@given(st.text(), st.text())
def test_punctuation_parts_what_it_stands_between(left: str, right: str):
    assert terms(f"{left} _-_ {right}") == terms(left) + terms(right)


def test_white_space_is_what_unicode_says_it_is():
    assert trimmed("\u3000 get_user\x85\n") == "get_user"
    assert trimmed("\x1cget_user") == "\x1cget_user"


def test_the_terms_of_a_tool_are_told_by_member():
    tool = Tool(name="get_user", description="Get a user.", input_schema={"type": "object", "title": "unseen"})
    assert tool_terms(tool) == {"name": {"get", "user"}, "description": {"get", "a", "user"}}
