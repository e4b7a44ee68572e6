"""The lists that can be searched, as checks use them: what an answer brought, what identifies items, what is offered.

What checks say of items goes by the method that was sent, so that a check which is written for tools judges every other
method as well.
"""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any, Final

from tools_search_spec import PRIMITIVES, Primitive

from tools_search_conformance.wire.codec import JsonObject, as_array, as_object
from tools_search_conformance.wire.record import Exchange

TOOLS: Final = PRIMITIVES[0]
"""The list of the extension's core."""

RESOURCES, TEMPLATES, PROMPTS = OTHERS = PRIMITIVES[1:]
"""The lists whose searches are optional."""

EVERY_METHOD: Final = tuple(primitive.method for primitive in PRIMITIVES)
OTHER_METHODS: Final = tuple(primitive.method for primitive in OTHERS)
METHODS_OF_RESOURCES: Final = (RESOURCES.method, TEMPLATES.method)
"""What the checks of a sentence are run for."""

_NOUNS: Final = {TOOLS: "tool", RESOURCES: "resource", TEMPLATES: "template", PROMPTS: "prompt"}
_BY_METHOD: Final = {
    method: primitive for primitive in PRIMITIVES for method in (primitive.method, primitive.list_method)
}


def primitive_of(method: str) -> Primitive:
    """Return whose search or list a method is; that of tools for any other method."""
    return _BY_METHOD.get(method, TOOLS)


def noun_of(primitive: Primitive) -> str:
    """Return what messages call one item."""
    return _NOUNS[primitive]


def items_in(exchange: Exchange) -> list[Any]:
    """Return what stands in the member for items of an answer to a search or a list; nothing where that is no array."""
    member = primitive_of(exchange.method).member
    return as_array((exchange.result or {}).get(member)) or []


def key_in(item: Any, method: str) -> Any:
    """Return what identifies an item of this method's answers, of any type; `None` where there is nothing."""
    return (as_object(item) or {}).get(primitive_of(method).key)


def settings_for(settings: Mapping[str, Any] | None, primitive: Primitive) -> JsonObject | None:
    """Return the part of the extension's settings that is about a method, `None` where it is not advertised."""
    return as_object((settings or {}).get(primitive.setting)) if primitive.setting else as_object(settings)


def params_of_use(item: JsonObject, primitive: Primitive) -> JsonObject:
    """Return the params that use an item: that call a tool, get a prompt or read a resource."""
    if primitive is RESOURCES:
        return {"uri": item["uri"]}
    if primitive is PROMPTS:
        named = [as_object(argument) or {} for argument in as_array(item.get("arguments")) or []]
        return {"name": item["name"], "arguments": {each["name"]: "anything" for each in named if each.get("required")}}
    schema = as_object(item.get("inputSchema")) or {}
    return {"name": item["name"], "arguments": (as_array(schema.get("examples")) or [{}])[0]}
