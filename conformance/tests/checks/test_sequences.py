"""Sequences of requests: an answer that a search in between changes is found, be it a page or a refusal."""

from __future__ import annotations

from collections.abc import Awaitable, Callable
from typing import Any

import pytest
from tools_search_conformance.checks.sequences import any_sequence
from tools_search_conformance.model import Cell, Run, ViolationError
from tools_search_conformance.run.judging import Workbench
from tools_search_conformance.run.options import Options
from tools_search_conformance.target.primitives import TOOLS
from tools_search_conformance.target.vocabulary import Vocabulary
from tools_search_conformance.wire.eras import MODERN
from tools_search_conformance.wire.record import Answer, Exchange, Recorder

Judge = Callable[..., Awaitable[Run]]

FIRST: dict[str, Any] = {"result": {"tools": [{"name": "a"}], "nextCursor": "2"}}
EMPTY: dict[str, Any] = {"result": {"tools": []}}
REFUSED: dict[str, Any] = {"error": {"code": -32602, "message": "no such cursor"}}


class ForgetfulBench(Workbench):
    """The bench of a server that refuses its last page, an empty one, once another search has come in between."""

    primitive = TOOLS
    others_served = ()

    def __init__(self, options: Options) -> None:
        super().__init__(options, Cell(transport="stdio", era=MODERN), Recorder("cell"))
        self.server = self
        self.faults_of_state: list[ViolationError] = []
        self.queries: list[str] = []

    async def search(self, params: dict[str, Any]) -> Exchange:
        self.queries.append(params["query"])
        answer = EMPTY
        if params["query"] == "one":
            answer = FIRST if "cursor" not in params else REFUSED if {*self.queries[-2:]} != {"one"} else EMPTY
        sent = {"id": 1, "params": params}
        return self.recorder.add(sent, {}, Answer(message={"id": 1, **answer}), 1)

    async def nonempty_listing(self) -> None:
        """Return nothing: no tool of the listing is looked at."""

    async def query_with_matches(self) -> str:
        return "one"

    async def vocabulary(self) -> Vocabulary:
        return Vocabulary(())

    def can_start(self, catalog: str) -> bool:
        return False


@pytest.mark.anyio
async def test_an_empty_page_that_is_refused_after_another_search_is_found(options: Callable[..., Options]):
    with pytest.raises(ViolationError, match="error -32602"):
        await any_sequence.run(ForgetfulBench(options("any-sequence", profile="live")))


@pytest.mark.rotating
@pytest.mark.anyio
async def test_an_empty_cursor_is_tried_with_other_queries_in_generated_sequences(
    target: Callable[..., tuple[str, ...]], judge: Judge
):
    argv = target("miniature", "--tools-alone", "--fault", "empty-cursor-of-any-query")
    run = await judge("any-sequence", argv=argv, era=MODERN, effort="deep")
    (result,) = run.results
    assert result.status == "fail"
    assert "a cursor of another query got a result" in result.message


@pytest.mark.anyio
async def test_answers_that_are_broken_otherwise_each_time_are_no_effect_of_a_search(
    target: Callable[..., tuple[str, ...]], judge: Judge
):
    argv = target("miniature", "--http", "--tools-alone", "--fault", "calls-are-no-json")
    run = await judge("any-sequence", http_argv=argv, era=MODERN)
    assert [(r.status, r.message) for r in run.results] == [("pass", "")]
