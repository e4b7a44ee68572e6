"""Reading one JSON-RPC message of a server that may send anything.

The SDK's own reading takes 20 times the memory and 5 times the time of a large message, and says nothing of an answer
that it cannot read: the request then waits for the whole of its time. Here the size of a message and the number of
values in it are bounded before it is parsed, and an answer that cannot be read fails its request at once.
"""

from __future__ import annotations

import json
import re
from contextlib import suppress
from itertools import islice
from typing import Any, Final, cast

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
from tools_search_hosts.validation import validation_problem

MAX_MESSAGE_BYTES: Final = 16 * 1024 * 1024
"""Decoded bytes of one message unless said otherwise: a listing of 10,000 tools is about 8 MB."""

_BYTES_OF_A_VALUE: Final = 32
"""At least, on average over a message: each takes up to 200 bytes of memory, and may be 2 bytes of the message."""

_TOKEN: Final = re.compile(rb'"[^"\\]*+(?:\\.[^"\\]*+)*+(?:"|\\?\Z)|[{}\[\],:]|[^\s"{}\[\],:]++', re.DOTALL)
"""Strings, signs and everything else, also where the text as a whole is no JSON; it never looks at a byte twice."""

_TOKENS_OF_A_VALUE: Final = 4
_MAX_SKIMMED: Final = 2_000_000
"""Tokens of a text that is no JSON which are looked at for the request that it was to answer."""

_SEPARATING: Final = (b",", b"{", b"[")


class MessageTooLargeError(Exception):
    """A message is larger than is read; the text says what was sent."""


class MalformedMessageError(Exception):
    """What was sent is no message of the protocol.

    Args:
        reason: Says what is wrong with it.
        answers: The id of the request that it was to answer, `None` where it is no answer or does not say.
        is_answer: Whether it may have been an answer: a request or a notification of the server was not.
    """

    def __init__(self, reason: str, answers: RequestId | None = None, *, is_answer: bool = True) -> None:
        super().__init__(reason)
        self.answers = answers
        self.is_answer = is_answer


def mebibytes(number: int) -> str:
    """Return a number of bytes as people write it."""
    return f"{number / 1024 / 1024:g} MiB"


def read_message(data: bytes | bytearray, max_bytes: int = MAX_MESSAGE_BYTES) -> JSONRPCMessage:
    """Return the message that `data` is, UTF-8 with or without flaws.

    Raises:
        MalformedMessageError: It is none.
        MessageTooLargeError: It has more than `max_bytes`, or more values than so many bytes usually hold.
    """
    if len(data) > max_bytes:
        raise MessageTooLargeError(f"a message of more than {mebibytes(max_bytes)}")
    max_values = max_bytes // _BYTES_OF_A_VALUE
    if data.count(b",") + data.count(b"[") + data.count(b"{") > max_values:
        found = 0  # signs within strings are none
        for number, match in enumerate(_TOKEN.finditer(data)):
            found += match[0] in _SEPARATING
            if found > max_values or number > _TOKENS_OF_A_VALUE * max_values:
                raise MessageTooLargeError(f"a message of more than {max_values:,} values")
    try:
        parsed = _parsed(data)
    except ValueError as error:
        answers, is_answer = _skimmed(data)
        raise MalformedMessageError(_flaw(data, str(error)), answers, is_answer=is_answer) from None
    if not isinstance(parsed, dict):
        raise MalformedMessageError("it is no JSON object")
    message = cast("dict[str, Any]", parsed)
    try:
        read = jsonrpc_message_adapter.validate_python(_without_empty_half(message), by_name=False)
    except ValidationError:
        if "method" in message:
            reason = "it is no valid request or notification"
            raise MalformedMessageError(reason, is_answer=False) from None
        raise MalformedMessageError(_problem(message), _as_id(message.get("id"))) from None
    if isinstance(read, JSONRPCError):
        read.error = attributed_to_server(read.error)
    return read


def failed_answer(answers: RequestId, reason: str) -> JSONRPCError:
    """Return the answer to a request in place of one that cannot be read; `endings.malformed` recognizes it."""
    error = ErrorData(code=INTERNAL_ERROR, message=f"its answer is malformed: {reason}")
    return JSONRPCError(jsonrpc="2.0", id=answers, error=error)


def _parsed(data: bytes | bytearray) -> Any:
    try:
        return from_json(data, allow_inf_nan=False)
    except ValueError:  # perhaps since it is no UTF-8 everywhere
        return from_json(data.decode("utf-8", "replace"), allow_inf_nan=False)


def _flaw(data: bytes | bytearray, error: str) -> str:
    """Return in the words of people why a text is no JSON."""
    if "hex escape" in error:
        return "a string in it holds half of a surrogate pair"
    if "recursion" in error:
        return "it is nested too deeply"
    try:
        from_json(data, allow_inf_nan=True)
    except ValueError:
        return f"it is not valid JSON: {error}"
    return "it holds NaN or an infinite number, which JSON does not have"


def _without_empty_half(message: dict[str, Any]) -> dict[str, Any]:
    """Return a message without the `null` that JSON-RPC 1.0 demands of whichever of result and error is not there.

    Raises:
        MalformedMessageError: Both are there.
    """
    if "method" in message or not ("result" in message and "error" in message):
        return message
    if message["result"] is not None and message["error"] is not None:
        raise MalformedMessageError("it has both a `result` and an `error`", _as_id(message.get("id")))
    empty = "error" if message["error"] is None else "result"
    return {name: value for name, value in message.items() if name != empty}


def _problem(message: dict[str, Any]) -> str:
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
    if isinstance(value, float) and value.is_integer():
        return int(value)
    return value if isinstance(value, int | str) and not isinstance(value, bool) else None


def _skimmed(data: bytes | bytearray) -> tuple[RequestId | None, bool]:
    """Return which request a text that is no JSON was to answer, as far as that can be seen, and whether it may."""
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
    is_complete = depth == 0 and previous == b"}"
    says_so = bool(names & {b'"result"', b'"error"'}) or is_complete
    return (answers if is_answer and says_so else None), is_answer
