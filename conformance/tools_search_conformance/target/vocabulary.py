"""Queries derived from a target's catalog: broad ones, distinctive ones, and the draft's terms.

Nothing here depends on a particular fixture, so that every relational check runs on any server.
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
"""Words that are in no language and in no catalog seen so far."""

_COMMON_WORDS: Final = (
    "a about above across after afterwards again against all almost alone along already also although always among "
    "amongst amount an and another any anyhow anyone anything anyway anywhere are around as at back be became "
    "because become becomes becoming been before beforehand behind being below beside besides between beyond bill "
    "both bottom but by call can cannot cant con could couldnt cry describe detail did does doing don done down "
    "due during each eight either eleven else elsewhere empty enough etc even ever every everyone everything "
    "everywhere except few fifteen fifty fill find fire first five for former formerly forty found four from front "
    "full further get give given had has hasnt have having hence her here hereafter hereby herein hereupon hers "
    "herself him himself his how however hundred if in inc indeed interest into is it its itself just keep last "
    "latter latterly least less let like list ltd made many may meanwhile might mill mine more moreover most "
    "mostly move much must myself name namely neither never nevertheless new next nine no nobody none noone nor "
    "not nothing now nowhere of off often on once one only onto or other others otherwise our ours ourselves out "
    "over own part past per perhaps please put rather same see seem seemed seeming seems serious set several she "
    "should show side since sincere six sixty some somehow someone something sometime sometimes somewhere still "
    "such system take ten than that the their theirs them themselves then thence there thereafter thereby "
    "therefore therein thereupon these they thick thin third this those though three through throughout thru thus "
    "time to together too tool tools top toward towards twelve twenty two under unless until up upon use used user "
    "value very via was well were what whatever when whence whenever where whereafter whereas whereby wherein "
    "whereupon wherever whether which while whither who whoever whole whom whose why will with within without "
    "would yet you your yours yourself yourselves "
)
"""Words from common stop word lists, and others that are frequent in tool descriptions."""
_COMMON: Final = frozenset(_COMMON_WORDS.split())
_SHORTEST: Final = 4
_SHORTEST_TELLING: Final = 3
_SHORTEST_FIGURE: Final = 2
_MOST_SHARED: Final = 300
_LONG: Final = 150
_EAST_ASIAN: Final = "\u2e80"
_SHORTEST_EAST_ASIAN: Final = 2
_RARE: Final = 2
_HUNDRED: Final = 100
_LONGEST: Final = 1024
_LONGEST_TERM: Final = 200
"""Short enough for five of them to fit in a query."""
_READ: Final = 20_000
"""Number of characters of a text to take queries from."""
_PAIRED_TOOLS: Final = 500
_PAIRED_TERMS: Final = 20


@lru_cache(maxsize=8192)
def terms(text: str) -> tuple[str, ...]:
    """Return the draft's terms of `text`: runs of letters, marks and digits after NFKC and default case folding."""
    folded = unicodedata.normalize("NFKC", text).casefold()
    kept = (c if (kind := unicodedata.category(c))[0] in "LM" or kind == "Nd" else " " for c in folded)
    return tuple("".join(kept).split())


def text_of(tool: JsonObject) -> list[str]:
    """Return the tool's texts that the matching floor covers: `name`, `title` and `description`."""
    return [text[:_READ] for member in ("name", "title", "description") if isinstance(text := tool.get(member), str)]


def is_query(name: str) -> bool:
    """Return whether a search for a tool's name must find that tool."""
    return bool(name) and len(name) <= _LONGEST and name == name.strip(WHITE_SPACE)


@dataclass(frozen=True)
class Vocabulary:
    """The words in a catalog's tools, or in another list's items."""

    items: tuple[JsonObject, ...]
    key: str = "name"
    """The member that identifies the items."""
    widest: int | None = None
    """In how many items a word may occur to count as one of the broadest, if there are such words."""

    @cached_property
    def keys(self) -> list[str]:
        """The items' keys, in the order of the listing."""
        return [item[self.key] for item in self.items]

    @property
    def key_query(self) -> str:
        """An item's key: a query with a match on every conformant server that has items."""
        fit = (name for name in self.keys if name.strip(WHITE_SPACE) and len(name) <= _LONGEST)
        return next(fit, "anything")

    @cached_property
    def frequency(self) -> Counter[str]:
        """The number of tools in which each term occurs."""
        return Counter(term for tool in self.items for term in self._terms(tool))

    def broad(self, count: int = 5) -> list[str]:
        """Return the words in the most tools, except common words, most frequent first."""
        shared = [(term, n) for term, n in self.frequency.most_common() if n > 1 and _is_specific(term)]
        specific = [term for term, n in shared if self.widest is None or n <= self.widest] or [t for t, _ in shared]
        return specific[:count] or [term for term in self.frequency if _is_specific(term)][:count] or self.keys[:count]

    def pairs(self, count: int) -> list[str]:
        """Return pairs of words that occur together in several tools, most frequent first."""
        together = Counter(
            f"{one} {other}"
            for tool in self.items[:_PAIRED_TOOLS]
            for one, other in combinations(sorted([*filter(_is_specific, self._terms(tool))][:_PAIRED_TERMS]), 2)
        )
        return [pair for pair, n in together.most_common(count) if n > 1]

    def composed(self, count: int) -> list[str]:
        """Return words in several tools with letters that Unicode has both composed and decomposed."""
        several = (term for term, n in self.frequency.most_common() if n > 1)
        return [term for term in several if unicodedata.normalize("NFD", term) != term][:count]

    def terms_of(self, tool: JsonObject) -> set[str]:
        """Return the terms of the tool's name, title and description."""
        return {*self._terms(tool)}

    def shared(self, count: int) -> list[str]:
        """Return words shared by several tools, but at most half of them, most frequent first."""
        most = min(len(self.items) // 2, _MOST_SHARED)
        words = [t for t, n in self.frequency.most_common() if _RARE < n <= most and _is_specific(t)]
        return [words[number * (len(words) - 1) // max(1, count - 1)] for number in range(min(count, len(words)))]

    def distinctive(self, tool: JsonObject) -> list[str]:
        """Return the terms that distinguish `tool`, rarest first, in the order of its texts."""
        few = max(_RARE, len(self.items) // _HUNDRED)
        rare = [term for term in self._terms(tool) if self.frequency[term] <= few and _is_telling(term)]
        return sorted(rare, key=lambda term: self.frequency[term])

    def figures(self, tool: JsonObject) -> list[str]:
        """Return at most one distinctive term of `tool` that contains a digit or a mark."""
        return [term for term in self.distinctive(tool) if not term.isalpha()][:1]

    def short(self, tool: JsonObject) -> list[str]:
        """Return at most one term of `tool` that is a single letter or digit, except common words."""
        return [t for t in self._terms(tool) if len(t) == 1 and t.isalnum() and t not in _COMMON][:1]

    def beyond(self, tool: JsonObject) -> list[str]:
        """Return at most one distinctive term of `tool`: the last one in a long description."""
        if len(str(tool.get("description", ""))) <= _LONG:
            return []
        distinctive = {*self.distinctive(tool)}
        return [term for term in self._terms(tool) if term in distinctive][-1:]

    def alone(self, tool: JsonObject, member: str) -> list[str]:
        """Return at most one distinctive term of `tool` that is only in this member."""
        held = [set(terms(text)) for text in text_of(tool)]
        own = set(terms(tool[member][:_READ])) if isinstance(tool.get(member), str) else set[str]()
        return [t for t in self.distinctive(tool) if t in own and sum(t in other for other in held) == 1][:1]

    def odd(self, tool: JsonObject) -> list[str]:
        """Return distinctive terms of `tool` that are not ASCII, or only after case folding, such as `strasse`."""
        lowered = " ".join(text_of(tool)).lower()
        return [t for t in self.distinctive(tool) if not t.isascii() or t not in lowered]

    def capital_sharp(self, tool: JsonObject) -> list[str]:
        """Return at most one distinctive term of `tool` with a sharp s, in capitals with a capital sharp s."""
        held = {term for text in text_of(tool) for word in text.split() if "ß" in word for term in terms(word)}
        return [t.replace("ss", "ẞ").upper() for t in self.distinctive(tool) if t in held and "ss" in t][:1]

    def sample(self, count: int) -> list[str]:
        """Return up to `count` queries that must match something: broad words, and phrases from descriptions."""
        texts, wanted = [" ".join(text_of(tool)[1:]) for tool in self.items], count // 2
        spread = texts[:: max(1, len(texts) // max(1, wanted))][:wanted]
        phrases = [" ".join(text.split()[:6]) for text in spread]
        return [*self.broad(count - len(phrases)), *(each for each in phrases if 0 < len(each) <= _LONGEST)]

    def _terms(self, tool: JsonObject) -> tuple[str, ...]:
        found, shared = _different_terms(*text_of(tool)), self._shared_by_key.get(tool[self.key])
        return found if shared is None else tuple(term for term in found if term in shared)

    @cached_property
    def _shared_by_key(self) -> dict[str, set[str]]:
        """The terms that all items with the same key share, where there are several: a search considers one of them."""
        count, shared = Counter(self.keys), dict[str, set[str]]()
        for item in self.items:
            if count[key := item[self.key]] > 1:
                own = {*_different_terms(*text_of(item))}
                shared[key] = shared.get(key, own) & own
        return shared


@lru_cache(maxsize=8192)
def _different_terms(*texts: str) -> tuple[str, ...]:
    held = (term for text in texts for term in terms(text))
    return tuple(dict.fromkeys(term for term in held if len(term) <= _LONGEST_TERM))


def _is_telling(term: str) -> bool:
    """Return whether a term is not a stop word, and not short enough to be taken for one."""
    if term in _COMMON or not any(c.isalnum() for c in term):
        return False
    shortest = _SHORTEST_FIGURE if not term.isalpha() or term >= _EAST_ASIAN else _SHORTEST_TELLING
    return len(term) >= shortest


def _is_specific(term: str) -> bool:
    shortest = _SHORTEST if term < _EAST_ASIAN else _SHORTEST_EAST_ASIAN
    return len(term) >= shortest and term.isalpha() and term not in _COMMON
