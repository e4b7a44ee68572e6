"""The manifest in the description of `search_tools`: servers, counts, names and a line on each, within a budget.

    - weather (3 tools): get_current_weather, get_forecast, get_alerts
      Current conditions, forecasts and severe weather alerts
    - notion (15 tools): search, create_page, update_page, create_database, ... and 11 more
      Search, create and manage pages, databases, comments and users
    - catalog (about 5000 tools): topics invoices, shipping, customers
      "Find what a shop needs"

The last line of an entry is what the server says of itself, in quotation marks, and else what its first tools do. Where
the catalog is too large for that, every server says less: no summaries, then fewer names, then only counts, then as
many servers as fit. Names and descriptions come from servers, so none of them can break out of its line.
"""

from __future__ import annotations

import unicodedata
from collections.abc import Callable, Iterable, Iterator, Sequence
from functools import partial
from typing import Final

from tools_search_client.conversation.catalog import ServerOffer
from tools_search_client.text import one_line

MOST_BYTES: Final = 3_250
"""The largest manifest: about 1,000 tokens, since what stands in one has 3.3 to 4.1 bytes in a token."""

_MANY_NAMES: Final = 10
_NAMES_OF_MANY: Final = 4
_SUMMARY_CHARS: Final = 80
_ENDS: Final = (".", "!", "?", ":", ";", "。")
_LONGEST_NAME: Final = 64
"""Nothing longer is shown, as nothing longer can be called; the tool still counts, and search still finds it."""


def manifest(offers: Sequence[ServerOffer], *, most_bytes: int = MOST_BYTES) -> str:
    """Return one entry for each server, in the order of `offers`; the same bytes for the same offers.

    Args:
        offers: The servers with the tools that can be found there; those that were never listed have none.
        most_bytes: The largest result in UTF-8.
    """
    for entry in _LEVELS:
        entries = list(_within(map(entry, offers), most_bytes))
        if len(entries) == len(offers):
            return "\n".join(entries)
    room = most_bytes - _bytes(_more(len(offers))) - 1
    shown = list(_within(map(_counted, offers), room))
    return "\n".join([*shown, _more(len(offers) - len(shown))])


def _whole(offer: ServerOffer) -> str:
    summary = _summary(offer)
    return _named(offer) + (f"\n  {summary}" if summary else "")


def _named(offer: ServerOffer) -> str:
    return _with_names(offer, _NAMES_OF_MANY if len(_names(offer)) > _MANY_NAMES else _MANY_NAMES)


def _counted(offer: ServerOffer) -> str:
    name = _clean(offer.name)[:_LONGEST_NAME] or "tools"
    if offer.failure is not None:
        return f"- {name} (not reachable at present)"
    if offer.tools is not None:
        return f"- {name} ({_tools(len(offer.tools))})"
    return f"- {name} (about {_tools(offer.size)})" if offer.size is not None else f"- {name} (to be searched)"


def _with_names(offer: ServerOffer, most: int) -> str:
    names = _names(offer)
    shown = [name for name in names[:most] if _can_be_shown(name)]
    total = len(names)
    text = ", ".join(shown)
    if not text:
        return _counted(offer)
    if len(shown) < total:
        text += f", ... and {total - len(shown)} more" if most >= _NAMES_OF_MANY else ", ..."
    return f"{_counted(offer)}: {'topics ' if offer.tools is None else ''}{text}"


_LEVELS: Final[tuple[Callable[[ServerOffer], str], ...]] = (
    _whole,
    _named,
    *(partial(_with_names, most=most) for most in (_NAMES_OF_MANY, 3, 2, 1)),
    _counted,
)


def _names(offer: ServerOffer) -> Sequence[str]:
    """Return what can be found: names of tools, or topics where nothing was listed."""
    return offer.topics if offer.tools is None else [tool.tool.name for tool in offer.tools]


def _can_be_shown(name: str) -> bool:
    return len(name) <= _LONGEST_NAME and name == _clean(name)


def _summary(offer: ServerOffer) -> str:
    """Return what the server says of itself, in quotation marks, or else what its first tools do."""
    own = _clean(_first_sentence(offer.instructions)).replace('"', "'")
    if own:
        return f'"{_cut(own, _SUMMARY_CHARS - 2)}"'
    sentences: dict[str, None] = {}
    for tool in offer.tools or ():
        sentences[_clean(_first_sentence(tool.tool.description or tool.tool.title or ""))] = None
        if sum(map(len, sentences)) > _SUMMARY_CHARS:
            break
    ended = (text if text.endswith(_ENDS) else f"{text};" for text in filter(None, sentences))
    return _cut(" ".join(ended).removesuffix(";"), _SUMMARY_CHARS)


def _first_sentence(text: str) -> str:
    line = one_line(text[: 20 * _SUMMARY_CHARS].strip().partition("\n\n")[0])
    end = line.find(". ")
    return line if end < 0 else line[: end + 1]


def _cut(text: str, most: int) -> str:
    return text if len(text) <= most else text[: most - 3].rstrip() + "..."


def _clean(text: str) -> str:
    """Return `text` on one line and without angle brackets, which frame the manifest."""
    kept = (character for character in text if unicodedata.category(character) != "Cs")
    return one_line("".join(kept).replace("<", " ").replace(">", " "))


def _within(entries: Iterable[str], most_bytes: int) -> Iterator[str]:
    """Return the first entries that fit together, without making those after them."""
    left = most_bytes + 1
    for entry in entries:
        left -= _bytes(entry) + 1
        if left < 0:
            return
        yield entry


def _more(servers: int) -> str:
    return f"... and {servers} more servers"


def _tools(count: int) -> str:
    return f"{count} tool" if count == 1 else f"{count} tools"


def _bytes(text: str) -> int:
    return len(text.encode("utf-8", "surrogatepass"))
