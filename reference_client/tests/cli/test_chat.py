"""One question from a script: the answer on standard output, everything else on standard error, and an exit code."""

from __future__ import annotations

import json
import os
import subprocess
import sys
from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from types import MappingProxyType
from typing import Any

import pytest
from tools_search_client.__main__ import main

from ..chat.streaming import Play, Stage, stage  # noqa: TID252

SEARCH = Play("I look for it.", [("search_tools", {"tool_names": ["make_alpha"]})])
CALL_OF_ALPHA = Play("", [("one__make_alpha", {"size": 3})])
CALL = Play("", [("make_alpha", {"size": 3})])


@dataclass
class Outcome:
    code: int
    output: str
    errors: str


Ask = Callable[..., Outcome]


@pytest.fixture
def played() -> Iterator[Stage]:
    with stage() as one:
        yield one


@pytest.fixture
def ask(
    played: Stage, liar: Any, tmp_path: Path, capsys: pytest.CaptureFixture[str], monkeypatch: pytest.MonkeyPatch
) -> Ask:
    """Ask in this process; servers and endpoint are real."""
    monkeypatch.setenv("OPENAI_API_KEY", "secret")
    monkeypatch.setenv("OPENAI_BASE_URL", played.url)
    monkeypatch.delenv("ANTHROPIC_API_KEY", raising=False)
    monkeypatch.delenv("ANTHROPIC_BASE_URL", raising=False)

    def run(
        *arguments: str,
        fault: str = "none",
        steps: tuple[Play, ...] = (),
        model: str = "scripted",
        members: Mapping[str, Any] = MappingProxyType({}),
        discovery: Mapping[str, Any] = MappingProxyType({"enabled": True}),
        **options: Any,
    ) -> Outcome:
        played.steps = steps
        played.requests.clear()
        server = liar(fault, **options).as_configured() | {"defer_loading": True} | members
        path = tmp_path / "mcp.json"
        path.write_text(json.dumps({"mcpServers": {"one": server}, "tool_discovery": dict(discovery)}))
        with pytest.raises(SystemExit) as ended:
            main(["chat", "--config", str(path), "-m", model, *arguments])
        shown = capsys.readouterr()
        return Outcome(int(ended.value.code or 0), shown.out, shown.err)

    return run


def test_the_answer_alone_is_on_standard_output(ask: Ask, played: Stage):
    outcome = ask("make it", "--yes", steps=(SEARCH, CALL, Play("It is made.")))
    assert (outcome.code, outcome.output) == (0, "It is made.\n")
    assert "I look for it." in outcome.errors
    assert '→ one__make_alpha {"size": 3}' in outcome.errors
    assert "3 requests; 1 search found 1 tool; 1 call; about" in outcome.errors
    assert played.faults == []


@pytest.mark.parametrize("fault", ["none", "read-only"])
def test_no_tool_is_called_where_nobody_can_be_asked_whatever_it_says_of_itself(ask: Ask, played: Stage, fault: str):
    outcome = ask("make it", fault=fault, steps=(SEARCH, CALL, Play("I may not.")))
    assert (outcome.code, outcome.output) == (0, "I may not.\n")
    assert "one__make_alpha was not called because there is no terminal to ask on: pass --yes" in outcome.errors
    assert "does not allow" in json.dumps(played.requests[-1])


def test_the_operators_configuration_ends_the_asking(ask: Ask):
    allowed = {"alwaysAllow": ["make_alpha"]}
    outcome = ask("make it", members=allowed, steps=(SEARCH, CALL, Play("It is made.")))
    assert "← " in outcome.errors


def test_the_user_is_told_which_server_a_search_could_not_ask(ask: Ask):
    browse = Play("", [("search_tools", {"server_name": "one"})])
    outcome = ask("what is there?", fault="list-refused", steps=(browse, browse, Play("Nothing.")))
    assert outcome.errors.count("one failed: ") == 1


def test_programs_get_the_answer_and_the_statistics_as_json(ask: Ask):
    outcome = ask("hello", "--json", steps=(Play("Good day."),))
    answer = json.loads(outcome.output)
    assert answer["answer"] == "Good day."
    assert answer["statistics"]["requests"] == 1
    assert answer["statistics"]["definitionTokensSent"] > 0
    assert not any("_" in name for name in answer["statistics"])


def test_a_model_that_never_ends_is_stopped(ask: Ask, played: Stage):
    outcome = ask("make it", "--yes", "--max-rounds", "4", steps=(SEARCH, CALL, CALL, CALL, CALL))
    assert (outcome.code, outcome.output) == (1, "")
    assert "stopped after 4 requests" in outcome.errors
    assert len(played.requests) == 4


def test_a_long_result_is_cut_with_a_note_for_the_model(ask: Ask, played: Stage):
    ask("make it", "--yes", "--max-result", "10", steps=(SEARCH, CALL, Play("Short.")))
    assert played.requests[-1]["messages"][-1]["content"].startswith('{"name": "\n[cut: 38 more characters')


def test_the_answer_goes_on_after_the_server_of_a_tool_died(ask: Ask):
    outcome = ask("make it", "--yes", fault="call-dies", steps=(SEARCH, CALL, Play("It died.")))
    assert (outcome.code, outcome.output) == (0, "It died.\n")
    assert "✗ Error: Server 'one' failed to call" in outcome.errors


@pytest.mark.parametrize(
    ("arguments", "number"),
    [([], 1), (["--tool-search", "off"], 6), (["--tool-search", "auto"], 6), (["--show-found", "call-tool"], 2)],
)
def test_options_choose_the_tools_of_the_first_request(ask: Ask, played: Stage, arguments: list[str], number: int):
    ask("hello", *arguments, steps=(Play("Good day."),))
    assert len(played.requests[0]["tools"]) == number


def test_delegated_tools_are_there_in_the_first_request(ask: Ask, played: Stage):
    outcome = ask("make an alpha thing", "--delegate", "--yes", steps=(CALL_OF_ALPHA, Play("It is made.")))
    assert (outcome.code, outcome.output) == (0, "It is made.\n")
    assert "found before asking the model: one__make_alpha" in outcome.errors
    assert [tool["function"]["name"] for tool in played.requests[0]["tools"]][:2] == ["search_tools", "one__make_alpha"]


@pytest.mark.parametrize("place", ["nowhere", "extensions"])
def test_delegation_finds_tools_on_demand_where_the_configuration_does_not_say_so(ask: Ask, played: Stage, place: str):
    ask("make an alpha thing", "--delegate", place=place, discovery={}, steps=(Play("Good day."),))
    names = [tool["function"]["name"] for tool in played.requests[0]["tools"]]
    assert names[:2] == ["search_tools", "one__make_alpha"]


def test_delegation_and_listing_everything_exclude_each_other(ask: Ask, played: Stage):
    outcome = ask("hello", "--delegate", "--tool-search", "off")
    assert (outcome.code, played.requests) == (2, [])
    assert "use only one of them" in outcome.errors


@pytest.fixture
def models(
    played: Stage, capsys: pytest.CaptureFixture[str], monkeypatch: pytest.MonkeyPatch
) -> Callable[..., Outcome]:
    """Ask an endpoint, and no server, for its models."""

    def run(*arguments: str, names: Sequence[str] = ("small", "Great", "medium")) -> Outcome:
        for provider in ("OPENAI", "ANTHROPIC"):
            monkeypatch.setenv(f"{provider}_API_KEY", "secret")
            monkeypatch.setenv(f"{provider}_BASE_URL", played.url)
        played.models = names
        with pytest.raises(SystemExit) as ended:
            main(["chat", "--list-models", *arguments])
        shown = capsys.readouterr()
        return Outcome(int(ended.value.code or 0), shown.out, shown.err)

    return run


@pytest.mark.parametrize("provider", ["openai", "openai-responses", "anthropic"])
def test_the_models_of_an_endpoint_are_listed(models: Callable[..., Outcome], played: Stage, provider: str):
    outcome = models("--provider", provider)
    assert (outcome.code, outcome.output, outcome.errors) == (0, "Great\nmedium\nsmall\n", "")
    assert "secret" in str(played.headers[0])
    assert json.loads(models("--provider", provider, "--json").output) == {"models": ["Great", "medium", "small"]}


@pytest.mark.parametrize("provider", ["openai", "openai-responses", "anthropic"])
def test_an_address_of_a_web_page_is_reported_as_one_and_asked_once(
    ask: Ask, models: Callable[..., Outcome], played: Stage, provider: str
):
    played.is_a_web_page = True
    for outcome in (models("--provider", provider), ask("hello", "--provider", provider)):
        assert (outcome.code, outcome.output) == (1, "")
        assert "answered with a web page: --base-url must be the address of an API" in outcome.errors
    assert len(played.headers) == 2


def test_an_endpoint_without_a_list_of_models_is_reported(models: Callable[..., Outcome]):
    outcome = models(names=())
    assert (outcome.code, outcome.output) == (1, "")
    assert "there is nothing at this address (404)" in outcome.errors


def test_a_list_of_models_without_end_is_given_up(
    models: Callable[..., Outcome], played: Stage, monkeypatch: pytest.MonkeyPatch
):
    monkeypatch.setattr("tools_search_client.chat.models._LIST_SECONDS", 0.5)
    played.goes_in_circles = True
    outcome = models("--provider", "anthropic")
    assert (outcome.code, outcome.output) == (1, "")
    assert "the list of models did not end in time" in outcome.errors


def test_what_a_list_of_models_says_cannot_move_the_cursor(models: Callable[..., Outcome]):
    assert models(names=("\x1b[2Jevil\nname",)).output.count("\n") == 1


def test_a_conversation_needs_a_model(capsys: pytest.CaptureFixture[str]):
    with pytest.raises(SystemExit) as ended:
        main(["chat", "--url", "http://127.0.0.1:9/mcp", "hello"])
    assert ended.value.code == 2
    assert "choose a model" in capsys.readouterr().err


def test_empty_and_cut_answers_are_noted(ask: Ask):
    assert "the model's answer is empty" in ask("hello", steps=(Play(""),)).errors
    assert "the model stopped: length" in ask("hello", steps=(Play("Once upon", stop="length"),)).errors


@pytest.mark.parametrize(
    ("arguments", "said"),
    [
        (["--api-key-env", "NO_SUCH_KEY"], "NO_SUCH_KEY is not set"),
        (["--provider", "anthropic"], "ANTHROPIC_API_KEY is not set"),
        (["--base-url", "localhost:1"], "must begin with http"),
        (["--toolset", "nothing"], "no toolset is named 'nothing'"),
    ],
)
def test_wrong_usage_is_reported_before_anything_is_sent(ask: Ask, played: Stage, arguments: list[str], said: str):
    outcome = ask("hello", *arguments)
    assert (outcome.code, outcome.output) == (2, "")
    assert said in outcome.errors
    assert played.requests == []


def test_a_model_called_claude_is_one_of_anthropic(ask: Ask):
    assert "ANTHROPIC_API_KEY" in ask("hello", model="claude-of-tomorrow").errors


@pytest.mark.parametrize("name", ["openai", "anthropic"])
def test_a_missing_sdk_is_reported_with_the_extra_that_has_it(ask: Ask, monkeypatch: pytest.MonkeyPatch, name: str):
    monkeypatch.setitem(sys.modules, name, None)
    monkeypatch.setenv("ANTHROPIC_API_KEY", "secret")
    outcome = ask("hello", "--provider", name)
    assert outcome.code == 2
    assert f"'mcp-ext-tools-search[{name}]'" in outcome.errors


def test_an_unreachable_endpoint_is_reported(ask: Ask):
    outcome = ask("hello", "--base-url", "http://127.0.0.1:9/v1")
    assert (outcome.code, outcome.output) == (1, "")
    assert "cannot reach http://127.0.0.1:9/v1" in outcome.errors


def test_a_service_that_goes_on_failing_is_reported_in_the_end(ask: Ask, played: Stage):
    failing = Play(status=503, headers={"retry-after": "0"}, said="out of order")
    outcome = ask("hello", steps=(failing, failing, failing, Play("too late")))
    assert (outcome.code, len(played.requests)) == (1, 3)
    assert "Error: the provider failed (503): out of order" in outcome.errors


def test_a_question_can_come_through_a_pipe(played: Stage, liar: Any):
    played.steps = (Play("Good day."),)
    command = " ".join([liar().target.command, *liar().target.args])
    program = [sys.executable, "-m", "tools_search_client", "chat", "-m", "scripted", "--command", command]
    environment = {**os.environ, "OPENAI_API_KEY": "secret", "OPENAI_BASE_URL": played.url}
    done = subprocess.run(
        program, input="a question\n", capture_output=True, text=True, timeout=60, check=False, env=environment
    )
    assert (done.returncode, done.stdout) == (0, "Good day.\n")
    assert "a question" in json.dumps(played.requests[0])
    assert "\x1b" not in done.stderr
