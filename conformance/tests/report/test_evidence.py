"""No verdict is a good one where an era is broken, or where too little was seen."""

from __future__ import annotations

from collections.abc import Callable
from pathlib import Path
from typing import Final
from unittest.mock import ANY

import anyio
import pytest
from tools_search_conformance import catalogs
from tools_search_conformance.model import Run
from tools_search_conformance.report.verdict import exit_status, verdict_of
from tools_search_conformance.run.options import Options
from tools_search_conformance.target.judge import judge_server
from tools_search_conformance.wire.eras import ERAS, LEGACY, MODERN
from tools_search_conformance.wire.process import TargetError

pytestmark = pytest.mark.anyio

Build = Callable[..., Options]
Command = Callable[..., tuple[str, ...]]

SOON: Final = {"timeout": 1, "start_timeout": 10}


async def judge(options: Options) -> Run:
    with anyio.fail_after(120):
        return await judge_server(options)


@pytest.mark.rotating
@pytest.mark.parametrize("era", ERAS)
@pytest.mark.parametrize("kind", ["silent", "crashing", "breaking", "list-breaking", "list-empty"])
async def test_an_era_that_is_broken_leaves_no_verdict(kind: str, era: str, options: Build, target: Command):
    run = await judge(options("query-type", "limit-invalid", argv=target("dodgers", kind, era), **SOON))
    [missing] = run.unavailable
    assert (missing.cell.era, missing.expected) == (era, True)
    assert exit_status(run) == 3
    assert verdict_of(run)["word"] == "NO VERDICT"
    assert f"): stdio-{era} could not be run" in verdict_of(run)["sentence"]
    (other,) = (each for each in ERAS if each != era)
    assert f"--era {other}" in " ".join(verdict_of(run)["next"])


@pytest.mark.parametrize("era", ERAS)
async def test_an_era_that_is_refused_is_not_judged(era: str, options: Build, target: Command):
    run = await judge(options("query-type", argv=target("dodgers", "refusing", era)))
    [missing] = run.unavailable
    # A server that names an era in `supportedVersions` promises it.
    assert (missing.cell.era, missing.expected) == (era, era == LEGACY)
    assert [cell.era for cell in run.cells] == [MODERN if era == LEGACY else LEGACY]


@pytest.mark.rotating
@pytest.mark.parametrize("kind", ["results", "null"])
@pytest.mark.parametrize("profile", ["live", "fixture"])
async def test_a_result_that_is_no_page_fails_in_every_profile(
    kind: str, profile: str, options: Build, target: Command, tmp_path: Path
):
    variable = {"TOOLS_SEARCH_CATALOG": str(catalogs.write("core", tmp_path))}
    run = await judge(options(argv=target("dodgers", kind), profile=profile, env=variable, era=MODERN, brief=True))
    assert "tools-search-server-result-schema" in {result.check for result in run.of("fail")}
    assert exit_status(run) == 1


@pytest.mark.rotating
@pytest.mark.parametrize("era", ERAS)
@pytest.mark.parametrize("kind", ["one-match", "names-alone"])
async def test_a_server_that_shows_little_is_not_called_conformant(
    kind: str, era: str, options: Build, target: Command, tmp_path: Path
):
    variable = {"TOOLS_SEARCH_CATALOG": str(catalogs.write("core", tmp_path))}
    run = await judge(options(argv=target("dodgers", kind), profile="live", env=variable, era=era, brief=True))
    assert run.of("fail", "error") == []
    assert exit_status(run) == 3
    assert verdict_of(run)["word"] == "INCONCLUSIVE"
    assert "too many MUST checks could not be verified (" in verdict_of(run)["sentence"]
    assert "Give the server tools" in verdict_of(run)["next"][-1]


@pytest.mark.parametrize("profile", ["live", "fixture"])
async def test_a_server_behind_a_rate_limit_that_lasts_is_judged_by_no_verdict(
    profile: str, options: Build, target: Command, tmp_path: Path
):
    variable = {"TOOLS_SEARCH_CATALOG": str(catalogs.write("core", tmp_path))}
    limited = target("limited", "--after", "150", "--retry-after", "3600")
    run = await judge(options(http_argv=limited, profile=profile, env=variable, era=MODERN, brief=True))
    assert run.of("fail", "error") == []
    assert (verdict_of(run)["word"], exit_status(run)) == ("INCONCLUSIVE", 3)
    reason = "HTTP 429 instead of a response, which asks to wait for 3600 s; lift the rate limit for this run"
    assert reason in verdict_of(run)["next"][0]
    assert run.target["servers"][0]["rateLimit"] == {"refused": ANY, "secondsWaited": 0, "lasting": True}


async def test_a_server_without_tools_is_not_judged(options: Build, target: Command, tmp_path: Path):
    catalogs.place("none", catalogs.document([]), tmp_path)
    variable = {"TOOLS_SEARCH_CATALOG": str(tmp_path / "none.json")}
    with pytest.raises(TargetError, match="its list of tools is empty"):
        await judge(options(argv=target("miniature"), profile="live", env=variable))


async def test_a_legacy_server_gets_an_answer_to_its_ping(options: Build, target: Command):
    run = await judge(options("query-type", argv=target("dodgers", "pinging"), era=LEGACY))
    assert [result.status for result in run.results] == ["pass"]


@pytest.mark.rotating
@pytest.mark.parametrize("kind", ["prefixing", "sometimes-empty"])
async def test_what_a_server_does_wrong_is_no_fault_of_the_suite(kind: str, options: Build, target: Command):
    run = await judge(options(argv=target("dodgers", kind), era=MODERN))
    assert run.of("error") == []
    assert exit_status(run) == 1
