"""Definitions are kept once, however often they are sent, and what is shown of them stays exactly what was sent."""

from __future__ import annotations

import json
from copy import deepcopy
from typing import Any, Final

import pytest
from tools_search_conformance.target.pages import complaint, page_schema
from tools_search_conformance.wire import sharing
from tools_search_conformance.wire.codec import same
from tools_search_conformance.wire.display import memory
from tools_search_conformance.wire.eras import MODERN
from tools_search_conformance.wire.record import Answer, Recorder

LARGE: Final[dict[str, Any]] = {
    "name": "large",
    "description": "word " * 10_000,
    "inputSchema": {"type": "object", "properties": {f"p{n}": {"const": n} for n in range(1000)}},
}


def answer(*tools: Any) -> Answer:
    return Answer(message={"id": 1, "result": {"tools": deepcopy([*tools])}})


def test_a_definition_that_many_answers_repeat_takes_its_memory_once():
    recorder = Recorder("cell")
    first = recorder.add({"id": 1}, {}, answer(LARGE), 1)
    once = recorder.held
    hits = [{**LARGE, "_meta": {"score": n}} for n in range(20)]
    later = [recorder.add({"id": 1}, {}, answer(LARGE, hit), 1) for hit in hits]
    assert recorder.held < 3 * once  # whole, and by its members
    assert same((first.result or {})["tools"], [LARGE])
    assert same([(each.result or {})["tools"] for each in later], [[LARGE, hit] for hit in hits])


def test_a_large_definition_takes_little_memory_and_is_compared_in_full():
    recorder, other = Recorder("cell"), deepcopy(LARGE)
    other["inputSchema"]["properties"]["p999"]["const"] = 1000
    one, two, again = ((recorder.add({"id": 1}, {}, answer(t), 1).result or {})["tools"] for t in (LARGE, other, LARGE))
    assert recorder.held < memory([LARGE, other]) / 2
    assert same(one, again)
    assert same(two, [other])
    assert not same(one, two)
    assert json.dumps(one) == json.dumps(two)  # only what is shown of them


def test_the_shape_of_a_large_definition_is_judged_in_full():
    schema: dict[str, Any] = {"properties": LARGE["inputSchema"]["properties"]}
    for last, place in (({"type": "object"}, None), ({"type": "array"}, "$.tools[0].inputSchema.type")):
        result = Recorder("cell").add({"id": 1}, {}, answer({**LARGE, "inputSchema": schema | last}), 1).result
        found = complaint(result, page_schema(MODERN))
        assert (found is None) if place is None else place in str(found)


@pytest.mark.parametrize("other", [1.0, True, "1", [1]])
def test_values_that_differ_only_in_type_are_kept_apart(other: Any):
    recorder, text = Recorder("cell"), "word " * 100
    one, two = ({"name": "a", "description": text, "annotations": {"value": value}} for value in (1, other))
    results = [recorder.add({"id": 1}, {}, answer(tool), 1).result or {} for tool in (one, two, one)]
    assert [json.dumps(result["tools"]) for result in results] == [json.dumps([tool]) for tool in (one, two, one)]


def test_what_is_no_definition_is_left_as_it_is():
    odd: list[Any] = [None, 5, "x" * 200, [LARGE], {}, {"_meta": None}, {"_meta": {}, "name": 5, "": ["y" * 200]}]
    assert Recorder("cell").add({"id": 1}, {}, answer(*odd), 1).result == {"tools": odd}


def test_definitions_that_are_new_each_time_are_forgotten_by_the_next_check(monkeypatch: pytest.MonkeyPatch):
    monkeypatch.setattr(sharing, "_MOST_BYTES", 1_000_000)
    recorder = Recorder("cell")
    for number in range(30):
        recorder.add({"id": 1}, {}, answer({**LARGE, "description": f"{number}" * 50_000}), 1)
    assert recorder.held > 900_000
    recorder.begin("next")
    assert recorder.held < 100_000
