"""A light English stemmer: plurals, -ing, -ed and a final e, which is where requests and definitions differ most."""

from __future__ import annotations

import re
from typing import Final

from tools_search_ranking.memo import Memo

__all__ = ["stem"]

_SHORTEST: Final = 4
_ENGLISH: Final = re.compile(r"[a-z]+")
_VOWEL: Final = re.compile(r"[aeiouy]")
_HISSING: Final = ("ses", "xes", "zes", "ches", "shes")
_NO_PLURAL: Final = ("ss", "us", "is")


def stem(word: str) -> str:
    """Return what `word` shares with its inflected forms: `queries`, `query`; `creating`, `created`, `create`.

    The result is a key, not a word. Words that are short or not written in the letters a to z are their own stem.
    """
    return _STEMS[word]


def _stemmed(word: str) -> str:
    if len(word) < _SHORTEST or not _ENGLISH.fullmatch(word):
        return word
    return _without_final_e(_without_tense(_singular(word)))


def _singular(word: str) -> str:
    if word.endswith("ies") and len(word) > _SHORTEST:
        return word[:-3] + "y"
    if word.endswith(_HISSING):
        return word[:-2]
    return word[:-1] if word.endswith("s") and not word.endswith(_NO_PLURAL) else word


def _without_tense(word: str) -> str:
    if word.endswith("ied") and len(word) > _SHORTEST:
        return word[:-3] + "y"
    for ending in ("ing", "ed"):
        root = word.removesuffix(ending)
        if root != word and len(root) > 2 and _VOWEL.search(root) and not root.endswith("e"):
            return _undoubled(root)
    return word


def _undoubled(root: str) -> str:
    """Return `stop` for `stopp`; `call` and `pass` keep their two letters."""
    return root[:-1] if root[-1] == root[-2] and root[-1] not in "lsz" else root


def _without_final_e(word: str) -> str:
    return word[:-1] if word.endswith("e") and len(word) >= _SHORTEST else word


_STEMS: Final = Memo(_stemmed)
