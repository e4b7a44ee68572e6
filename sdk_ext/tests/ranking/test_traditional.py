from __future__ import annotations

from mcp_ext_tools_search.ranking.language import simplified
from mcp_ext_tools_search.ranking.lexicon import SIMPLIFIED


def test_traditional_characters_become_simplified_ones():
    assert simplified("查詢資料庫") == "查询资料库"


def test_what_is_simplified_stays():
    assert simplified("查询 weather ログ") == "查询 weather ログ"
    assert SIMPLIFIED.keys().isdisjoint(SIMPLIFIED.values())


def test_every_character_is_mapped_once_and_to_one():
    assert len(SIMPLIFIED) == 700
    assert all(len(traditional) == len(simple) == 1 for traditional, simple in SIMPLIFIED.items())
