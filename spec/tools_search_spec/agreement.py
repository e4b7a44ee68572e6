"""Compares the draft with its rows: which sentence has none, which row has no sentence, whose level is another."""

from __future__ import annotations

import re
from typing import Any, Final

import yaml

from tools_search_spec.sentences import Sentence, normative_sentences

__all__ = ["disagreements"]

_DRAFT: Final = "spec/draft/tools-search.md"
_ROWS: Final = "spec/tools_search_spec/requirements.yaml"


def disagreements(draft: str, rows: str) -> list[str]:
    """Return what is wrong between the text of the draft and that of `requirements.yaml`, each with file and line.

    A sentence without a row comes with the row to paste, in which `???` stands for what has to be thought of.
    """
    sentences = {sentence.text: sentence for sentence in normative_sentences(draft)}
    held: list[dict[str, Any]] = yaml.safe_load(rows)["requirements"]
    known = {row["text"] for row in held}
    return [
        *(_missing(sentence, held) for text, sentence in sentences.items() if text not in known),
        *(problem for row in held if (problem := _stale(row, sentences.get(row["text"]), rows)) is not None),
    ]


def _missing(sentence: Sentence, held: list[dict[str, Any]]) -> str:
    return (
        f"{_DRAFT}:{sentence.line} has no row; add to {_ROWS}:\n"
        f"  - id: {_next_id(sentence.section, held)}\n"
        f"    section: '{sentence.section}'\n"
        f"    level: {sentence.keywords[0]}\n"
        f"    role: {'client' if 'client' in sentence.text.lower().split('must')[0] else 'server'}\n"
        f"    text: '{sentence.text.replace(chr(39), chr(39) * 2)}'\n"
        f"    check: tools-search-???"
    )


def _next_id(section: str, held: list[dict[str, Any]]) -> str:
    """Return the number after the last one of the section's area, whose ids are never given again."""
    areas = [row["id"].rpartition("-")[0] for row in held if row["section"] == section]
    if not areas:
        return "R-???-01"
    numbers = [int(row["id"].rpartition("-")[2]) for row in held if row["id"].startswith(f"{areas[-1]}-")]
    return f"{areas[-1]}-{max(numbers) + 1:02}"


def _stale(row: dict[str, Any], sentence: Sentence | None, rows: str) -> str | None:
    found = re.search(rf"^  - id: {re.escape(row['id'])}$", rows, re.MULTILINE)
    where = f"{_ROWS}:{rows.count(chr(10), 0, found.start()) + 1 if found else 0} {row['id']}"
    if sentence is None:
        return f"{where} is about no sentence of {_DRAFT}: {row['text']}"
    if row["section"] != sentence.section:
        return f"{where} has section {row['section']}; its sentence, {_DRAFT}:{sentence.line}, has {sentence.section}"
    if (row["level"],) != sentence.keywords:
        told = " and ".join(sentence.keywords)
        return f"{where} has level {row['level']}; its sentence, {_DRAFT}:{sentence.line}, says {told}"
    return None
