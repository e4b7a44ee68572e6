"""Words of definitions and queries: how text is split into words, and which words mean the same.

English and Chinese words with a special role in the ranking come from `lexicon.json`, which any port can copy. Words
handle accents, compounds and scripts without spaces better than the draft's terms (`floor.py`). All functions are pure.
Results for single words are cached, since the same words recur.
"""

from __future__ import annotations

import json
import re
import unicodedata
from collections.abc import Iterable, Iterator, Mapping, Sequence
from functools import cache, lru_cache
from itertools import chain, pairwise
from pathlib import Path
from typing import Any, Final

_LEXICON: Final[Mapping[str, Any]] = json.loads(Path(__file__).with_name("lexicon.json").read_text("utf-8"))

STOP_WORDS: Final = frozenset(" ".join(_LEXICON["stopWords"]).split())
"""Function words and polite words, case folded, which do not count in a query that has any other word."""

VERB_GROUPS: Final[tuple[str, ...]] = tuple(_LEXICON["verbGroups"])
OTHER_GROUPS: Final[tuple[str, ...]] = tuple(_LEXICON["chineseVerbGroups"] + _LEXICON["nounGroups"])
"""Words for the same operation or thing. No word leads to a single Chinese character, which is ambiguous."""

EVERYDAY: Final[Sequence[tuple[str, str]]] = [tuple(line.split(": ")) for line in _LEXICON["everyday"]]
"""Words of definitions, each with the words, and pairs of words (`how-many`), that people use instead."""

ABBREVIATIONS: Final[Mapping[str, str]] = _LEXICON["abbreviations"]

SIMPLIFIED: Final = {ord(pair[0]): pair[1] for pair in " ".join(_LEXICON["simplified"]).split()}
"""From the 700 most common traditional characters to simplified ones, for `str.translate`: 90 % of traditional text."""

MAX_WORD_LENGTH: Final = 64  # characters of a word that count: anything longer is a blob, not a word
SAME_START: Final = 4  # first letters that forms of a word share, as in `visually` and `visual`
_MIN_ALIKE: Final = 0.55  # minimum trigram overlap for one word to be a form or misspelling of the other
_SHORTEST_CORRECTED: Final = 4
_MAX_NEAREST: Final = 2
_SHORTEST_STEMMED: Final = 4
_RELATED, _SPELLED_OUT = 0.175, 0.3  # weights of relatives, compared with 1 for the word itself
_CACHED: Final = 1_024
_ASCII_RUN: Final = re.compile(rf"([A-Za-z0-9]{{1,{MAX_WORD_LENGTH}}})[A-Za-z0-9]*")
_PART: Final = re.compile(r"[A-Z]+(?![a-z])|[A-Z]?[a-z]+|[0-9]+")
_ENGLISH: Final = re.compile(r"[a-z]+")
_VOWEL: Final = re.compile(r"[aeiouy]")
_FILLER: Final = re.compile(  # or, as a group, another word that begins or ends with a filler
    "({})|{}".format("|".join(_LEXICON["wordsWithFillers"].split()), "|".join(" ".join(_LEXICON["fillers"]).split()))
)

# Chinese, much of Japanese, and Korean: each character may be a word, or carry most of its meaning.
_CHARACTERS: Final = (
    "\uac00-\ud7a3"  # Hangul
    "\u3400-\u4dbf\u4e00-\u9fff\uf900-\ufaff\U00020000-\U0003ffff"  # Han
)

# Scripts without spaces between words. Hangul has spaces, but attaches particles to nouns.
_UNSPACED: Final = (
    "\u0e00-\u0eff"  # Thai, Lao
    "\u1000-\u109f"  # Myanmar
    "\u1100-\u11ff\ud7a4-\ud7ff"  # Hangul that is not composed into syllables
    "\u1780-\u17ff"  # Khmer
    "\u3005-\u3007\u3040-\u30ff\u31f0-\u31ff"  # Kana
    f"{_CHARACTERS}"
)
_STRETCH: Final = re.compile(f"([{_UNSPACED}]+)|[^{_UNSPACED}]+")
_CHARACTER: Final = re.compile(f"[{_CHARACTERS}]")

# Latin letters that Unicode does not decompose into a base and an accent.
_BASES: Final = "Æ:Ae æ:ae Œ:Oe œ:oe Ø:O ø:o Ł:L ł:l Đ:D đ:d \u0131:i"
_UNDECOMPOSED: Final = {pair[0]: pair[2:] for pair in _BASES.split()}


def words(text: str) -> Iterator[str]:
    """Return the words of `text`, case folded, in order, including repetitions.

    A word is a run of letters, digits and their marks, after NFKC, without accents and in simplified characters. A
    compound such as `getUserInfo` or `sha256` yields itself and then its parts. A run in a script without spaces yields
    its pairs of neighboring characters, and then each single Chinese character or Korean syllable: people say 查 for
    what definitions call 查询 or 查找.
    """
    return chain.from_iterable(map(_spaced if text.isascii() else words_of, runs(text)))


def runs(text: str) -> list[str]:
    """Return the runs of letters, digits and marks in `text`, for `words_of` to split into words.

    In ASCII text, they are cut at `MAX_WORD_LENGTH`.
    """
    if text.isascii():
        return _ASCII_RUN.findall(text)
    apart = "".join(map(_without_accent, unicodedata.normalize("NFKD", text)))
    return "".join(map(_or_space, unicodedata.normalize("NFC", apart))).split()


def words_of(run: str) -> tuple[str, ...]:
    """Return the words of one run."""
    if run.isascii():
        return _spaced(run[:MAX_WORD_LENGTH])
    found: list[str] = []
    for stretch in _STRETCH.finditer(run):
        text = stretch.group()
        if stretch.group(1) is None:
            found += _spaced(text[:MAX_WORD_LENGTH])
        else:
            found += chain(_pairs(text), _CHARACTER.findall(text) if len(text) > 1 else ())
    return tuple(found)


def is_unspaced(word: str) -> bool:
    """Return whether `word` is in a script without spaces, so that it may consist of parts of two words."""
    match = None if word.isascii() else _STRETCH.match(word)
    return match is not None and match.group(1) is not None


def is_character(word: str) -> bool:
    """Return whether `word` is a single Chinese character or Korean syllable, which is usually part of a word."""
    return len(word) == 1 and not word.isascii() and _CHARACTER.match(word) is not None


def without_fillers(text: str) -> str:
    """Return `text` in simplified characters, with a space for each filler, the stop words of scripts without spaces.

    A filler may be part of a word, since nothing marks where words end. So words that touch it still count, but less.
    """
    return _FILLER.sub(lambda found: found.group(1) or " ", text.translate(SIMPLIFIED))


@lru_cache(_CACHED)
def stem(word: str) -> str:
    """Return the part that `word` shares with its inflected forms: `queries`, `query`; `creating`, `created`, `create`.

    A light English stemmer for plurals, -ing, -ed and a final e, in which requests and definitions differ most. The
    result is a key, not a word. Short words, and words with other letters than a to z, are their own stems.
    """
    if len(word) < _SHORTEST_STEMMED or not _ENGLISH.fullmatch(word):
        return word
    if word.endswith("ies") and len(word) > _SHORTEST_STEMMED:
        word = word[:-3] + "y"
    elif word.endswith(("ses", "xes", "zes", "ches", "shes")):
        word = word[:-2]
    elif word.endswith("s") and not word.endswith(("ss", "us", "is")):
        word = word[:-1]
    root = _without_tense(word)
    return root[:-1] if root.endswith("e") and len(root) >= _SHORTEST_STEMMED else root


def relatives(stemmed: str) -> Sequence[tuple[str, float]]:
    """Return the stems that definitions may use instead of a stem or a pair of neighbors, with their weights.

    They are stems of words for the same operation or thing, or of an abbreviation or the words that it stands for.
    """
    return _relatives().get(stemmed, ())


def is_one_slip(left: str, right: str) -> bool:
    """Return whether two words differ by one typo: a letter added, missing or wrong, or two letters swapped."""
    shorter, longer = (left, right) if len(left) < len(right) else (right, left)
    half = max(len(shorter) - 1, 0) // 2
    if len(longer) > len(shorter) + 1 or (left[:half] != right[:half] and left[-half:] != right[-half:]):
        return False  # rules out most pairs quickly: a typo leaves one of the halves intact
    same = next((place for place, letter in enumerate(shorter) if letter != longer[place]), len(shorter))
    if len(longer) > len(shorter):
        return longer[same + 1 :] == shorter[same:]
    after = same + 2
    swapped = left[same:after] == right[same:after][::-1] and left[after:] == right[after:]
    return left != right and (swapped or left[same + 1 :] == right[same + 1 :])


def may_be_misspelled(word: str) -> bool:
    """Return whether `word` is not a number, and long enough that a typo rarely turns it into another word."""
    return len(word) >= _SHORTEST_CORRECTED and not word.isdigit()


def nearest(word: str, known: Iterable[str]) -> list[tuple[str, float]]:
    """Return the known words that `word` may be a misspelling or a form of, best first, with their similarity."""
    if not may_be_misspelled(word):
        return []
    alike: list[tuple[float, str]] = []
    for other in known:
        if not may_be_misspelled(other) or not other.isalpha():
            continue
        if is_one_slip(word, other):
            alike.append((1 / max(len(word), len(other)) - 1, other))
        elif word[:SAME_START] == other[:SAME_START] and (share := _trigram_overlap(word, other)) >= _MIN_ALIKE:
            alike.append((-share, other))
    return [(other, -negated) for negated, other in sorted(alike)[:_MAX_NEAREST]]


@lru_cache(_CACHED)
def _spaced(run: str) -> tuple[str, ...]:
    """Return the run as a word, and then its parts if it is a compound."""
    whole = run.casefold()
    if run.isalpha() and (run.islower() or run.isupper() or run.istitle()):
        return (whole,)
    shape = run if run.isascii() else "".join("9" if mark.isdigit() else "A" if mark.isupper() else "a" for mark in run)
    parts = [run[part.start() : part.end()].casefold() for part in _PART.finditer(shape)]
    return (whole, *parts) if len(parts) > 1 else (whole,)


def _pairs(stretch: str) -> Iterable[str]:
    """Return the pairs of neighboring characters of a stretch, or the stretch if it is a single character."""
    return map("".join, pairwise(stretch)) if len(stretch) > 1 else (stretch,)


@lru_cache(16_384)
def _without_accent(character: str) -> str:
    """Drop accents and the optional vowels of Hebrew and Arabic, but not marks that distinguish words.

    The latter (vowels, virama and nukta of Indic scripts, Thai vowels, Kana voicing) have other combining classes.
    """
    combining = unicodedata.combining(character)
    if 10 <= combining <= 36 or combining >= 200:
        return ""
    return _UNDECOMPOSED.get(character) or SIMPLIFIED.get(ord(character), character)


@lru_cache(16_384)
def _or_space(character: str) -> str:
    return character if unicodedata.category(character)[0] in "LNM" else " "


def _without_tense(word: str) -> str:
    if word.endswith("ied") and len(word) > _SHORTEST_STEMMED:
        return word[:-3] + "y"
    for ending in ("ing", "ed"):
        root = word.removesuffix(ending)
        if root != word and len(root) > 2 and _VOWEL.search(root) and not root.endswith("e"):
            # `stopp` becomes `stop`; `call` and `pass` keep their two letters.
            return root[:-1] if root[-1] == root[-2] and root[-1] not in "lsz" else root
    return word


def _trigram_overlap(left: str, right: str) -> float:
    """Return the share of trigrams that two words have in common, from 0 to 1 (Dice's coefficient)."""
    own, other = _trigrams(left), _trigrams(right)
    return 2 * len(own & other) / (len(own) + len(other))


@lru_cache(_CACHED)
def _trigrams(word: str) -> frozenset[str]:
    """Return the trigrams of a word, with its ends marked."""
    return frozenset(map("".join, zip(f"^{word}", word, f"{word[1:]}$", strict=False)))


@cache  # computed in the first search, because many servers are never searched
def _relatives() -> Mapping[str, Sequence[tuple[str, float]]]:
    related: dict[str, dict[str, None]] = {}
    for group in VERB_GROUPS + OTHER_GROUPS:
        stems = dict.fromkeys(map(stem, group.split()))
        for word in stems:
            related.setdefault(word, {}).update(other for other in stems.items() if not is_character(other[0]))
    for meant, said in EVERYDAY:
        for word in said.split():
            related.setdefault(word.replace("-", "") if "-" in word else stem(word), {})[stem(meant)] = None
    found = {word: [(other, _RELATED) for other in others if other != word] for word, others in related.items()}
    for short, long in ABBREVIATIONS.items():
        parts = list(map(stem, long.split()))
        found.setdefault(stem(short), []).extend((part, _SPELLED_OUT) for part in parts)
        if len(parts) == 1:
            found.setdefault(parts[0], []).append((stem(short), _SPELLED_OUT))
    return found
