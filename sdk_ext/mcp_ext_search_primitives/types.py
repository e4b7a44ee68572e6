"""Message types of `resources/search`, `resources/templates/search` and `prompts/search`.

They are like those of `tools/search`, with a different member for the results. Section names in docstrings refer to
`spec/draft/search-primitives.md`.
"""

from __future__ import annotations

from typing import Annotated, Final, Literal

from mcp_ext_tools_search.types import LeftOut, Primitive, SearchResult, SearchToolsRequestParams, ServerSettings
from mcp_types import Prompt, Request, Resource, ResourceTemplate
from pydantic import StrictBool


class PrimitiveSettings(ServerSettings):
    """A server's settings for the search of one kind of items (draft: Settings of Each Method)."""


class ResourcesSettings(PrimitiveSettings):
    """A server's settings for the search of resources and resource templates."""

    contents: Annotated[StrictBool | None, LeftOut] = None
    """Whether the server searches the content of resources too."""

    unlisted: Annotated[StrictBool | None, LeftOut] = None
    """Whether the server may find resources that `resources/list` omits (draft: Resources That Are Not Listed)."""


class PrimitivesServerSettings(ServerSettings):
    """Settings of a server that searches more than tools. The members of `ServerSettings` are about tools."""

    resources: Annotated[ResourcesSettings | None, LeftOut] = None
    """Set if the server supports `resources/search` and `resources/templates/search`."""

    prompts: Annotated[PrimitiveSettings | None, LeftOut] = None
    """Set if the server supports `prompts/search`."""


class SearchResourcesRequest(Request[SearchToolsRequestParams, Literal["resources/search"]]):
    """Requests the resources that match a query."""

    method: Literal["resources/search"] = "resources/search"
    params: SearchToolsRequestParams


class SearchResourcesResult(SearchResult):
    """One page of matching resources, best first."""

    resources: list[Resource]
    """Definitions identical to those of `resources/list`, apart from `_meta[EXTENSION_ID]`."""


class SearchResourceTemplatesRequest(Request[SearchToolsRequestParams, Literal["resources/templates/search"]]):
    """Requests the resource templates that match a query."""

    method: Literal["resources/templates/search"] = "resources/templates/search"
    params: SearchToolsRequestParams


class SearchResourceTemplatesResult(SearchResult):
    """One page of matching resource templates, best first."""

    resource_templates: list[ResourceTemplate]
    """Definitions identical to those of `resources/templates/list`, apart from `_meta[EXTENSION_ID]`."""


class SearchPromptsRequest(Request[SearchToolsRequestParams, Literal["prompts/search"]]):
    """Requests the prompts that match a query."""

    method: Literal["prompts/search"] = "prompts/search"
    params: SearchToolsRequestParams


class SearchPromptsResult(SearchResult):
    """One page of matching prompts, best first."""

    prompts: list[Prompt]
    """Definitions identical to those of `prompts/list`, apart from `_meta[EXTENSION_ID]`."""


RESOURCES: Final = Primitive(
    "resources/search",
    "resources/list",
    "resources",
    "uri",
    Resource,
    SearchResourcesRequest,
    SearchResourcesResult,
    setting="resources",
)
RESOURCE_TEMPLATES: Final = Primitive(
    "resources/templates/search",
    "resources/templates/list",
    "resourceTemplates",
    "uriTemplate",
    ResourceTemplate,
    SearchResourceTemplatesRequest,
    SearchResourceTemplatesResult,
    setting="resources",
)
PROMPTS: Final = Primitive(
    "prompts/search", "prompts/list", "prompts", "name", Prompt, SearchPromptsRequest, SearchPromptsResult, "prompts"
)
