"""Converts scripts and outcomes for tools to those for another list, so that one check judges every method.

Checks are written for tools. For another method, the script answers that method, with each tool converted to an item of
its list, and the items that the client reports are converted back to tools.
"""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any, Final

from tools_search_spec import EXTENSION_ID, METHOD, Primitive

from tools_search_conformance.target.primitives import TOOLS
from tools_search_conformance.wire.codec import JsonObject, as_array, as_object

_PLACES: Final = ("extensions", "experimental")
_KEYS: Final[Mapping[str, tuple[str, str]]] = {"uri": ("made://", ""), "uriTemplate": ("made://", "{/page}")}
"""The text before and after a tool's name in an item's key."""


class Undisguised(dict[str, Any]):
    """Settings that a script advertises without conversion."""


def request_as_of_tools(message: JsonObject, primitive: Primitive) -> JsonObject:
    """Return a request in the form for a script."""
    methods = {primitive.method: METHOD, primitive.list_method: TOOLS.list_method}
    method = message.get("method")
    return {**message, "method": methods[method]} if isinstance(method, str) and method in methods else message


def result_as_of(result: JsonObject, primitive: Primitive) -> JsonObject:
    """Convert a script's result to one for another list, or to a discovery or handshake that advertises that search."""
    if (tools := as_array(result.get(TOOLS.member))) is not None:
        rest = {name: value for name, value in result.items() if name != TOOLS.member}
        return {primitive.member: [_item(tool, primitive) for tool in tools], **rest}
    if (capabilities := as_object(result.get("capabilities"))) is not None:
        held = {place: _settings(capabilities[place], primitive) for place in _PLACES if place in capabilities}
        return {**result, "capabilities": {primitive.setting: {"listChanged": True}, **capabilities, **held}}
    return result


def _item(tool: Any, primitive: Primitive) -> Any:
    if (members := as_object(tool)) is None or not isinstance(name := members.get("name"), str):
        return tool
    kept = {member: value for member, value in members.items() if member not in {"name", "inputSchema"}}
    before, after = _KEYS.get(primitive.key, ("", ""))
    # Names that are not the key may repeat.
    return {"name": "item", primitive.key: f"{before}{name}{after}", **kept}


def _settings(extensions: Any, primitive: Primitive) -> Any:
    """Return the extensions with a script's settings for tool search applied to this search only."""
    if (held := as_object(extensions)) is None or EXTENSION_ID not in held:
        return extensions
    settings = held[EXTENSION_ID]
    return {**held, EXTENSION_ID: settings if isinstance(settings, Undisguised) else {primitive.setting: settings}}


def answer_as_of_tools(answer: JsonObject, primitive: Primitive) -> JsonObject:
    """Convert a driver's answer that reports items of a list to one that reports tools."""
    ok = as_object(answer.get("ok")) or {}
    if (items := as_array(ok.get(primitive.member))) is None:
        return answer
    return {**answer, "ok": {**ok, TOOLS.member: [_tool(item, primitive) for item in items]}}


def _tool(item: Any, primitive: Primitive) -> Any:
    if (members := as_object(item)) is None:
        return item
    before, after = _KEYS.get(primitive.key, ("", ""))
    return {**members, "name": str(members.get(primitive.key)).removeprefix(before).removesuffix(after)}
