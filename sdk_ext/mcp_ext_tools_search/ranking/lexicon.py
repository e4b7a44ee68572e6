"""Words of English and Chinese with a special part in the ranking, from `lexicon.json`, which any port can copy."""

from __future__ import annotations

import json
from collections.abc import Mapping, Sequence
from itertools import chain
from pathlib import Path
from typing import Any, Final

_LEXICON: Final[Mapping[str, Any]] = json.loads(Path(__file__).with_name("lexicon.json").read_text("utf-8"))


def _words(lines: Sequence[str]) -> list[str]:
    return list(chain.from_iterable(line.split() for line in lines))


STOP_WORDS: Final = frozenset(_words(_LEXICON["stopWords"]))
"""Words of grammar and of courtesy, folded, which neither index nor query counts while a query has any other."""

FILLERS: Final = _words(_LEXICON["fillers"])
"""The stop words of Chinese: pronouns, particles, questions and courtesies."""

WORDS_WITH_FILLERS: Final[str] = _LEXICON["wordsWithFillers"]
"""Words that begin or end with a filler and mean something else."""

VERB_GROUPS: Final[tuple[str, ...]] = tuple(_LEXICON["verbGroups"])
CHINESE_VERB_GROUPS: Final[tuple[str, ...]] = tuple(_LEXICON["chineseVerbGroups"])
"""Definitions use two characters where people use one. No verb leads to a single character, which many words have."""

NOUN_GROUPS: Final[tuple[str, ...]] = tuple(_LEXICON["nounGroups"])
ABBREVIATIONS: Final[Mapping[str, str]] = _LEXICON["abbreviations"]

SIMPLIFIED: Final[Mapping[str, str]] = {pair[0]: pair[1] for pair in _words(_LEXICON["simplified"])}
"""The simplified characters, by the commonest 700 traditional ones: nine tenths of the text that has two spellings."""
