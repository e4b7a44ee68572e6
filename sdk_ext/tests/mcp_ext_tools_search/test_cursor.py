"""Cursors: self-contained, bound to one query and one answer, and never forged."""

from __future__ import annotations

import base64
import hashlib
import hmac

import pytest
from hypothesis import example, given
from hypothesis import strategies as st
from mcp_ext_tools_search.cursor import MIN_KEY_BYTES, CursorKey, InvalidCursorError, answer_digest

KEY = bytes(range(32))
ANSWER = answer_digest(["send_invoice", "cancel_invoice"], 5)


def _read(cursor: str, query: str, answer: bytes) -> int:
    """Return the position of a cursor that the key has issued for this query and this answer."""
    continuation = CursorKey(KEY).read(cursor, query)
    continuation.require(answer)
    return continuation.position


queries = st.text(st.characters(), min_size=1)
positions = st.integers(min_value=0, max_value=2**64 - 1)
answers = st.builds(answer_digest, st.lists(st.text()), st.integers(min_value=0, max_value=1_000))


@given(query=queries, position=positions, answer=answers)
def test_a_cursor_is_read_as_it_was_issued_by_any_replica_with_the_key(
    query: str, position: int, answer: bytes
) -> None:
    cursor = CursorKey(KEY).issue(query, position, answer)
    assert _read(cursor, query, answer) == position


@given(position=positions, bit=st.integers(min_value=0, max_value=60 * 8 - 1))
def test_any_flipped_bit_is_refused(position: int, bit: int) -> None:
    cursor = CursorKey(KEY).issue("invoice", position, ANSWER)
    flipped = bytearray(cursor.encode())
    flipped[bit // 8] ^= 1 << bit % 8
    with pytest.raises(InvalidCursorError):
        _read(flipped.decode("latin-1"), "invoice", ANSWER)


@given(position=positions, bit=st.integers(min_value=0, max_value=45 * 8 - 1))
def test_any_flipped_bit_of_what_is_encoded_is_refused(position: int, bit: int) -> None:
    token = bytearray(base64.urlsafe_b64decode(CursorKey(KEY).issue("invoice", position, ANSWER)))
    token[bit // 8] ^= 1 << bit % 8
    with pytest.raises(InvalidCursorError):
        _read(base64.urlsafe_b64encode(token).decode(), "invoice", ANSWER)


@given(position=positions)
def test_another_spelling_of_the_same_bytes_is_refused(position: int) -> None:
    cursor = CursorKey(KEY).issue("invoice", position, ANSWER)
    usual = cursor.replace("-", "+").replace("_", "/")
    for spelling in {usual, f"{cursor}=", f"{cursor}====", f"{cursor}\n", f"{cursor[:30]}\n{cursor[30:]}"} - {cursor}:
        with pytest.raises(InvalidCursorError):
            _read(spelling, "invoice", ANSWER)


@given(query=queries, other=queries)
def test_a_cursor_of_another_query_is_refused(query: str, other: str) -> None:
    cursor = CursorKey(KEY).issue(query, 10, ANSWER)
    if query == other:
        other += "?"
    with pytest.raises(InvalidCursorError, match="not issued"):
        _read(cursor, other, ANSWER)


@given(names=st.lists(st.text()), others=st.lists(st.text()))
@example(names=["send_invoice", "list_invoices"], others=["list_invoices", "send_invoice"])
@example(names=["send_invoice"], others=["void_invoice"])
def test_a_cursor_is_refused_once_other_tools_come_first(names: list[str], others: list[str]) -> None:
    if names == others:
        others.append("another")
    cursor = CursorKey(KEY).issue("invoice", 10, answer_digest(names, 50))
    with pytest.raises(InvalidCursorError, match="expired"):
        _read(cursor, "invoice", answer_digest(others, 50))


@given(names=st.lists(st.text()), count=st.integers(0, 1_000), more=st.integers(1, 1_000))
def test_a_cursor_is_refused_once_there_are_more_or_fewer_matches(names: list[str], count: int, more: int) -> None:
    cursor = CursorKey(KEY).issue("invoice", 10, answer_digest(names, count))
    with pytest.raises(InvalidCursorError, match="expired"):
        _read(cursor, "invoice", answer_digest(names, count + more))


@given(st.text())
def test_text_that_is_no_cursor_is_refused(text: str) -> None:
    with pytest.raises(InvalidCursorError):
        _read(text, "invoice", ANSWER)


@pytest.mark.parametrize("text", ["", "2", "page-2", "A" * 60, "=" * 60, "A" * 59 + "\ud800", "A" * 1_000_000])
def test_cursors_of_a_list_are_refused(text: str) -> None:
    with pytest.raises(InvalidCursorError):
        _read(text, "invoice", ANSWER)


def test_a_cursor_of_another_key_is_refused() -> None:
    cursor = CursorKey().issue("invoice", 10, ANSWER)
    with pytest.raises(InvalidCursorError):
        CursorKey().read(cursor, "invoice")


def test_a_cursor_of_another_version_is_refused_even_where_it_is_authentic() -> None:
    token = base64.urlsafe_b64decode(CursorKey(KEY).issue("invoice", 10, ANSWER))
    body = bytes([2]) + token[1:25]
    mac = hmac.new(KEY, b"tools/search cursor\0" + body + b"invoice", hashlib.sha256).digest()[:20]
    with pytest.raises(InvalidCursorError):
        _read(base64.urlsafe_b64encode(body + mac).decode(), "invoice", ANSWER)


@given(query=queries)
def test_a_cursor_has_one_length_and_only_characters_that_need_no_escape(query: str) -> None:
    cursor = CursorKey(KEY).issue(query, 2**63, ANSWER)
    assert len(cursor) == 60
    assert cursor.replace("-", "").replace("_", "").isalnum()
    assert cursor.isascii()


@given(st.lists(st.text(st.characters(exclude_characters="\n"), min_size=1)))
def test_names_that_join_to_the_same_text_are_different_answers(names: list[str]) -> None:
    if len(names) > 1:
        assert answer_digest(names, 9) != answer_digest(["".join(names)], 9)


@pytest.mark.parametrize("length", [0, 1, 16, MIN_KEY_BYTES - 1])
def test_a_short_key_is_refused_with_the_way_to_make_one(length: int) -> None:
    with pytest.raises(ValueError, match=r"secrets\.token_bytes\(32\)"):
        CursorKey(b"x" * length)


notes = st.from_regex(r"[0-9A-Za-z_-]{1,64}", fullmatch=True)


@given(query=queries, position=positions, note=notes)
def test_a_note_is_found_again_in_its_cursor(query: str, position: int, note: str) -> None:
    cursor = CursorKey(KEY).issue(query, position, ANSWER, note)
    assert CursorKey(KEY).read(cursor, query).note == note
    assert _read(cursor, query, ANSWER) == position


@given(note=notes, other=notes | st.text())
def test_a_cursor_with_another_note_is_refused(note: str, other: str) -> None:
    cursor = CursorKey(KEY).issue("invoice", 10, ANSWER, note)
    token = cursor.partition(".")[0]
    for forged in [token, f"{token}.", f"{token}.{other}"]:
        if forged != cursor:
            with pytest.raises(InvalidCursorError):
                _read(forged, "invoice", ANSWER)


def test_a_note_that_could_not_be_told_from_the_rest_is_not_issued() -> None:
    with pytest.raises(ValueError, match="note"):
        CursorKey(KEY).issue("invoice", 10, ANSWER, "a.b")
