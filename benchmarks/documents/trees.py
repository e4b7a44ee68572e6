"""Folders of documentation as resources, with queries that the documents themselves answer.

No query is written by hand: each is a text from the documents, taken from all of them by the same rule.

    title      the title of a document, which is taken out of it
    sentence   the first sentence of a document, which is taken out of it
    link       the text of a link in one document to another
    name       the last part of a document's path, in words

Several documents can be right if they share a title, a link text or a name. Texts shared by more than five documents
are left out, because they say nothing. So are titles and links of a single word, sentences of fewer than six, and names
without a word, such as those of releases.
"""

from __future__ import annotations

import re
from collections.abc import Iterable, Iterator, Mapping
from dataclasses import dataclass, replace
from hashlib import sha256
from pathlib import Path, PurePosixPath
from posixpath import normpath
from typing import Final

from benchmarks.datasets import Query

MAX_CHARS: Final = 64 * 1024
"""Characters of a document to search, the default of `mcp_ext_search_primitives`."""

_MAX_ANSWERS: Final = 5
"""Maximum documents that can answer one query."""

_SUFFIXES: Final = (".rst.txt", ".mdx", ".md", ".rst", ".txt")
_FRONT_MATTER: Final = re.compile(r"\A---\n(.*?)^---\n", re.DOTALL | re.MULTILINE)
_FRONT_TITLE: Final = re.compile(r"^title: *[\"']?(.*?)[\"']? *$", re.MULTILINE)
_MARKDOWN_TITLE: Final = re.compile(r"^# +(?P<title>.+?) *#*\n", re.MULTILINE)
_RST_TITLE: Final = re.compile(r"^(?:([=\-*~#^])\1+\n)? *(?P<title>\S.*)\n([=\-*~#^])\3{2,}\n", re.MULTILINE)
_MARKDOWN_LINK: Final = re.compile(r"(?<!!)\[([^\[\]]+)\]\(([^()\s#]+)[^()]*\)")
_RST_LINK: Final = re.compile(r":(doc|ref):`([^`<]+?)\s*<([^>`]+)>`")
_LABEL: Final = re.compile(r"^\.\. _([^:\n]+):\s*$", re.MULTILINE)
_MARKUP: Final = re.compile(r":[\w:-]+:(?=`)|[`*]|<[^>]*>|\[([^\[\]]+)\]\([^()]*\)")
_PARAGRAPH: Final = re.compile(r"(?:\A|\n\n)(?=[A-Z`*\[])((?:.+\n?)+)")
_SENTENCE: Final = re.compile(r"\s*(\S.*?[.!?])(?=\s|\Z)", re.DOTALL)
_WORD: Final = re.compile(r"[^\W_]+")


@dataclass(frozen=True)
class Document:
    """A file in a folder."""

    path: str
    """The path within the folder, without the suffix."""

    title: str
    text: str
    """The text without the title."""


@dataclass(frozen=True)
class Tree:
    """A folder of documents with queries."""

    name: str
    documents: Mapping[str, Document]
    """The documents by path, with the texts to search."""

    queries: Mapping[str, list[Query]]
    """The queries by rule; their relevant ids are paths."""


def read_tree(folder: Path, split: str, max_queries: int) -> Tree:
    """Read a folder of Markdown or reStructuredText, with at most `max_queries` queries of each kind.

    Half of the queries, drawn by a hash, are `dev`, and the others `test`; `split` is one of them or `all`.

    Raises:
        ValueError: There are no documents.
    """
    documents = {page.path: page for page in _documents(folder)}
    if not documents:
        raise ValueError(f"{folder} has no Markdown or reStructuredText files")
    first = {path: _first_sentence(page.text) for path, page in documents.items()}
    # A link's text is in another document, and stays there.
    links = list(_links(documents, folder.name))
    asked: Mapping[str, Iterable[tuple[str, str]]] = {
        "title": ((page.title, path) for path, page in documents.items() if _words(page.title) > 1),
        "sentence": ((_plain(text), path) for path, text in first.items() if _words(text) > 5),
        "link": ((text, path) for text, path in links if _words(text) > 1),
        "name": ((name, path) for path in documents if re.search(r"[^\W\d_]{3}", name := _name_of(path))),
    }
    return Tree(
        folder.name,
        {path: replace(page, text=_without(page.text, first[path])[:MAX_CHARS]) for path, page in documents.items()},
        {kind: list(_queries(folder.name, kind, pairs, split))[:max_queries] for kind, pairs in asked.items()},
    )


def _documents(folder: Path) -> Iterator[Document]:
    for file in sorted(folder.rglob("*")):
        suffix = next((suffix for suffix in _SUFFIXES if file.name.endswith(suffix)), None)
        if suffix is None or not file.is_file():
            continue
        text = file.read_text(encoding="utf-8", errors="replace").lstrip("\ufeff")
        title = ""
        if front := _FRONT_MATTER.match(text):
            title = found[1] if (found := _FRONT_TITLE.search(front[1])) else ""
            text = text[front.end() :]
        if not title and (found := (_MARKDOWN_TITLE if suffix.startswith(".md") else _RST_TITLE).search(text)):
            title = found["title"]
            text = text[: found.start()] + text[found.end() :]
        path = file.relative_to(folder).as_posix().removesuffix(suffix)
        yield Document(path, _plain(title), text.strip())


def _links(documents: Mapping[str, Document], root: str) -> Iterator[tuple[str, str]]:
    """Yield the text and the target path of each link to another document."""
    labels = {label: path for path, page in documents.items() for label in _LABEL.findall(page.text)}
    for path, page in documents.items():
        found = [(text, _resolved(path, target, root)) for text, target in _MARKDOWN_LINK.findall(page.text)]
        for role, text, target in _RST_LINK.findall(page.text):
            found.append((text, labels.get(target, "") if role == "ref" else _resolved(path, target, root)))
        yield from ((_plain(text), target) for text, target in found if target in documents and target != path)


def _resolved(path: str, target: str, root: str) -> str:
    """Return the target path of a link in the document at `path`; absolute targets start at the folder or in it."""
    if target.startswith("/"):
        inner = normpath(target.lstrip("/")).removeprefix(f"{root}/")
    else:
        inner = normpath(str(PurePosixPath(path).parent / target))
    return next((inner.removesuffix(suffix) for suffix in _SUFFIXES if inner.endswith(suffix)), inner)


def _first_sentence(text: str) -> str:
    """Return the first sentence of the first paragraph that starts like a sentence."""
    paragraph = _PARAGRAPH.search(text)
    sentence = _SENTENCE.match(paragraph[1]) if paragraph else None
    return sentence[1] if sentence else ""


def _name_of(path: str) -> str:
    return " ".join(_WORD.findall(PurePosixPath(path).name))


def _without(text: str, sentence: str) -> str:
    return text.replace(sentence, " ", 1) if sentence else text


def _plain(text: str) -> str:
    return " ".join(_MARKUP.sub(lambda found: found[1] or "", text).split())


def _words(text: str) -> int:
    return len(_WORD.findall(text))


def _queries(tree: str, kind: str, pairs: Iterable[tuple[str, str]], split: str) -> Iterator[Query]:
    right: dict[str, set[str]] = {}
    spelled: dict[str, str] = {}
    for text, path in pairs:
        right.setdefault(text.casefold(), set()).add(path)
        spelled.setdefault(text.casefold(), text)
    drawn = sorted((sha256(f"{tree} {kind} {key}".encode()).hexdigest(), key) for key in right)
    for digest, key in drawn:
        half = "dev" if int(digest[-1], 16) % 2 else "test"
        if len(right[key]) <= _MAX_ANSWERS and split in (half, "all"):
            relevant = tuple(sorted(right[key]))
            yield Query(id=f"{kind}-{digest[:8]}", query=spelled[key], relevant=relevant, split=half, slice=kind)
