"""Redaction of what a server says: secrets of its configuration are masked, and its words quoted as such.

A server may repeat the key that it was given, in its log, its errors or its last words. So every value that the
configuration hands to it is masked in what it says of itself and of its failures. Each server has a separate mask: with
one for all, the text that a caller reads of one server would change with the secrets of another.
"""

from __future__ import annotations

import base64
import binascii
import json
import re
from collections.abc import AsyncGenerator, Iterable, Iterator
from contextlib import AbstractAsyncContextManager, asynccontextmanager
from secrets import token_hex
from typing import Any, Final, cast
from urllib.parse import parse_qsl, quote, quote_plus, unquote, unquote_plus, urlsplit

from anyio.abc import ObjectReceiveStream, ObjectSendStream
from mcp.shared.message import SessionMessage
from mcp_types import JSONRPCError, JSONRPCNotification, JSONRPCRequest, JSONRPCResponse, RequestId
from tools_search_hosts import HttpTarget, StdioTarget, Target, UnusableTarget
from tools_search_hosts.child_process import inherited_environment

_MASK: Final = "…"
_LEAST_CHARS: Final = 8
_LEAST_NAMED_CHARS: Final = 4
"""Shortest value that is masked under a name such as `password`; one so short only as a whole word."""
_LEAST_UNNAMED_CHARS: Final = 16
"""Shortest argument or part of a path that is masked, since no name says that it is a key."""
_MOST_QUOTED_CHARS: Final = 300
_TOKEN_BYTES: Final = 16
_MOST_TOKENS: Final = 10_000

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
"""Words, versions, addresses, paths: values of an operator that are no keys."""
_PATH: Final = re.compile(r"(?:~|\.{0,2})/|[A-Za-z]:\\")
_HEADER: Final = re.compile(r"([A-Za-z][\w-]*):\s*(\S.*)", re.DOTALL)
_CREDENTIALS: Final = re.compile(r"\b(?:bearer|basic|token)\s+(\S+)", re.IGNORECASE)
_LIKE_A_KEY: Final = re.compile(
    r"\b(?:sk|pk|rk)[-_][\w-]{16,}|\bgh[opsur]_\w{20,}|\bgithub_pat_\w{20,}|\bxox[a-z]-[\w-]{10,}|\bAKIA[0-9A-Z]{16}\b"
    r"|\bAIza[\w-]{30,}|\beyJ[\w-]{8,}\.[\w-]{8,}\.[\w-]*|(?<=://)[^\s/@:]{0,256}:[^\s/@]{1,256}(?=@)"
    r"|(?i:(?<=bearer )|(?<=basic ))[\w.~+/-]{16,}=*"
)
"""Keys in the forms of well-known services, which may be others than the configured ones."""

_GREETING_TEXTS: Final = frozenset({"instructions", "serverInfo", "_meta"})
"""Members of a greeting in which a server speaks of itself."""

_VALIDATION_REPORT: Final = re.compile(r"(?:Failed to parse [^:]*: )?\d+ validation errors? for .*", re.DOTALL)
"""The report of a validation library, with its own types and links to its pages."""


class Secrets:
    """The secrets in the configuration of one server.

    Args:
        target: The server, with every value that is handed to it.
    """

    def __init__(self, target: Target) -> None:
        values = {value for value in _values(target) if value.strip()}
        forms = sorted({form for value in values for form in _forms(value)}, key=len, reverse=True)
        patterns = (
            re.escape(form) if len(form) >= _LEAST_CHARS else rf"(?<![A-Za-z0-9]){re.escape(form)}(?![A-Za-z0-9])"
            for form in forms
        )
        self._pattern = re.compile("|".join((*patterns, _LIKE_A_KEY.pattern)))

    def masked(self, text: str) -> str:
        """Return `text` without any of them, and without what looks like a key."""
        return self._pattern.sub(_MASK, text)

    def masked_value(self, value: Any) -> Any:
        """Return a JSON value with all its texts masked."""
        match value:
            case str():
                return self.masked(value)
            case list():
                return [self.masked_value(one) for one in cast("list[Any]", value)]
            case dict():
                members = cast("dict[str, Any]", value).items()
                return {self.masked(name): self.masked_value(one) for name, one in members}
            case _:
                return value

    def masked_message(self, message: SessionMessage | Exception) -> SessionMessage | Exception:
        """Return a message of a server, masked where the server speaks of itself, its failures and its progress.

        These are errors, results with `isError`, messages of progress, and the texts of its greeting. Other results,
        definitions and questions are what the caller asked for, and pass as they are.
        """
        match message:
            case SessionMessage(message=JSONRPCError(error=error) as answer):
                text = self.masked(_VALIDATION_REPORT.sub("what it sent is no message of the protocol", error.message))
                masked = error.model_copy(update={"message": text, "data": self.masked_value(error.data)})
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


@asynccontextmanager
async def redacted_streams(transport: AbstractAsyncContextManager[Any], secrets: Secrets) -> AsyncGenerator[Any]:
    """Open a transport whose incoming messages are redacted by `Secrets.masked_message`.

    Requests get random progress tokens. Those of the SDK count the requests of the connection, so that a server that
    repeats one would reveal to its caller how many requests others make.
    """
    ids: dict[str, RequestId] = {}
    async with transport as (incoming, outgoing):
        yield _Incoming(incoming, secrets, ids), _Outgoing(outgoing, ids)


class _Incoming(ObjectReceiveStream[Any]):
    def __init__(self, stream: ObjectReceiveStream[Any], secrets: Secrets, ids: dict[str, RequestId]) -> None:
        self._stream = stream
        self._secrets = secrets
        self._ids = ids

    async def receive(self) -> Any:
        return self._secrets.masked_message(self._by_id(await self._stream.receive()))

    async def aclose(self) -> None:
        await self._stream.aclose()

    def _by_id(self, message: Any) -> Any:
        match message:
            case SessionMessage(message=JSONRPCNotification(params={"progressToken": str(token)}) as progress):
                params = {**(progress.params or {}), "progressToken": self._ids.get(token, token)}
                return SessionMessage(progress.model_copy(update={"params": params}), message.metadata)
            case SessionMessage(message=JSONRPCResponse(id=answered) | JSONRPCError(id=answered)):
                for token in [token for token, request in self._ids.items() if request == answered]:
                    del self._ids[token]
                return message
            case _:
                return message


class _Outgoing(ObjectSendStream[Any]):
    def __init__(self, stream: ObjectSendStream[Any], ids: dict[str, RequestId]) -> None:
        self._stream = stream
        self._ids = ids

    async def send(self, item: Any) -> None:
        match item:
            case SessionMessage(message=JSONRPCRequest(params={"_meta": {"progressToken": _, **meta}}) as request):
                token = token_hex(_TOKEN_BYTES)
                self._ids[token] = request.id
                while len(self._ids) > _MOST_TOKENS:  # of requests that were given up and never answered
                    del self._ids[next(iter(self._ids))]
                params = {**(request.params or {}), "_meta": {**meta, "progressToken": token}}
                item = SessionMessage(request.model_copy(update={"params": params}), item.metadata)
            case _:
                pass
        await self._stream.send(item)

    async def aclose(self) -> None:
        await self._stream.aclose()


def printable(text: str) -> str:
    """Return `text` on one line, without characters that a terminal would obey."""
    return " ".join("".join(char if char.isprintable() else " " for char in text).split())


def quoted(text: str, most_chars: int = _MOST_QUOTED_CHARS) -> str:
    """Return a foreign text in quotation marks, on one line and no longer than `most_chars`."""
    words = printable(text).replace('"', "'")
    return f'"{words}"' if len(words) <= most_chars else f'"{words[:most_chars].rstrip()} {_MASK}"'


def _values(target: Target) -> Iterator[str]:
    yield from (secret for address in inherited_environment().values() for secret in _embedded(address))
    if isinstance(target, UnusableTarget):
        return  # no value is handed to it
    for name, value in target.expanded.items():
        yield from _named(name, value)
    match target:
        case StdioTarget(args=arguments, env=variables):
            for name, value in variables.items():
                yield from _named(name, value)
            for before, argument in zip(("", *arguments), arguments, strict=False):
                yield from _argument(before, argument)
        case HttpTarget(url=url, headers=headers):
            yield from _embedded(url)
            for name, value in headers.items():
                if name.lower() not in _OPEN_HEADERS:
                    yield from _embedded(value)
                    if len(value) >= _LEAST_CHARS:
                        yield value


def _named(name: str, value: str) -> Iterator[str]:
    """Yield the secrets of a value that has a name."""
    yield from _embedded(value)
    is_named = _SECRET_NAME.search(name) is not None
    is_open = _is_path(value) if is_named else "://" in value or _is_open(value)
    if len(value) >= (_LEAST_NAMED_CHARS if is_named else _LEAST_CHARS) and not is_open:
        yield value


def _argument(before: str, argument: str) -> Iterator[str]:
    yield from _embedded(argument)
    name, is_set, value = argument.partition("=")
    if is_set and re.fullmatch(r"[\w-]+", name):
        yield from _named(name, value)
    elif before.startswith("-") and "=" not in before and _SECRET_NAME.search(before):
        yield from _named(before, argument)
    elif header := _HEADER.fullmatch(argument):
        yield from _named(header[1], header[2]) if "//" not in argument else ()
    elif len(argument) >= _LEAST_UNNAMED_CHARS and not re.search(r"\s|://", argument) and not _is_open(argument):
        yield argument


def _embedded(text: str) -> Iterator[str]:
    """Yield the secrets within a text: credentials, and parts of an address."""
    for credentials in _CREDENTIALS.findall(text):
        if len(credentials) >= _LEAST_NAMED_CHARS:
            yield credentials
            yield from _user_and_password(credentials)
    if "://" not in text:
        return
    try:
        parts = urlsplit(text)
    except ValueError:
        return
    user, password = unquote(parts.username or ""), unquote(parts.password or "")
    if password:
        yield from (password, base64.b64encode(f"{user}:{password}".encode()).decode())
    yield from (user,) if len(user) >= _LEAST_CHARS else ()
    for name, value in parse_qsl(parts.query):
        if len(value) >= (_LEAST_NAMED_CHARS if _SECRET_NAME.search(name) else _LEAST_CHARS):
            yield value
    for segment in parts.path.split("/"):
        if len(segment) >= _LEAST_UNNAMED_CHARS and not _is_open(segment):
            yield segment


def _user_and_password(encoded: str) -> Iterator[str]:
    try:
        decoded = base64.b64decode(encoded + "=" * (-len(encoded) % 4), validate=True).decode()
    except (ValueError, binascii.Error):
        return
    if len(password := decoded.partition(":")[2]) >= _LEAST_NAMED_CHARS:
        yield from (decoded, password)


def _is_open(value: str) -> bool:
    return _WORDS.fullmatch(value) is not None or _is_path(value)


def _is_path(value: str) -> bool:
    parts = re.split(r"[/\\]", value)
    return _PATH.match(value) is not None and all(
        len(part) < _LEAST_UNNAMED_CHARS or _WORDS.fullmatch(part) for part in parts
    )


def _forms(value: str) -> Iterable[str]:
    """Return the forms of a value: as it is, in an address, in JSON, in Base64, and line by line."""
    raw = value.encode("utf-8", "surrogatepass")
    lines = [line.strip() for line in value.splitlines() if len(line.strip()) >= _LEAST_UNNAMED_CHARS]
    forms = [value, value.strip(), unquote_plus(value), json.dumps(value)[1:-1], *lines]
    forms += [write(raw) for write in (quote, quote_plus)] + [quote(raw, safe="")]
    if len(value) >= _LEAST_CHARS:
        forms += [base64.b64encode(raw).decode().rstrip("="), base64.urlsafe_b64encode(raw).decode().rstrip("=")]
    return (form for form in forms if len(form) >= _LEAST_NAMED_CHARS)
