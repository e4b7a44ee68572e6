"""The draft and its rows agree, and where a copy of either is edited, what is wrong is told with its line."""

from __future__ import annotations

from pathlib import Path

import pytest
import yaml
from tools_search_spec.agreement import disagreements

LEVEL = "    level: MUST NOT\n    role: server\n    text: 'A server MUST NOT return a page of more than `limit` tools.'"
SENTENCE = "A server **MUST NOT** return a page of more than `limit` tools."
ADDED = "A server **SHOULD** rest.\n"


@pytest.fixture(scope="session")
def rows(spec_folder: Path) -> str:
    return (spec_folder / "tools_search_spec" / "requirements.yaml").read_text(encoding="utf-8")


def test_the_draft_and_its_rows_agree(draft: str, rows: str):
    problems = disagreements(draft, rows)
    assert not problems, "\n".join(problems)


def line_of(text: str, part: str) -> int:
    return text.count("\n", 0, text.index(part)) + 1


def test_a_row_that_is_dropped_is_given_back_ready_to_paste(draft: str, rows: str):
    blocks = rows.split("\n  - id: ")
    (dropped,) = (block for block in blocks if "text: 'A server MUST NOT return a page of more than `limit`" in block)
    (problem,) = disagreements(draft, rows.replace(f"\n  - id: {dropped}", "", 1))
    assert problem.startswith("spec/draft/tools-search.md:")
    (row,) = yaml.safe_load(problem.partition("\n")[2])
    whole = yaml.safe_load(f"- id: {dropped}".replace("\n    ", "\n  "))[0]
    assert {name: row[name] for name in ("section", "level", "role", "text")} == {
        name: whole[name] for name in ("section", "level", "role", "text")
    }


def test_a_level_that_is_changed_is_told_with_both_places(draft: str, rows: str):
    assert LEVEL in rows
    (problem,) = disagreements(draft, rows.replace(LEVEL, LEVEL.replace("MUST NOT", "SHOULD", 1)))
    assert problem.startswith(f"spec/tools_search_spec/requirements.yaml:{line_of(rows, LEVEL) - 2} R-")
    assert "has level SHOULD; its sentence, spec/draft/tools-search.md:" in problem
    assert problem.endswith("says MUST NOT")


def test_a_sentence_that_is_added_is_told_with_a_row_for_it(draft: str, rows: str):
    heading = "\n### Pagination\n" if "\n### Pagination\n" in draft else "\n## Pagination\n"
    edited = draft.replace(heading, f"{heading}\n{ADDED}")
    (problem,) = disagreements(edited, rows)
    assert problem.startswith(f"spec/draft/tools-search.md:{line_of(edited, ADDED)} has no row")
    (row,) = yaml.safe_load(problem.partition("\n")[2])
    assert row["id"] not in rows
    assert (row["section"], row["level"], row["text"]) == ("#pagination", "SHOULD", "A server SHOULD rest.")


def test_a_sentence_that_is_changed_leaves_a_row_without_one(draft: str, rows: str):
    missing, stale = disagreements(draft.replace("more than `limit` tools.", "more tools than `limit`."), rows)
    assert "has no row" in missing
    assert "is about no sentence of spec/draft/tools-search.md: A server MUST NOT return" in stale


def test_a_row_in_another_section_is_told(draft: str, rows: str):
    section = "    section: '#order'\n"
    problems = disagreements(draft, rows.replace(section, "    section: '#pagination'\n", 1))
    assert [problem.partition("; its")[0].partition(" has ")[2] for problem in problems] == ["section #pagination"]
