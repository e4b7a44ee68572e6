"""Message types of the `tools/search` extension.

They follow `spec/tools_search_spec/schema.json`; tests prove that the two agree in both directions. Aliases give the
camelCase wire names, and parsing ignores unknown members. Requests are strict: a server that accepts `"3"` as a limit
hides a client's mistake until another server refuses it. Section names refer to `spec/draft/tools-search.md`.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from dataclasses import dataclass
from typing import Annotated, Any, Final, Generic, Literal, TypeVar, cast

from mcp_types import CacheableResult, PaginatedRequestParams, PaginatedResult, Request, ResultType, Tool
from pydantic import AfterValidator, BaseModel, BeforeValidator, ConfigDict, Field, StrictStr, ValidationError
from pydantic.alias_generators import to_camel, to_snake

EXTENSION_ID: Final = "io.github.tools-search/tools-search"
"""The extension's identifier in capabilities and in `Tool._meta`. Provisional and unofficial."""

METHOD: Final = "tools/search"
"""The request method that the extension defines."""

WHITE_SPACE: Final = (
    "\t\n\v\f\r \x85\xa0\u1680\u2000\u2001\u2002\u2003\u2004\u2005\u2006\u2007\u2008\u2009\u200a\u2028\u2029\u202f"
    "\u205f\u3000"
)
"""Every character with the Unicode property White_Space. `str.strip()` removes four more control characters."""


def require_kind(argument: str, value: object, *kinds: Any, instead: str) -> None:
    """Raise `TypeError` for an argument that is of none of these kinds, with what to pass `instead`."""
    if not isinstance(value, kinds) or (isinstance(value, bool) and int in kinds):
        raise TypeError(f"{argument} must be {instead}, not {type(value).__name__}")


def published_metadata(meta: Mapping[str, Any] | None) -> Mapping[str, Any]:
    """Return the members that a definition with this `_meta` publishes for the extension, or an empty mapping.

    Definitions come from any server, so the members may have any type.
    """
    published = (meta or {}).get(EXTENSION_ID)
    return cast("Mapping[str, Any]", published) if isinstance(published, dict) else {}


def valid_tools(definitions: Iterable[Mapping[str, Any]]) -> list[Tool]:
    """Return the definitions that are valid tools. Rankers accept only these."""
    tools: list[Tool] = []
    for definition in definitions:
        try:
            tools.append(Tool.model_validate(definition, by_name=False))
        except ValidationError:
            continue
    return tools


def cache_hints(page: Mapping[str, Any]) -> tuple[int, Literal["private", "public"]]:
    """Return for how many milliseconds, and for whom, a page may be cached. Anything invalid means 0, or `private`."""
    ttl = page.get("ttlMs")
    ttl_ms = ttl if isinstance(ttl, int) and not isinstance(ttl, bool) and ttl >= 0 else 0
    return ttl_ms, "public" if page.get("cacheScope") == "public" else "private"


_REASONS: Final = {
    "missing": "is required",
    "string_type": "must be a string",
    "greater_than_equal": "must be at least {ge}",
}


def first_problem(error: ValidationError) -> tuple[str, str]:
    """Return the first invalid member and the reason, without its value."""
    first = error.errors()[0]
    own = _REASONS.get(first["type"])
    reason = own.format(**first.get("ctx", {})) if own else first["msg"].removeprefix("Value error, ")
    return ".".join(map(str, first["loc"])), reason


def _sendable(text: str) -> str:
    """Refuse unpaired surrogates, which no JSON in UTF-8 can carry."""
    try:
        text.encode()
    except UnicodeEncodeError:
        raise ValueError("must be valid Unicode, without unpaired surrogates") from None
    return text


def _not_blank(query: str) -> str:
    if not query.strip(WHITE_SPACE):
        raise ValueError("must contain a character that is not white space")
    return query


def _json_integer(value: object) -> object:
    """Admit what JSON Schema calls an integer: `3` and `3.0`, but neither `true` nor `"3"` nor `null`."""
    if isinstance(value, float) and value.is_integer():
        return int(value)
    if isinstance(value, bool) or not isinstance(value, int):
        raise ValueError("must be an integer")
    return value


def _present(value: object) -> object:
    """Refuse an explicit `null`: a member is left out or has its type."""
    if value is None:
        raise ValueError("must be left out rather than null")
    return value


JsonInteger = Annotated[int, BeforeValidator(_json_integer)]
"""An integer as JSON Schema defines it: a number without a fractional part, however it is written."""

Text = Annotated[StrictStr, AfterValidator(_sendable)]
"""A JSON string without unpaired surrogates."""

LeftOut = BeforeValidator(_present)
"""Marks an optional member, which may be absent but not `null`."""


class ExtensionModel(BaseModel):
    """Base class of objects inside messages."""

    # `mcp_types` exports the bases of whole messages, which have this configuration, but none for what is inside.
    model_config = ConfigDict(alias_generator=to_camel, populate_by_name=True, frozen=True)

    def to_wire(self) -> dict[str, Any]:
        """Return the JSON object, without unset members."""
        return self.model_dump(by_alias=True, mode="json", exclude_none=True)


class ServerSettings(ExtensionModel):
    """The settings with which a server advertises the extension (draft: Server Settings).

    Leave out members that do not apply. Passing `None` is an error, like `null` on the wire.
    """

    catalog_size: Annotated[Annotated[JsonInteger, Field(ge=0)] | None, LeftOut] = None
    """Approximate number of tools that the caller can find. Leave it out if it is not known for each caller."""

    topics: Annotated[list[Text] | None, LeftOut] = None
    """Short phrases that name what can be found, to help the model decide when to search."""

    max_limit: Annotated[Annotated[JsonInteger, Field(ge=1)] | None, LeftOut] = None
    """The largest number of tools that the server returns in one page."""


class ClientSettings(ExtensionModel):
    """The settings that a client declares: an empty object (draft: Client Declaration)."""


class HitMetadata(ExtensionModel):
    """Why a tool was found, at `Tool._meta[EXTENSION_ID]` (draft: Hit Metadata)."""

    score: Annotated[Annotated[float, Field(ge=0, le=1, strict=True)] | None, LeftOut] = None
    """Relevance in [0, 1], comparable only within one result."""

    matched: Annotated[list[Text] | None, LeftOut] = None
    """Names of the definition's members that matched, such as `name` or `inputSchema`."""

    group: Annotated[Text | None, LeftOut] = None
    """The part of the catalog that contains the tool."""


class BusyData(ExtensionModel):
    """The `data` of error -32603 from a server that is too busy to search (draft: Error Handling)."""

    retry_after_ms: Annotated[JsonInteger, Field(ge=0)]
    """Milliseconds until a client may search again."""


class SearchToolsRequestParams(PaginatedRequestParams):
    """Parameters of `tools/search` (draft: Request)."""

    query: Annotated[Text, AfterValidator(_not_blank)]
    """The need, in natural language or keywords. Repeat it unchanged with every cursor."""

    limit: Annotated[Annotated[JsonInteger, Field(ge=1)] | None, LeftOut] = None
    """Maximum size of this page. The server may return fewer, and reduces a larger limit to its own maximum."""

    cursor: Annotated[Text | None, LeftOut] = None
    """Opaque: the `next_cursor` of an earlier page for the same query."""


class SearchToolsRequest(Request[SearchToolsRequestParams, Literal["tools/search"]]):
    """The request with which a host's client asks a server for the tools that fit a need (draft: Request)."""

    method: Literal["tools/search"] = METHOD
    params: SearchToolsRequestParams


class SearchResult(PaginatedResult, CacheableResult):
    """One page of results, without the items."""

    next_cursor: Annotated[Text | None, LeftOut] = None
    """Opaque: requests the next page for the same query. Absent on the last page."""

    ttl_ms: Annotated[JsonInteger, Field(ge=0)] = 0
    """How many milliseconds the page may be cached. 0 means not at all."""

    result_type: Annotated[ResultType, Field(pattern="^complete$")] = "complete"
    """Always `complete`: a search requests no input, and its result has no other form."""


class SearchToolsResult(SearchResult):
    """One page of matching tools, best first (draft: Response)."""

    tools: list[Tool]
    """Definitions identical to those in `tools/list`, apart from `_meta[EXTENSION_ID]`."""


ResultT = TypeVar("ResultT", bound=SearchResult)


@dataclass(frozen=True)
class Primitive(Generic[ResultT]):
    """What one method searches: a row of the table in `spec/draft/search-primitives.md`."""

    method: str
    list_method: str
    member: str  # of lists and results, with the items
    key: str  # the member by which items differ
    item: type[BaseModel]
    request: type[Request[SearchToolsRequestParams, Any]]
    result: type[ResultT]
    setting: str = ""  # what advertises the method; for tools it is the extension itself

    def by_key(self, *pages: BaseModel) -> dict[str, Any]:
        """Return the items of pages of a search or a list by key. The first of a key counts."""
        found: dict[str, Any] = {}
        for page in pages:
            for item in getattr(page, to_snake(self.member)):
                found.setdefault(getattr(item, to_snake(self.key)), item)
        return found


TOOLS: Final = Primitive(METHOD, "tools/list", "tools", "name", Tool, SearchToolsRequest, SearchToolsResult)
