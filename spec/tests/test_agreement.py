"""Draft, guides and rows agree, and where a copy of one is edited, what is wrong is reported with its line."""

from __future__ import annotations

import re
from pathlib import Path

import pytest
import yaml
from agreement import disagreements

LEVEL = "    level: MUST NOT\n    role: server\n    text: 'A server MUST NOT return more than `limit` tools in a page.'"
CORE = "tools-search.md"
ADDED = "A server **SHOULD** rest.\n"


@pytest.fixture(scope="session")
def rows(spec_folder: Path) -> str:
    return (spec_folder / "tools_search_spec" / "requirements.yaml").read_text(encoding="utf-8")


def test_the_draft_the_guides_and_the_rows_agree(pages: dict[str, str], guides: dict[str, str], rows: str):
    problems = disagreements(pages, guides, rows)
    assert not problems, "\n".join(problems)


def line_of(text: str, part: str) -> int:
    return text.count("\n", 0, text.index(part)) + 1


def test_a_row_that_is_dropped_is_given_back_ready_to_paste(pages: dict[str, str], guides: dict[str, str], rows: str):
    blocks = rows.split("\n  - id: ")
    (dropped,) = (block for block in blocks if "text: 'A server MUST NOT return more than `limit`" in block)
    (problem,) = disagreements(pages, guides, rows.replace(f"\n  - id: {dropped}", "", 1))
    assert problem.startswith("spec/draft/tools-search.md:")
    (row,) = yaml.safe_load(problem.partition("\n")[2])
    whole = yaml.safe_load(f"- id: {dropped}".replace("\n    ", "\n  "))[0]
    assert {name: row[name] for name in ("section", "level", "role", "text")} == {
        name: whole[name] for name in ("section", "level", "role", "text")
    }


def test_a_level_that_is_changed_is_told_with_both_places(pages: dict[str, str], guides: dict[str, str], rows: str):
    assert LEVEL in rows
    (problem,) = disagreements(pages, guides, rows.replace(LEVEL, LEVEL.replace("MUST NOT", "SHOULD", 1)))
    assert problem.startswith(f"spec/tools_search_spec/requirements.yaml:{line_of(rows, LEVEL) - 2} R-")
    assert "has level SHOULD; its sentence, spec/draft/tools-search.md:" in problem
    assert problem.endswith("says MUST NOT")


@pytest.mark.parametrize(
    ("heading", "section"), [("Pagination", "#pagination"), ("Resource Limits", "#resource-limits")]
)
def test_a_sentence_that_is_added_is_told_with_a_row_for_it(
    pages: dict[str, str], guides: dict[str, str], rows: str, heading: str, section: str
):
    edited = pages[CORE].replace(f"# {heading}\n", f"# {heading}\n\n{ADDED}")
    (problem,) = disagreements(pages | {CORE: edited}, guides, rows)
    assert problem.startswith(f"spec/draft/tools-search.md:{line_of(edited, ADDED)} has no row")
    (row,) = yaml.safe_load(problem.partition("\n")[2])
    assert row["id"] not in rows
    assert (row["section"], row["level"], row["text"]) == (section, "SHOULD", "A server SHOULD rest.")


def test_a_sentence_that_is_changed_leaves_a_row_without_one(pages: dict[str, str], guides: dict[str, str], rows: str):
    edited = pages[CORE].replace("more than `limit` tools in a page.", "more tools than `limit`.")
    missing, stale = disagreements(pages | {CORE: edited}, guides, rows)
    assert "has no row" in missing
    assert "is about no sentence of spec/draft/tools-search.md: A server MUST NOT return" in stale


def test_a_row_in_another_section_is_told(pages: dict[str, str], guides: dict[str, str], rows: str):
    section = "    section: '#order-and-matching'\n"
    problems = disagreements(pages, guides, rows.replace(section, "    section: '#pagination'\n", 1))
    assert [problem.partition("; its")[0].partition(" has ")[2] for problem in problems] == ["section #pagination"]


ADVICE = "Ask every connected server, by search or by listing."


@pytest.mark.parametrize("other", ["Ask every connected server.", f"At first, {ADVICE}"])
def test_advice_that_is_changed_leaves_a_row_without_a_sentence(
    pages: dict[str, str], guides: dict[str, str], rows: str, other: str
):
    edited = {name: text.replace(ADVICE, other) for name, text in guides.items()}
    (problem,) = disagreements(pages, edited, rows)
    assert problem.startswith(f"spec/tools_search_spec/requirements.yaml:{line_of(rows, ADVICE) - 3} R-FED-01 is about")
    assert problem.endswith(f"no sentence of spec/guides/hosts.md: {ADVICE}")


def test_advice_under_another_heading_is_reported(pages: dict[str, str], guides: dict[str, str], rows: str):
    place = "    place: 'guides/servers.md#cursors'\n"
    problems = disagreements(pages, guides, rows.replace(place, "    place: 'guides/servers.md#ranking'\n", 1))
    (place,) = [problem.partition("requirements.yaml:")[2].partition(" ")[2] for problem in problems]
    assert re.fullmatch(r"R-PAG-05 has section #ranking; its sentence, spec/guides/servers.md:\d+, has #cursors", place)


def test_advice_of_a_guide_that_there_is_not_is_reported(pages: dict[str, str], guides: dict[str, str], rows: str):
    without = {name: text for name, text in guides.items() if name != "guides/hosts.md"}
    problems = disagreements(pages, without, rows)
    assert len(problems) == rows.count("place: 'guides/hosts.md#")
    assert all("is about no sentence of spec/guides/hosts.md" in problem for problem in problems)
