"""No server is found wanting for doing what the draft permits."""

from __future__ import annotations

from collections.abc import Awaitable, Callable, Sequence
from pathlib import Path
from typing import Final

import pytest
from tools_search_conformance import catalogs
from tools_search_conformance.catalogs import WORDS, document, made_tool, place
from tools_search_conformance.model import Run
from tools_search_conformance.report.verdict import exit_status, target_text
from tools_search_conformance.wire.codec import JsonObject
from tools_search_conformance.wire.eras import ERAS, LEGACY, MODERN, Era

pytestmark = pytest.mark.anyio

Command = Callable[..., tuple[str, ...]]
Judge = Callable[..., Awaitable[Run]]

VARIANTS: Final = (
    "all-terms-wanted",
    "busy-at-times",
    "everything-matches",
    "fewer-than-asked-for",
    "first-page-empty",
    "folds-coarser",
    "one-at-once",
    "one-tool-a-page",
    "pages-empty-in-between",
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


def serving(tools: Sequence[JsonObject], folder: Path, **more: Sequence[JsonObject]) -> dict[str, str]:
    """Return the variable by which a server has these tools, and `more` lists."""
    place("own", document(tools, **more), folder)
    return {"TOOLS_SEARCH_CATALOG": str(folder / "own.json")}


@pytest.mark.rotating
@pytest.mark.parametrize("era", ERAS)
@pytest.mark.parametrize("variant", VARIANTS)
async def test_a_server_that_uses_its_freedom_is_green(
    variant: str, era: Era, brief: bool, target: Command, judge: Judge
):
    # In full in one era, whose turn it is, and in brief in the other.
    turn = ERAS[VARIANTS.index(variant) % len(ERAS)]
    argv = target("miniature", "--variant", variant)
    run = await judge(argv=argv, era=era, brief=brief and era != turn)
    require_green(run, [era])


@pytest.mark.rotating
async def test_a_server_whose_order_varies_is_found_wanting_in_that_alone(target: Command, judge: Judge):
    run = await judge(argv=target("miniature", "--variant", "another-order-each-time"), era=MODERN)
    assert [(r.check, r.message) for r in run.of("fail", "unverified", "error")] == []
    assert {r.check.removeprefix("tools-search-server-") for r in run.of("warn")} == {"deterministic"}
    assert exit_status(run) == 0


@pytest.mark.rotating
async def test_a_second_page_that_comes_and_goes_is_no_fault_of_the_suite(target: Command, judge: Judge):
    once = target("miniature", "--variant", "second-page-once")
    runs = [await judge("error-data", argv=once, effort="default", era=MODERN), await judge(argv=once, era=MODERN)]
    assert [(r.check, r.message) for run in runs for r in run.of("error")] == []
    assert exit_status(runs[-1]) == 1


@pytest.mark.rotating
@pytest.mark.parametrize(("variant", "era"), [("cursors-hold-once", MODERN), ("cursors-spent-for-good", LEGACY)])
async def test_a_server_whose_cursors_hold_once_does_not_follow_a_recommendation_and_breaks_no_rule(
    variant: str, era: Era, target: Command, judge: Judge
):
    run = await judge(argv=target("miniature", "--variant", variant), era=era)
    assert [(r.check, r.cell.name, r.message) for r in run.of("fail", "error")] == []
    assert {r.check.removeprefix("tools-search-server-") for r in run.of("warn")} <= {"cursor-repeated"}
    if variant == "cursors-hold-once":
        assert [(r.check, r.cell.name, r.message) for r in run.of("unverified")] == []
        assert len(run.of("warn")) == len(run.cells) == 1


@pytest.mark.parametrize("era", ERAS)
async def test_a_cursor_that_expires_during_refused_searches_is_no_effect_of_them(
    era: Era, target: Command, judge: Judge
):
    expire = target("miniature", "--variant", "cursors-expire")
    run = await judge("refusal-changes-nothing", argv=expire, era=era)
    assert [(r.status, r.message) for r in run.results] == [("pass", "")]


async def test_a_cursor_that_expires_during_another_search_is_no_effect_of_it(target: Command, judge: Judge):
    expire = target("miniature", "--variant", "cursors-expire-during-searches")
    run = await judge("any-sequence", argv=expire, era=MODERN)
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
    variant: str, checks: tuple[str, ...], target: Command, judge: Judge
):
    argv = target("miniature", "--variant", variant)
    run = await judge(*checks, argv=argv, http_argv=(*argv, "--http"))
    assert [(r.check, r.cell.name, r.message) for r in run.of("fail", "warn", "unverified", "error")] == []
    assert len(run.cells) == 4
    assert exit_status(run) == 0


@pytest.mark.parametrize(
    ("fault", "status"), [("none", "pass"), ("remainder-reported", "fail"), ("total-reported", "unverified")]
)
async def test_no_server_needs_queries_that_match_fewer_tools_than_all(
    fault: str, status: str, target: Command, judge: Judge, tmp_path: Path
):
    argv = target("miniature", "--variant", "everything-matches", "--fault", fault)
    variable = {"TOOLS_SEARCH_CATALOG": str(catalogs.write("core", tmp_path))}
    run = await judge("no-match-count", argv=argv, profile="live", env=variable, era=MODERN)
    assert [result.status for result in run.results] == [status]


@pytest.mark.parametrize("fault", ["number-in-cursors-by-chance", "time-stated"])
async def test_what_varies_by_chance_or_with_time_reveals_nothing(fault: str, target: Command, judge: Judge):
    argv, callers = target("miniature", "--fault", fault, "--http"), frozenset({"callers"})
    run = await judge("unreadable-content-inert", http_argv=argv, era=MODERN, fixture_features=callers)
    assert [(r.status, r.message) for r in run.results] == [("pass", "")]


@pytest.mark.parametrize("fault", ["cursors-of-printable-characters", "cursors-long"])
async def test_neither_do_digits_in_cursors_that_are_random_or_long(fault: str, target: Command, judge: Judge):
    argv, callers = target("miniature", "--fault", fault, "--http"), frozenset({"callers"})
    run = await judge("hidden-tools-inert", http_argv=argv, era=MODERN, fixture_features=callers)
    assert [(r.status, r.message) for r in run.results] == [("pass", "")]


@pytest.mark.thorough
async def test_neither_is_one_that_finds_a_resource_that_is_not_listed_and_says_so(target: Command, judge: Judge):
    argv, reload = target("miniature", "--fault", "unlisted-found"), frozenset({"reload"})
    checks = "change-seen", "cursor-after-change", "concurrent-searches", "unlisted-readable"
    runs = [
        await judge(*checks, argv=argv, era=MODERN, fixture_features=reload),
        await judge("any-sequence", argv=argv, era=MODERN, effort="deep"),
    ]
    assert [(r.check, r.message) for run in runs for r in run.results if r.status != "pass"] == []


async def test_neither_is_one_that_finds_and_reads_what_the_templates_of_its_caller_describe(
    target: Command, judge: Judge
):
    argv, features = target("miniature", "--fault", "expansions-found"), frozenset({"reload", "callers"})
    checks = "unlisted-readable", "unlisted-readable-by-caller"
    run = await judge(*checks, argv=argv, http_argv=(*argv, "--http"), era=MODERN, fixture_features=features)
    assert [(r.check, r.message) for r in run.of("fail", "unverified", "error")] == []
    assert {r.check.removeprefix("tools-search-server-") for r in run.of("pass")} == {*checks}


async def test_a_name_may_find_a_single_tool_of_a_catalog_that_varies_by_caller(target: Command, judge: Judge):
    single = target("miniature", "--tools-alone", "--http", "--fault", "name-finds-one-tool")
    run = await judge("cursor-other-caller", http_argv=single, fixture_features=frozenset({"callers"}))
    assert [(r.status, r.message) for r in run.results] == [("pass", "")] * 2


async def test_a_server_behind_a_rate_limit_is_judged_like_one_without(target: Command, judge: Judge):
    fault = ("--fault", "limit-zero-served")
    limited = target("limited", "--every", "7", "--retry-after", "0", *fault)
    run = await judge(http_argv=limited, brief=True, era=MODERN)
    assert [(r.check, r.message) for r in run.of("warn", "unverified", "error")] == []
    assert {r.check.removeprefix("tools-search-server-") for r in run.of("fail")} == {"limit-invalid"}
    assert len(run.cells) == 1
    limit = run.target["servers"][0]["rateLimit"]
    assert limit["refused"] > 100
    waited = limit["secondsWaited"]  # requests side by side can make one of them be refused several times in turn
    refused = f"it refused {limit['refused']} requests with HTTP 429 or 503"
    assert f"({refused}, and the run waited {waited:g} s for it)" in target_text(run.target)


@pytest.mark.rotating
async def test_a_server_that_is_always_too_busy_is_told_so_and_found_wanting_in_nothing(target: Command, judge: Judge):
    run = await judge(argv=target("miniature", "--variant", "always-busy"), era=MODERN)
    assert [(r.check, r.message) for r in run.of("fail", "warn", "error")] == []
    busy = {r.check.removeprefix("tools-search-server-") for r in run.of("unverified") if "too busy" in r.message}
    assert {"busy-refusal", "exact-name-first", "limit-clamped", "no-match-empty", "query-blank"} <= busy
    assert exit_status(run) == 1


@pytest.mark.rotating
@pytest.mark.parametrize("era", ERAS)
async def test_neither_is_one_that_lists_tools_of_equal_names_and_searches_one_of_them(
    era: Era, target: Command, judge: Judge, tmp_path: Path
):
    variable = {"TOOLS_SEARCH_CATALOG": str(catalogs.write("core", tmp_path))}
    run = await judge(argv=target("miniature", "--variant", "last-of-a-name"), profile="live", env=variable, era=era)
    require_green(run, [era])


@pytest.mark.parametrize("catalog", ["core", "pair"])
async def test_neither_is_one_whose_list_has_another_order_and_other_pages_each_time(
    catalog: str, target: Command, judge: Judge, tmp_path: Path
):
    argv = target("miniature", "--variant", "lists-in-turns")
    pair = serving([made_tool("first"), made_tool("second")], tmp_path) if catalog == "pair" else {}
    profile = "live" if pair else "fixture"
    run = await judge("list-unchanged", "refusal-changes-nothing", argv=argv, profile=profile, env=pair)
    assert [(r.check, r.cell.name, r.message) for r in run.of("fail", "warn", "unverified", "error")] == []


@pytest.mark.rotating
@pytest.mark.parametrize("variant", VARIANTS)
async def test_neither_is_one_with_a_single_tool(
    variant: str, brief: bool, target: Command, judge: Judge, tmp_path: Path
):
    variable = {"TOOLS_SEARCH_CATALOG": str(catalogs.write("single", tmp_path))}
    turn = ERAS[VARIANTS.index(variant) % len(ERAS)]
    argv = target("miniature", "--variant", variant)
    run = await judge(argv=argv, profile="live", env=variable, brief=brief, era=turn if brief else "auto")
    require_green(run, [turn] if brief else ERAS)


@pytest.mark.rotating
@pytest.mark.parametrize("era", ERAS)
async def test_an_empty_cursor_that_is_honored_is_followed(era: Era, target: Command, judge: Judge):
    run = await judge(argv=target("miniature", "--variant", "cursor-empty"), era=era)
    assert [r.check for r in run.of("advice")] == ["tools-search-server-cursor-nonempty"]
    require_green(run, [era])


@pytest.mark.rotating
async def test_an_empty_cursor_that_is_refused_ends_no_search(target: Command, judge: Judge, tmp_path: Path):
    variable = {"TOOLS_SEARCH_CATALOG": str(catalogs.write("single", tmp_path))}
    run = await judge(argv=target("miniature", "--fault", "last-cursor-empty"), profile="live", env=variable)
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
    descriptions: tuple[str, ...], target: Command, judge: Judge, tmp_path: Path
):
    variable = serving(
        [made_tool(f"t{n}", name=f"t{n}", description=text) for n, text in enumerate(descriptions)], tmp_path
    )
    run = await judge(
        "all-terms-match", "pages-complete", "cursor-forged", argv=target("miniature"), profile="live", env=variable
    )
    assert [(r.status, r.message) for r in run.results if r.status != "pass"] == []


async def test_a_server_whose_uris_are_all_longer_than_a_query_is_judged(target: Command, judge: Judge, tmp_path: Path):
    resources = [{"uri": f"made://{'x' * 2000}/{word}", "name": word, "description": "Long."} for word in WORDS]
    variable = serving([made_tool(word) for word in WORDS], tmp_path, resources=resources)
    over_http = target("miniature", "--http")
    run = await judge("search-unlisted", "exact-uri-first", http_argv=over_http, profile="live", env=variable)
    assert [(r.check, r.message) for r in run.results if r.status not in {"pass", "skip"}] == []


async def test_a_server_each_of_whose_terms_is_in_several_tools_is_judged(
    target: Command, judge: Judge, tmp_path: Path
):
    names = [f"{verb}_{noun}" for verb in ("create", "delete", "update") for noun in ("invoice", "order", "parcel")]
    tools = [made_tool(name, description="In a shop.") for name in names]
    variable = serving(tools, tmp_path)
    run = await judge("all-terms-match", argv=target("miniature"), profile="live", env=variable, era=MODERN)
    assert {(r.status, r.message) for r in run.results} == {("pass", "")}


async def test_a_server_of_which_thousands_of_tools_match_is_not_told_that_it_loses_those_that_nobody_read(
    target: Command, judge: Judge, tmp_path: Path
):
    tools = [made_tool(f"thing{number}") for number in range(2700)]
    variable = serving(tools, tmp_path)
    run = await judge(
        "pages-complete",
        argv=target("miniature"),
        profile="live",
        env=variable,
        era=MODERN,
        brief=True,
        timeout=100,
    )
    assert [(r.status, r.message) for r in run.results if r.status != "pass"] == []
