"""Words that say nothing of what is needed: the grammar of English, and the courtesies of a request."""

from __future__ import annotations

from typing import Final

__all__ = ["STOP_WORDS"]

_ARTICLES_AND_PRONOUNS: Final = """
    a an the this that these those i me my mine myself we us our ours you your yours he him his she her hers it its
    they them their theirs who whom whose which what someone anyone something anything everything
"""
_AUXILIARIES: Final = """
    am is are was were be been being do does did doing done have has had having can could will would shall should may
    might must ll ve re don doesn didn isn aren wasn won
"""
_PREPOSITIONS_AND_CONJUNCTIONS: Final = """
    of in on at by for with without from to into onto about as if or and but nor so than then because while during
    through over under between within per via up out off
"""
_ADVERBS: Final = """
    not no yes how when where why here there now also just only very too more most some any all each every both either
    other such same own again still even ever please etc eg ie
"""
_OF_REQUESTS: Final = """
    want wants wanted need needs needed like help let lets know looking wondering interested able tell give
    provide provides make sure show hi hello hey thanks thank
"""

STOP_WORDS: Final = frozenset(
    " ".join((_ARTICLES_AND_PRONOUNS, _AUXILIARIES, _PREPOSITIONS_AND_CONJUNCTIONS, _ADVERBS, _OF_REQUESTS)).split()
)
"""Folded words that neither index nor query counts, as long as a query has any other."""
