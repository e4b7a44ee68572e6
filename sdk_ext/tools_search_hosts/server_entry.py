"""One server of a configuration file, read with every problem collected instead of the first."""

from __future__ import annotations

import io
import math
from collections.abc import Callable, Mapping
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any, Final, Literal, cast

from dotenv import dotenv_values

from tools_search_hosts.expansion import UnresolvedVariable
from tools_search_hosts.members import misspelled, understood
from tools_search_hosts.targets import HttpTarget, ServerEntry, StdioTarget, Target, UnusableTarget

__all__ = ["EntryReader"]

_TRANSPORTS: Final[Mapping[str, Literal["stdio", "streamable-http", "sse"]]] = {
    "stdio": "stdio",
    "local": "stdio",
    "http": "streamable-http",
    "streamable-http": "streamable-http",
    "streamableHttp": "streamable-http",
    "streamable_http": "streamable-http",
    "sse": "sse",
}

_ADDRESSES: Final = ("url", "httpUrl", "serverUrl")
"""How hosts call the address of a server."""

_ALLOWANCES: Final = ("alwaysAllow", "autoApprove")
"""How hosts call the list of tools that need no consent."""

_TIMES: Final = ("startup_timeout_sec", "startup_timeout_ms", "tool_timeout_sec", "timeout")
"""Hosts have others of nearly these names, so one that is unknown is no mistake."""

_KNOWN: Final = frozenset(
    {
        *(
            "command",
            "args",
            "env",
            "envFile",
            "cwd",
            "headers",
            "type",
            "transport",
            *_ADDRESSES,
            *_ALLOWANCES,
            "trust",
        ),
        *("disabled", "enabled", "defer_loading", "lazy", "delegate"),
        *_TIMES,
    }
)

_LEAST_MILLISECONDS: Final = 1000
"""What `timeout` holds below this are seconds: hosts differ in its unit, and none lets a call run for so short."""


@dataclass
class EntryReader:
    """Reads the members of one server's object; what is wrong with them becomes a line in `problems`."""

    name: str
    members: Mapping[str, Any]
    expand: Callable[..., str]
    """As `expand`, where its environment is known."""
    problems: list[str] = field(default_factory=list[str])
    expanded: dict[str, str] = field(default_factory=dict[str, str])
    """Values of the variables that were referred to."""

    def __post_init__(self) -> None:
        self.members = understood(self.members, _KNOWN, self.problems)

    def read(self) -> ServerEntry | None:
        """Return the server, which is an `UnusableTarget` where there are problems; `None` where it is switched off."""
        if self._flag("disabled") or not self._flag("enabled", default=True):
            return None
        entry = self._entry()
        self.problems += misspelled(self.members, _KNOWN.difference(_TIMES))
        if entry is None or self.problems:
            return ServerEntry(self.name, UnusableTarget(tuple(self.problems)))
        return entry

    def _entry(self) -> ServerEntry | None:
        try:
            target = self._target()
        except ValueError as error:
            self._problem(str(error))
            return None
        return ServerEntry(
            self.name,
            target,
            self._flag("defer_loading"),
            self._flag("lazy") if "lazy" in self.members else None,
            start_seconds=self._number("startup_timeout_sec") or self._number("startup_timeout_ms", per_second=1000),
            call_seconds=self._number("tool_timeout_sec") or self._timeout(),
            delegate=self._delegate(),
            always_allow=self._always_allow(),
        )

    def _target(self) -> Target:
        transport = self._transport()
        address = next((member for member in _ADDRESSES if member in self.members), None)
        if address is not None and "command" in self.members:
            raise ValueError(f"has both `command` and `{address}`: keep the one that is meant")
        if address is None and "command" not in self.members:
            raise ValueError("needs `command` (to start it) or `url` (to reach it)")
        if address is None:
            if transport not in (None, "stdio"):
                raise ValueError(f"is of type {transport!r}, which needs `url` rather than `command`")
            env = {**self._env_file(), **self._text_map("env")}
            return StdioTarget(
                self._text("command"), self._texts("args"), env, self._text("cwd") or None, self.expanded
            )
        if transport == "stdio":
            raise ValueError("is of type 'stdio', which needs `command` rather than `url`")
        return HttpTarget(self._text(address), self._text_map("headers"), transport or "streamable-http", self.expanded)

    def _transport(self) -> Literal["stdio", "streamable-http", "sse"] | None:
        named = self.members.get("transport", self.members.get("type"))
        if named is None:
            return None
        if not isinstance(named, str) or named not in _TRANSPORTS:
            raise ValueError(f"has the unknown transport {named!r}: use stdio, http, streamable-http or sse")
        return _TRANSPORTS[named]

    def _flag(self, member: str, *, default: bool = False) -> bool:
        value = self.members.get(member, default)
        if not isinstance(value, bool):
            self._problem(f"`{member}` must be true or false, not {_kind(value)}")
            return default
        return value

    def _delegate(self) -> Literal["turn"] | None:
        value = self.members.get("delegate")
        if value == "turn":
            return "turn"
        if value is not None:
            self._problem('`delegate` must be "turn" (search with the user\'s own text), or be left out')
        return None

    def _always_allow(self) -> frozenset[str]:
        """Return what the operator allows, under the names that hosts have for it."""
        every = ("*",) if self._flag("trust") else ()
        return frozenset((*every, *(name for member in _ALLOWANCES for name in self._texts(member))))

    def _timeout(self) -> float | None:
        stated = self._number("timeout")
        return stated / 1000 if stated and stated >= _LEAST_MILLISECONDS else stated

    def _number(self, member: str, *, per_second: float = 1) -> float | None:
        """Return seconds, or `None` where nothing is said."""
        value = self.members.get(member)
        if value is None:
            return None
        if isinstance(value, bool) or not isinstance(value, int | float) or not 0 < value < math.inf:
            self._problem(f"`{member}` must be a number above 0, without quotes")
            return None
        return value / per_second

    def _env_file(self) -> dict[str, str]:
        """Return the variables of the file that `envFile` names, from the workspace where its path is relative."""
        named = self._text("envFile")
        if not named:
            return {}
        try:
            text = Path(self.expand("${workspaceFolder}"), named).read_text(encoding="utf-8-sig")
        except (OSError, ValueError) as error:
            reason = error.strerror if isinstance(error, OSError) else "it is not UTF-8 text"
            self._problem(f"`envFile` cannot be read ({reason}): name a file of lines like NAME=value")
            return {}
        variables = dotenv_values(stream=io.StringIO(text), interpolate=False)
        return {name: value for name, value in variables.items() if value is not None}

    def _text(self, member: str) -> str:
        value = self.members.get(member, "")
        if not isinstance(value, str):
            self._problem(f"`{member}` must be a text, not {_kind(value)}")
            return ""
        return self._expanded(member, value)

    def _texts(self, member: str) -> tuple[str, ...]:
        value = self.members.get(member, [])
        if not isinstance(value, list) or not all(isinstance(item, str) for item in cast("list[Any]", value)):
            self._problem(f"`{member}` must be a list of texts, each in quotes")
            return ()
        return tuple(self._expanded(f"{member}[{i}]", item) for i, item in enumerate(cast("list[str]", value)))

    def _text_map(self, member: str) -> dict[str, str]:
        value = self.members.get(member, {})
        if not isinstance(value, dict):
            self._problem(f"`{member}` must be an object of texts, not {_kind(value)}")
            return {}
        read: dict[str, str] = {}
        for name, text in cast("dict[str, Any]", value).items():
            if isinstance(text, str):
                read[name] = self._expanded(f"{member}.{name}", text)
            elif isinstance(text, int) and not isinstance(text, bool):  # as editors allow
                read[name] = str(text)
            else:
                self._problem(f"`{member}.{name}` must be a text: write it in quotes")
        return read

    def _expanded(self, member: str, text: str) -> str:
        try:
            return self.expand(text, expanded=self.expanded)
        except UnresolvedVariable as error:
            self._problem(f"`{member}`: {error}")
            return text

    def _problem(self, text: str) -> None:
        self.problems.append(text)


def _kind(value: object) -> str:
    """Return what a value is, and not the value: it may be a key that stands in the wrong place."""
    match value:
        case None:
            return "null"
        case bool():
            return "true or false"
        case int() | float():
            return "a number"
        case str():
            return "a text"
        case list():
            return "a list"
        case _:
            return "an object"
