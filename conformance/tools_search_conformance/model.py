"""The suite's vocabulary: checks, cells, evidence, results and runs, and the exceptions that end a check early."""

from __future__ import annotations

from collections.abc import Awaitable, Callable, Iterable, Mapping
from dataclasses import dataclass, field
from typing import Any, Final, Literal, TypeVar, get_args

from tools_search_spec import METHOD

from tools_search_conformance.wire.codec import JsonObject
from tools_search_conformance.wire.eras import ERAS, MODERN, Era, TransportName
from tools_search_conformance.wire.record import Exchange

SERVER_PREFIX: Final = "tools-search-server-"
CLIENT_PREFIX: Final = "tools-search-client-"

Key = TypeVar("Key")
Value = TypeVar("Value")


def grouped(pairs: Iterable[tuple[Key, Value]]) -> dict[Key, list[Value]]:
    """Return the values of each key, in order."""
    groups: dict[Key, list[Value]] = {}
    for key, value in pairs:
        groups.setdefault(key, []).append(value)
    return groups


def rule_of(check: str) -> str:
    """Return the id of a check without its prefix."""
    return check.removeprefix(SERVER_PREFIX).removeprefix(CLIENT_PREFIX)


Level = Literal["MUST", "SHOULD", "ADVICE"]
"""How binding the sentence behind a check is; `MUST NOT` counts as `MUST`, `SHOULD NOT` as `SHOULD`.

`ADVICE` is a sentence of a guide. It is not binding and not part of any verdict."""

LEVELS: Final[tuple[Level, ...]] = get_args(Level)
"""Every level, the most binding first."""

Status = Literal["pass", "fail", "warn", "advice", "unverified", "skip", "error"]
"""The outcome of one check in one cell. A broken rule gives `fail`, `warn` or `advice`, depending on its level."""

SEVERITY: Final[tuple[Status, ...]] = ("error", "fail", "advice", "unverified", "warn", "pass", "skip")
"""Every status, worst first. A check that passes in every cell where it applies has passed.

No check is `advice` in one cell and `fail` or `warn` in another."""

SkipReason = Literal["era", "transport", "profile", "effort", "not-offered", "fixture-feature", "driver-feature"]
"""Why a check does not apply: not in this era, transport, profile or effort; not to a target without the optional part,
a fixture without the feature, or a driver without the operation that it needs."""

Profile = Literal["fixture", "live"]
"""Whether the target serves a catalog of the suite, or its own."""

DriverFeature = Literal["authorization", "federation", "concurrent", "cancel", "primitives"]
"""Optional features of a driver, besides transports."""

FixtureFeature = Literal["reload", "delay", "callers", "replicas"]
"""Optional features of a fixture, besides serving a catalog."""

FIXTURE_FEATURES: Final[tuple[FixtureFeature, ...]] = get_args(FixtureFeature)

Effort = Literal["quick", "default", "deep"]
"""How many cases to generate."""


@dataclass(frozen=True, kw_only=True)
class Check:
    """One rule of the draft and how it is judged. The same body runs in every cell that applies."""

    id: str
    title: str
    sends: str
    """The messages that are sent, in a sentence."""
    passes: str
    """What a conformant target does, in a sentence."""
    run: Callable[[Any], Awaitable[None]]
    """The body, which takes a `Bench`, or for clients a `ClientBench`."""
    level: Level = "MUST"
    eras: tuple[Era, ...] = ERAS
    transports: tuple[TransportName, ...] = ("stdio", "http")
    profiles: tuple[Profile, ...] = ("fixture", "live")
    efforts: tuple[Effort, ...] = ("quick", "default", "deep")
    methods: tuple[str, ...] = (METHOD,)
    """The methods that it judges, if the server advertises them, or the client's driver supports them."""
    driver_feature: DriverFeature | None = None
    fixture_feature: FixtureFeature | None = None

    def __post_init__(self) -> None:
        if not self.id.startswith((SERVER_PREFIX, CLIENT_PREFIX)):
            raise ValueError(f"a check's id begins with {SERVER_PREFIX!r} or {CLIENT_PREFIX!r}: {self.id!r}")

    @property
    def party(self) -> Literal["server", "client"]:
        """The party that it judges."""
        return "client" if self.id.startswith(CLIENT_PREFIX) else "server"

    @property
    def rule(self) -> str:
        """The id without its prefix."""
        return rule_of(self.id)

    def applies(self, cell: Cell, profile: Profile = "fixture") -> bool:
        """Return whether the check can be run in a cell."""
        return cell.transport in self.transports and cell.era in self.eras and profile in self.profiles


@dataclass(frozen=True, kw_only=True)
class Cell:
    """One way to speak to the target."""

    transport: TransportName
    era: Era

    @property
    def name(self) -> str:
        """The name in reports: `stdio-2026-07-28`."""
        return f"{self.transport}-{self.era}"

    @property
    def is_modern_http(self) -> bool:
        """Whether each request has its own response stream, which a client closes to cancel the request."""
        return self.transport == "http" and self.era == MODERN


CELLS: Final = tuple(Cell(transport=transport, era=era) for transport in get_args(TransportName) for era in ERAS)


@dataclass(frozen=True, kw_only=True)
class Evidence:
    """The evidence for a verdict."""

    observations: int = 0
    """Expectations that were tested against an exchange with a response, or a proven silence."""
    exchanges: tuple[int, ...] = ()
    """Numbers of the exchanges in this cell's wire log."""
    decisive: Exchange | None = None
    """The exchange that decided a verdict other than a pass; shortened if very large."""
    case: str | None = None
    """The smallest case that shows what happened, such as `query "a", limit 1`."""
    requests: tuple[Exchange, ...] = ()
    """The requests that reproduce it, in order; the deciding exchange comes last."""
    catalog: str | JsonObject | None = None
    """The catalog that the fixture served, by name or as a document; `None` for the usual one."""


@dataclass(frozen=True, kw_only=True)
class Result:
    """The verdict of one check in one cell."""

    check: str
    level: Level
    cell: Cell
    status: Status
    message: str = ""
    """What happened, and what the target's author can do about it, if anything."""
    skip: SkipReason | None = None
    evidence: Evidence = field(default_factory=Evidence)
    milliseconds: float = 0
    consequence_of: str | None = None
    """The id of the check in the same cell that is probably the cause."""
    expected: str | None = None
    """The reason why a baseline expects the check not to pass."""


@dataclass(frozen=True, kw_only=True)
class UnavailableCell:
    """A cell that could not be run, and why."""

    cell: Cell
    reason: str
    expected: bool = False
    """Whether it should have been available: the target was to be started for it, or promises it."""


@dataclass(frozen=True, kw_only=True)
class Run:
    """The outcome of one invocation."""

    target: Mapping[str, Any]
    profile: Profile
    effort: Effort
    seed: int
    started: str
    """UTC, ISO 8601."""
    seconds: float
    checks: tuple[Check, ...]
    """The checks that were chosen."""
    cells: tuple[Cell, ...]
    unavailable: tuple[UnavailableCell, ...]
    results: tuple[Result, ...]
    methods: tuple[str, ...] = (METHOD,)
    """The methods that were judged; for a server, those that it advertises and serves in some cell."""
    asked: tuple[Cell, ...] = CELLS
    """The cells that were chosen, as far as the target has their transports."""
    partial: bool = False
    """Whether only some of the checks were chosen, so that there is no overall verdict."""
    strict: bool = False
    interrupted: int | None = None
    """The number of the signal that ended the run early."""
    stale: tuple[str, ...] = ()
    """Problems with the entries of the baseline."""

    def of(self, *statuses: Status) -> list[Result]:
        """Return the results with one of `statuses`, in order."""
        return [result for result in self.results if result.status in statuses]


class VerdictError(Exception):
    """Base of the exceptions that end the body of a check early. A check whose body returns has passed.

    VerdictError
    ├── ViolationError      the rule is broken: fail, warn or advice
    ├── UnverifiableError   the rule applies, but the target could not be brought to exercise it
    └── InapplicableError   the target lacks the optional part that the rule is about
        └── LeftOutError    the rule takes long to judge, and a brief run leaves it out
    """

    status: Status = "error"
    """The check's status; for a `ViolationError`, the check's level determines it."""

    def __init__(
        self,
        message: str,
        exchange: Exchange | None = None,
        case: str | None = None,
        *,
        consequence_of: str | None = None,
    ) -> None:
        super().__init__(message)
        self.consequence_of = consequence_of
        """The rule or the id of the check that is the cause, if that failed in the same cell."""
        self.message = message
        self.exchange = exchange
        self.case = case
        self.steps: tuple[Exchange, ...] = ()
        """The exchanges that led to it, if it took more than following a cursor."""
        self.catalog: str | JsonObject | None = None
        """The catalog that the fixture served, by name or as a document; `None` for the usual one."""


class ViolationError(VerdictError):
    """The rule is broken, as `exchange` shows."""


class UnverifiableError(VerdictError):
    """The rule applies, but could not be exercised; the message says why and what would help."""

    status = "unverified"


class InapplicableError(VerdictError):
    """The rule does not apply to this target."""

    status = "skip"
    kind: SkipReason = "not-offered"


class LeftOutError(InapplicableError):
    """The rule applies, but a brief run leaves it out."""

    kind: SkipReason = "effort"
