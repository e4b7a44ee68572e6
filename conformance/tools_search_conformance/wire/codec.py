"""JSON as the judge reads and writes it: strict, and bounded before anything is parsed.

Bytes of a target are hostile until they are decoded. Size, nesting and the number of values are counted on the raw
bytes, so that no parser builds a value that does not fit in memory. Text that Python's own parser accepts although it
is no JSON, or no Unicode, is refused by name.
"""

from __future__ import annotations

import json
import marshal
import math
import re
import zlib
from dataclasses import dataclass
from functools import partial
from typing import Any, Final

JsonObject = dict[str, Any]
"""A JSON object as Python has it."""


@dataclass(frozen=True, kw_only=True)
class Limits:
    """Bounds of the messages of one target."""

    message_bytes: int = 8 * 1024 * 1024
    """Bytes of one message: a line on stdio, a body or an event over HTTP."""
    total_bytes: int = 16 * 1024 * 1024
    """Bytes until a request is answered: since the last answer on stdio, of one response over HTTP."""
    messages: int = 10_000
    """Messages until a request is answered, counted likewise."""
    depth: int = 200
    """Arrays and objects inside one another."""
    values: int = 400_000
    """Values, keys included, of one message."""
    digits: int = 400
    """Characters of one number."""


DEFAULT_LIMITS: Final = Limits()
"""Far beyond the needs of any honest answer, and small enough to be held in memory."""


class MalformedError(Exception):
    """The bytes are no JSON text within the bounds; the message says why."""


class NotAMessageError(MalformedError):
    """The bytes are JSON, but no JSON-RPC message."""


_STRING: Final = re.compile(rb'"[^"\\]*+(?:\\.[^"\\]*+)*+"?', re.DOTALL)
_NO_BRACKETS: Final = bytes(byte for byte in range(256) if byte not in b"[]{}")
_SURROGATE: Final = re.compile(rb"\\u[dD][89a-fA-F]")
_UNPAIRED: Final = re.compile("[\ud800-\udfff]")
_MARKED: Final = re.compile('"\ufdd0([^"]*)\ufdd1"')
_SEPARATORS: Final = {"\u2028": "\\u2028", "\u2029": "\\u2029", "\x85": "\\u0085"}
_ENCODER: Final = json.JSONEncoder(ensure_ascii=False, allow_nan=False, separators=(",", ":"))


class Spelled(float):
    """A number that `encode` writes as it is spelled, such as `3e0`."""

    spelling: str

    def __new__(cls, spelling: str) -> Spelled:
        """Take the JSON number as text."""
        number = super().__new__(cls, spelling)
        number.spelling = spelling
        return number

    def __repr__(self) -> str:
        return self.spelling


class Packed(dict[str, Any]):
    """A large JSON object, compressed. Read as any other, it shows how the object begins; `same` compares all of it."""

    def __init__(self, text: str, shown: JsonObject) -> None:
        """Take the object's JSON text, and what to show of it."""
        super().__init__(shown)
        self._text: Final = zlib.compress(text.encode(), 1)
        self.packed_bytes = len(self._text)

    @property
    def whole(self) -> JsonObject:
        """The object, decompressed."""
        return json.loads(zlib.decompress(self._text))


def _marked(value: Any) -> Any:
    """Return `value` with each spelled number as a marked string."""
    if isinstance(value, Spelled):
        return f"\ufdd0{value.spelling}\ufdd1"
    if (items := as_array(value)) is not None:
        return [_marked(item) for item in items]
    members = as_object(value)
    return value if members is None else {name: _marked(member) for name, member in members.items()}


def _is_plain(value: Any) -> bool:
    """Return whether a value holds nothing but JSON as Python has it: no `Spelled` number and no `Packed` object."""
    try:
        marshal.dumps(value, 2)  # it refuses both, and reads a message faster than any loop
    except ValueError:
        return False
    return True


def as_object(value: Any) -> JsonObject | None:
    """Return a JSON value if it is an object."""
    return value if isinstance(value, dict) else None  # pyright: ignore[reportUnknownVariableType] - JSON has no other keys


def as_array(value: Any) -> list[Any] | None:
    """Return a JSON value if it is an array."""
    return value if isinstance(value, list) else None  # pyright: ignore[reportUnknownVariableType] - JSON


def integer(value: Any) -> int | None:
    """Return a JSON number without a fractional part as an integer, however it was written; `None` for all else."""
    if isinstance(value, bool) or not isinstance(value, int | float) or value != int(value):
        return None
    return int(value)


def encode(message: object) -> bytes:
    """Return `message` as one line of UTF-8 JSON without its line ending; `ValueError` says that a number has no JSON.

    Characters that some line readers take for a line ending are escaped, and so are unpaired surrogates, which UTF-8
    cannot carry; all others travel as themselves.
    """
    marked = message if _is_plain(message) else _marked(message)
    text = _ENCODER.encode(marked)
    if marked is not message:
        text = _MARKED.sub(r"\1", text)
    for character, escape in _SEPARATORS.items():
        text = text.replace(character, escape)
    try:
        return text.encode("utf-8")
    except UnicodeEncodeError:
        return _UNPAIRED.sub(lambda found: f"\\u{ord(found[0]):04x}", text).encode("utf-8")


def json_text(value: object) -> str:
    """Return a value for a message, as JSON and so as any reader's language spells it."""
    return encode(value).decode()


def decode(data: bytes, limits: Limits = DEFAULT_LIMITS) -> Any:
    """Return the value that `data` spells; `MalformedError` says why it spells none that is within `limits`."""
    _check_bounds(data, limits)
    try:
        value = _parse(data.decode("utf-8"), limits)
        if _SURROGATE.search(data):
            json.dumps(value, ensure_ascii=False).encode("utf-8")
    except UnicodeDecodeError as error:
        raise MalformedError(f"no UTF-8 at byte {error.start}") from error
    except UnicodeEncodeError as error:
        raise MalformedError("an unpaired surrogate") from error
    except (ValueError, RecursionError) as error:
        raise MalformedError(f"no JSON: {error}") from error
    return value


def decode_message(data: bytes, limits: Limits = DEFAULT_LIMITS) -> JsonObject:
    """Return the JSON-RPC message that `data` spells; `MalformedError` says why it spells none.

    `NotAMessageError` is raised for JSON that is no JSON-RPC 2.0 object: batches are no part of either era.
    """
    message = as_object(decode(data, limits))
    if message is None:
        raise NotAMessageError("a JSON value that is no object")
    if message.get("jsonrpc") != "2.0":
        raise NotAMessageError('an object without "jsonrpc": "2.0"')
    return message


def _check_bounds(data: bytes, limits: Limits) -> None:
    if len(data) > limits.message_bytes:
        raise MalformedError(f"more than {limits.message_bytes} bytes")
    if len(data) <= limits.values and data.count(b"[") + data.count(b"{") <= limits.depth:
        return  # nearly all messages
    # Each string has two quotation marks, so that few of these are few values; then C code may take them all at once.
    bare = _STRING.sub(b"", data) if data.count(b'"') <= limits.values else _without_strings(data, limits)
    if sum(map(bare.count, (b",", b":", b"[", b"{"))) > limits.values:
        raise MalformedError(f"more than {limits.values} values")
    depth = 0
    for byte in bare.translate(None, _NO_BRACKETS):
        depth += 1 if byte in b"[{" else -1
        if depth > limits.depth:
            raise MalformedError(f"nested deeper than {limits.depth}")
        if depth < 0:
            raise MalformedError("no JSON: a bracket closed that was never opened")


def _without_strings(data: bytes, limits: Limits) -> bytes:
    """Return the bytes around the strings; each string is a value, so that the number of pieces is bounded."""
    bare, end = bytearray(), 0
    for count, found in enumerate(_STRING.finditer(data)):
        if count > limits.values:
            raise MalformedError(f"more than {limits.values} values")
        bare += data[end : found.start()]
        end = found.end()
    return bytes(bare + data[end:])


def _parse(text: str, limits: Limits) -> Any:
    def number(digits: str, kind: type[int] | type[float]) -> float:
        if len(digits) > limits.digits:
            raise ValueError(f"a number of more than {limits.digits} digits")
        value = kind(digits)
        if isinstance(value, float) and not math.isfinite(value):
            raise ValueError("a number beyond the range of a double")
        return value

    def constant(name: str) -> float:
        raise ValueError(f"{name} is no JSON")

    def members(pairs: list[tuple[str, Any]]) -> JsonObject:
        named = dict(pairs)
        if len(named) != len(pairs):
            raise ValueError("a member named twice")
        return named

    integers, fractions = partial(number, kind=int), partial(number, kind=float)
    return json.loads(
        text, parse_int=integers, parse_float=fractions, parse_constant=constant, object_pairs_hook=members
    )


def same(left: Any, right: Any) -> bool:
    """Return whether two JSON values are equal: numbers by value, members in any order, `true` never equal to 1."""
    if left is right:
        return True
    left, right = (each.whole if isinstance(each, Packed) else each for each in (left, right))
    if isinstance(left, bool) or isinstance(right, bool):
        return False
    if (members := as_object(left)) is not None and (others := as_object(right)) is not None:
        return members.keys() == others.keys() and all(same(value, others[name]) for name, value in members.items())
    if (items := as_array(left)) is not None and (others := as_array(right)) is not None:
        return len(items) == len(others) and all(map(same, items, others))
    return left == right


def id_key(value: Any) -> bytes:
    """Return the identity of an id, its type and value: `7` is `7.0` and is not `"7"`."""
    if type(value) is int:  # the ids of nearly all requests
        return b"%d" % value
    return encode(int(value) if isinstance(value, float) and value.is_integer() else value)


def id_text(value: Any) -> str | None:
    """Return the text of an id, which it shares with ids of another type, as `7` and `"7"` do; `None` for no id."""
    if isinstance(value, str):
        return value
    return None if isinstance(value, bool) or not isinstance(value, int | float) else id_key(value).decode()
