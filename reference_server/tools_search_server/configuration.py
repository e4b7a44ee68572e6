"""The configuration that hosts already have: `mcpServers`, or `servers` as VS Code spells it.

Members that this program does not know belong to the host and are passed over. What it does know must be right: a
mistake is reported with its place before anything is started.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any, Final, Literal, TypeAlias, cast

from tools_search_server.expansion import Unexpandable, expanded
from tools_search_server.mendable import Mendable, read_json

__all__ = ["HttpServer", "ServerSpec", "StdioServer", "read_configuration"]


@dataclass(frozen=True)
class StdioServer:
    """A server to start as a child process."""

    name: str
    command: str
    args: Sequence[str] = ()
    env: dict[str, str] = field(default_factory=dict[str, str])
    cwd: Path | None = None


@dataclass(frozen=True)
class HttpServer:
    """A server to reach over HTTP."""

    name: str
    url: str
    headers: dict[str, str] = field(default_factory=dict[str, str])
    transport: Literal["http", "sse"] = "http"


ServerSpec: TypeAlias = StdioServer | HttpServer

_TRANSPORTS: Final[dict[str, Literal["stdio", "http", "sse"]]] = {
    "stdio": "stdio",
    "local": "stdio",
    "http": "http",
    "streamable-http": "http",
    "streamable_http": "http",
    "streamableHttp": "http",
    "streamablehttp": "http",
    "remote": "http",
    "sse": "sse",
}

_EXAMPLE: Final = 'Write {"mcpServers": {"name": {"command": "..."}}}.'


def read_configuration(file: Path) -> list[ServerSpec]:
    """Return the servers of a configuration that are switched on, in its order, with variables expanded.

    Raises:
        Mendable: The file cannot be read, or a server in it cannot be started as it is written.
    """
    document = read_json(file, "an mcp.json")
    for member in ("mcpServers", "servers"):
        if isinstance(document, dict) and member in document:
            servers = cast("dict[str, Any]", document)[member]
            if not isinstance(servers, dict):
                raise Mendable(file, member, "is not an object", _EXAMPLE)
            entries = cast("dict[str, Any]", servers)
            specs = [_Entry(file, f"{member}.{name}", name, entry).spec() for name, entry in entries.items()]
            return [spec for spec in specs if spec is not None]
    raise Mendable(file, "", "has no member `mcpServers` or `servers`", _EXAMPLE)


class _Entry:
    """One server of the file, read member by member."""

    def __init__(self, file: Path, place: str, name: str, entry: Any) -> None:
        self._file = file
        self._place = place
        self._name = name
        if not isinstance(entry, dict):
            raise Mendable(file, place, "is not an object", 'Write {"command": "..."} or {"url": "..."}.')
        self._entry = cast("dict[str, Any]", entry)

    def spec(self) -> ServerSpec | None:
        """Return what to start, or `None` for a server that is switched off."""
        if self._flag("disabled", default=False) or not self._flag("enabled", default=True):
            return None
        transport = self._transport()
        if transport == "stdio":
            return self._stdio()
        return HttpServer(self._name, self._url(), self._strings("headers"), transport)

    def _transport(self) -> Literal["stdio", "http", "sse"]:
        member = "type" if "type" in self._entry else "transport"
        stated = self._entry.get(member)
        if stated is None:
            if ("command" in self._entry) == ("url" in self._entry):
                raise self._wrong("", "needs either `command` or `url`", "Give the one that starts or reaches it.")
            return "stdio" if "command" in self._entry else "http"
        if not isinstance(stated, str) or stated not in _TRANSPORTS:
            raise self._wrong(member, f"is {stated!r}", 'Write "stdio", "http" or "sse".')
        return _TRANSPORTS[stated]

    def _stdio(self) -> StdioServer:
        arguments: Any = self._entry.get("args", [])
        if not isinstance(arguments, list):
            raise self._wrong("args", "is not an array", 'Write ["first", "second"].')
        args = [self._text(f"args[{i}]", arg) for i, arg in enumerate(cast("list[Any]", arguments))]
        return StdioServer(self._name, self._command(), args, self._strings("env"), self._directory())

    def _command(self) -> str:
        command = self._text("command", self._entry.get("command"))
        if not command:
            raise self._wrong("command", "is empty", "Name the program that starts the server.")
        return str(Path(command).expanduser()) if command.startswith("~") else command

    def _directory(self) -> Path | None:
        stated: Any = self._entry.get("cwd")
        if stated is None:
            return None
        directory = self._file.parent / Path(self._text("cwd", stated)).expanduser()
        if not directory.is_dir():
            raise self._wrong("cwd", f"names {directory}, which is no directory", "Name one that exists.")
        return directory

    def _url(self) -> str:
        url = self._text("url", self._entry.get("url"))
        if not url.startswith(("http://", "https://")):
            raise self._wrong("url", f"is {url!r}", "Write an address that starts with http:// or https://.")
        return url

    def _strings(self, member: str) -> dict[str, str]:
        stated: Any = self._entry.get(member)
        if stated is None:
            return {}
        if not isinstance(stated, dict):
            raise self._wrong(member, "is not an object", 'Write {"NAME": "value"}.')
        entries = cast("dict[str, Any]", stated)
        return {name: self._text(f"{member}.{name}", value) for name, value in entries.items()}

    def _flag(self, member: str, *, default: bool) -> bool:
        stated = self._entry.get(member, default)
        if not isinstance(stated, bool):
            raise self._wrong(member, f"is {stated!r}", "Write true or false.")
        return stated

    def _text(self, member: str, value: Any, expand: Callable[[str], str] = expanded) -> str:
        if isinstance(value, int | float) and not isinstance(value, bool):
            value = str(value)
        if not isinstance(value, str):
            raise self._wrong(member, "is missing" if value is None else "is not a text", "Write a text in quotes.")
        try:
            return expand(value)
        except Unexpandable as error:
            raise self._wrong(member, error.wrong, error.mend) from None

    def _wrong(self, member: str, wrong: str, mend: str) -> Mendable:
        place = f"{self._place}.{member}" if member else self._place
        return Mendable(self._file, place, wrong, mend)
