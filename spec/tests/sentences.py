"""Reads the sentences out of the Markdown of the draft and its guides.

A sentence is normative when it says MUST, MUST NOT, SHOULD or SHOULD NOT (or SHALL, REQUIRED, RECOMMENDED and their
negations, which the draft does not use) outside of code, diagrams and quotation marks. A list item inherits nothing
from the text above it: each states its rule in full.
"""

from __future__ import annotations

import re
from collections.abc import Iterator
from dataclasses import dataclass
from typing import Final

from markdown_it import MarkdownIt
from markdown_it.token import Token

_KEYWORD: Final = re.compile(r"\b(?:MUST|SHALL|SHOULD)(?: NOT)?\b|\b(?:NOT )?(?:RECOMMENDED|REQUIRED)\b")
_QUOTED: Final = re.compile(r'"[^"]*"')
_CODE: Final = re.compile(r"`[^`]*`")
_END: Final = re.compile(r"(?<=[.!?:])\s+(?=[A-Z\"(\x00])")
_NOT_IN_ANCHOR: Final = re.compile(r"[^\w\- ]")


@dataclass(frozen=True, kw_only=True)
class Sentence:
    """A sentence of a document."""

    line: int
    """Line of the Markdown, counted from 1, on which its paragraph begins."""
    section: str
    """Anchor of the nearest heading above it, such as `#request`."""
    text: str
    """The sentence without emphasis and links, white space collapsed; code keeps its backticks."""
    keywords: tuple[str, ...]
    """The BCP 14 keywords in it, in order; empty if it is not normative."""


@dataclass(frozen=True, kw_only=True)
class Fence:
    """A fenced block."""

    line: int
    """Line of the Markdown, counted from 1, on which it begins."""
    language: str
    text: str


def sentences(markdown: str) -> Iterator[Sentence]:
    """Yield every sentence, in the order of the text."""
    section = ""
    for kind, line, content in _blocks(markdown):
        if kind == "heading":
            section = _anchor(content)
            continue
        for text in _split(content):
            prose = _QUOTED.sub("", _CODE.sub("", text))
            yield Sentence(line=line, section=section, text=text, keywords=tuple(_KEYWORD.findall(prose)))


def normative_sentences(markdown: str) -> list[Sentence]:
    """Return the sentences that bind someone, in the order of the text."""
    return [sentence for sentence in sentences(markdown) if sentence.keywords]


def anchors(markdown: str) -> list[str]:
    """Return the anchors of all headings as a Markdown site makes them, such as `#the-query`."""
    return [_anchor(content) for kind, _, content in _blocks(markdown) if kind == "heading"]


def fences(markdown: str) -> list[Fence]:
    """Return the fenced blocks, in the order of the text."""
    tokens = [token for token in _parse(markdown) if token.type == "fence"]
    return [Fence(line=_line(token), language=token.info.strip(), text=token.content) for token in tokens]


def _blocks(markdown: str) -> Iterator[tuple[str, int, str]]:
    """Yield each heading, paragraph, list item and table cell as its kind, its line and its text."""
    kind, line = "", 0
    for token in _parse(markdown):
        if token.type in ("heading_open", "paragraph_open", "th_open", "td_open"):
            kind, line = token.type.removesuffix("_open"), _line(token) or line
        elif token.type == "inline":
            pieces = {"code_inline": "`{}`", "softbreak": " ", "hardbreak": " "}
            children = token.children or []
            text = "".join(pieces.get(child.type, "{}").format(child.content) for child in children)
            yield kind, line, " ".join(text.split())


def _parse(markdown: str) -> list[Token]:
    if markdown.startswith("---\n"):
        # The front matter becomes blank lines, so that line numbers stay.
        end = markdown.index("\n---\n", 3) + len("\n---\n")
        markdown = "\n" * markdown.count("\n", 0, end) + markdown[end:]
    return MarkdownIt("commonmark").enable("table").parse(markdown)


def _line(token: Token) -> int:
    return token.map[0] + 1 if token.map else 0


def _split(text: str) -> Iterator[str]:
    """Split at sentence ends. Text in backticks is never split, and may begin a sentence."""
    codes: Iterator[str] = iter(_CODE.findall(text))
    for part in _END.split(_CODE.sub("\x00", text)):
        yield re.sub("\x00", lambda _: next(codes), part)


def _anchor(heading: str) -> str:
    return "#" + _NOT_IN_ANCHOR.sub("", heading.lower()).replace(" ", "-")
