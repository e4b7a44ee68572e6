"""The default ranker's words: kinder than the draft's terms to accents, compounds and scripts without spaces."""

from __future__ import annotations

import re
import unicodedata
from collections.abc import Iterator
from functools import lru_cache
from itertools import chain, pairwise
from typing import Final

__all__ = ["LONGEST_WORD", "words"]

LONGEST_WORD: Final = 64
"""Characters of a word that count: what is longer is a blob, not a word."""

_ASCII_RUN: Final = re.compile(r"[A-Za-z0-9]+")
_PART_OF_SHAPE: Final = re.compile(r"U+(?!l)|U?l+|9+")

# Scripts that put no space between words; Hangul has spaces, but glues particles to its nouns.
_UNSPACED: Final = (
    "\u0e00-\u0eff"  # Thai, Lao
    "\u1000-\u109f"  # Myanmar
    "\u1100-\u11ff\uac00-\ud7ff"  # Hangul
    "\u1780-\u17ff"  # Khmer
    "\u3005-\u3007\u3040-\u30ff\u31f0-\u31ff"  # Kana
    "\u3400-\u4dbf\u4e00-\u9fff\uf900-\ufaff\U00020000-\U0003ffff"  # Han
)
_STRETCH: Final = re.compile(f"([{_UNSPACED}]+)|[^{_UNSPACED}]+")

# Latin letters that Unicode does not take apart into a base and an accent.
_UNDECOMPOSED: Final = str.maketrans(
    {
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
)


def words(text: str) -> Iterator[str]:
    """Return the words of `text`, case folded, in their order, repetitions included.

    A word is a run of letters, digits and the marks that belong to them, after NFKC and without accents. A run that is
    written in parts, as `getUserInfo` or `sha256`, gives itself and then its parts; a run of a script without spaces
    gives its pairs of neighbouring characters.
    """
    if text.isascii():
        return chain.from_iterable(map(_spaced, _ASCII_RUN.findall(text)))
    return chain.from_iterable(map(_words_of_run, "".join(map(_kept_or_space, _unaccented(text))).split()))


def _words_of_run(run: str) -> Iterator[str]:
    for stretch in _STRETCH.finditer(run):
        yield from _pairs(stretch.group()) if stretch.group(1) else _spaced(stretch.group())


@lru_cache(maxsize=65_536)
def _spaced(run: str) -> tuple[str, ...]:
    run = run[:LONGEST_WORD]
    whole = run.casefold()
    if run.isalpha() and (run.islower() or run.isupper() or run.istitle()):
        return (whole,)
    shape = "".join("9" if mark.isdigit() else "U" if mark.isupper() else "l" for mark in run)
    parts = [run[part.start() : part.end()].casefold() for part in _PART_OF_SHAPE.finditer(shape)]
    return (whole, *parts) if len(parts) > 1 else (whole,)


def _pairs(stretch: str) -> Iterator[str]:
    if len(stretch) == 1:
        yield stretch
    for first, second in pairwise(stretch):
        yield first + second


def _unaccented(text: str) -> str:
    apart = unicodedata.normalize("NFKD", text).translate(_UNDECOMPOSED)
    return unicodedata.normalize("NFC", "".join(mark for mark in apart if not _is_accent(mark)))


@lru_cache(maxsize=16_384)
def _is_accent(mark: str) -> bool:
    """Tell accents and the optional vowels of Hebrew and Arabic from the marks that spell a word.

    The latter (the vowels, virama and nukta of Indic scripts, Thai vowels, Kana voicing) have other combining classes.
    """
    combining = unicodedata.combining(mark)
    return 10 <= combining <= 36 or combining >= 200


@lru_cache(maxsize=16_384)
def _kept_or_space(character: str) -> str:
    return character if unicodedata.category(character)[0] in "LNM" else " "
