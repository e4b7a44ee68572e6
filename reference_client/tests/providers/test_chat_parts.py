"""The parts of `chat` that have no terminal: chunks as services really send them, and words that are kept whole."""

from __future__ import annotations

from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st
from tools_search_client.chat.completion_parts import CompletionParts
from tools_search_client.chat.model import ModelFailed
from tools_search_client.chat.wrapping import WordWrap

Json = dict[str, Any]

END: Json = {"choices": [{"index": 0, "delta": {}, "finish_reason": "tool_calls"}]}


def call(name: str | None = None, arguments: Any = None, **more: Any) -> Json:
    function = {key: value for key, value in (("name", name), ("arguments", arguments)) if value is not None}
    return {"function": function, **more}


def put_together(*pieces: Json) -> list[tuple[str | None, str, Any]]:
    parts = CompletionParts()
    for piece in pieces:
        parts.add({"choices": [{"index": 0, "delta": {"tool_calls": [piece]}, "finish_reason": None}]})
    parts.add(END)
    calls = parts.whole()["choices"][0]["message"]["tool_calls"]
    return [(one["id"], one["function"]["name"], one["function"]["arguments"]) for one in calls]


@pytest.mark.parametrize(
    "pieces",
    [
        [call("one", "", index=0, id="a"), call(None, '{"x"', index=0), call(None, ": 1}", index=0)],
        [call("one", '{"x"', index=0, id="a"), call("one", ": 1}", index=0, id="a")],
        [call("one", '{"x": 1}', id="a")],
        [call("one", "", id="a"), call(None, '{"x": 1}')],
        [call("one", "", index=0, id="a"), call(None, '{"x": 1}', index=0, id="")],
    ],
    ids=["as OpenAI", "name and id repeated", "no index", "no index in pieces", "empty id"],
)
def test_a_call_is_put_together_however_its_pieces_come(pieces: list[Json]):
    assert put_together(*pieces) == [("a", "one", '{"x": 1}')]


@pytest.mark.parametrize("places", [(0, 1), (0, 0), (None, None)])
def test_calls_are_told_apart_by_place_or_by_id(places: tuple[int | None, int | None]):
    first, second = places
    pieces = [call("one", "{}", index=first, id="a"), call("two", "{}", index=second, id="b")]
    assert put_together(*pieces) == [("a", "one", "{}"), ("b", "two", "{}")]


def test_arguments_that_are_an_object_stay_one():
    assert put_together(call("one", {"x": 1}, index=0, id="a")) == [("a", "one", {"x": 1})]


def test_what_a_service_adds_is_kept():
    parts = CompletionParts()
    for reasoning in ("Let me ", "think."):
        delta = {"role": "assistant", "reasoning_content": reasoning, "details": [reasoning]}
        parts.add({"choices": [{"delta": delta}]})
    parts.add(END)
    parts.add({"choices": [], "usage": {"prompt_tokens": 5}})
    whole = parts.whole()
    message = whole["choices"][0]["message"]
    assert message["reasoning_content"] == "Let me think."
    assert message["details"] == ["Let me ", "think."]
    assert message["role"] == "assistant"
    assert whole["usage"] == {"prompt_tokens": 5}


def test_a_completion_without_an_end_is_none():
    parts = CompletionParts()
    assert parts.add({"choices": [{"delta": {"content": "Hello"}}]}) == "Hello"
    with pytest.raises(ModelFailed, match="broke off"):
        parts.whole()


@given(st.lists(st.text(alphabet="ab \n", max_size=12), max_size=12), st.integers(min_value=1, max_value=20))
def test_wrapping_loses_no_word_and_breaks_none_that_fits(pieces: list[str], width: int):
    wrap = WordWrap(lambda: width)
    shown = "".join(map(wrap.add, pieces)) + wrap.end()
    assert shown.split() == "".join(pieces).split()
    long_words = {word for word in shown.split() if len(word) > width}
    assert all(len(line) <= width or long_words.intersection(line.split()) for line in shown.split("\n"))
