"""What a server is reached by: declarations, with impossible ones refused when they are made.

A refusal names the place and never repeats what was found there: arguments, variables, headers and addresses hold keys.
"""

from __future__ import annotations

import re
from collections.abc import Mapping
from dataclasses import dataclass, field
from typing import Final, Literal, TypeAlias
from urllib.parse import urlsplit

_HEADER_NAME: Final = re.compile(r"[!#$%&'*+.^_`|~0-9A-Za-z-]+")
_HEADER_VALUE: Final = re.compile(r"[\t\x20-\x7e]*")
"""What every HTTP client sends: without line breaks, which would begin another header."""


@dataclass(frozen=True, slots=True)
class StdioTarget:
    """A server that is started as a process and spoken to over its standard streams."""

    command: str
    args: tuple[str, ...] = ()
    env: Mapping[str, str] = field(default_factory=dict[str, str])
    """Added to the few variables that every server inherits (`PATH`, `HOME` and the like)."""
    cwd: str | None = None
    expanded: Mapping[str, str] = field(default_factory=dict[str, str], compare=False, repr=False)
    """Values of the variables that its entry refers to, by name; they stand in the other members already."""

    def __post_init__(self) -> None:
        if not self.command.strip():
            raise ValueError("`command` must name a program")
        if "\0" in "".join((self.command, *self.args, *self.env, *self.env.values(), self.cwd or "")):
            raise ValueError("holds the character NUL, which no program can be started with")
        for name in self.env:
            if not name or "=" in name:
                raise ValueError(f"`env` has {name!r}, which is no name of a variable")


@dataclass(frozen=True, slots=True)
class HttpTarget:
    """A server that runs elsewhere."""

    url: str
    headers: Mapping[str, str] = field(default_factory=dict[str, str])
    transport: Literal["streamable-http", "sse"] = "streamable-http"
    expanded: Mapping[str, str] = field(default_factory=dict[str, str], compare=False, repr=False)
    """As of `StdioTarget`."""

    def __post_init__(self) -> None:
        if not _is_http_address(self.url):
            raise ValueError("`url` must be like https://host/mcp")
        for name, value in self.headers.items():
            if not _HEADER_NAME.fullmatch(name):
                raise ValueError(f"`headers` has {name!r}, which is no name of a header")
            if not _HEADER_VALUE.fullmatch(value):
                raise ValueError(f"`headers.{name}` must be visible ASCII characters on one line")


@dataclass(frozen=True, slots=True)
class UnusableTarget:
    """A server that cannot be reached as it is configured, so that others can be all the same."""

    problems: tuple[str, ...]
    """Each with its place in the server's entry and with what to do about it."""

    def __str__(self) -> str:
        """Say why, on one line."""
        return f"cannot be used as it is configured: {'; '.join(self.problems)}"


Target: TypeAlias = StdioTarget | HttpTarget | UnusableTarget

EraChoice: TypeAlias = Literal["auto", "legacy"]
"""`auto` speaks the newest era that the server knows; `legacy` always shakes hands as before 2026."""


@dataclass(frozen=True, slots=True)
class ServerEntry:
    """One configured server."""

    name: str
    """As configured; empty for the only server of a run that needs no name."""

    target: Target

    defer_loading: bool = False
    """Whether a host keeps this server's tools from its model until they are searched for."""

    lazy: bool | None = None
    """Whether the server is started only when it is used; `None` where the program decides."""

    start_seconds: float | None = None
    """How long the server may take until its tools are known; `None` where the program decides."""

    call_seconds: float | None = None
    """When a call is given up; `None` where the program decides."""

    era: EraChoice | None = None
    """How the server is spoken to; `None` where the program decides."""

    delegate: Literal["turn"] | None = None
    """`turn`: a host may search this server with the user's own text, before its model is called."""

    always_allow: frozenset[str] = frozenset()
    """The server's own names of the tools that the operator lets a host call without asking; `*` stands for all."""

    def allows(self, tool: str) -> bool:
        """Return whether the operator lets a host call `tool` without asking its user.

        Args:
            tool: The server's own name of it.
        """
        return not self.always_allow.isdisjoint((tool, "*"))


def _is_http_address(url: str) -> bool:
    try:
        parts = urlsplit(url)
        port = parts.port
    except ValueError:
        return False
    return parts.scheme in ("http", "https") and bool(parts.hostname) and port != 0
