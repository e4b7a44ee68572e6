"""The documents beside the draft lead to where they say, and everyone means the same extension."""

from __future__ import annotations

import re
from pathlib import Path

import pytest
from mcp_ext_tools_search import types
from tools_search_spec import EXTENSION_ID, METHOD
from tools_search_spec.sentences import anchors, normative_sentences

FOLDER = Path(__file__).parents[1]
DOCUMENTS = sorted(FOLDER.rglob("*.md"))
LINK = re.compile(r"\]\((?!https?:)([^)#]*)(#[^)]*)?\)")


@pytest.mark.parametrize("document", DOCUMENTS, ids=lambda path: str(path.relative_to(FOLDER)))
def test_every_relative_link_leads_to_a_file_and_a_heading(document: Path):
    broken = [
        f"{target}{anchor}"
        for target, anchor in LINK.findall(document.read_text(encoding="utf-8"))
        if not leads_somewhere(document.parent / target if target else document, anchor)
    ]
    assert not broken


def leads_somewhere(path: Path, anchor: str) -> bool:
    return path.exists() and (not anchor or anchor in anchors(path.read_text(encoding="utf-8")))


def test_implementations_the_judge_and_the_draft_have_one_identifier_and_one_method(draft: str):
    assert (types.EXTENSION_ID, types.METHOD) == (EXTENSION_ID, METHOD)
    assert f"This extension is identified as: `{EXTENSION_ID}`." in draft
    assert f"one request, `{METHOD}`" in draft


def test_the_draft_and_the_proposal_say_that_they_are_unofficial(draft: str):
    proposal = (FOLDER / "sep.md").read_text(encoding="utf-8")
    for text in (draft, proposal, (FOLDER / "README.md").read_text(encoding="utf-8")):
        assert "unofficial" in text
        assert "provisional" in text


def test_only_the_draft_is_normative():
    proposal = (FOLDER / "sep.md").read_text(encoding="utf-8")
    assert [sentence.text for sentence in normative_sentences(proposal)] == []


def test_the_proposal_has_every_section_that_the_process_asks_for():
    headings = anchors((FOLDER / "sep.md").read_text(encoding="utf-8"))
    asked = ["abstract", "motivation", "specification", "rationale", "backward-compatibility", "security-implications"]
    asked += ["reference-implementation", "alternatives-considered", "open-questions"]
    assert [heading for heading in headings if heading.removeprefix("#") in asked] == [f"#{name}" for name in asked]
