"""The default ranker's words: kinder than the draft's terms to accents, compounds and scripts without spaces."""

from __future__ import annotations

import re
import unicodedata
from collections.abc import Iterable, Iterator
from itertools import chain, pairwise
from typing import Final

from tools_search_ranking.memo import Memo
from tools_search_ranking.traditional import SIMPLIFIED, simplified

__all__ = ["LONGEST_WORD", "is_character", "is_unspaced", "runs", "wholes", "words", "words_of"]

LONGEST_WORD: Final = 64
"""Characters of a word that count: what is longer is a blob, not a word."""

_ASCII_RUN: Final = re.compile(rf"([A-Za-z0-9]{{1,{LONGEST_WORD}}})[A-Za-z0-9]*")
_PART_OF_SHAPE: Final = re.compile(r"U+(?!l)|U?l+|9+")

# Of Chinese, of much of Japanese and of Korean: each may be a word, or the part that says most.
_CHARACTERS: Final = (
    "\uac00-\ud7a3"  # Hangul
    "\u3400-\u4dbf\u4e00-\u9fff\uf900-\ufaff\U00020000-\U0003ffff"  # Han
)

# Scripts that put no space between words; Hangul has spaces, but glues particles to its nouns.
_UNSPACED: Final = (
    "\u0e00-\u0eff"  # Thai, Lao
    "\u1000-\u109f"  # Myanmar
    "\u1100-\u11ff\ud7a4-\ud7ff"  # Hangul that is not written as a syllable
    "\u1780-\u17ff"  # Khmer
    "\u3005-\u3007\u3040-\u30ff\u31f0-\u31ff"  # Kana
    f"{_CHARACTERS}"
)
_STRETCH: Final = re.compile(f"([{_UNSPACED}]+)|[^{_UNSPACED}]+")
_CHARACTER: Final = re.compile(f"[{_CHARACTERS}]")

# Latin letters that Unicode does not take apart into a base and an accent.
_UNDECOMPOSED: Final = {
    "Æ": "Ae",
    "æ": "ae",
    "Œ": "Oe",
    "œ": "oe",
    "Ø": "O",
    "ø": "o",
    "Ł": "L",
    "ł": "l",
    "Đ": "D",
    "đ": "d",
    "\u0131": "i",
}


def words(text: str) -> Iterator[str]:
    """Return the words of `text`, case folded, in their order, repetitions included.

    A word is a run of letters, digits and the marks that belong to them, after NFKC, without accents and in simplified
    characters. A run that is written in parts, as `getUserInfo` or `sha256`, gives itself and then its parts; a run of
    a script without spaces gives its pairs of neighbouring characters, and then each that is Chinese or a syllable of
    Korean: people say 查 for what is described as 查询 or 查找.
    """
    of_run = _OF_SPACED.__getitem__ if text.isascii() else words_of
    return chain.from_iterable(map(of_run, runs(text)))


def runs(text: str) -> list[str]:
    """Return the runs of letters, digits and marks in `text`, in which `words_of` finds the words.

    Those of plain text are cut at `LONGEST_WORD`.
    """
    if text.isascii():
        return _ASCII_RUN.findall(text)
    apart = unicodedata.normalize("NFKD", text).translate(_WITHOUT_ACCENT)
    return unicodedata.normalize("NFC", apart).translate(_OR_SPACE).split()


def is_unspaced(word: str) -> bool:
    """Tell whether `word` is of a script without spaces, where it may be parts of two words."""
    match = None if word.isascii() else _STRETCH.match(word)
    return match is not None and match.group(1) is not None


def is_character(word: str) -> bool:
    """Tell whether `word` is one Chinese character or syllable of Korean, which is mostly a part of a word."""
    return len(word) == 1 and not word.isascii() and _CHARACTER.match(word) is not None


def words_of(run: str) -> tuple[str, ...]:
    """Return the words of one run; a text has the words of its runs."""
    if run.isascii():
        return _OF_SPACED[run[:LONGEST_WORD]]
    return tuple(chain.from_iterable(map(_of_stretch, _STRETCH.finditer(run))))


def wholes(run: str) -> Iterable[str]:
    """Return the words that a folded run of letters and digits has in common with itself written in any letter case.

    That is without the parts that it is written in, and with what is longer than `LONGEST_WORD`.
    """
    if run.isascii():
        return (run,)
    stretches = _STRETCH.finditer(simplified(run))
    return chain.from_iterable(_pairs(found.group()) if found.group(1) else (found.group(),) for found in stretches)


def _of_stretch(stretch: re.Match[str]) -> Iterable[str]:
    return _of_unspaced(stretch.group()) if stretch.group(1) else _OF_SPACED[stretch.group()[:LONGEST_WORD]]


def _spaced(run: str) -> tuple[str, ...]:
    """Return the run as a word, and then the parts that it is written in, if there are several."""
    whole = run.casefold()
    if run.isalpha() and (run.islower() or run.isupper() or run.istitle()):
        return (whole,)
    shape = "".join("9" if mark.isdigit() else "U" if mark.isupper() else "l" for mark in run)
    parts = [run[part.start() : part.end()].casefold() for part in _PART_OF_SHAPE.finditer(shape)]
    return (whole, *parts) if len(parts) > 1 else (whole,)


def _of_unspaced(stretch: str) -> Iterable[str]:
    """Return the pairs of neighbours, and then the characters; one that is alone is one word."""
    return chain(_pairs(stretch), _CHARACTER.findall(stretch) if len(stretch) > 1 else ())


def _pairs(stretch: str) -> Iterable[str]:
    return map("".join, pairwise(stretch)) if len(stretch) > 1 else (stretch,)


def _unless_accent(code: int) -> str | None:
    """Drop accents and the optional vowels of Hebrew and Arabic, not the marks that spell a word.

    The latter (the vowels, virama and nukta of Indic scripts, Thai vowels, Kana voicing) have other combining classes.
    """
    character = chr(code)
    combining = unicodedata.combining(character)
    is_accent = 10 <= combining <= 36 or combining >= 200
    return None if is_accent else _UNDECOMPOSED.get(character) or SIMPLIFIED.get(character, character)


def _or_space(code: int) -> str:
    character = chr(code)
    return character if unicodedata.category(character)[0] in "LNM" else " "


_WITHOUT_ACCENT: Final = Memo(_unless_accent)
_OR_SPACE: Final = Memo(_or_space)
_OF_SPACED: Final = Memo(_spaced)
