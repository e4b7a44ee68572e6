"""What requests in German, French, Spanish, Russian and Chinese say in the words of definitions, which are English.

A table of everyday words for each language is in `languages/`, which any port can copy. It is read when the first
request in its language arrives. A request in another language is known by its script, or by words that English lacks.
"""

from __future__ import annotations

import json
import re
from collections.abc import Collection, Iterator, Mapping, Sequence
from functools import cache, lru_cache
from itertools import chain, pairwise
from pathlib import Path
from typing import Any, Final, TypeAlias

from mcp_ext_tools_search.ranking.language import MAX_WORD_LENGTH, STOP_WORDS, is_unspaced, stem
from mcp_ext_tools_search.ranking.query import Runs, Translation

Senses: TypeAlias = Mapping[str, float]
"""English words, each with the part that it counts of a word that leads to it. A function word leads to none."""

_FOLDER: Final = Path(__file__).with_name("languages")
_FURTHER: Final = 0.5  # what the second English word for a sense counts, where the first counts 1
_ALSO_ENGLISH: Final = 0.4  # what a word says for a language if English (`die`) or its names (`la`) have it too
_OF_UNSPACED: Final = (
    0.25  # what an English word counts in a Chinese request, each pair of whose characters counts as a word
)
_MAX_APART: Final = 12  # words between a verb and its prefix
_SHORTEST_STEM, _SHORTEST_PART, _SHORTEST_COMPOUND = 4, 3, 7
_SCRIPTS: Final = {"ru": re.compile("[\u0400-\u04ff]{3}"), "zh": re.compile("[\u3400-\u4dbf\u4e00-\u9fff]{1,2}")}
_KANA_OR_HANGUL: Final = re.compile("[\u3040-\u30ff\uac00-\ud7a3]")


def in_english(runs: Runs) -> Translation | None:
    """Add to each run the English words that it leads to, or take it for a stop word if there are none.

    Returns:
        `None` if the request is not in a language with a table.
    """
    if (senses := senses_of([run for run, _ in runs])) is None:
        return None
    found, foreign, english, said = list(runs), set[str](), dict[str, float](), set[str]()
    for place, (run, own) in enumerate(runs):
        if (meant := senses[place]) is None:
            said.update(chain.from_iterable(own))
            continue
        found[place] = run, [*own, *((word, stem(word)) for word in meant)] if meant else []
        roots = frozenset(root for _, root in own if meant)
        foreign |= frozenset(filter(is_unspaced, roots)) or roots  # a run may have Chinese and Latin letters
        for word, part in meant.items():
            english |= {key: max(english.get(key, 0.0), part) for key in (word, stem(word))}
    if not any(own for _, own in found):
        return None  # a request of nothing but function words keeps them
    return Translation(found, frozenset(foreign), {key: part for key, part in english.items() if key not in said})


def senses_of(runs: Sequence[str]) -> list[Senses | None] | None:
    """Return for each run of a request, case folded, what it says in English, or `None` if no table has it.

    Returns:
        `None` if the request is not in a language with a table.
    """
    language = _language_of(runs)
    return _table(language).senses_of(runs) if language else None


def _language_of(runs: Sequence[str]) -> str | None:
    text, counts = "".join(runs), _counts()
    if not text.isascii():
        for language, script in _SCRIPTS.items():
            if (count := len(script.findall(text))) and not _KANA_OR_HANGUL.search(text):
                return language if count > len(STOP_WORDS.intersection(runs)) else None
    if counts.keys().isdisjoint(runs):
        return None
    own = frozenset(runs)
    said = {language: sum(counts[run].get(language, 0.0) for run in own & counts.keys()) for language in _languages()}
    most = max(said.values())
    alike = [language for language in said if said[language] == most]  # `un` and `en` are French and Spanish
    language = max(alike, key=lambda language: _table(language).knows(own)) if len(alike) > 1 else alike[0]
    return language if most >= max(1, len(own & STOP_WORDS - _function_words(language)) + 0.5) else None


@cache
def _languages() -> Mapping[str, Any]:
    return json.loads((_FOLDER / "languages.json").read_text("utf-8"))


@cache
def _function_words(language: str) -> frozenset[str]:
    return frozenset(" ".join(_languages()[language]["functionWords"]).split())


@cache
def _counts() -> Mapping[str, Mapping[str, float]]:
    """Return the words by which a language is recognized, with what each counts for which languages."""
    counts: dict[str, dict[str, float]] = {}
    for language, rules in _languages().items():
        also_english = frozenset(" ".join(rules["alsoEnglish"]).split())
        for word in (_function_words(language) | frozenset(" ".join(rules["marks"]).split())) - STOP_WORDS:
            counts.setdefault(word, {})[language] = _ALSO_ENGLISH if word in also_english else 1.0
    return counts


class _Table:
    """The words of a language with their senses: lines of English words."""

    def __init__(self, language: str) -> None:
        rules = _languages()[language]
        self._lines: dict[str, list[str]] = {word: [] for word in _function_words(language)}
        for line in json.loads((_FOLDER / f"{language}.json").read_text("utf-8")):
            meant, said = line.split(": ")
            for word in said.split():
                self._lines.setdefault(word, []).append(meant)
        self._longest = max(map(len, self._lines))
        self._english = frozenset(" ".join(chain.from_iterable(self._lines.values())).split())
        self._separable: frozenset[str] = frozenset(rules["separable"].split())
        self._spellings: Mapping[str, str] = rules["spellings"]
        self._has_spaces = bool(rules["endings"])
        endings = "|".join(rules["endings"].split())
        self._stem = re.compile(f"(.{{{_SHORTEST_STEM},}}?)(?:{endings})?")
        self._forms: dict[str, list[str]] = {}
        for word in self._lines:
            if self._lines[word] and (stem := self._stem_of(word)):
                self._forms.setdefault(stem, []).append(word)
        self._senses_of_word = lru_cache(4_096)(self._senses)

    def knows(self, runs: Collection[str]) -> int:
        """Return how many of these runs are words of the language."""
        return sum(map(self._lines.__contains__, runs))

    def senses_of(self, runs: Sequence[str]) -> list[Senses | None]:
        """Return what each run says: the first of two that mean something together says it for both."""
        found: dict[int, Senses | None] = {}
        for place, pair in enumerate(pairwise(runs)):
            if (lines := self._lines.get("-".join(pair))) and place not in found:
                found |= {place: _weighed(lines), place + 1: {}}
        for place, run in enumerate(runs):
            # A verb and its prefix: `sag den Termin ab`.
            before = range(place - 1, max(place - _MAX_APART, 0) - 1, -1) if run in self._separable else ()
            for verb in before:
                if not found.keys() & {verb, place} and (form := self._form_of(run + runs[verb])):
                    found |= {verb: _weighed(self._lines[form]), place: {}}
                    break
        return [found[place] if place in found else self._senses_of_word(run) for place, run in enumerate(runs)]

    def _senses(self, run: str) -> Senses | None:
        if not self._has_spaces:
            if len(run) == 1:  # a character alone may be a part of many words
                return None
            meant = chain.from_iterable(part.items() for part in self._longest_words(run))
            return {word: part * _OF_UNSPACED for word, part in meant} or None
        if len(run) > MAX_WORD_LENGTH:
            return None
        form = self._form_of(run)
        return self._senses_of_compound(run) if form is None else _weighed(self._lines[form])

    def _form_of(self, word: str) -> str | None:
        """Return the word of the table that `word` is, or else is most likely a form of."""
        for spelled in (word, self._respelled(word)):
            if spelled in self._lines:
                return spelled
        for spelled in (word, self._respelled(word)):
            if forms := self._forms.get(self._stem_of(spelled)):
                return min(forms, key=lambda form: abs(len(form) - len(spelled)))
        return None

    def _stem_of(self, word: str) -> str:
        found = self._stem.fullmatch(word)
        return found[1] if found else ""

    def _respelled(self, word: str) -> str:
        for written, folded in self._spellings.items():
            word = word.replace(written, folded)
        return word

    def _senses_of_compound(self, word: str) -> Senses | None:
        """Return the senses of the two parts of a compound; the second part may be a compound itself."""
        if self._separable and len(word) >= _SHORTEST_COMPOUND:
            for end in range(len(word) - _SHORTEST_PART, _SHORTEST_PART - 1, -1):
                left, right = word[:end], word[end:]
                if self._english >= {left, right} or not (first := self._senses_of_part(left)):
                    continue
                if second := self._senses_of_part(right) or self._senses_of_word(right):
                    return {**first, **second}
        return None

    def _senses_of_part(self, part: str) -> Senses | None:
        if (form := self._form_of(part)) and (lines := self._lines[form]):
            return _weighed(lines)
        return {part: 1.0} if part in self._english else None

    def _longest_words(self, run: str) -> Iterator[Senses]:
        place = 0
        while place < len(run):
            ends = range(min(place + self._longest, len(run)), place, -1)
            end = next((end for end in ends if run[place:end] in self._lines), None)
            if end is not None:
                yield _weighed(self._lines[run[place:end]])
            place = end or place + 1


_table: Final = cache(_Table)


def _weighed(lines: Sequence[str]) -> Senses:
    """Return what English words count: a word of several senses says each of them in part."""
    senses: dict[str, float] = {}
    for line in lines:
        for place, word in enumerate(line.split()):
            senses[word] = max(senses.get(word, 0.0), (_FURTHER if place else 1.0) / len(lines))
    return senses
