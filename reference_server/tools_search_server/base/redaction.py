"""Redaction of servers' texts: masks the secrets in their configuration, and quotes the texts.

A server might repeat its API key in its log, its errors or its final output. So every secret value that it gets from
the configuration is masked in its texts about itself and its failures. Each server has a separate mask. If all shared
one mask, the texts of one server would depend on the secrets of another.
"""

from __future__ import annotations

import base64
import json
import re
from collections.abc import Iterator
from contextlib import suppress
from typing import Any, Final, cast
from urllib.parse import parse_qsl, quote, quote_plus, unquote, unquote_plus, urlsplit

from mcp.shared.message import SessionMessage
from mcp_types import JSONRPCError, JSONRPCNotification, JSONRPCResponse
from tools_search_hosts import HttpTarget, StdioTarget, Target, UnusableTarget
from tools_search_hosts.child_process import inherited_environment

_MASK: Final = "…"
_MIN_CHARS: Final = 8
_MIN_NAMED_CHARS: Final = 4
"""Minimum length of a value with a name such as `password`. Values of less than `_MIN_CHARS` are masked as whole words
only."""
_MIN_UNNAMED_CHARS: Final = 16
"""Minimum length of an argument or part of a path, which has no name that marks it as a key."""
_MAX_QUOTED_CHARS: Final = 300

_SECRET_NAME: Final = re.compile(
    r"key|token|secret|passw|passphrase|pwd|auth|credential|private|cookie|session|salt|dsn|jwt|bearer|\bpat\b|_pat$",
    re.IGNORECASE,
)
_OPEN_HEADERS: Final = frozenset(
    {"accept", "accept-encoding", "accept-language", "content-type", "mcp-protocol-version", "user-agent"}
)
_WORDS: Final = re.compile(
    r"[@~./]*(?:[A-Z]?[a-z]+|[A-Z]+|\d{1,4})(?:[ ._:/@,+=~^<>&|-]+(?:[A-Z]?[a-z]+|[A-Z]+|\d{1,4}))*/?"
)
"""Values that are not keys: words, versions, addresses, paths."""
_PATH: Final = re.compile(r"(?:~|\.{0,2})/|[A-Za-z]:\\")
_HEADER: Final = re.compile(r"([A-Za-z][\w-]*):\s*(\S.*)", re.DOTALL)
_CREDENTIALS: Final = re.compile(r"\b(?:bearer|basic|token)\s+(\S+)", re.IGNORECASE)
_LIKE_A_KEY: Final = re.compile(
    r"\b(?:sk|pk|rk)[-_][\w-]{16,}|\bgh[opsur]_\w{20,}|\bgithub_pat_\w{20,}|\bxox[a-z]-[\w-]{10,}|\bAKIA[0-9A-Z]{16}\b"
    r"|\bAIza[\w-]{30,}|(?<=://)[^\s/@:]{0,256}:[^\s/@]{1,256}(?=@)"
    r"|(?i:(?<=bearer )|(?<=basic ))[\w.~+/-]{16,}=*"
    # A JSON Web Token with any hyphenated prefix. The lookahead for three parts keeps matching linear.
    r"|(?<![\w-])(?=[\w-]++\.[\w-]{8,}+\.)[\w-]*?\beyJ[\w-]{8,}+\.[\w-]{8,}+\.[\w-]*+"
)
"""Keys in the formats of well-known services, including keys that are not in the configuration.

The texts come from servers, which may be hostile, so no pattern visits a character more than a few times.
"""

_GREETING_TEXTS: Final = frozenset({"instructions", "serverInfo", "_meta"})
"""Members of a greeting (`initialize` or `server/discover` result) that contain the server's texts about itself."""


class Secrets:
    """The secret values that one server gets from its configuration."""

    def __init__(self, target: Target) -> None:
        values = {value for value in _values(target) if value.strip()}
        forms = sorted({form for value in values for form in _forms(value)}, key=len, reverse=True)
        self._forms = {
            form: re.escape(form) if len(form) >= _MIN_CHARS else rf"(?<![A-Za-z0-9]){re.escape(form)}(?![A-Za-z0-9])"
            for form in forms
        }
        """Regular expressions by the form of a secret that each matches."""

    def masked(self, text: str) -> str:
        """Return `text` with the secrets, and anything that looks like a key, masked."""
        # In a long text, searching for each form takes a tenth of the time of one pattern with all forms.
        found = [pattern for form, pattern in self._forms.items() if form in text]
        pattern = re.compile("|".join((*found, _LIKE_A_KEY.pattern))) if found else _LIKE_A_KEY
        return pattern.sub(_MASK, text)

    def masked_value(self, value: Any) -> Any:
        """Return a JSON value with all its strings masked."""
        match value:
            case str():
                return self.masked(value)
            case list():
                return [self.masked_value(item) for item in cast("list[Any]", value)]
            case dict():
                members = cast("dict[str, Any]", value).items()
                return {self.masked(name): self.masked_value(member) for name, member in members}
            case _:
                return value

    def masked_message(self, message: SessionMessage | Exception) -> SessionMessage | Exception:
        """Return a server's message, with its texts about itself, its failures and its progress masked.

        These are errors, results with `isError`, progress messages, and the texts in its greeting. Other results,
        definitions and requests to the client contain what the caller asked for, and pass unchanged.
        """
        match message:
            case SessionMessage(message=JSONRPCError(error=error) as answer):
                said = {"message": self.masked(error.message), "data": self.masked_value(error.data)}
                masked = error.model_copy(update=said)
                changed: Any = answer.model_copy(update={"error": masked})
            case SessionMessage(message=JSONRPCResponse(result={"isError": fails}) as answer) if fails is not False:
                changed = answer.model_copy(update={"result": self.masked_value(answer.result)})
            case SessionMessage(message=JSONRPCResponse(result={"capabilities": _, **greeting}) as answer):
                texts = {name: self.masked_value(greeting[name]) for name in _GREETING_TEXTS & greeting.keys()}
                changed = answer.model_copy(update={"result": answer.result | texts})
            case SessionMessage(message=JSONRPCNotification(params={"progressToken": _, "message": str()}) as answer):
                params = answer.params or {}
                changed = answer.model_copy(update={"params": params | {"message": self.masked(params["message"])}})
            case _:
                return message
        return SessionMessage(changed, message.metadata)


def printable(text: str) -> str:
    """Return `text` on one line, without control characters that could affect a terminal."""
    return " ".join("".join(char if char.isprintable() else " " for char in text).split())


def quoted(text: str, most_chars: int = _MAX_QUOTED_CHARS) -> str:
    """Return an untrusted text in quotation marks, on one line and truncated to `most_chars`."""
    words = printable(text).replace('"', "'")
    return f'"{words}"' if len(words) <= most_chars else f'"{words[:most_chars].rstrip()} {_MASK}"'


def _values(target: Target) -> Iterator[str]:
    """Yield the values that are secret, and the secrets embedded in other values."""
    texts = [*inherited_environment().values()]  # searched for embedded secrets
    named: list[tuple[str, str]] = []
    if isinstance(target, StdioTarget):
        texts += target.args
        named += [*target.env.items(), *map(_named, ("", *target.args), target.args)]
    elif isinstance(target, HttpTarget):
        closed = [value for name, value in target.headers.items() if name.lower() not in _OPEN_HEADERS]
        texts += [target.url, *closed]
        yield from (value for value in closed if len(value) >= _MIN_CHARS)
    if not isinstance(target, UnusableTarget):  # it gets no values
        named += target.expanded.items()
    for name, value in named:
        texts.append(value)
        if _is_secret(name, value):
            yield value
    for text in texts:
        yield from _credentials(text)
        if "://" in text:
            yield from _parts_of_address(text)


def _named(before: str, argument: str) -> tuple[str, str]:
    """Return an argument's value and its name, which may be the argument before it; or an empty name."""
    name, is_set, value = argument.partition("=")
    if is_set and re.fullmatch(r"[\w-]+", name):
        return name, value
    if before.startswith("-") and "=" not in before and _SECRET_NAME.search(before):
        return before, argument
    if (header := _HEADER.fullmatch(argument)) and "//" not in argument:
        return header[1], header[2]
    return "", argument


def _is_secret(name: str, value: str) -> bool:
    if not name:
        return len(value) >= _MIN_UNNAMED_CHARS and not re.search(r"\s|://", value) and not _is_open(value)
    if _SECRET_NAME.search(name):
        return len(value) >= _MIN_NAMED_CHARS and not _is_path(value)
    return len(value) >= _MIN_CHARS and "://" not in value and not _is_open(value)


def _credentials(text: str) -> Iterator[str]:
    for credentials in _CREDENTIALS.findall(text):
        if len(credentials) >= _MIN_NAMED_CHARS:
            yield credentials
            with suppress(ValueError):  # raised unless it is the Base64 form of a user name and a password
                decoded = base64.b64decode(credentials + "=" * (-len(credentials) % 4), validate=True).decode()
                if len(password := decoded.partition(":")[2]) >= _MIN_NAMED_CHARS:
                    yield from (decoded, password)


def _parts_of_address(address: str) -> Iterator[str]:
    try:
        parts = urlsplit(address)
        user, password = unquote(parts.username or ""), unquote(parts.password or "")
    except ValueError:
        return
    if password:
        yield from (password, base64.b64encode(f"{user}:{password}".encode()).decode())
    if len(user) >= _MIN_CHARS:
        yield user
    for name, value in parse_qsl(parts.query):
        if len(value) >= (_MIN_NAMED_CHARS if _SECRET_NAME.search(name) else _MIN_CHARS):
            yield value
    for segment in parts.path.split("/"):
        if len(segment) >= _MIN_UNNAMED_CHARS and not _is_open(segment):
            yield segment


def _is_open(value: str) -> bool:
    return _WORDS.fullmatch(value) is not None or _is_path(value)


def _is_path(value: str) -> bool:
    parts = re.split(r"[/\\]", value)
    return _PATH.match(value) is not None and all(
        len(part) < _MIN_UNNAMED_CHARS or _WORDS.fullmatch(part) for part in parts
    )


def _forms(value: str) -> Iterator[str]:
    """Return the forms of a value: unchanged, URL-encoded, in JSON, in Base64, and line by line."""
    raw = value.encode("utf-8", "surrogatepass")
    # A server may repeat a value in the form in which it uses it.
    forms = [value, value.strip(), unquote_plus(value), json.dumps(value)[1:-1]]
    forms += [quote(raw), quote_plus(raw), quote(raw, safe="")]
    forms += [line.strip() for line in value.splitlines() if len(line.strip()) >= _MIN_UNNAMED_CHARS]
    if len(value) >= _MIN_CHARS:
        forms += [base64.b64encode(raw).decode().rstrip("="), base64.urlsafe_b64encode(raw).decode().rstrip("=")]
    return (form for form in forms if len(form) >= _MIN_NAMED_CHARS)
