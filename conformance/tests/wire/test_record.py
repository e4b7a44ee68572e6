"""What the wire log holds and hides, and definitions: kept once, and exactly as they were sent."""

from __future__ import annotations

import json
from copy import deepcopy
from pathlib import Path
from typing import Any, Final

import pytest
from tools_search_conformance.target.pages import complaint, page_schema
from tools_search_conformance.wire import record
from tools_search_conformance.wire.codec import same
from tools_search_conformance.wire.display import memory
from tools_search_conformance.wire.eras import MODERN
from tools_search_conformance.wire.record import REDACTED, Answer, Exchange, Recorder, redact


def exchange(message: dict[str, Any] | None, fault: str | None = None) -> Exchange:
    answer = Answer(message=message, fault=fault)
    return Exchange(number=1, cell="c", check="k", sent={"id": 1}, answer=answer, milliseconds=1)


def test_secrets_are_hidden_whatever_their_case():
    headers = {"AUTHORIZATION": "Bearer x", "X-Key": "k", "Accept": "a", "Mcp-Session-Id": "s"}
    assert redact(headers, frozenset({"x-key"})) == {
        "AUTHORIZATION": REDACTED,
        "X-Key": REDACTED,
        "Accept": "a",
        "Mcp-Session-Id": REDACTED,
    }


def test_every_exchange_is_logged_under_its_check(tmp_path: Path):
    log = tmp_path / "cell.jsonl"
    recorder = Recorder("cell", log)
    recorder.begin("check-a")
    recorder.add({"id": 1, "method": "m"}, {"Cookie": "c"}, Answer(message={"x": "\u2028"}), 1.26)
    recorder.note("something stray")
    recorder.close()
    first, second = (json.loads(line) for line in log.read_text(encoding="utf-8").splitlines())
    assert first["number"] == 1
    assert first["check"] == "check-a"
    assert first["headers"] == {"Cookie": REDACTED}
    assert first["answer"]["message"] == {"x": "\u2028"}
    assert second["note"] == "something stray"


@pytest.mark.parametrize(
    ("text", "logged"),
    [
        (b'{"x": 1.50, "y":"\\u00e9"}', b'{"x": 1.50, "y":"\\u00e9"}'),
        (b'{\n"x": 1.50, "y":"\\u00e9"\r}', '{"x":1.5,"y":"\u00e9"}'.encode()),
        (b'{"x": 1.50, "y":"\\u00e9", "z":"\xe2\x80\xa8"}', '{"x":1.5,"y":"\u00e9","z":"\\u2028"}'.encode()),
    ],
)
def test_a_response_is_logged_as_it_was_sent_where_that_is_one_line(text: bytes, logged: bytes, tmp_path: Path):
    recorder = Recorder("cell", log := tmp_path / "cell.jsonl")
    kept = recorder.add({"id": 1}, {}, Answer(message=json.loads(text), text=text), 1)
    recorder.close()
    (line,) = log.read_text(encoding="utf-8").splitlines()
    assert line.encode().endswith(b'"message":' + logged + b"}}")
    assert json.loads(line)["answer"] == {"status": None, "headers": {}, "fault": None, "message": json.loads(text)}
    assert kept.answer.text == b""


def test_what_is_said_after_the_end_of_a_log_is_kept_no_more(tmp_path: Path):
    log = tmp_path / "cell.jsonl"
    recorder = Recorder("cell", log)
    recorder.note("in time")
    recorder.close()
    recorder.note("last words of a process that ends while the next cell is judged already")
    assert [json.loads(line)["note"] for line in log.read_text().splitlines()] == ["in time"]


def test_a_huge_exchange_is_logged_as_its_size(tmp_path: Path):
    log = tmp_path / "cell.jsonl"
    recorder = Recorder("cell", log)
    recorder.add({"id": 1, "method": "m", "params": {}}, {}, Answer(message={"x": "y" * 1_000_000}), 1)
    recorder.close()
    entry = json.loads(log.read_text())
    assert entry["sent"] == {"id": 1, "method": "m"}
    assert "bytes, not logged" in entry["answer"]["fault"]
    assert log.stat().st_size < 1000


def test_without_a_log_exchanges_are_counted_all_the_same():
    recorder = Recorder("cell")
    recorder.add({"id": 1}, {}, Answer(), 1)
    recorder.begin("next")
    assert recorder.add({"id": 2}, {}, Answer(), 1).number == 2
    assert len(recorder.taken) == 1
    recorder.close()


@pytest.mark.parametrize(
    ("message", "described"),
    [
        ({"result": {}}, "a result"),
        ({"error": {"code": -32602, "message": "no"}}, "error -32602"),
        ({"error": {"code": "-32602"}}, "error -32602"),  # response-shape alone names it
        ({"error": {"code": "no number"}}, "a response with neither a result object nor a readable error"),
        ({"error": {"code": True}}, "a response with neither a result object nor a readable error"),
        ({"result": []}, "a response with neither a result object nor a readable error"),
        ({}, "a response with neither a result object nor a readable error"),
        (None, "no response (silence)"),
    ],
)
def test_an_answer_is_described_as_what_it_is(message: dict[str, Any] | None, described: str):
    assert exchange(message).describe() == described


def test_an_error_without_a_message_can_still_be_read():
    found = exchange({"error": {"code": 1, "message": None, "data": {"x": 1}}}).error
    assert found is not None
    assert (found.code, found.message, found.data) == (1, "", {"x": 1})


def test_exchanges_that_nobody_holds_any_more_take_no_memory():
    recorder = Recorder("cell")
    held = recorder.add({"id": 1}, {}, Answer(message={"x": "y" * 100_000}), 1)
    recorder.begin("next")
    assert recorder.held > 100_000
    del held
    assert recorder.held == 0


def test_a_log_ends_after_its_bound_and_says_so(tmp_path: Path, monkeypatch: pytest.MonkeyPatch):
    monkeypatch.setattr(record, "_LOG_BYTES", 1000)
    recorder = Recorder("cell", log := tmp_path / "cell.jsonl")
    for _ in range(100):
        recorder.note("x" * 100)
    recorder.close()
    assert log.stat().st_size < 1500
    assert "ends after 1000 bytes" in json.loads(log.read_text().splitlines()[-1])["note"]


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


@pytest.mark.parametrize(("tools", "shown"), [(None, "null"), (True, "true"), ({"a": [None]}, '{"a":[null]}')])
def test_what_is_wrong_with_a_shape_is_said_in_json(tools: Any, shown: str):
    assert complaint({"tools": tools}, page_schema(MODERN)) == f"$.tools: {shown} is not of type 'array'"


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
    monkeypatch.setattr(record, "_MOST_SHARED_BYTES", 1_000_000)
    recorder = Recorder("cell")
    for number in range(30):
        recorder.add({"id": 1}, {}, answer({**LARGE, "description": f"{number}" * 50_000}), 1)
    assert recorder.held > 900_000
    recorder.begin("next")
    assert recorder.held < 100_000
