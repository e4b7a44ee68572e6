"""The codec takes what is JSON, names what is not, and never builds what does not fit."""

from __future__ import annotations

import json
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st
from tools_search_conformance.wire.codec import (
    Limits,
    MalformedError,
    decode,
    decode_message,
    encode,
    encode_as_is,
    id_key,
    id_text,
    same,
)

JSON = st.recursive(
    st.none() | st.booleans() | st.integers() | st.floats(allow_nan=False, allow_infinity=False) | st.text(),
    lambda values: st.lists(values, max_size=4) | st.dictionaries(st.text(), values, max_size=4),
    max_leaves=20,
)


@given(JSON)
def test_what_is_encoded_is_decoded_again(value: Any):
    assert same(decode(encode(value)), value)


@given(JSON)
def test_an_encoded_message_is_one_line_for_every_reader_of_lines(value: Any):
    assert len(encode(value).decode().splitlines()) == 1


@pytest.mark.parametrize(
    ("one", "other", "equal"),
    [
        (7, 7.0, True),
        (7, "7", False),
        ("7", "7.0", False),
        (2**53 - 1, 2.0**53 - 1, True),
        (7, 7.5, False),
        (0, "", False),
    ],
)
def test_an_id_is_its_type_and_its_value(one: Any, other: Any, equal: bool):
    assert (id_key(one) == id_key(other)) is equal


@pytest.mark.parametrize(
    ("value", "text"), [(7, "7"), (7.0, "7"), ("7", "7"), ("", ""), (None, None), (True, None), ([7], None)]
)
def test_ids_that_differ_in_their_type_only_have_one_text(value: Any, text: str | None):
    assert id_text(value) == text


def test_an_unpaired_surrogate_travels_as_its_escape():
    assert encode("a\ud800") == encode_as_is("a\ud800") == b'"a\\ud800"'


def test_a_server_gets_separators_of_lines_unescaped():
    assert encode_as_is("\u2028\x85\n") == '"\u2028\x85\\n"'.encode()


@pytest.mark.parametrize(
    "data",
    [
        b"",
        b"{",
        b"nothing",
        b"NaN",
        b"[Infinity]",
        b"[1e999]",
        b'{"a":1,"a":2}',
        b'{"a":{"b":1,"b":1}}',
        b'"\\ud800"',
        b'["\\udc00\\ud800"]',
        b'"\xff"',
        b"[" + b"9" * 5000 + b"]",
        b"[" * 300 + b"]" * 300,
        b"[" * 100_000,
        b"]" * 100_000,
        b'"' + b'\\"' * 100_000,
    ],
)
def test_what_is_no_json_is_refused_by_name(data: bytes):
    with pytest.raises(MalformedError):
        decode(data)


@pytest.mark.parametrize(
    ("limits", "data"),
    [
        (Limits(message_bytes=10), b'"0123456789"'),
        (Limits(values=3), b"[1,2,3,4]"),
        (Limits(values=3), b'{"a":{"b":{}}}'),
        (Limits(depth=2), b"[[[]]]"),
        (Limits(digits=3), b"[1234]"),
    ],
)
def test_what_is_beyond_a_bound_is_refused(limits: Limits, data: bytes):
    decode(data)
    with pytest.raises(MalformedError, match=r"more than|deeper"):
        decode(data, limits)


@pytest.mark.parametrize("text", ['[[[{,:"\\' * 100, "\\[,\n,[" * 100, '\\\\"[[\\"' * 100])
def test_brackets_and_commas_inside_strings_are_text(text: str):
    assert decode(json.dumps([text, text]).encode(), Limits(depth=1, values=3)) == [text, text]


def test_a_paired_surrogate_escape_is_a_character():
    assert decode(b'"\\ud83d\\udd27"') == "\U0001f527"


@pytest.mark.parametrize("data", [b"[1]", b"{}", b'"x"', b'{"jsonrpc":"1.0"}', b'[{"jsonrpc":"2.0"}]'])
def test_what_is_no_message_is_refused(data: bytes):
    with pytest.raises(MalformedError):
        decode_message(data)


@pytest.mark.parametrize(
    ("left", "right", "equal"),
    [
        (1, 1.0, True),
        (1, True, False),
        (0, False, False),
        ([1, 2], [2, 1], False),
        ([1], [1, 1], False),
        ({"a": 1, "b": [True]}, {"b": [True], "a": 1.0}, True),
        ({"a": 1}, {"a": 1, "b": None}, False),
        ({}, [], False),
        (None, False, False),
        ("1", 1, False),
    ],
)
def test_values_are_the_same_as_json_has_it(left: Any, right: Any, equal: bool):
    assert same(left, right) is equal
    assert same([left], [right]) is equal
