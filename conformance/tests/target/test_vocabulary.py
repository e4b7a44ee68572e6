"""Queries come from any catalog."""

from __future__ import annotations

import pytest
from tools_search_conformance.target.vocabulary import WHITE_SPACE, Vocabulary, terms

TOOLS = [
    {"name": "send_invoice", "title": "Send invoice", "description": "Send an invoice to a customer of the ledger."},
    {"name": "close_period", "description": "Close a period of the ledger."},
    {"name": "zz"},
]


@pytest.mark.parametrize(
    ("text", "expected"),
    [
        ("send_invoice", ("send", "invoice")),
        ("LibraryRenewLoan", ("libraryrenewloan",)),
        ("Straße", ("strasse",)),
        ("\uff21\uff22\uff11", ("ab1",)),
        ("cafe\u0301 crème", ("café", "crème")),
        ("a+b, c-d!", ("a", "b", "c", "d")),
        ("\U0001f527 检索", ("检索",)),
        ("चालान भेजें", ("चालान", "भेजें")),
        ("", ()),
    ],
)
def test_terms_are_runs_of_letters_marks_and_digits_after_folding(text: str, expected: tuple[str, ...]):
    assert terms(text) == expected


def test_white_space_is_the_unicode_property_and_not_pythons():
    assert len(WHITE_SPACE) == 25
    assert all(character.isspace() for character in WHITE_SPACE)
    assert "\x1c".isspace()
    assert "\x1c" not in WHITE_SPACE


def test_broad_words_are_those_of_most_tools_and_not_common_ones():
    assert Vocabulary(tuple(TOOLS)).broad()[0] in {"ledger", "send", "close", "invoice", "period"}
    assert "ledger" in Vocabulary(tuple(TOOLS)).broad()
    assert "the" not in Vocabulary(tuple(TOOLS)).broad(50)


def test_a_catalog_without_shared_words_gives_what_it_has():
    assert Vocabulary(tuple(TOOLS[:1])).broad(2) == ["send", "invoice"]
    assert Vocabulary(tuple(TOOLS[2:])).broad() == ["zz"]
    assert Vocabulary(()).broad() == []


def test_distinctive_terms_single_a_tool_out():
    words = Vocabulary(tuple(TOOLS))
    assert set(words.distinctive(TOOLS[0])) == {"send", "invoice", "customer", "ledger"}
    assert words.distinctive(TOOLS[2]) == []


def test_a_sample_has_words_and_phrases():
    assert "Send invoice Send an invoice to" in Vocabulary(tuple(TOOLS)).sample(4)
