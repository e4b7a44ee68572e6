"""Message types of the `tools/search` extension.

Their source is `spec/tools_search_spec/schema.json`: tests prove that the two agree in both directions. Wire names are
camelCase by alias; unknown members are ignored on arrival. Requests are strict, as a server that reads `"3"` as a limit
hides a client's mistake until another server refuses it. Sections are those of the draft, `spec/draft/tools-search.md`.
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
"""Every character with the Unicode property White_Space. `str.strip()` knows four control characters more."""


def published_metadata(meta: Mapping[str, Any] | None) -> Mapping[str, Any]:
    """Return what a definition with this `_meta` publishes for the extension; empty where it has nothing.

    Definitions come from any server, so the members may be of any type.
    """
    published = (meta or {}).get(EXTENSION_ID)
    return cast("Mapping[str, Any]", published) if isinstance(published, dict) else {}


def valid_tools(definitions: Iterable[Mapping[str, Any]]) -> list[Tool]:
    """Return the definitions that are valid tools: rankers take no others."""
    tools: list[Tool] = []
    for definition in definitions:
        try:
            tools.append(Tool.model_validate(definition, by_name=False))
        except ValidationError:
            continue
    return tools


_REASONS: Final = {
    "missing": "is required",
    "string_type": "must be a string",
    "greater_than_equal": "must be at least {ge}",
}


def first_problem(error: ValidationError) -> tuple[str, str]:
    """Return which member is wrong, and why; nothing of its value."""
    first = error.errors(include_input=False, include_url=False)[0]
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
"""An integer as JSON Schema defines it: a number with no fractional part, however it is spelled."""

Text = Annotated[StrictStr, AfterValidator(_sendable)]
"""A JSON string that can be sent."""

LeftOut = BeforeValidator(_present)
"""Marks an optional member: absent is fine, `null` is not."""


class ExtensionModel(BaseModel):
    """Base of the objects that are no message of their own."""

    model_config = ConfigDict(alias_generator=to_camel, populate_by_name=True, frozen=True)

    def to_wire(self) -> dict[str, Any]:
        """Return the JSON object, without the members that are not set."""
        return self.model_dump(by_alias=True, mode="json", exclude_none=True)


class ServerSettings(ExtensionModel):
    """What a server says of its search when it advertises the extension (draft: Server Settings).

    A member that does not apply is left out; passing `None` is an error, as `null` is on the wire.
    """

    catalog_size: Annotated[Annotated[JsonInteger, Field(ge=0)] | None, LeftOut] = None
    """Approximate number of tools that the caller can find; left out where it is not known for each caller."""

    topics: Annotated[list[Text] | None, LeftOut] = None
    """Short phrases naming what can be found, as a hint for the model when searching is worth it."""

    max_limit: Annotated[Annotated[JsonInteger, Field(ge=1)] | None, LeftOut] = None
    """The largest number of tools that the server ever returns in one page."""


class ClientSettings(ExtensionModel):
    """What a client declares: an object without members of its own (draft: Client Declaration)."""


class HitMetadata(ExtensionModel):
    """Why a tool is among the results, at `Tool._meta[EXTENSION_ID]` (draft: Hit Metadata)."""

    score: Annotated[Annotated[float, Field(ge=0, le=1, strict=True, allow_inf_nan=False)] | None, LeftOut] = None
    """Relevance in [0, 1], comparable only within one result."""

    matched: Annotated[list[Text] | None, LeftOut] = None
    """Names of the members of the definition that matched, such as `name` or `inputSchema`."""

    group: Annotated[Text | None, LeftOut] = None
    """The part of the catalog that the tool belongs to."""


class BusyData(ExtensionModel):
    """The `data` of error -32603 from a server that is too busy to search (draft: Error Handling)."""

    retry_after_ms: Annotated[JsonInteger, Field(ge=0)]
    """Milliseconds after which a client may search again."""


class SearchToolsRequestParams(PaginatedRequestParams):
    """Parameters of `tools/search` (draft: Request)."""

    query: Annotated[Text, AfterValidator(_not_blank)]
    """What is needed, in natural language or keywords; repeated unchanged with every cursor."""

    limit: Annotated[Annotated[JsonInteger, Field(ge=1)] | None, LeftOut] = None
    """Upper bound of this page; the server may return fewer and clamps what is above its own maximum."""

    cursor: Annotated[Text | None, LeftOut] = None
    """Opaque, from the `next_cursor` of an earlier page of the same query."""


class SearchToolsRequest(Request[SearchToolsRequestParams, Literal["tools/search"]]):
    """The request by which a host's client asks a server for the tools that fit a need (draft: Request)."""

    method: Literal["tools/search"] = METHOD
    params: SearchToolsRequestParams


class SearchResult(PaginatedResult, CacheableResult):
    """One page of what was found, apart from the items."""

    next_cursor: Annotated[Text | None, LeftOut] = None
    """Opaque, asks for the next page of the same query; absent on the last page."""

    ttl_ms: Annotated[JsonInteger, Field(ge=0)] = 0
    """For how many milliseconds the page may be cached; 0 means not at all."""

    result_type: Annotated[ResultType, Field(pattern="^complete$")] = "complete"
    """Always `complete`: a search asks for no input, and its result has no shape of its own."""


class SearchToolsResult(SearchResult):
    """One page of matching tools, best first (draft: Response)."""

    tools: list[Tool]
    """Definitions identical to those of `tools/list`, apart from `_meta[EXTENSION_ID]`."""


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

    def by_key(self, result: ResultT) -> dict[str, Any]:
        """Return the items of a result by their keys."""
        return {getattr(item, to_snake(self.key)): item for item in getattr(result, to_snake(self.member))}


TOOLS: Final = Primitive(METHOD, "tools/list", "tools", "name", Tool, SearchToolsRequest, SearchToolsResult)
