"""Verbs that name the same operation: the author of a tool took one, the author of a request another."""

from __future__ import annotations

from collections.abc import Mapping
from types import MappingProxyType
from typing import Final

from mcp_ext_tools_search.ranking.stems import stem

__all__ = ["VERB_GROUPS", "related_verbs"]

VERB_GROUPS: Final = (
    "create add make new insert generate build register",
    "delete remove erase drop destroy clear",
    "list get fetch retrieve view read display lookup",
    "find search query discover locate lookup",
    "update edit modify change set alter rename",
    "send post publish submit share",
    "run execute start launch invoke trigger",
    "stop cancel abort terminate end halt",
    "upload import load",
    "download export save",
    "check verify validate test inspect",
    "compute calculate determine evaluate",
    "convert transform translate",
    "buy purchase order",
    "book reserve schedule",
)


def _by_stem() -> Mapping[str, tuple[str, ...]]:
    related: dict[str, dict[str, None]] = {}
    for group in VERB_GROUPS:
        stems = dict.fromkeys(map(stem, group.split()))
        for verb in stems:
            related.setdefault(verb, {}).update(stems)
    return MappingProxyType(
        {verb: tuple(other for other in others if other != verb) for verb, others in related.items()}
    )


_RELATED: Final = _by_stem()


def related_verbs(stemmed: str) -> tuple[str, ...]:
    """Return the stems of the verbs that stand for the same operation; none for a word that is no such verb."""
    return _RELATED.get(stemmed, ())
