"""Search over resources, resource templates and prompts: the optional part of the extension.

What both sides share stands here. `mcp_ext_tools_search` loads this package only where a server is asked to search more
than tools; a client takes `mcp_ext_search_primitives.client`.
"""

from mcp_ext_search_primitives.types import (
    PROMPTS,
    RESOURCE_TEMPLATES,
    RESOURCES,
    PrimitiveSettings,
    PrimitivesServerSettings,
    ResourcesSettings,
    SearchPromptsRequest,
    SearchPromptsResult,
    SearchResourcesRequest,
    SearchResourcesResult,
    SearchResourceTemplatesRequest,
    SearchResourceTemplatesResult,
)

__all__ = [
    "PROMPTS",
    "RESOURCES",
    "RESOURCE_TEMPLATES",
    "PrimitiveSettings",
    "PrimitivesServerSettings",
    "ResourcesSettings",
    "SearchPromptsRequest",
    "SearchPromptsResult",
    "SearchResourceTemplatesRequest",
    "SearchResourceTemplatesResult",
    "SearchResourcesRequest",
    "SearchResourcesResult",
]
