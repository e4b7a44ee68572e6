"""Reads JSON-RPC messages from untrusted servers.

For large messages, the SDK's own reader takes 20 times the memory and 5 times the time of this one. It also silently
drops answers that it cannot read, so that the request waits until its timeout. This module limits the size of a message
and the number of its values before parsing it, and fails a request at once if its answer is unreadable.
"""

from __future__ import annotations

import json
import re
from contextlib import suppress
from itertools import islice
from typing import Any, Final

from mcp_types import (
    INTERNAL_ERROR,
    ErrorData,
    JSONRPCError,
    JSONRPCMessage,
    JSONRPCResponse,
    RequestId,
    jsonrpc_message_adapter,
)
from pydantic import ValidationError
from pydantic_core import from_json

from tools_search_hosts.endings import attributed_to_server
from tools_search_hosts.json_values import is_object
from tools_search_hosts.validation import validation_problem

MAX_MESSAGE_BYTES: Final = 16 * 1024 * 1024
"""Default limit for the decoded bytes of one message. A listing of 10,000 tools is about 8 MB."""

_BYTES_OF_A_VALUE: Final = 32
"""Minimum average per value in a message. A value takes up to 200 bytes of memory, but only 2 bytes in a message."""

_TOKEN: Final = re.compile(rb'"[^"\\]*+(?:\\.[^"\\]*+)*+(?:"|\\?\Z)|[{}\[\],:]|[^\s"{}\[\],:]++', re.DOTALL)
"""Matches strings, punctuation and everything else, even if the whole text is not JSON. Never visits a byte twice."""

_TOKENS_OF_A_VALUE: Final = 4
_MAX_SKIMMED: Final = 2_000_000
"""Maximum tokens of invalid JSON in which to look for the id of the request that it answers."""

_SEPARATING: Final = (b",", b"{", b"[")  # each value follows one of these, directly or after its name


class MessageTooLargeError(Exception):
    """A message is too large. The text says what was sent."""


class MalformedMessageError(Exception):
    """The server sent an invalid protocol message.

    Args:
        reason: What is wrong with it.
        answers: The id of the request that it answers; `None` if it is not an answer or the id is unknown.
        is_answer: Whether it may be an answer, rather than the server's own request or notification.
    """

    def __init__(self, reason: str, answers: RequestId | None = None, *, is_answer: bool = True) -> None:
        super().__init__(reason)
        self.answers = answers
        self.is_answer = is_answer


def mebibytes(number: int) -> str:
    """Format a number of bytes in MiB."""
    return f"{number / 1024 / 1024:g} MiB"


def read_message(data: bytes | bytearray, max_bytes: int = MAX_MESSAGE_BYTES) -> JSONRPCMessage:
    """Parse a message. Invalid UTF-8 is tolerated.

    Raises:
        MalformedMessageError: The message is invalid.
        MessageTooLargeError: It has more than `max_bytes`, or more values than a message of that size usually contains.
    """
    _check_size(data, max_bytes)
    try:
        message = _parsed(data)
    except ValueError as error:
        answers, is_answer = _answered_request(data)
        raise MalformedMessageError(_syntax_problem(data, str(error)), answers, is_answer=is_answer) from None
    if not is_object(message):
        raise MalformedMessageError("it is not a JSON object")
    # JSON-RPC 1.0 requires both, and that one is `null`.
    if "method" not in message and message.get("result") is not None and message.get("error") is not None:
        raise MalformedMessageError("it has both a `result` and an `error`", _as_id(message.get("id")))
    try:
        read = jsonrpc_message_adapter.validate_python(message, by_name=False)
    except ValidationError:
        if "method" in message:
            reason = "it is no valid request or notification"
            raise MalformedMessageError(reason, is_answer=False) from None
        raise MalformedMessageError(_answer_problem(message), _as_id(message.get("id"))) from None
    if isinstance(read, JSONRPCError):
        read.error = attributed_to_server(read.error)
    return read


def _check_size(data: bytes | bytearray, max_bytes: int) -> None:
    if len(data) > max_bytes:
        raise MessageTooLargeError(f"a message of more than {mebibytes(max_bytes)}")
    max_values = max_bytes // _BYTES_OF_A_VALUE
    # Counting is fast and never too low, so only suspicious messages are read token by token.
    if data.count(b",") + data.count(b"[") + data.count(b"{") > max_values:
        found = 0  # without punctuation in strings
        for number, match in enumerate(_TOKEN.finditer(data)):
            found += match[0] in _SEPARATING
            if found > max_values or number > _TOKENS_OF_A_VALUE * max_values:
                raise MessageTooLargeError(f"a message of more than {max_values:,} values")


def failed_answer(answers: RequestId, reason: str) -> JSONRPCError:
    """Return an error to answer a request whose real answer is unreadable. `endings.malformed` recognizes it."""
    error = ErrorData(code=INTERNAL_ERROR, message=f"its answer is malformed: {reason}")
    return JSONRPCError(jsonrpc="2.0", id=answers, error=error)


def _parsed(data: bytes | bytearray) -> Any:
    try:
        return from_json(data, allow_inf_nan=False)
    except ValueError:  # perhaps because it contains invalid UTF-8
        return from_json(data.decode("utf-8", "replace"), allow_inf_nan=False)


def _syntax_problem(data: bytes | bytearray, error: str) -> str:
    """Explain why a text is not valid JSON."""
    if "hex escape" in error:
        return "a string in it holds half of a surrogate pair"
    if "recursion" in error:
        return "it is nested too deeply"
    try:
        from_json(data, allow_inf_nan=True)
    except ValueError:
        return f"it is not valid JSON: {error}"
    return "it holds NaN or an infinite number, which JSON does not have"


def _answer_problem(message: dict[str, Any]) -> str:
    """Return what is wrong with an answer."""
    if isinstance(message.get("id"), bool) or not isinstance(message.get("id"), int | str):
        return "its `id` is neither an integer nor a string"
    if not {"result", "error"} & message.keys():
        return "it has neither a `result` nor an `error`"
    try:
        (JSONRPCResponse if "result" in message else JSONRPCError).model_validate(message, by_name=False)
    except ValidationError as error:
        return f"its {validation_problem(error.errors(include_url=False, include_input=False)[0])}"
    return "it is no answer"


def _as_id(value: object) -> RequestId | None:
    if isinstance(value, float) and value.is_integer():  # JSON does not distinguish 1.0 from 1
        return int(value)
    return value if isinstance(value, int | str) and not isinstance(value, bool) else None


def _answered_request(data: bytes | bytearray) -> tuple[RequestId | None, bool]:
    """Return the id of the request that invalid JSON seems to answer, if any, and whether it may be an answer."""
    depth, name, answers = 0, b"", None
    names: set[bytes] = set()
    previous = b""
    for match in islice(_TOKEN.finditer(data), _MAX_SKIMMED):
        token = match[0]
        if depth == 1 and token == b":":
            name = previous
            names.add(name)
        elif depth == 1 and name == b'"id"' and previous == b":":
            answers = None
            with suppress(ValueError):
                answers = _as_id(json.loads(token))
        depth += (token in (b"{", b"[")) - (token in (b"}", b"]"))
        previous = token
    is_answer = b'"method"' not in names
    # A truncated request has an id too, perhaps before its `method`. It must not fail this side's request of that id.
    says_so = bool(names & {b'"result"', b'"error"'}) or depth == 0
    return (answers if is_answer and says_so else None), is_answer
