"""Chunks of chat completions as services really send them, put together."""

from __future__ import annotations

from typing import Any

import pytest
from tools_search_client.chat.endpoint import ModelError
from tools_search_client.chat.models import CompletionChunks

Json = dict[str, Any]

END: Json = {"choices": [{"index": 0, "delta": {}, "finish_reason": "tool_calls"}]}


def call(name: str | None = None, arguments: Any = None, **more: Any) -> Json:
    function = {key: value for key, value in (("name", name), ("arguments", arguments)) if value is not None}
    return {"function": function, **more}


def put_together(*pieces: Json) -> list[tuple[str | None, str, Any]]:
    chunks = CompletionChunks()
    for piece in pieces:
        chunks.add({"choices": [{"index": 0, "delta": {"tool_calls": [piece]}, "finish_reason": None}]})
    chunks.add(END)
    calls = chunks.whole()["choices"][0]["message"]["tool_calls"]
    return [(call["id"], call["function"]["name"], call["function"]["arguments"]) for call in calls]


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
def test_calls_are_distinguished_by_place_or_by_id(places: tuple[int | None, int | None]):
    first, second = places
    pieces = [call("one", "{}", index=first, id="a"), call("two", "{}", index=second, id="b")]
    assert put_together(*pieces) == [("a", "one", "{}"), ("b", "two", "{}")]


def test_arguments_that_are_an_object_stay_one():
    assert put_together(call("one", {"x": 1}, index=0, id="a")) == [("a", "one", {"x": 1})]


def test_members_that_a_service_adds_are_kept():
    chunks = CompletionChunks()
    for reasoning in ("Let me ", "think."):
        delta = {"role": "assistant", "reasoning_content": reasoning, "details": [reasoning]}
        chunks.add({"choices": [{"delta": delta}]})
    chunks.add(END)
    chunks.add({"choices": [], "usage": {"prompt_tokens": 5}})
    whole = chunks.whole()
    message = whole["choices"][0]["message"]
    assert message["reasoning_content"] == "Let me think."
    assert message["details"] == ["Let me ", "think."]
    assert message["role"] == "assistant"
    assert whole["usage"] == {"prompt_tokens": 5}


def test_a_completion_without_an_end_is_none():
    chunks = CompletionChunks()
    assert chunks.add({"choices": [{"delta": {"content": "Hello"}}]}) == "Hello"
    with pytest.raises(ModelError, match="broke off"):
        chunks.whole()
