"""Each normative sentence of the draft has its row, each row its sentence, and each id one meaning."""

from __future__ import annotations

import re
from collections import Counter
from typing import get_args

from sentences import anchors, normative_sentences
from tools_search_spec import ExclusionKind, Level, Requirement, Role, advice, base_rules, requirements, retired

CHECK = re.compile(r"tools-search-(server|client)-[a-z]+(?:-[a-z]+)*")
REASON = re.compile(r"[A-Z].*\.")
ROW = re.compile(r"[RB]-[A-Z]+-\d{2}")
PARTIES = {"server": {"server"}, "client": {"client"}, "both": {"server", "client"}}


def test_rows_stand_in_the_order_of_the_pages(pages: dict[str, str]):
    stated = [(page, sentence.text) for page, text in pages.items() for sentence in normative_sentences(text)]
    assert [(row.page, row.text) for row in requirements()] == stated


def test_the_optional_page_binds_by_few_sentences(pages: dict[str, str]):
    assert len(normative_sentences(pages["search-primitives.md"])) <= 15


def test_no_id_and_no_sentence_occurs_twice():
    counted = Counter[str](list(retired()))
    for row in (*requirements(), *advice()):
        counted.update([row.id, row.text])
    assert not [text for text, times in counted.items() if times > 1]


def test_every_id_has_an_area_and_a_number():
    ids = [*(row.id for row in (*requirements(), *advice())), *retired()]
    assert not [row for row in ids if not re.fullmatch(r"R-[A-Z]+-\d{2}", row)]


def test_a_retired_id_has_a_row_that_says_the_same_or_a_reason():
    rows = {row.id for row in (*requirements(), *advice(), *base_rules())}
    for row, why in retired().items():
        assert {*ROW.findall(why)} <= rows, row
        assert ROW.fullmatch(why) or REASON.fullmatch(why), row


def test_advice_says_whom_it_is_for_and_which_checks_watch_it():
    assert not [row.id for row in advice() if row.role not in get_args(Role)]
    assert not [row.id for row in advice() if not row.checks or not all(map(CHECK.fullmatch, row.checks))]


def test_every_section_is_a_heading_of_its_page(pages: dict[str, str]):
    assert not [row.id for row in requirements() if row.section not in anchors(pages[row.page])]


def test_a_row_has_either_checks_or_a_reason_of_a_known_kind():
    assert not [row.id for row in requirements() if not (is_checked(row) or is_excluded(row))]


def is_checked(row: Requirement) -> bool:
    named = bool(row.checks) and all(CHECK.fullmatch(check) for check in row.checks)
    return named and row.excluded is None and row.kind is None


def is_excluded(row: Requirement) -> bool:
    reasoned = row.excluded is not None and bool(REASON.fullmatch(row.excluded)) and row.kind in get_args(ExclusionKind)
    return reasoned and not row.checks


def test_a_rule_is_decided_by_checks_of_whom_it_binds():
    checked = [row for row in (*requirements(), *advice()) if row.checks]
    judged = {row.id: {check.split("-")[2] for check in row.checks} for row in checked}
    assert judged == {row.id: PARTIES[row.role] for row in checked}


def test_every_link_within_a_page_leads_to_a_heading(pages: dict[str, str]):
    for text in pages.values():
        assert set(re.findall(r"\]\((#[^)]*)\)", text)) <= set(anchors(text))


def test_no_two_headings_of_the_pages_have_one_anchor(pages: dict[str, str]):
    headings = [anchor for text in pages.values() for anchor in anchors(text)]
    assert len(headings) == len(set(headings))


def test_a_rule_of_the_base_protocol_has_an_id_and_a_text_that_no_other_row_has():
    ids, texts = [row.id for row in base_rules()], [row.text for row in base_rules()]
    assert not [row for row in ids if not re.fullmatch(r"B-[A-Z]+-\d{2}", row)]
    assert len({*ids}) == len(ids)
    assert len({*texts, *(row.text for row in requirements())}) == len(texts) + len(requirements())


def test_a_rule_of_the_base_protocol_says_whom_it_binds_and_which_checks_decide_it():
    assert not [row.id for row in base_rules() if row.level not in get_args(Level)]
    judged = {row.id: {check.split("-")[2] for check in row.checks} for row in base_rules()}
    assert judged == {row.id: {row.role} for row in base_rules()}
    assert not [row.id for row in base_rules() if not REASON.fullmatch(row.text)]
    assert not [row.id for row in base_rules() if not row.checks or not all(map(CHECK.fullmatch, row.checks))]


def test_a_rule_of_the_base_protocol_links_to_the_published_specification_of_its_revisions():
    revisions = ["2026-07-28", "2025-11-25"]
    for row in base_rules():
        assert [*row.links] == [revision for revision in revisions if revision in row.links]
        for revision, link in row.links.items():
            assert re.fullmatch(rf"https://modelcontextprotocol\.io/specification/{revision}/[a-z/-]+(#[a-z-]+)?", link)
