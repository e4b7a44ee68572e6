"""The sentence reader, on texts small enough to see through."""

from __future__ import annotations

import pytest
from sentences import anchors, fences, normative_sentences


def texts(markdown: str) -> list[str]:
    return [sentence.text for sentence in normative_sentences(markdown)]


def test_sentences_without_a_keyword_or_with_may_only_bind_nobody():
    assert texts("A server may rest. A client **MAY** rest. It must not matter.") == []


def test_emphasis_and_links_are_removed_and_code_keeps_its_backticks():
    markdown = "A *server*\n**MUST NOT** send `a. B` to [nobody](#x)."
    assert texts(markdown) == ["A server MUST NOT send `a. B` to nobody."]


def test_a_paragraph_is_split_into_sentences():
    markdown = 'First one. A server MUST go. `limit` SHOULD stay at 3.0 of `x`. Not this. "Q" MUST be.'
    assert texts(markdown) == ["A server MUST go.", "`limit` SHOULD stay at 3.0 of `x`.", '"Q" MUST be.']


@pytest.mark.parametrize(
    ("text", "keywords"),
    [
        ("A server MUST NOT go.", ("MUST NOT",)),
        ("It SHALL go and SHOULD NOT stay.", ("SHALL", "SHOULD NOT")),
        ("It is REQUIRED, or NOT RECOMMENDED.", ("REQUIRED", "NOT RECOMMENDED")),
    ],
)
def test_every_keyword_of_a_sentence_is_found(text: str, keywords: tuple[str, ...]):
    assert [sentence.keywords for sentence in normative_sentences(text)] == [keywords]


def test_keywords_in_code_fences_quotation_marks_and_front_matter_bind_nobody():
    markdown = '---\ntitle: MUST\n---\n\n```text\nIt MUST.\n```\n\nThe words "MUST" and `SHOULD` are words.\n'
    assert texts(markdown) == []


def test_list_items_and_table_cells_are_read_by_themselves():
    markdown = "A server MUST:\n\n- go,\n- SHOULD stay.\n\n| a | b |\n| - | - |\n| x MUST | y |\n"
    assert texts(markdown) == ["A server MUST:", "SHOULD stay.", "x MUST"]


def test_a_sentence_knows_its_line_and_the_anchor_of_the_heading_above_it():
    markdown = "---\na: b\n---\n\n# One\n\n## No `Side` Effects: Here\n\nFree text.\n\nA server MUST\nbe.\n"
    (sentence,) = normative_sentences(markdown)
    assert (sentence.line, sentence.section) == (11, "#no-side-effects-here")
    assert anchors(markdown) == ["#one", "#no-side-effects-here"]


def test_fenced_blocks_come_with_language_and_text():
    markdown = "# A\n\n```json\n{}\n```\n\ntext\n\n```\nx\n```\n"
    found = [(fence.line, fence.language, fence.text) for fence in fences(markdown)]
    assert found == [(3, "json", "{}\n"), (9, "", "x\n")]
