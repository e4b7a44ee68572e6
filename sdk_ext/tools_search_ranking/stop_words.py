"""Words that say nothing of what is needed: the grammar of English and of Chinese, and the courtesies of a request."""

from __future__ import annotations

import re
from typing import Final

from tools_search_ranking.traditional import simplified

__all__ = ["STOP_WORDS", "without_fillers"]

_ARTICLES_AND_PRONOUNS: Final = """
    a an the this that these those i me my mine myself we us our ours you your yours he him his she her hers it its
    they them their theirs who whom whose which what someone anyone something anything everything
"""
_AUXILIARIES: Final = """
    am is are was were be been being do does did doing done have has had having can could will would shall should may
    might must s t d m ll ve re don doesn didn isn aren wasn won
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

_CHINESE_PRONOUNS: Final = "我 你 您 这 那"
_CHINESE_PARTICLES: Final = "的 了 吗 呢 吧"
_CHINESE_QUESTIONS: Final = "什么 怎么 如何 哪 多少 谁 能不能 能否"
_CHINESE_REQUESTS: Final = "请 帮我 帮忙 麻烦 谢谢 想 需要 希望 可以 告诉 一下 一个"

# What begins or ends with one of these, and is a word of its own.
_NO_FILLERS: Final = "申请 邀请 请求 请假 了解 目的 标的"

_FILLERS: Final = re.compile(
    "({})|{}".format(
        "|".join(_NO_FILLERS.split()),
        "|".join(" ".join((_CHINESE_PRONOUNS, _CHINESE_PARTICLES, _CHINESE_QUESTIONS, _CHINESE_REQUESTS)).split()),
    )
)


def without_fillers(text: str) -> str:
    """Return `text` in simplified characters, with a space for each filler: the stop words of texts without spaces.

    Since nothing tells where a word ends, a filler may be a part of one: what it touches counts less, not nothing.
    """
    return _FILLERS.sub(lambda found: found.group(1) or " ", simplified(text))
