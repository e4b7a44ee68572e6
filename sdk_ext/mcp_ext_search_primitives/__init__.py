"""Search over resources, resource templates and prompts: the optional part of the extension.

This module contains the types that both sides share. `mcp_ext_tools_search` imports this package only if a server
searches more than tools. Clients use `mcp_ext_search_primitives.client`.
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
