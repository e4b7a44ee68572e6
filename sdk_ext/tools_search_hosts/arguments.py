"""Validation of arguments against a tool's input schema.

Schemas come from servers that may be hostile, and other callers wait during the check. So its cost is limited, and
regular expressions are not checked: they may take forever, and their dialect is the server's own.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Callable, Iterator, Mapping
from contextvars import ContextVar
from functools import cache
from itertools import islice
from typing import Any, Final, cast

from jsonschema import Draft202012Validator, ValidationError, validators
from referencing import Registry

from tools_search_hosts.json_values import is_list, is_object

_MAX_STEPS: Final = 100_000
"""Maximum cost of one check: a step for each keyword, and for each member that it may visit."""

_MAX_COMPLAINTS: Final = 5
_MAX_CHARS: Final = 300
_UNCHECKED: Final = ("pattern", "patternProperties", "unevaluatedProperties", "unevaluatedItems", "uniqueItems")
"""Keywords whose cost may grow faster than linearly."""

_steps: ContextVar[Counter[str]] = ContextVar("tools_search_schema_steps")

Keyword = Callable[[Any, Any, Any, Any], Iterator[ValidationError] | None]


class _TooCostlyError(Exception):
    """A schema requires more steps than any honest one."""


def complaints(schema: Mapping[str, Any], arguments: Mapping[str, Any]) -> list[str]:
    """Return the problems in `arguments` with their places; none if they are valid.

    If a schema is unusable or takes too long, nothing is refused and the server decides.
    """
    # For this check alone: the validator classes are cached, and shared by all checks.
    _steps.set(Counter())
    try:
        walked = list(_members(schema))
        if any(name == "$schema" and isinstance(value, str) for name, value in walked[len(schema) :]):
            return []  # a nested schema in another dialect would be checked without a limit
        has_patterns = any(name == "patternProperties" for name, _ in walked)
        kind = _bounded_kind(validators.validator_for(schema, Draft202012Validator), has_patterns=has_patterns)
        # Empty, so that a reference in a foreign schema is never fetched.
        registry = Registry[Any]()
        errors = islice(kind(schema, registry=registry).iter_errors(arguments), _MAX_COMPLAINTS)
        places = ((".".join(map(str, error.absolute_path)), error.message) for error in errors)
        return [f"{_shortened(place) or 'arguments'}: {_shortened(message)}" for place, message in places]
    except Exception:  # a foreign schema may make jsonschema raise anything
        return []


@cache
def _bounded_kind(kind: Any, *, has_patterns: bool) -> Any:
    """Return a validator class that counts its steps and leaves out costly keywords."""
    judged: dict[str, Any] = {name: _counted(keyword) for name, keyword in kind.VALIDATORS.items()}
    judged |= dict.fromkeys(_UNCHECKED)
    if has_patterns:
        judged["additionalProperties"] = None  # it would match names against the patterns
    return cast("Any", validators).extend(kind, judged)  # which has no types


def _counted(keyword: Keyword) -> Keyword:
    def judge(validator: Any, value: Any, instance: Any, schema: Any) -> Iterator[ValidationError] | None:
        steps = _steps.get()
        steps["spent"] += 1 + _members_of(value) + _members_of(instance)
        if steps["spent"] > _MAX_STEPS:
            raise _TooCostlyError
        return keyword(validator, value, instance, schema)

    return judge


def _members_of(value: Any) -> int:
    return len(cast("Any", value)) if isinstance(value, dict | list) else 0


def _members(schema: Any) -> Iterator[tuple[str, Any]]:
    """Yield every member of every object in a schema, outermost first."""
    level: list[Any] = [schema]
    while level:
        objects = [node for node in level if is_object(node)]
        for node in objects:
            yield from node.items()
        level = [child for node in objects for child in node.values()]
        level += [item for node in level if is_list(node) for item in node]


def _shortened(text: str) -> str:
    return text if len(text) <= _MAX_CHARS else f"{text[:_MAX_CHARS]}…"
