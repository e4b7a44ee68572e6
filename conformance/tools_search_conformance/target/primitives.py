"""The searchable lists, as checks use them: an answer's items, their keys, and what is offered.

Messages about items depend on the method that was sent, so that a check written for tools also judges every other
method.
"""

from __future__ import annotations

import re
from collections.abc import Mapping
from typing import Any, Final

from tools_search_spec import PRIMITIVES, Primitive

from tools_search_conformance.wire.codec import JsonObject, as_array, as_object
from tools_search_conformance.wire.record import Exchange

TOOLS: Final = PRIMITIVES[0]
"""The extension's core list."""

RESOURCES, TEMPLATES, PROMPTS = OTHERS = PRIMITIVES[1:]
"""The lists whose searches are optional."""

EVERY_METHOD: Final = tuple(primitive.method for primitive in PRIMITIVES)
OTHER_METHODS: Final = tuple(primitive.method for primitive in OTHERS)
METHODS_OF_RESOURCES: Final = (RESOURCES.method, TEMPLATES.method)
"""The lists to run a sentence's checks for."""

_VARIABLE: Final = re.compile(r"\{\w+\}")
"""A simple expression of a URI template."""

_NOUNS: Final = {TOOLS: "tool", RESOURCES: "resource", TEMPLATES: "template", PROMPTS: "prompt"}
_BY_METHOD: Final = {
    method: primitive for primitive in PRIMITIVES for method in (primitive.method, primitive.list_method)
}


def primitive_of(method: str) -> Primitive:
    """Return the primitive that a method searches or lists; tools for any other method."""
    return _BY_METHOD.get(method, TOOLS)


def noun_of(primitive: Primitive) -> str:
    """Return the noun for one item in messages."""
    return _NOUNS[primitive]


def items_in(exchange: Exchange) -> list[Any]:
    """Return the items in the answer to a search or list; empty if the member is not an array."""
    member = primitive_of(exchange.method).member
    return as_array((exchange.result or {}).get(member)) or []


def key_in(item: Any, method: str) -> Any:
    """Return the key of an item in this method's answers, of any type; `None` if there is none."""
    return (as_object(item) or {}).get(primitive_of(method).key)


def keys_in(exchange: Exchange) -> list[Any]:
    """Return the keys of the items in the answer to a search or list."""
    return [key_in(item, exchange.method) for item in items_in(exchange)]


def settings_for(settings: Mapping[str, Any] | None, primitive: Primitive) -> JsonObject | None:
    """Return the extension's settings for a primitive; `None` if it is not advertised."""
    return as_object((settings or {}).get(primitive.setting)) if primitive.setting else as_object(settings)


def expanded(template: str) -> str:
    """Return a URI to which a template expands, if its expressions have no operators."""
    return _VARIABLE.sub("7", template)


def params_of_use(item: JsonObject, primitive: Primitive) -> JsonObject:
    """Return the params for using an item: to call a tool, get a prompt or read a resource."""
    if primitive is RESOURCES:
        return {"uri": item["uri"]}
    if primitive is PROMPTS:
        named = [as_object(argument) or {} for argument in as_array(item.get("arguments")) or []]
        return {"name": item["name"], "arguments": {each["name"]: "anything" for each in named if each.get("required")}}
    schema = as_object(item.get("inputSchema")) or {}
    return {"name": item["name"], "arguments": (as_array(schema.get("examples")) or [{}])[0]}
