"""No server is found wanting for doing what the draft permits."""

from __future__ import annotations

import json
from collections.abc import Callable, Sequence
from pathlib import Path
from typing import Final

import anyio
import pytest
from tools_search_conformance import catalogs
from tools_search_conformance.catalogs import document, made_tool
from tools_search_conformance.model import Run
from tools_search_conformance.report.verdict import exit_status, target_text
from tools_search_conformance.run.options import Options
from tools_search_conformance.target.judge import judge_server
from tools_search_conformance.wire.eras import ERAS, LEGACY, MODERN, Era

pytestmark = pytest.mark.anyio

Command = Callable[..., tuple[str, ...]]

SECONDS: Final = 300
"""For whole runs on a busy machine."""

VARIANTS: Final = (
    "all-terms-wanted",
    "busy-at-times",
    "everything-matches",
    "fewer-than-asked-for",
    "first-page-empty",
    "folds-coarser",
    "one-at-once",
    "one-tool-a-page",
    "parameters-first",
    "strict",
    "talkative",
    "without-legacy-output-schemas",
)


ON_THE_WIRE: Final = (
    "concurrent-searches", "http-content-type", "id-echoed", "limit-honored", "notification-unanswered", "valid-json",
    "pages-complete", "query-missing", "response-shape", "result-schema", "stdin-closed-exits", "stdout-messages-only",
)  # fmt: skip


@pytest.fixture
def brief(request: pytest.FixtureRequest) -> bool:
    """Whether a variant is judged in brief; with `--all-cells` it is judged in full."""
    return not request.config.getoption("--all-cells")


def require_green(run: Run, eras: Sequence[Era]) -> None:
    assert [(r.check, r.cell.name, r.message) for r in run.of("fail", "warn", "unverified", "error")] == []
    assert [cell.name for cell in run.cells] == [f"stdio-{era}" for era in eras]
    assert exit_status(run) == 0


@pytest.mark.parametrize("era", ERAS)
@pytest.mark.parametrize("variant", VARIANTS)
async def test_a_server_that_uses_its_freedom_is_green(
    variant: str, era: Era, brief: bool, target: Command, options: Callable[..., Options]
):
    # In full in one era, whose turn it is, and in brief in the other.
    turn = ERAS[VARIANTS.index(variant) % len(ERAS)]
    argv = target("miniature", "--variant", variant)
    with anyio.fail_after(SECONDS):
        run = await judge_server(options(argv=argv, era=era, brief=brief and era != turn))
    require_green(run, [era])


async def test_a_server_whose_order_varies_is_found_wanting_in_that_alone(
    target: Command, options: Callable[..., Options]
):
    with anyio.fail_after(SECONDS):
        run = await judge_server(options(argv=target("miniature", "--variant", "another-order-each-time"), era=MODERN))
    assert [(r.check, r.message) for r in run.of("fail", "unverified", "error")] == []
    assert {r.check.removeprefix("tools-search-server-") for r in run.of("warn")} == {"deterministic"}
    assert exit_status(run) == 0


async def test_a_second_page_that_comes_and_goes_is_no_fault_of_the_suite(
    target: Command, options: Callable[..., Options]
):
    with anyio.fail_after(SECONDS):
        once = target("miniature", "--variant", "second-page-once")
        for checks, effort in ((("error-data",), "default"), ((), "quick")):
            run = await judge_server(options(*checks, argv=once, effort=effort, era=MODERN))
            assert [(r.check, r.message) for r in run.of("error")] == []
    assert exit_status(run) == 1


@pytest.mark.parametrize(("variant", "era"), [("cursors-hold-once", MODERN), ("cursors-spent-for-good", LEGACY)])
async def test_a_server_whose_cursors_hold_once_does_not_follow_a_recommendation_and_breaks_no_rule(
    variant: str, era: Era, target: Command, options: Callable[..., Options]
):
    with anyio.fail_after(SECONDS):
        run = await judge_server(options(argv=target("miniature", "--variant", variant), era=era))
    assert [(r.check, r.cell.name, r.message) for r in run.of("fail", "error")] == []
    assert {r.check.removeprefix("tools-search-server-") for r in run.of("warn")} <= {"cursor-repeated"}
    if variant == "cursors-hold-once":
        assert [(r.check, r.cell.name, r.message) for r in run.of("unverified")] == []
        assert len(run.of("warn")) == len(run.cells) == 1


@pytest.mark.parametrize("era", ERAS)
async def test_a_cursor_that_expires_during_refused_searches_is_no_effect_of_them(
    era: Era, target: Command, options: Callable[..., Options]
):
    expire = target("miniature", "--variant", "cursors-expire")
    with anyio.fail_after(SECONDS):
        run = await judge_server(options("refusal-changes-nothing", argv=expire, era=era))
    assert [(r.status, r.message) for r in run.results] == [("pass", "")]


@pytest.mark.parametrize(
    ("variant", "checks"),
    [
        ("otherwise-on-the-wire", ON_THE_WIRE),
        ("few-at-once", ("busy-refusal", "concurrent-searches", "id-echoed")),
        ("one-at-once", ("busy-refusal", "concurrent-searches", "id-echoed")),
        ("nearest-few", ("no-match-count",)),
    ],
)
async def test_neither_is_one_that_uses_it_on_the_wire(
    variant: str, checks: tuple[str, ...], target: Command, options: Callable[..., Options]
):
    argv = target("miniature", "--variant", variant)
    chosen = options(*checks, argv=argv, http_argv=(*argv, "--http"))
    with anyio.fail_after(SECONDS):
        run = await judge_server(chosen)
    assert [(r.check, r.cell.name, r.message) for r in run.of("fail", "warn", "unverified", "error")] == []
    assert len(run.cells) == 4
    assert exit_status(run) == 0


@pytest.mark.parametrize(
    ("fault", "status"), [("none", "pass"), ("remainder-reported", "fail"), ("total-reported", "unverified")]
)
async def test_no_server_needs_queries_that_match_fewer_tools_than_all(
    fault: str, status: str, target: Command, options: Callable[..., Options], tmp_path: Path
):
    argv = target("miniature", "--variant", "everything-matches", "--fault", fault)
    variable = {"TOOLS_SEARCH_CATALOG": str(catalogs.write("core", tmp_path))}
    chosen = options("no-match-count", argv=argv, profile="live", env=variable, era=MODERN)
    with anyio.fail_after(SECONDS):
        run = await judge_server(chosen)
    assert [result.status for result in run.results] == [status]


async def test_a_number_that_stands_in_a_random_cursor_by_chance_reveals_nothing(
    target: Command, options: Callable[..., Options]
):
    argv, callers = target("miniature", "--fault", "number-in-cursors-by-chance", "--http"), frozenset({"callers"})
    chosen = options("unreadable-content-inert", http_argv=argv, era=MODERN, fixture_features=callers)
    with anyio.fail_after(SECONDS):
        run = await judge_server(chosen)
    assert [(r.status, r.message) for r in run.results] == [("pass", "")]


async def test_neither_is_one_whose_answers_vary_in_what_nobody_has_to_hide(
    target: Command, options: Callable[..., Options]
):
    argv = target("miniature", "--fault", "time-stated", "--http")
    chosen = options("unreadable-content-inert", http_argv=argv, era=MODERN, fixture_features=frozenset({"callers"}))
    with anyio.fail_after(SECONDS):
        run = await judge_server(chosen)
    assert [(r.status, r.message) for r in run.results] == [("pass", "")]


async def test_neither_is_one_that_finds_a_resource_that_is_not_listed_and_says_so(
    target: Command, options: Callable[..., Options]
):
    argv, reload = target("miniature", "--fault", "unlisted-found"), frozenset({"reload"})
    checks = "change-seen", "cursor-after-change", "concurrent-searches", "unlisted-readable"
    with anyio.fail_after(SECONDS):
        runs = [
            await judge_server(options(*checks, argv=argv, era=MODERN, fixture_features=reload)),
            await judge_server(options("any-sequence", argv=argv, era=MODERN, effort="deep")),
        ]
    assert [(r.check, r.message) for run in runs for r in run.results if r.status != "pass"] == []


async def test_a_name_may_find_a_single_tool_of_a_catalog_that_varies_by_caller(
    target: Command, options: Callable[..., Options]
):
    single = target("miniature", "--tools-alone", "--http", "--fault", "name-finds-one-tool")
    chosen = options("cursor-other-caller", http_argv=single, fixture_features=frozenset({"callers"}))
    with anyio.fail_after(SECONDS):
        run = await judge_server(chosen)
    assert [(r.status, r.message) for r in run.results] == [("pass", "")] * 2


async def test_a_server_behind_a_rate_limit_is_judged_like_one_without(
    target: Command, options: Callable[..., Options]
):
    fault = ("--fault", "limit-zero-served")
    limited = target("limited", "--every", "7", "--retry-after", "0", *fault)
    chosen = options(http_argv=limited, brief=True, era=MODERN)
    with anyio.fail_after(SECONDS):
        run = await judge_server(chosen)
    assert [(r.check, r.message) for r in run.of("warn", "unverified", "error")] == []
    assert {r.check.removeprefix("tools-search-server-") for r in run.of("fail")} == {"limit-invalid"}
    assert len(run.cells) == 1
    limit = run.target["servers"][0]["rateLimit"]
    assert limit["refused"] > 100
    waited = limit["secondsWaited"]  # requests side by side can make one of them be refused several times in turn
    refused = f"it refused {limit['refused']} requests with HTTP 429 or 503"
    assert f"({refused}, and the run waited {waited:g} s for it)" in target_text(run.target)


async def test_a_server_that_is_always_too_busy_is_told_so_and_found_wanting_in_nothing(
    target: Command, options: Callable[..., Options]
):
    chosen = options(argv=target("miniature", "--variant", "always-busy"), era=MODERN)
    with anyio.fail_after(SECONDS):
        run = await judge_server(chosen)
    assert [(r.check, r.message) for r in run.of("fail", "warn", "error")] == []
    busy = {r.check.removeprefix("tools-search-server-") for r in run.of("unverified") if "too busy" in r.message}
    assert {"busy-refusal", "exact-name-first", "limit-clamped", "no-match-empty", "query-blank"} <= busy
    assert exit_status(run) == 1


@pytest.mark.parametrize("variant", VARIANTS)
async def test_neither_is_one_with_a_single_tool(
    variant: str, brief: bool, target: Command, options: Callable[..., Options], tmp_path: Path
):
    variable = {"TOOLS_SEARCH_CATALOG": str(catalogs.write("single", tmp_path))}
    turn = ERAS[VARIANTS.index(variant) % len(ERAS)]
    argv = target("miniature", "--variant", variant)
    chosen = options(argv=argv, profile="live", env=variable, brief=brief, era=turn if brief else "auto")
    with anyio.fail_after(SECONDS):
        run = await judge_server(chosen)
    require_green(run, chosen.eras)


@pytest.mark.parametrize("era", ERAS)
async def test_an_empty_cursor_that_is_honored_is_followed(era: Era, target: Command, options: Callable[..., Options]):
    with anyio.fail_after(SECONDS):
        run = await judge_server(options(argv=target("miniature", "--variant", "cursor-empty"), era=era))
    assert [r.check for r in run.of("advice")] == ["tools-search-server-cursor-nonempty"]
    require_green(run, [era])


async def test_an_empty_cursor_that_is_refused_ends_no_search(
    target: Command, options: Callable[..., Options], tmp_path: Path
):
    variable = {"TOOLS_SEARCH_CATALOG": str(catalogs.write("single", tmp_path))}
    chosen = options(argv=target("miniature", "--fault", "last-cursor-empty"), profile="live", env=variable)
    with anyio.fail_after(SECONDS):
        run = await judge_server(chosen)
    assert [r.check for r in run.of("advice")] == ["tools-search-server-cursor-nonempty"] * 2
    assert [r.check for r in run.of("fail", "warn", "unverified", "error")] == ["tools-search-server-pages-end"] * 2
    assert exit_status(run) == 1


@pytest.mark.parametrize(
    "descriptions",
    [
        ("发送发票", "取消会议", "查询天气", "翻译文本"),
        ("发送 发票 给客户", "检索 发票", "天气 预报 今天 发票", "翻译 文本", "发送 邮件"),
        tuple(f"everything about topic{''.join(chr(97 + int(d)) for d in str(n // 3))}" for n in range(400)),
        tuple(f"{'x' * 3000} shows topic{word}" for word in ("alpha", "beta", "gamma", "delta", "epsilon")),
    ],
    ids=["no word in two tools", "two-character words", "words of many tools", "words longer than a query"],
)
async def test_a_server_with_tools_of_its_own_kind_is_judged_by_all_that_applies(
    descriptions: tuple[str, ...], target: Command, options: Callable[..., Options], tmp_path: Path
):
    schema = {"type": "object"}
    tools = [{"name": f"t{n}", "description": text, "inputSchema": schema} for n, text in enumerate(descriptions)]
    (tmp_path / "own.json").write_text(json.dumps({"tools": tools}), encoding="utf-8")
    variable = {"TOOLS_SEARCH_CATALOG": str(tmp_path / "own.json")}
    chosen = options(
        "all-terms-match", "pages-complete", "cursor-forged", argv=target("miniature"), profile="live", env=variable
    )
    with anyio.fail_after(SECONDS):
        run = await judge_server(chosen)
    assert [(r.status, r.message) for r in run.results if r.status != "pass"] == []


async def test_a_server_each_of_whose_terms_is_in_several_tools_is_judged(
    target: Command, options: Callable[..., Options], tmp_path: Path
):
    names = [f"{verb}_{noun}" for verb in ("create", "delete", "update") for noun in ("invoice", "order", "parcel")]
    tools = [made_tool(name, description="In a shop.") for name in names]
    (tmp_path / "own.json").write_text(json.dumps(document(tools)), encoding="utf-8")
    variable = {"TOOLS_SEARCH_CATALOG": str(tmp_path / "own.json")}
    own = options("all-terms-match", argv=target("miniature"), profile="live", env=variable, era=MODERN)
    with anyio.fail_after(SECONDS):
        run = await judge_server(own)
    assert {(r.status, r.message) for r in run.results} == {("pass", "")}


async def test_a_server_of_which_thousands_of_tools_match_is_not_told_that_it_loses_those_that_nobody_read(
    target: Command, options: Callable[..., Options], tmp_path: Path
):
    tools = [made_tool(f"thing{number}") for number in range(2700)]
    (tmp_path / "own.json").write_text(json.dumps(document(tools)), encoding="utf-8")
    variable = {"TOOLS_SEARCH_CATALOG": str(tmp_path / "own.json")}
    own = options(
        "pages-complete",
        argv=target("miniature"),
        profile="live",
        env=variable,
        era=MODERN,
        brief=True,
        timeout=SECONDS / 3,
    )
    with anyio.fail_after(SECONDS):
        run = await judge_server(own)
    assert [(r.status, r.message) for r in run.results if r.status != "pass"] == []
