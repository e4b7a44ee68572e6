"""Every run ends, for any behavior of its target: soon, in little memory, with a verdict, and leaves nothing."""

from __future__ import annotations

import json
import re
import secrets
import shlex
import subprocess
import sys
import threading
from collections.abc import Sequence
from concurrent.futures import ThreadPoolExecutor
from dataclasses import dataclass
from functools import cache
from pathlib import Path
from typing import Any, Final, cast

import pytest
from junitparser import JUnitXml
from tools_search_conformance.model import CLIENT_PREFIX, SERVER_PREFIX
from tools_search_conformance.wire.eras import ERAS

HERE: Final = Path(__file__).parent
LAUNCHER: Final = HERE / "target.py"
MEGABYTES: Final = 300
OUT_BYTES: Final = 160 * 1024 * 1024  # a wire log of 128 MiB, and the reports
AT_ONCE: Final = 6
MARK: Final = "TOOLS_SEARCH_HOSTILE_RUN"


@dataclass(frozen=True)
class Case:
    """A target, and what a run over it must come to."""

    target: str
    """Name and arguments of a program in `targets`."""
    status: int
    said: str
    """What the run says, in part."""
    passes: frozenset[str] = frozenset()
    arguments: str = ""
    seconds: float = 120

    @property
    def judges(self) -> str:
        return "client" if self.target.startswith("hostile_driver") else "server"

    def __str__(self) -> str:
        over = "-stdio" if "--transport stdio" in self.arguments else ""
        over += "-legacy" if "2025-11-25" in self.arguments else ""
        return re.sub(r"[ -]+", "-", self.target) + over


def silent(*kinds: str, said: str) -> list[Case]:
    return [Case(f"hostile {kind}", 3, f"no response ({said}") for kind in kinds]


SOON: Final = "no response within 4 s"
FEW: Final = "--only query-blank --only limit-invalid --only no-duplicates"
CHOSEN: Final = frozenset({"query-blank", "limit-invalid", "no-duplicates"})
LIVE: Final = "--profile live --only list-unchanged --timeout 30 --effort deep"
LISTED: Final = frozenset({"list-unchanged"})
OPENED: Final = frozenset({"advertised", "settings-shape"})

SERVERS: Final = [
    *silent("line", "arrays", said="a line of more than 8388608 bytes"),
    *silent("lines", "notifications", said="more than 10000 lines"),
    *silent("mute", "hang", "drip", said=SOON),
    *silent("crash", "grandchild", "daemon", "at-once", said="the process ended with exit status"),
    *silent("garbage", said=f"{SOON}, but a line that is not a message"),
    *silent("deep", said=f"{SOON}, but a line that is not a message (nested deeper"),
    *silent("tokens", "members-beyond", said=f"{SOON}, but a line that is not a message (more than 400000 values)"),
    *silent("one-number", "fraction", said=f"{SOON}, but a line that is not a message (not JSON: a number of more"),
    *silent("twice", said=f"{SOON}, but a line that is not a message (not JSON: a member named twice"),
    *silent("surrogate", said=f"{SOON}, but a line that is not a message (an unpaired surrogate"),
    Case("hostile others", 3, SOON),
    *(
        Case(f"hostile {kind}", 3, "does not name 2026-07-28 among its supportedVersions")
        for kind in ("arrays-just-allowed", "numbers", "name", "members", "wide", "escapes", "quotes")
    ),
    # They open as they should, and turn hostile at the first search.
    Case("hostile mute --on tools/search", 1, "NOT CONFORMANT", OPENED),
    Case("hostile crash --on tools/search --after 5", 1, "NOT CONFORMANT", arguments=FEW),
    Case("hostile line --on tools/search --after 5", 1, "NOT CONFORMANT", arguments=FEW),
    Case("hostile drip --on tools/search --after 5", 1, "NOT CONFORMANT", arguments=FEW),
    Case("hostile grandchild --on tools/search --after 5", 1, "NOT CONFORMANT", arguments=FEW),
    Case("hostile members --on tools/search --after 5", 1, "NOT CONFORMANT", arguments=f"{FEW} --timeout 10"),
    Case("hostile wide --on tools/search --after 5", 1, "NOT CONFORMANT", arguments=f"{FEW} --timeout 10"),
    # A nuisance, but no fault.
    Case("hostile stderr", 0, "PASSED", CHOSEN, f"{FEW} --start-timeout 60"),
    Case("hostile stays", 0, "PASSED", CHOSEN, FEW),
]
LISTINGS: Final = [
    Case("hostile cursors", 3, "tools/list does not end", arguments=LIVE),
    Case(
        "hostile beyond", 3, "a line of more than 8388608 bytes); have tools/list return smaller pages", arguments=LIVE
    ),
    Case("hostile many-at-once", 0, "PASSED", LISTED, LIVE, 120),
    Case("hostile large", 0, "PASSED", LISTED, LIVE, 120),
    Case("hostile bombs", 0, "PASSED", LISTED, LIVE),
]
OVER_HTTP: Final = [
    *(
        Case(f"hostile {kind} --http", 3, said)
        for kind, said in {
            "redirect-loop": "HTTP 307 without a response",
            "redirect-away": "HTTP 307 without a response",
            "redirect-file": "HTTP 307 without a response",
            "redirect-nonsense": "HTTP 307 without a response",
            "html": "not JSON",
            "untyped": "not JSON",
            "events-empty": SOON,
            "events-comments": "no response",
            "events-alive": SOON,
            "events-unfinished": "no response",
            "events-others": "no response",
            "eager": "no response",
            "body-endless": "no response",
            "body-drips": SOON,
            "too-long": "without sending complete message body",
            "too-short": "not JSON",
            "gzip": "no response",
            "headers": "RemoteProtocolError",
            "header-drips": SOON,
            "informational": SOON,
            "tls": "RemoteProtocolError",
            "no-http": "RemoteProtocolError",
            "reset": "no response (",
            "unauthorized": "with HTTP status 401: it wants a token, --header",
            "url-remote": "is not this machine",
            "url-file": "is not an http:// or https:// URL",
            "url-endless": "had no end within 65536 bytes",
            "url-never": "none came within 4 s",
        }.items()
    ),
    Case("hostile stdout --http", 0, "PASSED", CHOSEN, FEW),
    Case("hostile cookies --http", 0, "PASSED", CHOSEN, FEW),
]
DRIVERS: Final = [
    *(
        Case(f"hostile_driver {kind}", 3, said)
        for kind, said in {
            "line": "a line of more than 4194304 bytes",
            "drip": "did not answer `frobnicate-",
            "hang": "did not answer `frobnicate-",
            "grandchild": "did not answer `frobnicate-",
            "deep": "nested deeper",
            "early": "cannot be trusted",
            "twice": "cannot be trusted",
            "large": "cannot be trusted",
        }.items()
    ),
]
MARKED: Final = Case(
    "hostile marked",
    1,
    "NOT CONFORMANT",
    frozenset(
        {
            "advertised", "busy-refusal", "cursor-nonempty", "limit-integral-float", "list-unchanged",
            "no-match-empty", "pages-end", "served-where-advertised", "settings-shape",
        }
    ),
    "--profile live --timeout 10",
)  # fmt: skip
MOMENTS: Final = ("--on tools/search --after 12", "--after 12 --every 3", "")
"""When a server turns hostile: at the twelfth search, now and then after a good start, or at once."""
MOMENTS_OF_DRIVERS: Final = ("--on search --after 3", "--after 12 --every 3", "--after 25", "")
"""When a driver turns hostile: at a search, now and then after a good start, after a longer one, or at once."""
MOMENT_OF_CLIENTS: Final = "--on search_all --after 3 --every 25"
"""When a client attacks its peer, for a second each time."""
CELLS_OF_DRIVERS: Final = [(transport, era) for era in ERAS for transport in ("http", "stdio")]
BEARABLE: Final = frozenset({"result-nested", "id-text", "both", "error-and-null"})
"""What a client has to bear, at least in one era, or what breaks the base protocol alone."""
SOME: Final = 36
"""Of how many kinds one is tried where not all are; three times as many are in thorough tests."""
FEW_OF_DRIVERS: Final = 2
"""How many ways of drivers are tried there, and in thorough tests three times as many."""


@cache
def kinds_of_servers() -> dict[str, list[str]]:
    """Return the kinds of hostile servers, by transport."""
    return json.loads(subprocess.check_output([sys.executable, str(LAUNCHER), "hostile", "kinds"]))


def in_turn(number: int, kind: str, over: str) -> Case:
    """Return the case of a kind whose turn it is: the moments and eras go round."""
    moment, era = MOMENTS[number % len(MOMENTS)], ERAS[number // len(MOMENTS) % len(ERAS)]
    return of_kind(kind, over, moment, era)


def of_kind(kind: str, over: str, moment: str, era: str, more: str = "") -> Case:
    reached = "--http" if over == "http" else ""
    return Case(f"hostile {kind} {moment} {reached}".strip(), 1, "", arguments=f"--era {era} {more}", seconds=300)


@cache
def kinds_of_drivers() -> dict[str, list[str]]:
    """Return the kinds of hostile drivers: answers of their own, and attacks of their clients."""
    return json.loads(subprocess.check_output([sys.executable, str(LAUNCHER), "hostile_driver", "kinds"]))


def of_driver(kind: str, moment: str, cell: tuple[str, str]) -> Case:
    arguments = f"--transport {cell[0]} --era {cell[1]} --timeout 3 --effort quick"
    return Case(f"hostile_driver {kind} {moment}".strip(), 1, "", arguments=arguments, seconds=300)


# Each of these was once a fault of the suite, took too much memory or passed, and with all checks.
KNOWN: Final = [
    of_kind("result-odd", "stdio", "", "2025-11-25"),
    of_kind("names-prefixed", "stdio", MOMENTS[0], "2026-07-28", "--effort default"),
    of_kind("schemas-odd", "http", MOMENTS[0], "2026-07-28"),
    of_kind("definitions-odd", "stdio", MOMENTS[1], "2026-07-28", "--effort default"),
    of_kind("session-odd", "http", "", "2025-11-25"),
    of_kind("wide", "http", MOMENTS[0], "2026-07-28"),
    of_kind("arrays-just-allowed", "stdio", MOMENTS[0], "2025-11-25"),
    of_kind("pings", "stdio", MOMENTS[0], "2025-11-25"),
    of_kind("redirect-loop", "http", MOMENTS[0], "2026-07-28"),
    of_kind("mixed", "stdio", MOMENTS[0], "2026-07-28", "--effort default"),
    of_kind("varies", "http", MOMENTS[0], "2025-11-25"),
]
KNOWN_OF_DRIVERS: Final = [
    of_driver("twice", MOMENTS_OF_DRIVERS[1], ("http", "2025-11-25")),
    of_driver("early", MOMENTS_OF_DRIVERS[1], ("stdio", "2025-11-25")),
    of_driver("large", MOMENTS_OF_DRIVERS[1], ("http", "2026-07-28")),
    of_driver("bodies", MOMENT_OF_CLIENTS, ("http", "2026-07-28")),
    of_driver("requests", MOMENT_OF_CLIENTS, ("stdio", "2025-11-25")),
    of_driver("strange", MOMENTS_OF_DRIVERS[0], ("http", "2026-07-28")),
    of_driver("strays", "", ("http", "2026-07-28")),
]
CASES: Final = [MARKED, *SERVERS, *LISTINGS, *OVER_HTTP, *DRIVERS]


@dataclass(frozen=True)
class Outcome:
    told: dict[str, Any]
    out: Path

    @property
    def passes(self) -> set[str]:
        report = self.out / "report.json"
        results: list[dict[str, Any]] = json.loads(report.read_bytes())["results"] if report.exists() else []
        passed = {str(result["check"]) for result in results if result["status"] == "pass"}
        return {check.removeprefix(SERVER_PREFIX).removeprefix(CLIENT_PREFIX) for check in passed}


class Judges:
    """Processes that judge, each one target after another."""

    def __init__(self, folder: Path) -> None:
        self.mark = secrets.token_hex(8)
        self._folder = folder
        self._own = threading.local()
        self._running: list[subprocess.Popen[str]] = []

    def judge(self, case: Case) -> Outcome:
        out = self._folder / secrets.token_hex(8)
        process = self._process()
        assert process.stdin is not None
        assert process.stdout is not None
        process.stdin.write(json.dumps(self._arguments(case, out)) + "\n")
        process.stdin.flush()
        return Outcome(json.loads(process.stdout.readline()), out)

    def _arguments(self, case: Case, out: Path) -> list[str]:
        target = [sys.executable, str(LAUNCHER), *case.target.split()]
        shared = ["--era", "2026-07-28", "--out", str(out), "--env", f"{MARK}={self.mark}", "--start-timeout"]
        more = ["5"] if case.judges == "client" else ["4", "--timeout", "0.5", "--seed", "1", "--effort", "quick"]
        reached = ["--http-command", shlex.join(target)] if "--http" in case.target else ["--", *target]
        return [case.judges, *shared, *more, *case.arguments.split(), *reached]

    def _process(self) -> subprocess.Popen[str]:
        if not hasattr(self._own, "process"):
            argv = [sys.executable, str(HERE / "judged.py")]
            self._own.process = subprocess.Popen(argv, stdin=subprocess.PIPE, stdout=subprocess.PIPE, text=True)
            self._running.append(self._own.process)
        return self._own.process

    def close(self) -> None:
        for process in self._running:
            process.communicate(timeout=30)

    def leaked(self) -> list[str]:
        """Return what still runs of what was started for any target, where the system shows it."""
        mark = f"{MARK}={self.mark}".encode()
        return [
            (process / "cmdline").read_text(encoding="utf-8", errors="replace")
            for process in Path("/proc").glob("[0-9]*")
            if mark in environment_of(process)
        ]


def environment_of(process: Path) -> bytes:
    try:
        return (process / "environ").read_bytes()
    except OSError:
        return b""


def pytest_generate_tests(metafunc: pytest.Metafunc) -> None:
    thrice = 3 if metafunc.config.getoption("--thorough") else 1
    if metafunc.function is test_no_behavior_of_a_server_is_a_fault_of_the_suite:
        kinds = [(kind, over) for over in ("stdio", "http") for kind in kinds_of_servers()[over]]
        turns = [in_turn(number, *kind) for number, kind in enumerate(kinds)]
        every = [of_kind(*kind, moment, era) for kind in kinds for moment in MOMENTS for era in ERAS]
        known = {case.target for case in KNOWN}
        some = [case for case in turns[:: SOME // thrice] if case.target not in known]
        tried = every if metafunc.config.getoption("--all-cells") else some
        metafunc.parametrize("case", list(dict.fromkeys([*KNOWN, *tried])), ids=str)

    if metafunc.function is test_no_behavior_of_a_driver_or_its_client_is_a_fault_of_the_suite:
        answers, attacks = kinds_of_drivers().values()
        ways = [(kind, moment) for moment in MOMENTS_OF_DRIVERS for kind in answers]
        ways += [(kind, MOMENT_OF_CLIENTS) for kind in attacks]
        turns = [of_driver(*way, CELLS_OF_DRIVERS[number % 4]) for number, way in enumerate(ways)]
        tried = turns if metafunc.config.getoption("--all-cells") else turns[:: len(ways) // (FEW_OF_DRIVERS * thrice)]
        metafunc.parametrize("case", list(dict.fromkeys([*KNOWN_OF_DRIVERS, *tried])), ids=str)


def chosen(request: pytest.FixtureRequest) -> Sequence[Case]:
    """Return the cases of the tests that this session runs."""
    items = [item for item in request.session.items if isinstance(item, pytest.Function)]
    own = [item for item in items if item.path == Path(__file__) and hasattr(item, "callspec")]
    return [cast("Case", item.callspec.params["case"]) for item in own]


@pytest.fixture(scope="module")
def outcomes(request: pytest.FixtureRequest, tmp_path_factory: pytest.TempPathFactory) -> dict[Case, Outcome]:
    judges = Judges(tmp_path_factory.mktemp("hostile"))
    cases = chosen(request)
    with ThreadPoolExecutor(AT_ONCE) as pool:
        found = dict(zip(cases, pool.map(judges.judge, cases), strict=True))
    assert judges.leaked() == []
    judges.close()
    return found


def is_bounded(case: Case, outcome: Outcome) -> bool:
    written = sum(file.stat().st_size for file in outcome.out.rglob("*"))
    return outcome.told["seconds"] < case.seconds and outcome.told["megabytes"] < MEGABYTES and written < OUT_BYTES


@pytest.mark.rotating
@pytest.mark.parametrize("case", CASES, ids=str)
def test_a_hostile_target_comes_to_its_verdict(case: Case, outcomes: dict[Case, Outcome]):
    outcome = outcomes[case]
    assert case.said in outcome.told["said"]
    assert outcome.told["status"] == case.status
    assert outcome.passes == case.passes
    assert is_bounded(case, outcome), outcome.told


@pytest.mark.rotating
def test_no_behavior_of_a_server_is_a_fault_of_the_suite(case: Case, outcomes: dict[Case, Outcome]):
    outcome = outcomes[case]
    bearable = {0} if BEARABLE & {*case.target.split()} else set[int]()
    assert outcome.told["status"] in {1, 3} | bearable, outcome.told["said"]
    assert is_bounded(case, outcome), outcome.told


@pytest.mark.rotating
def test_no_behavior_of_a_driver_or_its_client_is_a_fault_of_the_suite(case: Case, outcomes: dict[Case, Outcome]):
    outcome = outcomes[case]
    # Members that the contract does not know are allowed, and an attack may harm nothing.
    assert outcome.told["status"] in {0, 1, 3}, outcome.told["said"]
    assert is_bounded(case, outcome), outcome.told


@pytest.mark.parametrize("case", [MARKED], ids=str)
def test_names_that_mean_something_elsewhere_are_shown_as_text(case: Case, outcomes: dict[Case, Outcome]):
    outcome = outcomes[case]
    page = (outcome.out / "report.html").read_text(encoding="utf-8")
    summary = (outcome.out / "summary.md").read_text(encoding="utf-8")
    suites: Any = JUnitXml.fromfile(str(outcome.out / "junit.xml"))  # pyright: ignore[reportUnknownMemberType] - untyped
    assert len(list(suites)) == 2  # the extension, and the base protocol
    assert "<script" not in page
    assert "<script" not in summary.replace("\\<", "")
    for text in (page, summary, outcome.told["said"]):
        assert "owned" in text
        assert not {"\x1b", "\x07", "\x00", "\u202e"} & set(text)
