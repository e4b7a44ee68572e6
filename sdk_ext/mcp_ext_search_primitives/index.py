"""An index of resources, templates or prompts: any ranking of tools, under the floor of the draft.

A ranker reads each item in the form of a tool, so one ranking serves all definitions. What stands where in that tool is
this module's secret: a hit names the members of the definition that it was made from. The content of resources has a
ranking of its own (`text_index.py`), and the two make one order.
"""

from __future__ import annotations

import re
import unicodedata
from collections.abc import Collection, Iterator, Mapping, Sequence
from typing import Any, Final, TypeAlias, cast
from urllib.parse import unquote

from mcp_ext_tools_search.ranking import Hit, Ranker
from mcp_ext_tools_search.ranking.fields import fields
from mcp_ext_tools_search.ranking.floor import Floor, terms, trimmed
from mcp_ext_tools_search.ranking.language import stem, words
from mcp_ext_tools_search.types import EXTENSION_ID, Primitive, published_metadata
from mcp_types import Prompt, Resource, ResourceTemplate, Tool
from pydantic import ValidationError

from mcp_ext_search_primitives.text_index import TextIndex, stems_of

CONTENTS: Final = "contents"
"""What a hit names for the content of a resource, as if it were a member of its definition."""

Definition: TypeAlias = Mapping[str, Any]

_DEFINED: Final = 1.5
"""What a definition that says all of a query counts, where the content that fits best counts 1."""

_LEAST_DEFINED: Final = 0.15
"""The least part of that: of a definition that says a query in other words, or with other letters."""


class PrimitiveIndex:
    """Items ready to be searched (`ToolIndex`). It never changes, so any number of threads may search it at once.

    Args:
        primitive: What they are.
        items: Their definitions by key.
        ranker: Orders them.
        texts: The content of resources by URI, as far as it is searched.
    """

    def __init__(
        self,
        primitive: Primitive[Any],
        items: Mapping[str, Definition],
        ranker: Ranker,
        texts: Mapping[str, str] | None = None,
    ) -> None:
        self._primitive, self._ranker = primitive, ranker
        tools = list(_as_tools(primitive, items))
        self._items = {tool.name: items[tool.name] for tool in tools}  # the others are invalid
        self._texts = {uri: text for uri, text in (texts or {}).items() if uri in self._items}
        self._index = ranker(tools)
        # The floor looks at the name, which stands somewhere else in the tools.
        self._floor = Floor([tool.model_copy(update={"title": _names(items[tool.name])}) for tool in tools])
        self._folded = {uri: _folded(text) for uri, text in self._texts.items()}
        self._contents = TextIndex(self._texts)
        self._stems = {
            tool.name: stems_of(text for own in fields(tool) for text in own.texts) for tool in tools if texts
        }

    def search(self, query: str, *, visible: Collection[str] | None = None) -> Sequence[Hit]:
        """Return what fits `query`, best first."""
        if visible is not None:
            items = {key: item for key, item in self._items.items() if key in visible}
            return PrimitiveIndex(self._primitive, items, self._ranker, self._texts).search(query)
        hits = self._with_contents(query, self._floor.under(query, self._index.search(query)))
        if missing := self._having_all_terms(query, {hit.name for hit in hits}):
            score = hits[-1].score if hits else 1.0
            hits = [*hits, *(Hit(uri, score, (CONTENTS,)) for uri in missing)]
        asked = {stem(word) for word in words(query)}
        hits = [hit._replace(matched=tuple(dict.fromkeys(self._members(hit, asked)))) for hit in hits]
        return self._led_by_identity(query, hits)

    def _with_contents(self, query: str, hits: Sequence[Hit]) -> Sequence[Hit]:
        """Return `hits` of definitions and what the content of resources finds, in one order.

        A score compares definitions with one another and not with contents, so it counts as much as a definition says
        of the query. Else the name that fits a query least badly would go before the text that answers it.
        """
        if not (said := self._contents.search(query)):
            return hits
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
        """Return the resources that were not found and have every term in their content and definition together."""
        wanted = frozenset(terms(query))
        whole = {term: re.compile(rf"(?<![^\W_]){re.escape(term)}(?![^\W_])") for term in wanted}
        having: list[str] = []
        for uri, text in self._folded.items() if wanted else ():
            if uri in found:
                continue
            item = self._items[uri]
            defined = frozenset(terms(f"{_names(item)} {item.get('description') or ''}"))
            left = wanted - defined
            # Most contents lack one, and are not cut into their terms; with marks of other scripts only that is exact.
            if not all(term in text for term in left) or not all(whole[term].search(text) for term in left):
                continue
            if text.isascii() or left <= frozenset(terms(text)):
                having.append(uri)
        return sorted(having)

    def _members(self, hit: Hit, asked: Collection[str]) -> Iterator[str]:
        """Yield the members of a definition that matched, in place of those of the tool that was made from it."""
        is_prompt = self._primitive.item is Prompt
        renamed = {"name": self._primitive.key, "inputSchema": "arguments"}
        item = self._items[hit.name]
        for member in hit.matched:
            if member == "inputSchema" and not is_prompt:
                continue  # only prompts have any
            if member != "_meta" or is_prompt:
                yield renamed.get(member, member)
                continue
            is_named = any(stem(word) in asked for word in words(str(item.get("name"))))
            yield "name" if is_named or not published_metadata(item.get("_meta")) else "_meta"

    def _led_by_identity(self, query: str, hits: Sequence[Hit]) -> Sequence[Hit]:
        """Return `hits` with an item first that `query` identifies (draft: Exact Identifiers).

        An item whose key is the query, or else the query without white space at its ends, goes before those that have
        that name. Of several with the name, the one that was found first stays the first.
        """
        spellings = dict.fromkeys((query, trimmed(query)))
        if key := next((spelling for spelling in spellings if spelling in self._items), None):
            return _led_by(key, hits, self._primitive.key)
        for spelling in spellings:
            if named := {key for key, item in self._items.items() if item.get("name") == spelling}:
                return _led_by(next((hit.name for hit in hits if hit.name in named), min(named)), hits, "name")
        return hits


def _led_by(key: str, hits: Sequence[Hit], member: str) -> Sequence[Hit]:
    own = next((hit for hit in hits if hit.name == key), Hit(key, 1.0))
    matched = own.matched if member in own.matched else (member, *own.matched)
    return [own._replace(score=1.0, matched=matched), *(hit for hit in hits if hit.name != key)]


def _as_tools(primitive: Primitive[Any], items: Mapping[str, Definition]) -> Iterator[Tool]:
    """Yield a tool for each valid definition, named by its key.

    The name of a resource counts as a label, as it need not be unique; the arguments of a prompt are parameters.
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
    """Return the last part of a URI as people write it, where it is spelled in another way."""
    return [unquote(uri.rpartition("/")[2])] if "%" in uri else []


def _folded(text: str) -> str:
    """Return `text` so that each of its terms is a part of it (draft: Order and Matching)."""
    return unicodedata.normalize("NFKC", text).casefold()
