"""A conversation in a real terminal, with real servers, and each provider's own SDK at a scripted endpoint."""

from __future__ import annotations

import json
import re
from collections.abc import Iterator
from dataclasses import dataclass
from pathlib import Path
from time import monotonic
from typing import Any

import pytest

from .streaming import Play, Stage, stage
from .terminal import Terminal

SEARCH = {"openai": "search_tools", "anthropic": "search_tools", "openai-responses": "tool_search"}
"""What each provider's model calls the search by."""

CHAT = ["-m", "tools_search_client", "chat", "-m", "scripted", "--config"]
MANY = [f"make_{number}" for number in range(150)]
"""Tools of the server `stuck`, more than a provider takes at once."""
LONG = "This is a long answer of many words. " * 8


@dataclass
class Session:
    """One running chat; each test begins another conversation in it."""

    provider: str
    stage: Stage
    terminal: Terminal
    asked: Any
    """The server `good`, as `liar` makes it."""
    hangs: Any
    """The server `stuck`, whose tools never answer."""

    def plays(self, *steps: Play) -> None:
        """Begin another conversation, in which the model says this."""
        self.stage.steps = steps
        self.stage.requests.clear()
        self.say("/reset")
        self.terminal.until_prompt()

    def say(self, line: str) -> None:
        self.terminal.enter(line)

    def turn(self, line: str) -> str:
        """Say something and return everything that is shown until the next prompt."""
        self.say(line)
        return self.terminal.until_prompt()

    def finds(self, name: str) -> Play:
        return Play(calls=[(SEARCH[self.provider], {"tool_names": [name]})])

    def sent(self) -> str:
        """Return the last request, as JSON; the endpoint has found nothing wrong with any."""
        assert self.stage.faults == []
        return json.dumps(self.stage.requests[-1], ensure_ascii=False)


@pytest.fixture(scope="module", params=list(SEARCH))
def running(
    request: pytest.FixtureRequest, tmp_path_factory: pytest.TempPathFactory, liar_process: Any
) -> Iterator[Session]:
    folder = tmp_path_factory.mktemp("chat")
    asked = liar_process(folder / "asked.log", ("--fault", "call-dressed-up"))
    hangs = liar_process(folder / "hangs.log", ("--fault", "call-hangs", "--more", str(len(MANY))))
    servers = {"good": asked.as_configured(), "stuck": hangs.as_configured()}
    configuration = {"mcpServers": servers, "tool_discovery": {"enabled": True, "defer_all": True}}
    (folder / "mcp.json").write_text(json.dumps(configuration))
    with stage() as played:
        url = played.url.removesuffix("/v1") if request.param == "anthropic" else played.url
        terminal = Terminal(
            [
                *CHAT,
                str(folder / "mcp.json"),
                "--provider",
                request.param,
                "--base-url",
                url,
                "--api-key-env",
                "CHAT_KEY",
                "--max-rounds",
                "60",
            ],
            {"CHAT_KEY": "secret"},
        )
        try:
            terminal.until_prompt()
            yield Session(request.param, played, terminal, asked, hangs)
            terminal.type("\x04")  # Ctrl-D leaves at any time
            assert terminal.until_end()[0] == 0
        finally:
            terminal.close()


@pytest.fixture
def session(running: Session) -> Session:
    running.terminal.resize(100)
    return running


@pytest.mark.rotating
def test_a_tool_is_searched_asked_about_called_and_its_result_answered(session: Session):
    call = Play("I call it.", [("good__make_alpha", {"size": 3})])
    session.plays(Play("I look.", session.finds("good__make_alpha").calls), call, Play("It is made."))
    session.say("make an alpha thing")
    asked = session.terminal.until_prompt()
    assert "[a]lways this tool:" in asked
    assert "I look." in asked
    assert "→ good__make_alpha\n" in asked
    assert '→ good__make_alpha {"size": 3}' in asked
    assert "Make a alpha thing" in asked
    answered = session.turn("y")
    assert "made of it" in answered
    assert "It is made." in answered
    assert "made of it" in session.sent()
    assert len(session.stage.requests) == 3


def test_control_characters_of_servers_do_not_reach_the_terminal(session: Session):
    session.plays(
        session.finds("make_alpha"), Play("", [("good__make_alpha", {})]), Play("Seen: \x1b]0;owned\x07\u202e.")
    )
    session.say("make it")
    session.terminal.until_prompt()
    session.turn("yes")
    assert "]0;owned" in session.terminal.raw
    assert "\x1b]0;" not in session.terminal.raw
    assert "\x07" not in session.terminal.raw
    assert "\u202e" not in session.terminal.raw


def test_a_refused_call_is_not_made_and_the_model_learns_of_it(session: Session):
    session.plays(session.finds("good__make_beta"), Play("", [("good__make_beta", {})]), Play("As you like."))
    session.say("make a beta thing")
    session.terminal.until_prompt()
    before = session.asked.asked("tools/call")
    assert "As you like." in session.turn("n")
    assert session.asked.asked("tools/call") == before
    assert "The user does not allow this call." in session.sent()


def test_a_call_is_asked_about_with_its_whole_name_however_narrow_the_terminal_is(session: Session):
    call = Play("", [("good__make_alpha", {"size": 3})])
    session.plays(session.finds("good__make_alpha"), call, Play("As you like."))
    session.terminal.resize(18)
    session.say("make it")
    asked = session.terminal.until_prompt()
    assert 'The call: good__make_alpha {"size": 3}' in " ".join(asked.split())
    session.turn("n")


def test_text_typed_before_a_question_does_not_answer_it(session: Session):
    session.plays(session.finds("good__make_beta"), Play("", [("good__make_beta", {})]), Play("As you like."))
    before = session.asked.asked("tools/call")
    session.terminal.type("make a beta thing\ry\r")
    assert "Call it?" in session.terminal.until_prompt()
    assert "As you like." in session.turn("n")
    assert session.asked.asked("tools/call") == before


def test_a_tool_that_is_always_allowed_is_not_asked_about_again(session: Session):
    call = Play("", [("good__make_gamma", {})])
    session.plays(session.finds("good__make_gamma"), call, call, Play("Both are made."), call, Play("Another one."))
    session.say("make two")
    session.terminal.until_prompt()
    assert "Both are made." in session.turn("a")
    again = session.turn("one more")
    assert "Another one." in again
    assert "Call it?" not in again


def test_what_the_user_always_allowed_is_asked_about_again_once_its_server_changed_it(tmp_path: Path, liar: Any):
    """Of a tool that nobody agreed to, nothing is said, however often its server changes it."""
    configuration = {"mcpServers": {"one": liar("list-shifts", place="nowhere").as_configured()}}
    (tmp_path / "mcp.json").write_text(json.dumps(configuration))
    told = "one__make_alpha was changed by its server, so you will be asked again"
    call = Play("", [("one__make_alpha", {})])
    with stage() as played:
        played.steps = (
            Play("Hello."),
            Play("Hello again."),
            call,
            Play("Made."),
            call,
            Play("Not made."),
            Play("Bye."),
        )
        terminal = Terminal(
            [*CHAT, str(tmp_path / "mcp.json"), "--base-url", played.url, "--api-key-env", "CHAT_KEY"],
            {"CHAT_KEY": "secret"},
        )
        try:
            shown = [terminal.until_prompt()]
            for line in ("hello", "hello", "make it", "a", "once more", "n", "bye"):
                terminal.enter(line)
                shown.append(terminal.until_prompt())
        finally:
            terminal.close()
    assert [told in part for part in shown] == [False, False, False, False, False, True, False, False]
    assert "Call it?" in shown[5]
    assert "Not made." in shown[6]


def test_ctrl_c_while_it_streams_keeps_the_conversation(session: Session):
    session.plays(Play(LONG, ending="hangs"), Play("Here I am."))
    session.say("tell me everything")
    assert session.stage.hanging.acquire(timeout=30)
    session.terminal.until("This is a long")
    session.terminal.interrupt()
    assert "the conversation continues" in session.terminal.until_prompt()
    assert session.stage.left.acquire(timeout=30)
    assert "Here I am." in session.turn("are you there?")
    assert "This is a long answer" in session.sent()
    assert "The user interrupted this answer." in session.sent()


def test_ctrl_c_while_a_tool_hangs_keeps_the_conversation(session: Session):
    calls: list[tuple[str, Any]] = [("stuck__make_alpha", {}), ("stuck__make_beta", {})]
    session.plays(
        session.finds("stuck__make_alpha"), session.finds("stuck__make_beta"), Play("", calls), Play("All right.")
    )
    session.say("make it")
    session.terminal.until_prompt()
    before = len(session.hangs.asked("tools/call"))
    session.say("a")
    session.terminal.until("calling")
    end = monotonic() + 30
    while len(session.hangs.asked("tools/call")) == before:
        assert monotonic() < end
    session.terminal.interrupt()
    assert "the conversation continues" in session.terminal.until_prompt()
    assert "All right." in session.turn("never mind")
    assert session.sent().count("The user interrupted this call") == 2


def test_ctrl_c_at_a_question_calls_nothing_and_keeps_the_conversation(session: Session):
    counted = re.findall(r"\d+ calls?", session.turn("/stats"))
    session.plays(session.finds("good__make_delta"), Play("", [("good__make_delta", {})]), Play("Fine."))
    session.say("make it")
    session.terminal.until_prompt()
    before = session.asked.asked("tools/call")
    session.terminal.interrupt()
    assert "the conversation continues" in session.terminal.until_prompt()
    assert "Fine." in session.turn("leave it")
    assert session.asked.asked("tools/call") == before
    assert "The user interrupted this call" in session.sent()
    assert re.findall(r"\d+ calls?", session.turn("/stats")) == counted


@pytest.mark.parametrize(
    ("failure", "told"),
    [
        (Play(status=401, said="bad key"), "the provider did not accept the key in CHAT_KEY (401): bad key"),
        (Play(status=404, said="no such model"), "there is no model 'scripted'"),
        (Play(status=400, said="the context length is exceeded"), "too long for the model"),
        (Play(LONG, ending="breaks-off"), "broke off"),
        (Play(LONG, ending="nonsense"), "not in this provider's format"),
    ],
    ids=["key", "model", "context", "broken-off", "nonsense"],
)
def test_a_failed_turn_is_reported_in_one_line_and_can_be_retried(session: Session, failure: Play, told: str):
    session.plays(failure, Play("Now it works."))
    failed = session.turn("hello")
    assert told in failed
    assert "/retry" in failed
    assert "Traceback" not in failed
    assert "Now it works." in session.turn("/retry")
    assert session.sent().count("hello") == 1


@pytest.mark.parametrize("running", ["openai"], indirect=True)  # compatible services seldom have the other APIs
def test_an_answer_of_a_service_that_does_not_stream_is_shown_whole(session: Session):
    call = Play("I call it.", [("good__make_alpha", {"size": 3})], is_streamed=False)
    session.plays(session.finds("good__make_alpha"), call, Play("It is made.", is_streamed=False))
    session.say("make an alpha thing")
    assert "I call it." in session.terminal.until_prompt()
    assert "It is made." in session.turn("y")
    assert "made of it" in session.sent()


def test_another_text_takes_the_place_of_one_that_failed(session: Session):
    session.plays(Play(status=401), Play("Good."))
    session.turn("the first text")
    assert "Good." in session.turn("the second text")
    assert "the first text" not in session.sent()


@pytest.mark.parametrize(
    ("stated", "seconds"), [("0", 0), ("Wed, 21 Oct 2015 07:28:00 GMT", 0), ("Wed, 21 Oct 9999 07:28:61 GMT", 1)]
)
def test_too_many_requests_are_sent_again_after_the_time_that_is_asked_for(session: Session, stated: str, seconds: int):
    session.plays(Play(status=429, headers={"retry-after": stated}, said="slow down"), Play("Now."))
    answered = session.turn("hello")
    assert f"too many requests (429): slow down; trying again in {seconds} s" in answered
    assert "Now." in answered


def test_lines_about_calls_fit_a_narrow_terminal(session: Session):
    session.terminal.resize(30)
    session.plays(
        session.finds("good__make_zeta"), Play("", [("good__make_zeta", {"text": "word " * 9})]), Play("Done.")
    )
    session.say("make it")
    asked = session.terminal.until_prompt()
    answered = session.turn("y")
    lines = [line for line in (asked + answered).splitlines() if line.startswith(("→", "←", "?"))]
    assert len(lines) == 3
    assert all(len(line) <= 30 for line in lines)
    assert "word " * 9 in asked.replace("\n", "")  # the user who is asked sees all of it


def test_words_that_begin_with_a_slash_are_for_the_program(session: Session):
    session.plays(session.finds("good__make_alpha"), Play("Found."))
    session.turn("find it")
    assert "good__make_alpha: Make a alpha thing" in session.turn("/tools")
    assert "2026-07-28" in session.turn("/servers")
    assert "% saved" in session.turn("/stats")
    assert "/undo" in session.turn("/help")
    assert "unknown command /nonsense" in session.turn("/nonsense")
    assert "nothing to retry" in session.turn("/retry")
    session.turn("/undo")
    session.turn("hello")
    assert "find it" not in session.sent()


def test_a_model_that_loads_more_tools_than_the_provider_takes_goes_on_and_reset_empties_what_it_found(
    session: Session,
):
    searches = [
        Play(calls=[(SEARCH[session.provider], {"tool_names": MANY[at : at + 5]})]) for at in range(0, len(MANY), 5)
    ]
    session.plays(*searches, Play("All loaded."))
    assert "All loaded." in session.turn("load them all")
    sent = session.sent()
    assert MANY[-1] in sent
    assert f'"stuck__{MANY[1]}"' in sent
    session.plays(Play("Still here."))
    assert "Still here." in session.turn("hello")
    sent = session.sent()
    assert [name for name in MANY if f'"stuck__{name}"' in sent] == []


@pytest.mark.rotating
def test_ctrl_c_twice_leaves_and_shows_the_savings(tmp_path: Path, liar: Any):
    (tmp_path / "mcp.json").write_text(json.dumps({"mcpServers": {"one": liar().as_configured()}}))
    nowhere = {"OPENAI_API_KEY": "secret", "OPENAI_BASE_URL": "http://127.0.0.1:9/v1"}
    terminal = Terminal([*CHAT, str(tmp_path / "mcp.json")], nowhere)
    try:
        terminal.until_prompt()
        terminal.type("a line that is thrown away")
        terminal.interrupt()
        terminal.until_prompt()
        terminal.interrupt()
        assert "Ctrl-C again" in terminal.until_prompt()
        terminal.interrupt()
        code, shown = terminal.until_end()
    finally:
        terminal.close()
    assert code == 0
    assert "0 requests" in shown
