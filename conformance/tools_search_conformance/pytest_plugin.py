"""The suite as a fixture for the tests of a Python project.

In a `conftest.py`: `pytest_plugins = ["tools_search_conformance.pytest_plugin"]`. In a test:

    def test_my_server_conforms(judge_tools_search):
        judge_tools_search(sys.executable, "-m", "my_server", fixture_features=["reload"])
"""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from pathlib import Path
from typing import Any, Protocol

import anyio
import pytest

from tools_search_conformance.baseline import Baseline, read_baseline
from tools_search_conformance.checks import select
from tools_search_conformance.invocation import Options, features_named, judge_servers
from tools_search_conformance.model import Run
from tools_search_conformance.report.document import report
from tools_search_conformance.report.summary import summary
from tools_search_conformance.report.verdict import exit_status
from tools_search_conformance.runner import say_nothing

__all__ = ["Judge", "judge_tools_search"]


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
            fixture_features: What the fixture can do beyond serving a catalogue.
            baseline: File of what is known not to pass.
            seed: Of the generated cases; the same one unless it is given, so that a test does not change by itself.
            options: Of `tools_search_conformance.invocation.Options`, such as `profile`, `era`, `effort`, `env`.

        Raises:
            TargetError: The server cannot be started or spoken to, or has nothing to judge.
            UnknownCheckError, BaselineError, ValueError: `only`, `baseline` or `fixture_features` names what does not
                exist.
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
        run = anyio.run(judge_servers, chosen, say_nothing)
        if run.interrupted is not None:
            raise KeyboardInterrupt
        if exit_status(run):
            pytest.fail(f"{summary(report(run))}\nevery check: {chosen.out / 'report.html'}", pytrace=False)
        return run

    return judge
