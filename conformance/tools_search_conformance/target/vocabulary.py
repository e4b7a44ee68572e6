"""Queries derived from the catalog that a target lists: broad ones, distinctive ones, and the draft's terms.

Nothing here knows a fixture by name, so that every relational check runs on any server.
"""

from __future__ import annotations

import unicodedata
from collections import Counter
from dataclasses import dataclass
from functools import cached_property, lru_cache
from itertools import combinations
from typing import Final

from tools_search_conformance.wire.codec import JsonObject

WHITE_SPACE: Final = (
    "\t\n\v\f\r \x85\xa0\u1680\u2000\u2001\u2002\u2003\u2004\u2005\u2006\u2007\u2008\u2009\u200a\u2028\u2029\u202f"
    "\u205f\u3000"
)
"""The characters with the Unicode property White_Space."""

NONSENSE: Final = "qzxjvkw wvxzqkj"
"""Words of no language, and of no catalog that was met so far."""

_COMMON_WORDS: Final = (
    "a about after all an and any are as at be been before by can each else every five for four from get given "
    "has have how if in into is it its last let like list may more most much must name new next no none not "
    "now of off on once one only or other out over own past per same set should show some such take than that "
    "the their them then there they this three time to tool tools two under unless until up use used user "
    "value via was what when where which while who will with within without you your "
)
_COMMON: Final = frozenset(_COMMON_WORDS.split())
_SHORTEST: Final = 4
_EAST_ASIAN: Final = "\u2e80"
_SHORTEST_EAST_ASIAN: Final = 2
_RARE: Final = 2
_HUNDRED: Final = 100
_LONGEST: Final = 1024
_READ: Final = 20_000
"""Characters of a text that queries are taken from."""
_PAIRED_TOOLS: Final = 500
_PAIRED_TERMS: Final = 20


@lru_cache(maxsize=8192)
def terms(text: str) -> tuple[str, ...]:
    """Return the draft's terms of `text`: runs of letters, marks and digits after NFKC and default case folding."""
    folded = unicodedata.normalize("NFKC", text).casefold()
    kept = (c if (kind := unicodedata.category(c))[0] in "LM" or kind == "Nd" else " " for c in folded)
    return tuple("".join(kept).split())


def text_of(tool: JsonObject) -> list[str]:
    """Return the texts of a tool that the matching floor is about: `name`, `title` and `description`."""
    return [text[:_READ] for member in ("name", "title", "description") if isinstance(text := tool.get(member), str)]


def is_query(name: str) -> bool:
    """Return whether a tool's name, sent as a query, is bound to find that tool."""
    return bool(name) and len(name) <= _LONGEST and name == name.strip(WHITE_SPACE)


@dataclass(frozen=True)
class Vocabulary:
    """The words of one catalog."""

    tools: tuple[JsonObject, ...]

    @cached_property
    def names(self) -> list[str]:
        """The tools' names, in the order of the listing."""
        return [tool["name"] for tool in self.tools]

    @property
    def name_query(self) -> str:
        """A tool's name: a query that every conformant server has a match for, where there is any tool."""
        fit = (name for name in self.names if name.strip(WHITE_SPACE) and len(name) <= _LONGEST)
        return next(fit, "anything")

    @cached_property
    def frequency(self) -> Counter[str]:
        """In how many tools each term occurs."""
        return Counter(term for tool in self.tools for term in self._terms(tool))

    def broad(self, count: int = 5) -> list[str]:
        """Return the words that occur in most tools without being common ones, widest first."""
        specific = [term for term, n in self.frequency.most_common() if n > 1 and _is_specific(term)]
        return specific[:count] or [term for term in self.frequency if _is_specific(term)][:count] or self.names[:count]

    def pairs(self, count: int) -> list[str]:
        """Return pairs of words that occur together in several tools, the most frequent first."""
        together = Counter(
            f"{one} {other}"
            for tool in self.tools[:_PAIRED_TOOLS]
            for one, other in combinations(sorted([*filter(_is_specific, self._terms(tool))][:_PAIRED_TERMS]), 2)
        )
        return [pair for pair, n in together.most_common(count) if n > 1]

    def composed(self, count: int) -> list[str]:
        """Return words of several tools with letters that Unicode composes as well as decomposes."""
        several = (term for term, n in self.frequency.most_common() if n > 1)
        return [term for term in several if unicodedata.normalize("NFD", term) != term][:count]

    def distinctive(self, tool: JsonObject) -> list[str]:
        """Return the terms that single `tool` out, rarest first, in the order of its texts."""
        few = max(_RARE, len(self.tools) // _HUNDRED)
        rare = [term for term in dict.fromkeys(self._terms(tool)) if self.frequency[term] <= few and _is_specific(term)]
        return sorted(rare, key=lambda term: self.frequency[term])

    def alone(self, tool: JsonObject, member: str) -> list[str]:
        """Return up to one distinctive term of `tool` that stands in this member of it and in no other."""
        held = [set(terms(text)) for text in text_of(tool)]
        own = set(terms(tool[member][:_READ])) if isinstance(tool.get(member), str) else set[str]()
        return [t for t in self.distinctive(tool) if t in own and sum(t in other for other in held) == 1][:1]

    def odd(self, tool: JsonObject) -> list[str]:
        """Return distinctive terms of `tool` that are not ASCII, or there after case folding only, as `strasse` is."""
        lowered = " ".join(text_of(tool)).lower()
        return [t for t in self.distinctive(tool) if not t.isascii() or t not in lowered]

    def capital_sharp(self, tool: JsonObject) -> list[str]:
        """Return up to one distinctive term that `tool` has with a sharp s, in capitals with a capital sharp s."""
        held = {term for text in text_of(tool) for word in text.split() if "ß" in word for term in terms(word)}
        return [t.replace("ss", "ẞ").upper() for t in self.distinctive(tool) if t in held and "ss" in t][:1]

    def sample(self, count: int) -> list[str]:
        """Return up to `count` queries that are bound to match something: broad words and phrases of descriptions."""
        texts, wanted = [" ".join(text_of(tool)[1:]) for tool in self.tools], count // 2
        spread = texts[:: max(1, len(texts) // max(1, wanted))][:wanted]
        phrases = [" ".join(text.split()[:6]) for text in spread]
        return [*self.broad(count - len(phrases)), *filter(None, phrases)]

    def _terms(self, tool: JsonObject) -> list[str]:
        return list(dict.fromkeys(term for text in text_of(tool) for term in terms(text)))


def _is_specific(term: str) -> bool:
    shortest = _SHORTEST if term < _EAST_ASIAN else _SHORTEST_EAST_ASIAN
    return len(term) >= shortest and term.isalpha() and term not in _COMMON
