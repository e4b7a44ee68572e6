"""Type guards for values from JSON, YAML or TOML that nobody has validated."""

from __future__ import annotations

from typing import Any, TypeGuard


def is_object(value: object) -> TypeGuard[dict[str, Any]]:
    """Return whether a value is an object."""
    return isinstance(value, dict)


def is_list(value: object) -> TypeGuard[list[Any]]:
    """Return whether a value is a list."""
    return isinstance(value, list)


def as_object(value: object) -> dict[str, Any]:
    """Return a value that is an object, or else an empty object."""
    return value if is_object(value) else {}


def as_list(value: object) -> list[Any]:
    """Return a value that is a list, or else an empty list."""
    return value if is_list(value) else []
