"""An index of resources, templates or prompts, with any tool ranker and the draft's matching floor.

Each item is converted to a tool, so the same ranker works for all definitions. The conversion is private to this
module: hits name the members of the original definition. The content of resources is ranked separately
(`text_index.py`), and both rankings are combined.
"""

from __future__ import annotations

import re
import unicodedata
from collections.abc import Collection, Iterator, Mapping, Sequence
from typing import Any, Final, TypeAlias, cast
from urllib.parse import unquote

from mcp_ext_tools_search.ranking import Hit, Ranker
from mcp_ext_tools_search.ranking.fields import fields
from mcp_ext_tools_search.ranking.floor import Floor, led_by, terms, trimmed
from mcp_ext_tools_search.ranking.language import stem, words
from mcp_ext_tools_search.types import EXTENSION_ID, Primitive, published_metadata
from mcp_types import Prompt, Resource, ResourceTemplate, Tool
from pydantic import ValidationError

from mcp_ext_search_primitives.text_index import TextIndex, stems_of

CONTENTS: Final = "contents"
"""The name in hits for a resource's content, as if it were a member of its definition."""

Definition: TypeAlias = Mapping[str, Any]

_DEFINED: Final = 1.5
"""Weight of a definition that covers all of a query, relative to the best content."""

_LEAST_DEFINED: Final = 0.15
"""Minimum share of that weight, for a definition that matches a query in other words or spellings."""


_CLAIMED: Final = 0.9
"""Weight of the first content that another server found, relative to the best content found here."""

_CLAIMED_ALONE: Final = 0.6
"""The same if only definitions are searched here. With less than 0.5, it would come after every definition with one
word of a short query.
"""


class PrimitiveIndex:
    """Items ready to be searched (`ToolIndex`). It never changes, so any number of threads may search it at once.

    Args:
        primitive: The kind of items.
        items: Their definitions by key.
        ranker: Ranks them.
        texts: The content of resources to search, by URI.
        previous: An index of mostly the same definitions or texts, from which to build this one faster.
    """

    def __init__(
        self,
        primitive: Primitive[Any],
        items: Mapping[str, Definition],
        ranker: Ranker,
        texts: Mapping[str, str] | None = None,
        previous: PrimitiveIndex | None = None,
    ) -> None:
        self._primitive, self._ranker, self._definitions = primitive, ranker, items
        if previous is not None and previous._ranker is ranker and previous._definitions == items:
            # Only texts have changed.
            self._tools, self._items, self._index = previous._tools, previous._items, previous._index
            self._floor, self._stems = previous._floor, previous._stems
        else:
            self._tools = {tool.name: tool for tool in _as_tools(primitive, items)}
            self._items = {name: items[name] for name in self._tools}  # the others are invalid
            self._index = ranker(list(self._tools.values()))
            # The floor reads the item's name, which is not the name of the converted tool.
            named = [tool.model_copy(update={"title": _names(items[name])}) for name, tool in self._tools.items()]
            self._floor = Floor(named)
            self._stems: dict[str, frozenset[str]] = {}  # of the definitions found so far
        self._texts = {uri: text for uri, text in (texts or {}).items() if uri in self._items}
        known = {} if previous is None else previous._texts
        self._folded: dict[str, str] = {
            uri: previous._folded[uri] if previous is not None and known.get(uri) == text else _folded(text)
            for uri, text in self._texts.items()
        }
        self._contents = TextIndex(self._texts, None if previous is None else previous._contents)

    def search(
        self, query: str, *, visible: Collection[str] | None = None, claimed: Mapping[str, int] | None = None
    ) -> Sequence[Hit]:
        """Return the items that match `query`, best first.

        Args:
            query: Any text.
            visible: The keys of the items to search; all by default.
            claimed: The ranks, from 1, of items that another server has found by their content, by key. Only a server
                that has the content can judge it, and its scores are not comparable with others. These items are
                returned too, even if this index does not have them.
        """
        if visible is not None:
            items = {key: item for key, item in self._items.items() if key in visible}
            return PrimitiveIndex(self._primitive, items, self._ranker, self._texts).search(query, claimed=claimed)
        hits = self._with_contents(query, self._floor.under(query, self._index.search(query)), claimed or {})
        if missing := self._having_all_terms(query, {hit.name for hit in hits}):
            score = hits[-1].score if hits else 1.0
            hits = [*hits, *(Hit(uri, score, (CONTENTS,)) for uri in missing)]
        asked = {stem(word) for word in words(query)}
        hits = [hit._replace(matched=tuple(dict.fromkeys(self._members(hit, asked)))) for hit in hits]
        return led_by_identity(self._primitive, query, self._items, hits)

    def _stems_of(self, key: str) -> frozenset[str]:
        return stems_of(text for own in fields(self._tools[key]) for text in own.texts)

    def _with_contents(self, query: str, hits: Sequence[Hit], claimed: Mapping[str, int]) -> Sequence[Hit]:
        """Merge the `hits` of definitions with the hits of resource contents.

        Scores of definitions are not comparable with those of contents, so each is weighted by the share of the query
        that the definition covers. Otherwise the best of poorly matching names would precede the text that answers the
        query.
        """
        weight = _CLAIMED if self._texts else _CLAIMED_ALONE
        said = {key: weight / rank for key, rank in claimed.items()} | dict(self._contents.search(query))
        if not said:
            return hits
        for hit in hits:
            if hit.name in self._tools and hit.name not in self._stems:
                self._stems[hit.name] = self._stems_of(hit.name)
        shares = self._contents.shares(
            query, {hit.name: self._stems[hit.name] for hit in hits if hit.name in self._stems}
        )
        scores = {uri: _DEFINED * max(shares[uri], _LEAST_DEFINED) * score for uri, score, _ in hits if uri in shares}
        members = {hit.name: hit.matched for hit in hits}
        scores |= {uri: scores.get(uri, 0.0) + score for uri, score in said.items()}
        best = max(scores.values())
        order = sorted((-round(score / best, 9), uri) for uri, score in scores.items())
        return [Hit(uri, -score, (*members.get(uri, ()), *([CONTENTS] if uri in said else ()))) for score, uri in order]

    def _having_all_terms(self, query: str, found: Collection[str]) -> list[str]:
        """Return resources not in `found` whose content and definition together contain every term of the query."""
        wanted = frozenset(terms(query))
        whole = {term: re.compile(rf"(?<![^\W_]){re.escape(term)}(?![^\W_])") for term in wanted}
        having: list[str] = []
        for uri, text in self._folded.items() if wanted else ():
            if uri in found:
                continue
            item = self._items[uri]
            defined = frozenset(terms(f"{_names(item)} {item.get('description') or ''}"))
            left = wanted - defined
            # Most contents lack a term, so check that before splitting them into terms. Only splitting is exact for
            # combining marks in other scripts.
            if not all(term in text for term in left) or not all(whole[term].search(text) for term in left):
                continue
            if text.isascii() or left <= frozenset(terms(text)):
                having.append(uri)
        return sorted(having)

    def _members(self, hit: Hit, asked: Collection[str]) -> Iterator[str]:
        """Yield the matching members of the definition, instead of those of the converted tool."""
        is_prompt = self._primitive.item is Prompt
        renamed = {"name": self._primitive.key, "inputSchema": "arguments"}
        item = self._items.get(hit.name, {})
        for member in hit.matched:
            if member == "inputSchema" and not is_prompt:
                continue  # only prompts have any
            if member != "_meta" or is_prompt:
                yield renamed.get(member, member)
                continue
            is_named = any(stem(word) in asked for word in words(str(item.get("name"))))
            yield "name" if is_named or not published_metadata(item.get("_meta")) else "_meta"


def led_by_identity(
    primitive: Primitive[Any], query: str, items: Mapping[str, Definition], hits: Sequence[Hit]
) -> Sequence[Hit]:
    """Return `hits` with the one of `items` that `query` identifies first (draft: Exact Identifiers).

    An item whose key is the query, or else the trimmed query, takes precedence over items with that name. If several
    have the name, the one that ranks first is chosen.
    """
    spellings = dict.fromkeys((query, trimmed(query)))
    if key := next((spelling for spelling in spellings if spelling in items), None):
        return led_by(key, hits, primitive.key)
    for spelling in spellings:
        if named := {key for key, item in items.items() if item.get("name") == spelling}:
            return led_by(next((hit.name for hit in hits if hit.name in named), min(named)), hits, "name")
    return hits


def _as_tools(primitive: Primitive[Any], items: Mapping[str, Definition]) -> Iterator[Tool]:
    """Yield a tool for each valid definition, named by its key.

    A resource's name becomes an alias, since it need not be unique. A prompt's arguments become parameters.
    """
    for definition in items.values():
        try:
            item = primitive.item.model_validate(definition, by_name=False)
        except ValidationError:
            continue
        if isinstance(item, Prompt):
            described = {argument.name: {"description": argument.description} for argument in item.arguments or ()}
            yield _tool(item, item.name, [], {"properties": described})
        elif isinstance(item, Resource):
            yield _tool(item, item.uri, [item.name, *_unquoted(item.uri)], {})
        elif isinstance(item, ResourceTemplate):
            yield _tool(item, item.uri_template, [item.name, *_unquoted(item.uri_template)], {})


def _tool(item: Prompt | Resource | ResourceTemplate, key: str, labels: list[str], schema: dict[str, Any]) -> Tool:
    published = published_metadata(item.meta)
    own = published.get("aliases")
    aliases = [*labels, *(cast("list[Any]", own) if isinstance(own, list) else [])]
    meta = {**(item.meta or {}), EXTENSION_ID: {**published, "aliases": aliases}}
    schema = {"type": "object", **schema}
    return Tool(name=key, title=item.title, description=item.description, input_schema=schema, _meta=meta)


def _names(item: Definition) -> str:
    return f"{item.get('name') or ''} {item.get('title') or ''}"


def _unquoted(uri: str) -> list[str]:
    """Return the last segment of a URI without percent-encoding, if it has any."""
    return [unquote(uri.rpartition("/")[2])] if "%" in uri else []


def _folded(text: str) -> str:
    """Normalize `text` so that it contains each of its terms literally (draft: Order and Matching)."""
    return unicodedata.normalize("NFKC", text).casefold()
