"""The suite as pytest fixtures for Python projects.

In a `conftest.py`: `pytest_plugins = ["tools_search_conformance.pytest_plugin"]`. In a test:

    def test_my_server_conforms(judge_tools_search):
        judge_tools_search(sys.executable, "-m", "my_server", fixture_features=["reload"])

    def test_my_client_conforms(judge_tools_search_client):
        judge_tools_search_client(sys.executable, "my_driver.py")
"""

from __future__ import annotations

from collections.abc import Awaitable, Callable, Iterable, Sequence
from pathlib import Path
from typing import Any

import anyio
import pytest

from tools_search_conformance.checks import SERVER_CHECKS
from tools_search_conformance.clients.checks import CLIENT_CHECKS
from tools_search_conformance.clients.judge import judge_client
from tools_search_conformance.model import Run
from tools_search_conformance.report.document import report
from tools_search_conformance.report.pages import summary
from tools_search_conformance.report.verdict import exit_status
from tools_search_conformance.run.baseline import read_baseline
from tools_search_conformance.run.options import Options, features_named
from tools_search_conformance.run.registry import Registry
from tools_search_conformance.target.judge import judge_server
from tools_search_conformance.wire.display import plain
from tools_search_conformance.wire.process import TargetError

__all__ = ["Judge", "judge_tools_search", "judge_tools_search_client"]


class Judge:
    """Tests a server or a client, and fails the calling test unless it conforms."""

    def __init__(self, registry: Registry[Any], judge: Callable[[Options], Awaitable[Run]], out: Path) -> None:
        self._registry = registry
        self._judge = judge
        self._out = out

    def __call__(
        self,
        *argv: str,
        only: Sequence[str] = (),
        fixture_features: Iterable[str] = (),
        baseline: Path | None = None,
        seed: int = 0,
        **options: Any,
    ) -> Run:
        """Test a server or client, and return the run if it conforms.

        Args:
            argv: Command of a server on stdio, or of a client's driver (see conformance/DRIVER.md). For servers, you
                can also, or instead, pass the options `http_argv` or `url`.
            only: Checks to run, by id or glob. All by default.
            fixture_features: Features of a server's fixture beyond serving a catalog.
            baseline: File of checks known not to pass.
            seed: Seed of the generated cases. By default always the same, so that tests are reproducible.
            options: Other members of `tools_search_conformance.run.options.Options`, such as `profile`, `era`,
                `effort`, `transport`, `strict`, `env`.

        The test fails with one sentence if the suite cannot start or connect to the target, or if there is nothing to
        test.

        Raises:
            UnknownCheckError, BaselineError, ValueError: `only`, `baseline` or `fixture_features` has an unknown name.
        """
        chosen = Options(
            argv=argv,
            selection=self._registry.select(only),
            fixture_features=features_named(fixture_features),
            baseline=read_baseline(baseline, self._registry.all) if baseline else (),
            seed=seed,
            out=self._out,
            **options,
        )
        missing, run = "", None
        try:
            run = anyio.run(self._judge, chosen)
        except TargetError as error:
            missing = plain(str(error))
        if run is None:  # outside the handler, or pytest would show the exception as well
            pytest.fail(missing, pytrace=False)
        if run.interrupted is not None:
            raise KeyboardInterrupt
        if exit_status(run):
            out = self._out
            pytest.fail(f"{summary(report(run, out))}\nall checks: {out / 'report.html'}", pytrace=False)
        return run


@pytest.fixture
def judge_tools_search(tmp_path: Path) -> Judge:
    """Return a callable that tests a server. The reports are in a folder under `tmp_path`."""
    return Judge(SERVER_CHECKS, judge_server, tmp_path / "tools-search-conformance")


@pytest.fixture
def judge_tools_search_client(tmp_path: Path) -> Judge:
    """Return a callable that tests a client. The reports are in a folder under `tmp_path`."""
    return Judge(CLIENT_CHECKS, judge_client, tmp_path / "tools-search-conformance-client")
