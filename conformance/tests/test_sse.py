"""Bodies come in pieces, in any cut, and never grow beyond their bound."""

from __future__ import annotations

from itertools import pairwise

import pytest
from hypothesis import given
from hypothesis import strategies as st
from tools_search_conformance.wire.codec import Limits, MalformedError
from tools_search_conformance.wire.sse import BodyReader, EventReader

STREAM = b": hello\r\n\r\nevent: message\nid: 1\ndata: one\ndata:  two\n\nretry: 5\rdata:three\r\rdata\n\ndata: lost"
EVENTS = [b"one\n two", b"three"]


@given(st.lists(st.integers(min_value=0, max_value=len(STREAM))))
def test_events_are_the_same_however_the_stream_is_cut(cuts: list[int]):
    reader, places = EventReader(), [0, *sorted(cuts), len(STREAM)]
    chunks = [STREAM[a:b] for a, b in pairwise(places)]
    assert [event for chunk in chunks for event in reader.feed(chunk)] == EVENTS
    assert reader.finish() == []


@pytest.mark.parametrize("data", [b"x" * 20, b"data: " + b"x" * 20, b"data: xxxx\n" * 5])
def test_an_event_beyond_the_bound_is_refused(data: bytes):
    with pytest.raises(MalformedError):
        EventReader(Limits(message_bytes=10)).feed(data)


def test_a_body_is_whole_at_its_end():
    reader = BodyReader()
    assert reader.feed(b'{"a"') == []
    assert reader.feed(b":1}") == []
    assert reader.finish() == [b'{"a":1}']


def test_an_empty_body_is_no_message():
    reader = BodyReader()
    reader.feed(b" \r\n")
    assert reader.finish() == []


def test_a_body_beyond_the_bound_is_refused():
    with pytest.raises(MalformedError):
        BodyReader(Limits(message_bytes=10)).feed(b"x" * 11)
