"""The manifest in the `search_tools` description: each server's tool count, tool names and summary, within a budget.

    - weather (3 tools): get_current_weather, get_forecast, get_alerts
      Current conditions, forecasts and severe weather alerts
    - notion (15 tools): search, create_page, update_page, create_database, ... and 11 more
      Search, create and manage pages, databases, comments and users
    - catalog (about 5000 tools): topics invoices, shipping, customers
      "Find what a shop needs"

An entry ends with the server's own description in quotation marks, or else with what its first tools do. If the catalog
is too large, every entry shrinks: no summaries, then fewer names, then only counts, then only as many servers as fit.
Names and descriptions come from servers, so they are sanitized to stay on their own line.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Sequence
from typing import Final

from tools_search_client.conversation.catalog import ServerOffer
from tools_search_client.text import first_sentence, one_line

MAX_BYTES: Final = 3_250
"""The largest manifest: about 1,000 tokens, because manifests have 3.3 to 4.1 bytes per token."""

_MANY_NAMES: Final = 10
_NAMES_OF_MANY: Final = 4
_SUMMARY_CHARS: Final = 80
_ENDS: Final = (".", "!", "?", ":", ";", "。")
_MAX_NAME_LENGTH: Final = 64
"""Longer names are not shown, because they cannot be called; their tools still count, and search finds them."""


def manifest(offers: Sequence[ServerOffer], *, most_bytes: int = MAX_BYTES) -> str:
    """Return an entry for each server, in the order of `offers`. Equal offers give identical bytes.

    Args:
        offers: The servers with the tools that can be found there; never-listed servers have none.
        most_bytes: The size limit in UTF-8 bytes.
    """
    for most_names in _LEVELS:
        entries = list(_within((_entry(offer, most_names) for offer in offers), most_bytes))
        if len(entries) == len(offers):
            return "\n".join(entries)
    room = most_bytes - len(_more(len(offers))) - 1
    shown = list(_within((_entry(offer, 0) for offer in offers), room))
    return "\n".join([*shown, _more(len(offers) - len(shown))])


_LEVELS: Final = (None, _MANY_NAMES, _NAMES_OF_MANY, 3, 2, 1, 0)
"""Maximum names per entry, by level; `None` is the richest level, with a summary."""


def _entry(offer: ServerOffer, most_names: int | None) -> str:
    if offer.failure is not None:
        known = f"{_tools(len(offer.tools))}, others " if offer.failure.listed and offer.tools else ""
        size = f"{known}not reachable at present"
    elif offer.tools is not None:
        size = _tools(len(offer.tools))
    else:
        size = "to be searched" if offer.size is None else f"about {_tools(offer.size)}"
    entry = f"- {_clean(offer.name)[:_MAX_NAME_LENGTH] or 'tools'} ({size})"
    # Tool names, or topics for a server that was never listed.
    names = offer.topics if offer.tools is None else [tool.tool.name for tool in offer.tools]
    most = _MANY_NAMES if most_names is None else most_names
    if most == _MANY_NAMES < len(names):
        most = _NAMES_OF_MANY
    shown = [name for name in names[:most] if len(name) <= _MAX_NAME_LENGTH and name == _clean(name)]
    if shown:
        entry += f": {'topics ' if offer.tools is None else ''}{', '.join(shown)}"
        if len(shown) < len(names):
            entry += f", ... and {len(names) - len(shown)} more" if most >= _NAMES_OF_MANY else ", ..."
    summary = _summary(offer) if most_names is None else ""
    return f"{entry}\n  {summary}" if summary else entry


def _summary(offer: ServerOffer) -> str:
    """Return the server's own description in quotation marks, or else what its first tools do."""
    own = _clean(first_sentence(offer.instructions)).replace('"', "'")
    if own:
        return f'"{_cut(own, _SUMMARY_CHARS - 2)}"'
    sentences: dict[str, None] = {}
    for tool in offer.tools or ():
        sentences[_clean(first_sentence(tool.tool.description or tool.tool.title or ""))] = None
        if sum(map(len, sentences)) > _SUMMARY_CHARS:
            break
    ended = (text if text.endswith(_ENDS) else f"{text};" for text in filter(None, sentences))
    return _cut(" ".join(ended).removesuffix(";"), _SUMMARY_CHARS)


def _cut(text: str, most: int) -> str:
    return text if len(text) <= most else text[: most - 3].rstrip() + "..."


def _clean(text: str) -> str:
    """Return `text` on one line without angle brackets, which delimit the manifest."""
    return one_line(text.replace("<", " ").replace(">", " "))


def _within(entries: Iterable[str], most_bytes: int) -> Iterator[str]:
    """Yield the first entries that fit together, without building the rest."""
    left = most_bytes + 1
    for entry in entries:
        left -= len(entry.encode()) + 1
        if left < 0:
            return
        yield entry


def _more(servers: int) -> str:
    return f"... and {servers} more server{'' if servers == 1 else 's'}"


def _tools(count: int) -> str:
    return f"{count} tool" if count == 1 else f"{count} tools"
