"""Targets: how to reach a server. Invalid targets raise a `ValueError` on creation.

Errors name the place but never repeat the value: arguments, variables, headers and addresses may contain keys.
"""

from __future__ import annotations

import re
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from typing import Final, Literal, TypeAlias, get_args
from urllib.parse import urlsplit

_HEADER_NAME: Final = re.compile(r"[!#$%&'*+.^_`|~0-9A-Za-z-]+")
_HEADER_VALUE: Final = re.compile(r"[\t\x20-\x7e]*")
"""Values that every HTTP client can send. Line breaks would start another header."""


@dataclass(frozen=True, slots=True)
class StdioTarget:
    """A server that runs as a child process and communicates over its standard streams."""

    command: str
    args: tuple[str, ...] = ()
    env: Mapping[str, str] = field(default_factory=dict[str, str])
    """Added to the few variables that every server inherits (`PATH`, `HOME` and the like)."""
    cwd: str | None = None
    expanded: Mapping[str, str] = field(default_factory=dict[str, str], compare=False, repr=False)
    """Values of the variables that its entry refers to, by name. The other members contain them already."""

    def __post_init__(self) -> None:
        if isinstance(self.args, str):
            raise ValueError("`args` must be a tuple with an item for each argument, not one text")
        _require_texts(command=[self.command], args=self.args, env=self.env, cwd=[self.cwd or ""])
        if not self.command.strip():
            raise ValueError("`command` must name a program")
        if "\0" in "".join((self.command, *self.args, *self.env, *self.env.values(), self.cwd or "")):
            raise ValueError("contains the character NUL, with which no program can be started")
        for name in self.env:
            if not name or "=" in name:
                raise ValueError(f"`env` has {name!r}, which is not a valid variable name")


HttpTransport: TypeAlias = Literal["streamable-http", "sse"]


@dataclass(frozen=True, slots=True)
class HttpTarget:
    """A server that is reached over HTTP."""

    url: str
    headers: Mapping[str, str] = field(default_factory=dict[str, str])
    transport: HttpTransport = "streamable-http"
    expanded: Mapping[str, str] = field(default_factory=dict[str, str], compare=False, repr=False)
    """As in `StdioTarget`."""

    def __post_init__(self) -> None:
        _require_texts(url=[self.url], headers=self.headers)
        if not _is_http_address(self.url):
            raise ValueError("`url` must be like https://host/mcp")
        _require_choice("transport", self.transport, get_args(HttpTransport))
        for name, value in self.headers.items():
            if not _HEADER_NAME.fullmatch(name):
                raise ValueError(f"`headers` has {name!r}, which is not a valid header name")
            if not _HEADER_VALUE.fullmatch(value):
                raise ValueError(f"`headers.{name}` must be visible ASCII characters on one line")


@dataclass(frozen=True, slots=True)
class UnusableTarget:
    """A server with an invalid entry, which does not prevent the use of others."""

    problems: tuple[str, ...]
    """Each problem, with its place in the server's entry and the correction."""

    def __str__(self) -> str:
        """Return the problems on one line."""
        return f"cannot be used as it is configured: {'; '.join(self.problems)}"


Target: TypeAlias = StdioTarget | HttpTarget | UnusableTarget

EraChoice: TypeAlias = Literal["auto", "legacy"]
"""`auto` uses the newest era that the server supports; `legacy` always uses the handshake from before 2026."""


@dataclass(frozen=True, slots=True)
class ServerEntry:
    """One configured server."""

    name: str
    """The configured name; empty for a single server that needs no name."""

    target: Target

    defer_loading: bool = False
    """Whether hosts hide this server's tools from the model until they are searched for."""

    lazy: bool | None = None
    """Whether to start the server only on first use; `None` for the program's default."""

    start_seconds: float | None = None
    """Timeout until the server's tools are known; `None` for the program's default."""

    call_seconds: float | None = None
    """Timeout for calls; `None` for the program's default."""

    era: EraChoice | None = None
    """Protocol era to use with the server; `None` for the program's default."""

    delegate: Literal["turn"] | None = None
    """`turn`: a host may search this server with the user's own text, before its model is called."""

    always_allow: frozenset[str] = frozenset()
    """Own names of the tools that the operator lets a host call without asking; `*` means all."""

    def __post_init__(self) -> None:
        if isinstance(self.always_allow, str | list | tuple):
            raise ValueError("`always_allow` must be a set of names")
        _require_choice("era", self.era, (None, *get_args(EraChoice)))
        _require_choice("delegate", self.delegate, (None, "turn"))

    def allows(self, tool: str) -> bool:
        """Return whether the operator lets a host call the tool of this own name without asking its user."""
        return not self.always_allow.isdisjoint((tool, "*"))


def _require_texts(**members: Mapping[str, object] | Sequence[object]) -> None:
    """Raise a `ValueError` for a member that is not a mapping or list of texts, whatever its annotation says."""
    for name, member in members.items():
        values = [*member, *member.values()] if isinstance(member, Mapping) else member
        if not isinstance(values, list | tuple) or not all(isinstance(value, str) for value in values):
            raise ValueError(f"`{name}` must contain texts only")


def _require_choice(member: str, value: object, choices: Sequence[str | None]) -> None:
    """Raise a `ValueError` for a member that is none of the choices, whatever its annotation says."""
    if value not in choices:
        raise ValueError(f"`{member}` must be {' or '.join(map(repr, choices))}")


def _is_http_address(url: str) -> bool:
    try:
        parts = urlsplit(url)
        port = parts.port  # raises if it is not a number in range
    except ValueError:
        return False
    return parts.scheme in ("http", "https") and bool(parts.hostname) and port != 0
