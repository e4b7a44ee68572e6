"""Compares draft and guides with their rows: sentences without rows, and rows that differ from their sentences."""

from __future__ import annotations

import re
from collections.abc import Mapping
from typing import Any, Final

import yaml
from sentences import Sentence, normative_sentences, sentences

_FOLDER: Final = "spec/"
_PAGE: Final = "tools-search.md"  # the page of a row that names none
_ROWS: Final = "spec/tools_search_spec/requirements.yaml"


def disagreements(pages: Mapping[str, str], guides: Mapping[str, str], rows: str) -> list[str]:
    """Return the differences between draft, guides and the text of `requirements.yaml`, each with file and line.

    For a normative sentence without a row, this includes a row to paste, with `???` to fill in.

    Args:
        pages: Text of each page of the draft, by its name in the folder `spec/draft`.
        guides: Text of each guide, by its path below the folder `spec`.
        rows: Text of `requirements.yaml`.
    """
    held = yaml.safe_load(rows)
    required: list[dict[str, Any]] = held["requirements"]
    normative = {page: {each.text: each for each in normative_sentences(text)} for page, text in pages.items()}
    problems: list[str] = []
    for page, own in normative.items():
        held_of_page = [row for row in required if row.get("page", _PAGE) == page]
        known = {row["text"] for row in held_of_page}
        problems += [_missing(each, page, held_of_page, rows) for text, each in own.items() if text not in known]
    for row in required:
        page = row.get("page", _PAGE)
        problems += _stale(row, row["section"], f"{_FOLDER}draft/{page}", normative.get(page, {}), rows)
    of_guides = {path: {sentence.text: sentence for sentence in sentences(text)} for path, text in guides.items()}
    for row in held["advice"]:
        path, mark, heading = row["place"].partition("#")
        problems += _stale(row, mark + heading, _FOLDER + path, of_guides.get(path, {}), rows)
    return problems


def _missing(sentence: Sentence, page: str, held: list[dict[str, Any]], rows: str) -> str:
    next_id = "R-???-01"
    if areas := [row["id"].rpartition("-")[0] for row in held if row["section"] == sentence.section]:
        # The next number in the section's area, counting advice and retired rows.
        next_id = f"{areas[-1]}-{max(map(int, re.findall(rf'{areas[-1]}-([0-9]+)', rows))) + 1:02}"
    row = {
        "section": f"'{sentence.section}'",
        "page": page if page != _PAGE else None,
        "level": sentence.keywords[0],
        "role": "client" if "client" in sentence.text.lower().split("must")[0] else "server",
        "text": "'{}'".format(sentence.text.replace("'", "''")),
        "check": "tools-search-???",
    }
    lines = [f"    {name}: {value}" for name, value in row.items() if value is not None]
    problem = f"{_FOLDER}draft/{page}:{sentence.line} has no row; add to {_ROWS}:"
    return "\n".join([problem, f"  - id: {next_id}", *lines])


def _stale(row: dict[str, Any], section: str, document: str, known: Mapping[str, Sentence], rows: str) -> list[str]:
    """Return how a row differs from its sentence in `document`, whose sentences are `known` by text."""
    found = re.search(rf"^  - id: {re.escape(row['id'])}$", rows, re.MULTILINE)
    where = f"{_ROWS}:{rows.count(chr(10), 0, found.start()) + 1 if found else 0} {row['id']}"
    sentence = known.get(row["text"])
    if sentence is None:
        return [f"{where} is about no sentence of {document}: {row['text']}"]
    its = f"its sentence, {document}:{sentence.line},"
    if section != sentence.section:
        return [f"{where} has section {section}; {its} has {sentence.section}"]
    if "level" in row and (row["level"],) != sentence.keywords:
        return [f"{where} has level {row['level']}; {its} says {' and '.join(sentence.keywords)}"]
    return []
