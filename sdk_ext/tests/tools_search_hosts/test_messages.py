"""Messages cost no more memory than their size allows."""

from __future__ import annotations

import pytest
from tools_search_hosts.messages import MessageTooLargeError, read_message

_MAX_BYTES = 3_200
_MAX_VALUES = _MAX_BYTES // 32


def _message(items: list[str]) -> bytes:
    return f'{{"jsonrpc": "2.0", "id": 1, "result": {{"items": [{",".join(items)}]}}}}'.encode()


@pytest.mark.parametrize("item", ["0", "[]", "{}", "[[]]", '{"a":0}'])
def test_a_message_of_too_many_values_of_any_kind_is_not_read(item: str) -> None:
    read_message(_message([item] * (_MAX_VALUES // 4)), _MAX_BYTES)
    with pytest.raises(MessageTooLargeError, match="a message of more than 100 values"):
        read_message(_message([item] * _MAX_VALUES), _MAX_BYTES)


def test_punctuation_in_texts_does_not_count_as_values() -> None:
    read_message(_message([f'"{"[{," * 500}"']), _MAX_BYTES)
