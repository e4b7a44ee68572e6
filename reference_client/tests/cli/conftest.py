"""The command line in this process, and servers to run it with."""

from __future__ import annotations

import json
import shlex
from collections.abc import Awaitable, Callable
from pathlib import Path
from typing import Any

import pytest
from tools_search_client.__main__ import main
from tools_search_hosts import HttpTarget, StdioTarget

Write = Callable[[dict[str, object]], Path]
Until = Callable[[Callable[[], bool]], Awaitable[None]]
Run = Callable[..., "Outcome"]


class Outcome:
    """What a run of the command left: its exit code and both streams."""

    def __init__(self, code: int, output: str, errors: str) -> None:
        self.code, self.output, self.errors = code, output, errors

    @property
    def json(self) -> Any:
        return json.loads(self.output)


@pytest.fixture(autouse=True)
def own_cache(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """Keep the names of tools, which completion offers, out of the user's cache."""
    monkeypatch.setenv("XDG_CACHE_HOME", str(tmp_path / "cache"))


@pytest.fixture
def run(capsys: pytest.CaptureFixture[str]) -> Run:
    """Run the command in this process."""

    def run_main(*arguments: str) -> Outcome:
        with pytest.raises(SystemExit) as ended:
            main([str(argument) for argument in arguments])
        captured = capsys.readouterr()
        code = ended.value.code
        return Outcome(code if isinstance(code, int) else 0, captured.out, captured.err)

    return run_main


@pytest.fixture
def config(liar: Any, plain_server: HttpTarget, write_configuration: Write) -> Path:
    """Three servers: one that searches, one that is listed, one that cannot be started."""
    plain = {"url": plain_server.url}
    return write_configuration({"one": liar().as_configured(), "plain": plain, "gone": {"command": "/nowhere/program"}})


def command_line(target: StdioTarget) -> str:
    return shlex.join([target.command, *target.args])
