"""Prompts, resources, resource templates and completions of all upstreams, served as one.

* Prompts are named like tools. Resources and templates are listed under public URIs. An upstream's own URI also works
  if it is unambiguous, because the gateway does not rewrite URIs in texts and metadata.
* Callers see these of every upstream for which their toolset does not list single tools.
* The gateway declares only capabilities that its upstreams have.
"""

from __future__ import annotations

from collections.abc import Mapping
from functools import partial
from typing import Any, Final, TypeAlias

import anyio
from mcp import MCPError
from mcp.server import Server
from mcp.server.context import CallNext, HandlerResult
from mcp.shared.uri_template import InvalidUriTemplate, UriTemplate
from mcp_ext_search_primitives import PROMPTS, RESOURCE_TEMPLATES, RESOURCES
from mcp_types import (
    INTERNAL_ERROR,
    INVALID_PARAMS,
    INVALID_REQUEST,
    CompleteRequestParams,
    GetPromptRequestParams,
    PaginatedRequestParams,
    PromptReference,
    ReadResourceRequestParams,
    methods,
)
from pydantic import BaseModel, ValidationError
from tools_search_hosts import qualified_name
from tools_search_hosts.json_values import as_object
from tools_search_hosts.results import COMPLETE

from tools_search_server.base.errors import LEGACY_NOT_FOUND, not_found_code, unknown_name
from tools_search_server.base.paging import cursor_after, invalid_cursor, room_for, size_of
from tools_search_server.gateway.public_names import public_uri, split_uri
from tools_search_server.gateway.relay import relay
from tools_search_server.gateway.views import Ctx, View, Views, VisibleServer
from tools_search_server.upstreams.listing import ITEM_KINDS, Kind, attribute, key_of
from tools_search_server.upstreams.upstream import Upstream

LISTINGS: Final = ("prompts/list", "resources/list", "resources/templates/list")

METHODS: Final = frozenset({*LISTINGS, "completion/complete", "prompts/get", "resources/read", "resources/subscribe"})
"""The requests about prompts, resources and completions."""

GREETINGS: Final = frozenset({"initialize", "server/discover"})

_ADVICE: Final = ". Use the URI of a listed resource, or of a listed template with its {variables} replaced"

_Entries: TypeAlias = dict[str, tuple[Upstream, BaseModel]]
"""The entries of a list, each with its upstream, by public name or URI."""


def install(server: Server[Any], views: Views, page_size: int) -> None:
    """Serve the prompts, resources and completions that each caller sees."""

    async def list_entries(kind: Kind, ctx: Ctx, params: PaginatedRequestParams) -> HandlerResult:
        entries = await _merged(views.current(), kind)
        return _page(entries, kind, params.cursor, page_size, ctx.protocol_version)

    async def get(ctx: Ctx, params: GetPromptRequestParams) -> HandlerResult:
        upstream, own = await _named_prompt(views.current(), params.name)
        return await relay(upstream, ctx, {"name": own})

    async def declare(ctx: Ctx, call_next: CallNext) -> HandlerResult:
        result = await call_next(ctx)
        if ctx.method in GREETINGS and isinstance(result, dict):
            _declare(result.setdefault("capabilities", {}), views.current())
        return result

    for kind in ITEM_KINDS:
        server.add_request_handler(kind.list_method, PaginatedRequestParams, partial(list_entries, kind))
    server.add_request_handler("resources/read", ReadResourceRequestParams, partial(_read, views))
    server.add_request_handler("prompts/get", GetPromptRequestParams, get)
    server.add_request_handler("completion/complete", CompleteRequestParams, partial(_complete, views))
    server.middleware.append(declare)


async def _complete(views: Views, ctx: Ctx, params: CompleteRequestParams) -> HandlerResult:
    view = views.current()
    if isinstance(params.ref, PromptReference):
        upstream, own = await _named_prompt(view, params.ref.name)
        ref = {"type": "ref/prompt", "name": own}
    else:
        seen, own = await owner_of(view, params.ref.uri, ctx.protocol_version)
        upstream, ref = seen.upstream, {"type": "ref/resource", "uri": own}
    offered = upstream.greeting.capabilities
    if offered is not None and offered.completions is None:  # `None` until the server has been reached
        return {"resultType": COMPLETE, "completion": {"values": []}}
    return await relay(upstream, ctx, {"ref": ref})


async def _read(views: Views, ctx: Ctx, params: ReadResourceRequestParams) -> HandlerResult:
    uri, version = params.uri, ctx.protocol_version
    seen, own = await owner_of(views.current(), uri, version)

    def public(shown: str) -> str:  # the result uses the caller's URI for the resource
        return uri if shown == own else public_uri(seen.name, shown)

    try:
        return await relay(seen.upstream, ctx, {"uri": own}, public=public)
    except MCPError as error:
        data = error.data
        names_it = as_object(data).get("uri") == own
        is_unknown = error.code == LEGACY_NOT_FOUND or (error.code == INVALID_PARAMS and names_it)
        code = not_found_code(version) if is_unknown else error.code
        text = error.message.removesuffix(_ADVICE) + _ADVICE if is_unknown else error.message
        raise MCPError(code, text, {**data, "uri": uri} if names_it else data) from error


def _declare(declared: dict[str, Any], view: View) -> None:
    """Remove the capabilities that no upstream has. An upstream that has not been reached yet may have any."""
    offered = [seen.upstream.greeting.capabilities for seen in view.upstreams if seen.rule.shows_more]
    for name in ("prompts", "resources", "completions"):
        if all(capabilities is not None and getattr(capabilities, name) is None for capabilities in offered):
            declared.pop(name, None)
    for name in {"prompts", "resources"} & declared.keys():
        declared[name]["listChanged"] = True
    if "resources" in declared:
        declared["resources"]["subscribe"] = any(
            capabilities is None or (capabilities.resources is not None and bool(capabilities.resources.subscribe))
            for capabilities in offered
        )


async def entries_by_server(view: View, kind: Kind) -> list[tuple[VisibleServer, Mapping[str, BaseModel]]]:
    """Return each upstream's list, in the order of the configuration.

    All are read concurrently. An upstream that fails or takes too long is omitted.
    """
    found: dict[str, Mapping[str, BaseModel]] = {}

    async def ask(seen: VisibleServer) -> None:
        if (lists := seen.upstream.lists) is not None:
            found[seen.name] = await lists.entries(kind)

    asked = [seen for seen in view.upstreams if seen.rule.shows_more]
    async with anyio.create_task_group() as tasks:
        for seen in asked:
            tasks.start_soon(ask, seen)
    return [(seen, found[seen.name]) for seen in asked if seen.name in found]


async def _merged(view: View, kind: Kind) -> _Entries:
    """Return the merged lists of all upstreams."""
    entries: _Entries = {}
    for seen, listed in await entries_by_server(view, kind):
        for own, entry in listed.items():
            entries.setdefault(public_key(kind, seen.name, own), (seen.upstream, entry))
    return entries


def public_key(kind: Kind, server: str, own: str) -> str:
    """Return the public name or URI of an entry of `server`."""
    return qualified_name(server, own) if kind is PROMPTS else public_uri(server, own)


def wire_entry(kind: Kind, public: str, entry: BaseModel, version: str) -> dict[str, Any] | None:
    """Return an entry under its public key, as listed in a protocol version; `None` if that does not allow it."""
    renamed = entry.model_copy(update={attribute(kind.key): public})
    shown = renamed.model_dump(by_alias=True, mode="json", exclude_none=True)
    # Alone on a page: the SDK checks only whole pages, and refuses one for a single entry that the revision forbids.
    alone = {kind.member: [shown], "resultType": COMPLETE, "ttlMs": 0, "cacheScope": "private"}
    try:
        return methods.serialize_server_result(kind.list_method, version, alone)[kind.member][0]
    except ValidationError:
        return None


def _page(entries: _Entries, kind: Kind, cursor: str | None, size: int, version: str) -> dict[str, Any]:
    """Return the page after `cursor`, without entries that are invalid in that protocol version."""
    names = list(entries)
    start = 0 if cursor is None else {cursor_after(name): place for place, name in enumerate(names, 1)}.get(cursor)
    if start is None:
        raise invalid_cursor()
    wire = [wire_entry(kind, name, entries[name][1], version) for name in names[start : start + size]]
    end = start + room_for([0 if entry is None else size_of(entry) for entry in wire])
    valid = [entry for entry in wire[: end - start] if entry is not None]
    page: dict[str, Any] = {kind.member: valid, "resultType": COMPLETE}
    return page if end == len(names) else page | {"nextCursor": cursor_after(names[end - 1])}


async def _named_prompt(view: View, name: str) -> tuple[Upstream, str]:
    """Return the upstream of a prompt and its own name for it."""
    prompts = await _merged(view, PROMPTS)
    if name in prompts:
        upstream, prompt = prompts[name]
        return upstream, key_of(PROMPTS, prompt)
    if (down := view.unavailable(name)) is not None:
        raise MCPError(INTERNAL_ERROR, f"The MCP server {down.name!r} is {down.state}. It is retried automatically.")
    raise unknown_name("prompt", name, prompts)


async def owner_of(view: View, uri: str, version: str) -> tuple[VisibleServer, str]:
    """Return the upstream that a URI refers to, and the resource's URI at that upstream.

    Raises:
        MCPError: It refers to no upstream that the caller sees, or to several.
    """
    by_name = {seen.name: seen for seen in view.upstreams}
    if (split := split_uri(uri, by_name)) is not None:
        server, own = split
        if not by_name[server].rule.shows_more:
            text = f"The toolset lists single tools of the MCP server {server!r}, so its resources are not available"
            raise MCPError(INVALID_REQUEST, text, {"uri": uri})
        return by_name[server], own
    # An upstream's own URI: it appears in texts, which the gateway does not rewrite.
    owners = [seen for seen, listed in await entries_by_server(view, RESOURCES) if uri in listed]
    if not owners:
        templates = await entries_by_server(view, RESOURCE_TEMPLATES)
        owners = [seen for seen, listed in templates if any(map(partial(_fits, uri), listed))]
    # A web address has no other public form, and means the same on each server.
    if len(owners) > 1 and public_uri("", uri) != uri:
        known_as = [public_uri(owner.name, uri) for owner in owners]
        text = f"Several MCP servers have the resource {uri!r}: read it as one of {', '.join(known_as)}"
        raise MCPError(INVALID_PARAMS, text, {"uri": uri})
    if not owners:
        raise MCPError(not_found_code(version), "Resource not found" + _ADVICE, {"uri": uri})
    return owners[0], uri


def _fits(uri: str, template: str) -> bool:
    try:
        return uri == template or UriTemplate.parse(template).match(uri) is not None
    except InvalidUriTemplate:
        return False
