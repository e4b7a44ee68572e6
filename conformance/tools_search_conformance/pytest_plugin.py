"""The suite as fixtures for the tests of a Python project.

In a `conftest.py`: `pytest_plugins = ["tools_search_conformance.pytest_plugin"]`. In a test:

    def test_my_server_conforms(judge_tools_search):
        judge_tools_search(sys.executable, "-m", "my_server", fixture_features=["reload"])

    def test_my_client_conforms(judge_tools_search_client):
        judge_tools_search_client(sys.executable, "my_driver.py")
"""

from __future__ import annotations

from collections.abc import Awaitable, Callable, Iterable, Sequence
from pathlib import Path
from typing import Any, Protocol

import anyio
import pytest

from tools_search_conformance.checks import select
from tools_search_conformance.clients.checks import client_checks, select_client_checks
from tools_search_conformance.clients.judge import ClientOptions, judge_client
from tools_search_conformance.model import Run
from tools_search_conformance.report.document import report
from tools_search_conformance.report.summary import summary
from tools_search_conformance.report.verdict import exit_status
from tools_search_conformance.run.baseline import Baseline, read_baseline
from tools_search_conformance.run.invocation import Options, features_named, judge_servers
from tools_search_conformance.run.runner import say_nothing

__all__ = ["ClientJudge", "Judge", "judge_tools_search", "judge_tools_search_client"]


class Judge(Protocol):
    """Judges a server and fails the test that asked, unless it conforms."""

    def __call__(
        self,
        *argv: str,
        only: Sequence[str] = (),
        fixture_features: Iterable[str] = (),
        baseline: Path | None = None,
        seed: int = 0,
        **options: Any,
    ) -> Run:
        """Return the run of a server that conforms.

        Args:
            argv: Command of a server on stdio; instead of it, or beside it, `http_argv` or `url`.
            only: Checks to run, by id or glob; all of them if none is named.
            fixture_features: What the fixture can do beyond serving a catalog.
            baseline: File of what is known not to pass.
            seed: Of the generated cases; the same one unless it is given, so that a test does not change by itself.
            options: Of `tools_search_conformance.run.invocation.Options`, such as `profile`, `era`, `effort`, `strict`,
                `env`.

        Raises:
            TargetError: The server cannot be started or spoken to, or has nothing to judge.
            UnknownCheckError, BaselineError, ValueError: `only`, `baseline` or `fixture_features` names what does not
                exist.
        """
        ...


class ClientJudge(Protocol):
    """Judges a client and fails the test that asked, unless it conforms."""

    def __call__(self, *argv: str, only: Sequence[str] = (), baseline: Path | None = None, **options: Any) -> Run:
        """Return the run of a client that conforms.

        Args:
            argv: Command of its driver, which conformance/DRIVER.md describes.
            only: Checks to run, by id or glob; all of them if none is named.
            baseline: File of what is known not to pass.
            options: Of `tools_search_conformance.clients.judge.ClientOptions`, such as `era`, `transport`, `strict`,
                `env`.

        Raises:
            TargetError: The driver cannot be started or is not to be trusted, or the client has nothing to judge.
            UnknownCheckError, BaselineError: `only` or `baseline` names what does not exist.
        """
        ...


@pytest.fixture
def judge_tools_search(tmp_path: Path) -> Judge:
    """Return what judges a server; the reports are in a folder below `tmp_path`."""

    def judge(
        *argv: str,
        only: Sequence[str] = (),
        fixture_features: Iterable[str] = (),
        baseline: Path | None = None,
        seed: int = 0,
        **options: Any,
    ) -> Run:
        chosen = Options(
            argv=argv,
            checks=select(only),
            fixture_features=features_named(fixture_features),
            baseline=read_baseline(baseline) if baseline else Baseline(),
            seed=seed,
            out=tmp_path / "tools-search-conformance",
            **options,
        )
        return _conformant(lambda: judge_servers(chosen, say_nothing), chosen.out)

    return judge


@pytest.fixture
def judge_tools_search_client(tmp_path: Path) -> ClientJudge:
    """Return what judges a client; the reports are in a folder below `tmp_path`."""

    def judge(*argv: str, only: Sequence[str] = (), baseline: Path | None = None, **options: Any) -> Run:
        chosen = ClientOptions(
            argv=argv,
            checks=select_client_checks(only),
            baseline=read_baseline(baseline, client_checks()) if baseline else Baseline(),
            out=tmp_path / "tools-search-conformance-client",
            **options,
        )
        return _conformant(lambda: judge_client(chosen, say_nothing), chosen.out)

    return judge


def _conformant(judge: Callable[[], Awaitable[Run]], out: Path) -> Run:
    run = anyio.run(judge)
    if run.interrupted is not None:
        raise KeyboardInterrupt
    if exit_status(run):
        pytest.fail(f"{summary(report(run, out))}\nevery check: {out / 'report.html'}", pytrace=False)
    return run
