"""The modes `meta-tools` and `auto`.

* `meta-tools` lists a few tools that find and call all others. The list never changes.
* `auto` does the same for callers who see many tools, and lists all tools to callers who see few. This depends only on
  the tools that a caller sees, so replicas agree. When their number crosses the threshold, the client is notified that
  its list has changed. Tools from either list can still be called, by name or through `call_tool`.
"""

from __future__ import annotations

import json
from abc import ABC, abstractmethod
from typing import Any

from mcp_types import CallToolRequestParams, PaginatedRequestParams
from tools_search_hosts.toolsets import EVERYTHING

from tools_search_server.base.errors import unknown_tool
from tools_search_server.base.paging import ToolPages
from tools_search_server.compat.always_available import AlwaysAvailable
from tools_search_server.compat.definitions import CompatOptions, ToolFailureError, checked_arguments, meta_tools
from tools_search_server.compat.model_tools import ModelTools, not_for_models
from tools_search_server.gateway.relay import relay
from tools_search_server.gateway.search import GatewaySearch
from tools_search_server.gateway.server import Endpoint
from tools_search_server.gateway.views import Ctx, View


def result_of(document: dict[str, Any], *, is_error: bool = False) -> dict[str, Any]:
    """Return a tool call result with a JSON object, as text and as structured content."""
    # The object may repeat text from the caller that cannot be encoded.
    text = json.dumps(document, ensure_ascii=False, separators=(",", ":")).encode("utf-8", "replace").decode()
    result = {"resultType": "complete", "content": [{"type": "text", "text": text}]}
    return result | {"structuredContent": json.loads(text), "isError": is_error}


class CompatEndpoint(Endpoint, ABC):
    """An endpoint for hosts without search."""

    def __init__(self, search: GatewaySearch, options: CompatOptions, always: AlwaysAvailable) -> None:
        super().__init__(search)
        self.always = always
        self.options = options

    async def call_tool(self, ctx: Ctx, params: CallToolRequestParams) -> dict[str, Any]:
        """Answer `tools/call`. A `ToolFailureError` becomes a result that a model can read."""
        try:
            return await self.answer_call(ctx, params.name, params.arguments or {})
        except ToolFailureError as failure:
            return result_of(failure.document, is_error=True)

    @abstractmethod
    async def answer_call(self, ctx: Ctx, name: str, arguments: dict[str, Any]) -> dict[str, Any]:
        """Answer a call to one of the endpoint's own tools or to another tool."""


class MetaTools(CompatEndpoint):
    """The endpoint of the `meta-tools` or `auto` mode."""

    def __init__(
        self, search: GatewaySearch, options: CompatOptions, always: AlwaysAvailable, mode: str = "meta-tools"
    ) -> None:
        super().__init__(search, options, always)
        self.mode = mode
        self._own = {tool.name: tool for tool in meta_tools(options)}

    async def list_tools(self, ctx: Ctx, params: PaginatedRequestParams) -> dict[str, Any]:
        """Return the meta-tools and the always-available tools; in `auto` mode, return all tools if they are few."""
        view = self.views.current()
        if self._lists_all(view):
            return await self.search.listing.page(view, params.cursor, ctx.protocol_version)
        self.always.report(self.views.of(EVERYTHING))
        tools = [*self._own.values(), *(exposed.tool for exposed in self.always.of(view).values())]
        return ToolPages(tools, len(tools)).page(params.cursor, ctx.protocol_version)

    async def answer_call(self, ctx: Ctx, name: str, arguments: dict[str, Any]) -> dict[str, Any]:
        """Answer a call to a meta-tool, or to another tool by its name."""
        if (plain := self.options.plain(name)) is None:
            # Even if not all tools are listed now: the client's copy of the list may be older.
            if self.mode == "auto":
                return await self.call_by_name(ctx, name, self._own)
            return await self._call_listed(ctx, name)
        arguments = checked_arguments(self._own[self.options.named(plain)], plain, arguments)
        answer = await getattr(ModelTools(self.search, self.options, ctx), plain)(arguments)
        return answer if plain == "call_tool" else result_of(answer)

    async def _call_listed(self, ctx: Ctx, name: str) -> dict[str, Any]:
        view = self.views.current()
        if (exposed := self.always.of(view).get(name)) is not None:
            return await relay(exposed.upstream, ctx, {"name": exposed.original.name})
        if name in view.for_model.tools:
            advice = f'Call {self.options.named("call_tool")} with {{"name": "{name}", "arguments": {{…}}}}.'
            raise ToolFailureError(f"{name} is not in this server's list.", [advice])
        if name in view.tools:
            raise not_for_models(name)
        raise unknown_tool(name, [*self._own, *view.for_model.tools])

    def input_schema(self, name: str) -> dict[str, Any] | None:
        """Return the input schema of a tool, or `None` if the current caller sees no tool of that name."""
        if name in self._own:
            return self._own[name].input_schema
        if self.mode == "auto":
            return super().input_schema(name)
        exposed = self.always.of(self.views.current()).get(name)
        return None if exposed is None else exposed.tool.input_schema

    def listed(self, view: View) -> object:
        """Return a value that changes when the `tools/list` of a view's callers does."""
        return view.contents if self._lists_all(view) else self.always.of(view)

    def guide(self, view: View) -> str:
        """Return instructions for models on how to find tools."""
        if self._lists_all(view):
            return "All of them are in its list."
        named = self.options.named
        return (
            f"They are not in its list: find them with {named('search_tools')}, look at {named('describe_tools')} for "
            f"what they take, and call them with {named('call_tool')}."
        )

    def _lists_all(self, view: View) -> bool:
        # If the number is unknown, assume that it is too large.
        return self.mode == "auto" and view.tool_count is not None and view.tool_count <= self.options.list_at_most
