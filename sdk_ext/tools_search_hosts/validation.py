"""Readable messages for pydantic's validation errors, without the values."""

from __future__ import annotations

import re
from collections.abc import Collection, Mapping
from typing import Final

from pydantic_core import ErrorDetails

from tools_search_hosts.toolsets import closest


def name_problem(name: str) -> str:
    """Return what is wrong with a name in a configuration; empty if nothing is."""
    if not name.strip():
        return "an empty name"
    # No message can carry it.
    return "a name with half of a surrogate pair" if re.search("[\ud800-\udfff]", name) else ""


def validation_problem(error: ErrorDetails, *place: str, known: Collection[str] = ()) -> str:
    """Describe a pydantic error in the value at `place` on one line, without the value, which may be a misplaced key.

    In place of an unknown member, suggest one of the `known` names.
    """
    # Without `error["input"]`: the message may be logged, and the value may be a key.
    path, context = ".".join(map(str, (*place, *error["loc"]))), error.get("ctx", {})
    where = f"`{path}`" if path else "it"
    match error["type"]:
        case "value_error":
            return f"{where}: {context['error']}"
        case "extra_forbidden":
            return f"{where} means nothing here; {closest(str(error['loc'][-1]), known)}"
        case "literal_error":
            expected = str(context["expected"]).replace("'", '"')
        case "greater_than" | "greater_than_equal" as kind:
            expected = f"a number above {context['gt']:g}" if kind == "greater_than" else f"at least {context['ge']}"
        case kind if kind in _EXPECTED:
            expected = _EXPECTED[kind]
        case _:
            return f"{where}: {error['msg']}"
    return f"{where} must be {expected}"


_EXPECTED: Final[Mapping[str, str]] = {
    "missing": "given",
    "bool_type": "true or false",
    "string_type": "a text, in quotes",
    "string_pattern_mismatch": "a text that is not empty",
    "int_type": "a whole number",
    "float_type": "a number",
    "int_parsing": "a whole number",
    "list_type": "a list",
    "dict_type": "an object",
    "model_type": "an object",
}
"""The expected value, by type of error."""
