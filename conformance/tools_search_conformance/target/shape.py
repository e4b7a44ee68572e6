"""Shapes, judged by the draft's own schema. No reference leaves the schema, whatever a target sends."""

from __future__ import annotations

from collections.abc import Mapping
from functools import cache
from typing import Any, Final

from jsonschema import Draft202012Validator
from referencing import Registry
from tools_search_spec import EXTENSION_ID, schema

from tools_search_conformance.wire.codec import JsonObject, as_object, integer
from tools_search_conformance.wire.connection import Connection
from tools_search_conformance.wire.eras import LEGACY, Era

__all__ = ["advertised", "complaint", "integer", "page_schema", "settings_in"]

_EMPTY: Final[Registry[Any]] = Registry()


def page_schema(era: Era) -> Mapping[str, Any]:
    """Return the schema of a page's own members, without those that have checks of their own."""
    tool = "#/$defs/LegacyTool" if era == LEGACY else "#/$defs/Tool"
    return {
        "type": "object",
        "required": ["tools"],
        "properties": {
            "tools": {"type": "array", "items": {"$ref": tool}},
            "nextCursor": {"$ref": "#/$defs/Cursor"},
            "_meta": {"$ref": "#/$defs/MetaObject"},
        },
    }


def complaint(value: Any, shape: str | Mapping[str, Any]) -> str | None:
    """Return what is wrong with `value`, or `None`; `shape` names a type of the draft or is a schema using them."""
    wanted = {"$ref": f"#/$defs/{shape}"} if isinstance(shape, str) else shape
    validator = Draft202012Validator({**wanted, "$defs": _definitions()}, registry=_EMPTY)
    error = next(iter(validator.iter_errors(value)), None)  # pyright: ignore[reportUnknownMemberType, reportUnknownArgumentType, reportUnknownVariableType] - untyped generator
    return None if error is None else f"{error.json_path[:300]}: {error.message[:300]}"


@cache
def _definitions() -> Mapping[str, Any]:
    return schema()["$defs"]


def settings_in(capabilities: Any, place: str) -> JsonObject | None:
    """Return the extension's settings at `place` (`extensions`, `experimental`); anything but an object is absent."""
    held = as_object((as_object(capabilities) or {}).get(place)) or {}
    return as_object(held.get(EXTENSION_ID))


def advertised(connection: Connection) -> JsonObject | None:
    """Return the settings that the target advertises where this era wants them, in either place of the legacy one."""
    capabilities = connection.server.get("capabilities")
    found = settings_in(capabilities, "extensions")
    return found if found is not None or connection.era != LEGACY else settings_in(capabilities, "experimental")
