"""Message types of `resources/search`, `resources/templates/search` and `prompts/search`.

They are those of `tools/search` with another member. Section names in docstrings are those of
`spec/draft/search-primitives.md`.
"""

from __future__ import annotations

from typing import Annotated, Final, Literal

from mcp_ext_tools_search.types import LeftOut, Primitive, SearchResult, SearchToolsRequestParams, ServerSettings
from mcp_types import Prompt, Request, Resource, ResourceTemplate
from pydantic import StrictBool


class PrimitiveSettings(ServerSettings):
    """What a server says of its search of one kind of items, as of that of tools (draft: Settings of Each Method)."""


class ResourcesSettings(PrimitiveSettings):
    """The same for resources and resource templates."""

    contents: Annotated[StrictBool | None, LeftOut] = None
    """Whether the content of resources is searched too."""

    unlisted: Annotated[StrictBool | None, LeftOut] = None
    """Whether resources may be found that `resources/list` omits (draft: Resources That Are Not Listed)."""


class PrimitivesServerSettings(ServerSettings):
    """What a server advertises that searches more than tools; the members of `ServerSettings` are about tools."""

    resources: Annotated[ResourcesSettings | None, LeftOut] = None
    """Where the server serves `resources/search` and `resources/templates/search`."""

    prompts: Annotated[PrimitiveSettings | None, LeftOut] = None
    """Where the server serves `prompts/search`."""


class SearchResourcesRequest(Request[SearchToolsRequestParams, Literal["resources/search"]]):
    """Asks a server for the resources that fit a need."""

    method: Literal["resources/search"] = "resources/search"
    params: SearchToolsRequestParams


class SearchResourcesResult(SearchResult):
    """One page of matching resources, best first."""

    resources: list[Resource]
    """Definitions identical to those of `resources/list`, apart from `_meta[EXTENSION_ID]`."""


class SearchResourceTemplatesRequest(Request[SearchToolsRequestParams, Literal["resources/templates/search"]]):
    """Asks a server for the resource templates that fit a need."""

    method: Literal["resources/templates/search"] = "resources/templates/search"
    params: SearchToolsRequestParams


class SearchResourceTemplatesResult(SearchResult):
    """One page of matching resource templates, best first."""

    resource_templates: list[ResourceTemplate]
    """Definitions identical to those of `resources/templates/list`, apart from `_meta[EXTENSION_ID]`."""


class SearchPromptsRequest(Request[SearchToolsRequestParams, Literal["prompts/search"]]):
    """Asks a server for the prompts that fit a need."""

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
