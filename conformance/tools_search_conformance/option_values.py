"""Values of options that several commands have, read into what the suite works with."""

from __future__ import annotations

import shlex
from collections.abc import Sequence

import click

__all__ = ["pairs", "words"]


def pairs(_: click.Context, parameter: click.Parameter, values: Sequence[str]) -> dict[str, str]:
    """Return `NAME=VALUE` options, and headers, `NAME:VALUE`, as a mapping.

    Raises:
        BadParameter: one is neither.
    """
    separator = ":" if parameter.name == "headers" else "="
    read: dict[str, str] = {}
    for value in values:
        name, found, rest = value.partition(separator)
        if not found or not name.strip():
            raise click.BadParameter(f"{value!r} is not NAME{separator}VALUE")
        read[name.strip()] = rest.strip() if separator == ":" else rest
    return read


def words(_: click.Context, __: click.Parameter, value: str | None) -> tuple[str, ...]:
    """Return a command as its words, none where there is no command; no shell ever sees it.

    Raises:
        BadParameter: it is empty, or cannot be split.
    """
    try:
        argv = tuple(shlex.split(value or ""))
    except ValueError as error:
        raise click.BadParameter(f"{value!r} cannot be split into words: {error}") from error
    if value is not None and not argv:
        raise click.BadParameter("the command is empty")
    return argv
