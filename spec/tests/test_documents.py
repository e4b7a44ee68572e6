"""Links between the documents resolve, and everyone means the same extension."""

from __future__ import annotations

import re
from pathlib import Path

import pytest
from mcp_ext_tools_search import types
from sentences import anchors, normative_sentences
from tools_search_spec import EXTENSION_ID, METHOD, PRIMITIVES, advice, base_rules, requirements

FOLDER = Path(__file__).parents[1]
ROOT = FOLDER.parent
DOCUMENTS = sorted(
    {
        *FOLDER.rglob("*.md"),
        *ROOT.glob("*.md"),
        *ROOT.glob("docs/*.md"),
        *ROOT.glob("*/docs/*.md"),
        *ROOT.glob("*/*.md"),
        *ROOT.glob("sdk_ext/*/*.md"),
    }
    - {ROOT / "conformance" / "CHECKS.md"}
)
GUIDES = sorted((FOLDER / "guides").glob("*.md"))
LINK = re.compile(r"(?:\]\(|^\[[^\]]+\]: )(?!https?:)([^)#\s]*)(#[^)\s]*)?", re.MULTILINE)
NAMED_MODULE = re.compile(r"`[^`\n]*?((?:[\w-]+/)+\w+\.py)\b")
NAME_IN_MODULE = re.compile(r"`([\w.]+)` in \[[^]]*\]\(([^)#]+\.py)\)")
MODULE_WITH_NAME = re.compile(r"\[[^]]*\]\(([^)#]+\.py)\),? `([\w.]+)`")


@pytest.mark.parametrize("document", DOCUMENTS, ids=lambda path: str(path.relative_to(ROOT)))
def test_every_relative_link_leads_to_a_file_and_a_heading(document: Path):
    broken = [
        f"{target}{anchor}"
        for target, anchor in LINK.findall(document.read_text(encoding="utf-8"))
        if not leads_somewhere(document.parent / target if target else document, anchor)
    ]
    assert not broken


def test_every_module_that_a_document_names_by_its_path_is_there():
    modules = [f"/{path.relative_to(ROOT)}" for path in ROOT.glob("[!.]*/**/*.py")]
    named = [(path, name) for path in DOCUMENTS for name in NAMED_MODULE.findall(path.read_text(encoding="utf-8"))]
    assert len(named) > 40
    missing = [(path.name, name) for path, name in named if not any(each.endswith(f"/{name}") for each in modules)]
    assert missing == []


def test_every_name_that_a_document_finds_in_a_linked_module_is_there():
    named = list[tuple[Path, str, str]]()
    for document in DOCUMENTS:
        text = " ".join(document.read_text(encoding="utf-8").split())
        pairs = NAME_IN_MODULE.findall(text) + [(name, module) for module, name in MODULE_WITH_NAME.findall(text)]
        named += [(document.parent / module, name, part) for name, module in pairs for part in name.split(".")]
    assert len(named) > 20
    defined = r"^\s*(?:async def|def|class) {0}\b|^\s*(?:self\.)?{0}\b.* = "
    missing = [
        (path.name, name)
        for path, name, part in named
        if not re.search(defined.format(part), path.read_text(encoding="utf-8"), re.MULTILINE)
    ]
    assert missing == []


def test_every_section_of_the_draft_that_code_names_is_there(pages: dict[str, str]):
    headings = {anchor for text in pages.values() for anchor in anchors(text)}
    folders = ("sdk_ext", "reference_server", "reference_client", "conformance", "examples")
    code = {path: path.read_text(encoding="utf-8") for folder in folders for path in (ROOT / folder).rglob("*.py")}
    named = [
        (str(path.relative_to(ROOT)), section.strip())
        for path, text in code.items()
        for sections in re.findall(r"\b[Dd]raft[:,] ([A-Z][^).:;]*)", re.sub(r"\s+(?:# )?", " ", text))
        for section in sections.split(",")
    ]
    assert len(named) > 40
    missing = [(path, name) for path, name in named if f"#{name.lower().replace(' ', '-')}" not in headings]
    assert missing == []


def leads_somewhere(path: Path, anchor: str) -> bool:
    return path.exists() and (not anchor or anchor in anchors(path.read_text(encoding="utf-8")))


def test_implementations_the_judge_and_the_draft_have_one_identifier_and_one_method(draft: str):
    assert (types.EXTENSION_ID, types.METHOD) == (EXTENSION_ID, METHOD)
    assert f"This extension is identified as: `{EXTENSION_ID}`." in draft
    assert f"one request, `{METHOD}`" in draft


def test_the_table_of_methods_is_the_data_of_the_judge(pages: dict[str, str]):
    table = [line for line in pages["search-primitives.md"].splitlines() if line.startswith("| `")]
    shown = [[cell.strip(" `") for cell in line.strip("|").split("|")] for line in table]
    assert shown == [
        [own.method, own.items, own.member, own.key, own.list_method, own.setting, own.notification, own.use_method]
        for own in PRIMITIVES
    ]
    assert PRIMITIVES[0].method == METHOD


def test_the_draft_and_the_proposal_say_that_they_are_unofficial(draft: str, pages: dict[str, str]):
    proposal = (FOLDER / "sep.md").read_text(encoding="utf-8")
    for text in (draft, proposal, (FOLDER / "README.md").read_text(encoding="utf-8")):
        assert "provisional" in text
    for text in (*pages.values(), proposal, (FOLDER / "README.md").read_text(encoding="utf-8")):
        assert "unofficial" in text


@pytest.mark.parametrize("document", [FOLDER / "sep.md", FOLDER / "migration.md", *GUIDES], ids=lambda path: path.name)
def test_only_the_draft_is_normative(document: Path):
    bound = [s.text for s in normative_sentences(document.read_text(encoding="utf-8")) if s.keywords]
    assert [text for text in bound if document.name != "migration.md"] == []


def test_guides_have_no_keyword_that_binds_and_say_that_they_do_not(guides: dict[str, str]):
    assert sorted(guides) == ["guides/hosts.md", "guides/servers.md"]
    for text in guides.values():
        assert re.findall(r"\b(?:MUST|SHALL|SHOULD|MAY|REQUIRED|RECOMMENDED|OPTIONAL)\b", text) == []
        assert "This guide is non-normative" in " ".join(text.split())


def test_the_proposal_has_every_section_that_the_process_asks_for():
    headings = anchors((FOLDER / "sep.md").read_text(encoding="utf-8"))
    asked = ["abstract", "motivation", "specification", "rationale", "backward-compatibility", "security-implications"]
    asked += ["reference-implementation", "alternatives-considered", "open-questions"]
    assert [heading for heading in headings if heading.removeprefix("#") in asked] == [f"#{name}" for name in asked]


def test_every_check_that_a_guide_names_decides_a_row():
    rows = [*requirements(), *advice(), *base_rules()]
    known = {check.split("-", 3)[3] for row in rows for check in row.checks}
    named = {name for guide in GUIDES for name in checks_named(guide.read_text(encoding="utf-8"))}
    assert len(named) > 30
    assert sorted(named - known) == []


def checks_named(guide: str) -> list[str]:
    """Return the checks of the last section, a checklist, and of the table whose last column they are."""
    _, _, checklist = guide.partition("\n## Checklist\n")
    cells = [line.rsplit("|", 2)[1] for line in guide.splitlines() if line.startswith("| ") and line.count("|") == 4]
    return re.findall(r"`([a-z]+(?:-[a-z]+)*)`", "\n".join([checklist, *cells]))


def test_every_retired_id_of_the_migration_note_and_every_new_check_is_true():
    note = (FOLDER / "migration.md").read_text(encoding="utf-8")
    known = {check for row in (*requirements(), *advice(), *base_rules()) for check in row.checks}
    pairs = re.findall(r"^\| (?:`([a-z-]+)`)? ?\| (?:`([a-z-]+)`|gone) \|$", note, re.MULTILINE)
    assert len(pairs) > 8
    assert not [old for old, _ in pairs if old in known]
    assert not [new for _, new in pairs if new and new not in known]
