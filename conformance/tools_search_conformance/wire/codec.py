"""The judge's JSON codec: strict, with limits enforced before parsing.

A target's bytes are untrusted. Size, nesting and the number of values are counted on the raw bytes, so that no parser
builds a value that does not fit in memory. Text that Python's parser accepts although it is not valid JSON or Unicode
is rejected with a specific message.
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
"""A JSON object as a Python dict."""


@dataclass(frozen=True, kw_only=True)
class Limits:
    """Limits on a target's messages."""

    message_bytes: int = 8 * 1024 * 1024
    """Maximum bytes per message: a line on stdio, a body or an event over HTTP."""
    total_bytes: int = 16 * 1024 * 1024
    """Maximum bytes until a request is answered: since the last answer on stdio, in one response over HTTP."""
    messages: int = 10_000
    """Maximum messages until a request is answered, counted the same way."""
    depth: int = 200
    """Maximum nesting of arrays and objects."""
    values: int = 400_000
    """Maximum values, including keys, per message."""
    digits: int = 400
    """Maximum characters per number."""


DEFAULT_LIMITS: Final = Limits()
"""Far more than any legitimate answer needs, and small enough to fit in memory."""


class MalformedError(Exception):
    """The bytes are not a JSON text within the limits; the message says why."""


class NotAMessageError(MalformedError):
    """The bytes are JSON, but not a JSON-RPC message."""


_NO_BRACKETS: Final = bytes(byte for byte in range(256) if byte not in b"[]{}")
_SURROGATE: Final = re.compile(rb"\\u[dD][89a-fA-F]")
_UNPAIRED: Final = re.compile("[\ud800-\udfff]")
_MARKED: Final = re.compile('"\ufdd0([^"]*)\ufdd1"')
_SEPARATORS: Final = {"\u2028": "\\u2028", "\u2029": "\\u2029", "\x85": "\\u0085"}
_ENCODER: Final = json.JSONEncoder(ensure_ascii=False, allow_nan=False, separators=(",", ":"))


class Spelled(float):
    """A number that `encode` writes exactly as spelled, such as `3e0`."""

    spelling: str

    def __new__(cls, spelling: str) -> Spelled:
        """Take the JSON number as text."""
        number = super().__new__(cls, spelling)
        number.spelling = spelling
        return number

    def __repr__(self) -> str:
        return self.spelling


class Packed(dict[str, Any]):
    """A large JSON object, compressed. As a dict, it shows only the object's beginning; `same` compares all of it."""

    def __init__(self, text: str, shown: JsonObject) -> None:
        """Take the object's JSON text, and the part to show."""
        super().__init__(shown)
        self._text: Final = zlib.compress(text.encode(), 1)
        self.packed_bytes = len(self._text)

    @property
    def whole(self) -> JsonObject:
        """The object, decompressed."""
        return json.loads(zlib.decompress(self._text))


def _marked(value: Any) -> Any:
    """Return `value` with each `Spelled` number as a marked string."""
    if isinstance(value, Spelled):
        return f"\ufdd0{value.spelling}\ufdd1"
    if (items := as_array(value)) is not None:
        return [_marked(item) for item in items]
    members = as_object(value)
    return value if members is None else {name: _marked(member) for name, member in members.items()}


def _is_plain(value: Any) -> bool:
    """Return whether a value only contains plain Python JSON: no `Spelled` number and no `Packed` object."""
    try:
        marshal.dumps(value, 2)  # it rejects both, and is faster than any loop
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
    """Return a JSON number without a fractional part as an integer, however written; `None` for anything else."""
    if isinstance(value, bool) or not isinstance(value, int | float) or value != int(value):
        return None
    return int(value)


def encode(message: object) -> bytes:
    """Return `message` as UTF-8 JSON that is one line to every reader, without a line ending.

    Raises `ValueError` for non-JSON numbers.
    """
    text = _as_text(message)
    for character, escape in _SEPARATORS.items():
        text = text.replace(character, escape)
    return _as_bytes(text)


def encode_as_is(message: object) -> bytes:
    """Return the same for a server, with line separators unescaped, as many clients send them."""
    return _as_bytes(_as_text(message))


def _as_text(message: object) -> str:
    marked = message if _is_plain(message) else _marked(message)
    text = _ENCODER.encode(marked)
    return text if marked is message else _MARKED.sub(r"\1", text)


def _as_bytes(text: str) -> bytes:
    """Encode a JSON text, with unpaired surrogates escaped, which UTF-8 cannot encode."""
    try:
        return text.encode("utf-8")
    except UnicodeEncodeError:
        return _UNPAIRED.sub(lambda found: f"\\u{ord(found[0]):04x}", text).encode("utf-8")


def json_text(value: object) -> str:
    """Return a value as JSON for a message, so that it reads the same in any programming language."""
    return encode(value).decode()


def decode(data: bytes, limits: Limits = DEFAULT_LIMITS) -> Any:
    """Decode `data`; raises `MalformedError` if it is not valid JSON within `limits`."""
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
        raise MalformedError(f"not JSON: {error}") from error
    return value


def decode_message(data: bytes, limits: Limits = DEFAULT_LIMITS) -> JsonObject:
    """Decode a JSON-RPC message; raises `MalformedError` if `data` is not one.

    Raises `NotAMessageError` for JSON that is not a JSON-RPC 2.0 object. Neither era has batches.
    """
    message = as_object(decode(data, limits))
    if message is None:
        raise NotAMessageError("a JSON value that is not an object")
    if message.get("jsonrpc") != "2.0":
        raise NotAMessageError('an object without "jsonrpc": "2.0"')
    return message


def _check_bounds(data: bytes, limits: Limits) -> None:
    if len(data) > limits.message_bytes:
        raise MalformedError(f"more than {limits.message_bytes} bytes")
    if len(data) <= limits.values and data.count(b"[") + data.count(b"{") <= limits.depth:
        return  # true for nearly all messages
    bare = _without_strings(data, limits)
    if sum(map(bare.count, (b",", b":", b"[", b"{"))) > limits.values:
        raise MalformedError(f"more than {limits.values} values")
    depth = 0
    for byte in bare.translate(None, _NO_BRACKETS):
        depth += 1 if byte in b"[{" else -1
        if depth > limits.depth:
            raise MalformedError(f"nested deeper than {limits.depth}")
        if depth < 0:
            raise MalformedError("not JSON: a bracket closed that was never opened")


def _without_strings(data: bytes, limits: Limits) -> bytes:
    """Return the bytes around the strings; each string is a value, so the number of pieces is limited."""
    if b"\\" in data:  # outside strings, where it would hide a quotation mark, a backslash ends the parsing
        data = data.replace(rb"\\", b"").replace(rb"\"", b"")
    if data.count(b'"') > 2 * limits.values:
        raise MalformedError(f"more than {limits.values} values")
    return b"".join(data.split(b'"')[::2])


def _parse(text: str, limits: Limits) -> Any:
    def number(digits: str, kind: type[int] | type[float]) -> float:
        if len(digits) > limits.digits:
            raise ValueError(f"a number of more than {limits.digits} digits")
        value = kind(digits)
        if isinstance(value, float) and not math.isfinite(value):
            raise ValueError("a number beyond the range of a double")
        return value

    def constant(name: str) -> float:
        raise ValueError(f"{name} is not JSON")

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
    """Return whether two JSON values are equal: numbers by value, members in any order, and `true` not equal to 1."""
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
    """Return a key for an id, by type and value: `7` equals `7.0` but not `"7"`."""
    if type(value) is int:  # true for the ids of nearly all requests
        return b"%d" % value
    return encode(int(value) if isinstance(value, float) and value.is_integer() else value)


def id_text(value: Any) -> str | None:
    """Return an id's text, which is the same for ids of different types such as `7` and `"7"`; `None` if not an id."""
    if isinstance(value, str):
        return value
    return None if isinstance(value, bool) or not isinstance(value, int | float) else id_key(value).decode()
