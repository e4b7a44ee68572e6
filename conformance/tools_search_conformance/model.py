"""The suite's vocabulary: checks, cells, evidence, results and runs, and the exceptions by which a check ends early."""

from __future__ import annotations

from collections.abc import Awaitable, Callable, Mapping
from dataclasses import dataclass, field
from typing import Any, Final, Literal, get_args

from tools_search_spec import METHOD

from tools_search_conformance.wire.codec import JsonObject
from tools_search_conformance.wire.eras import ERAS, MODERN, Era, TransportName
from tools_search_conformance.wire.record import Exchange

SERVER_PREFIX: Final = "tools-search-server-"
CLIENT_PREFIX: Final = "tools-search-client-"


def rule_of(check: str) -> str:
    """Return the id of a check without its prefix."""
    return check.removeprefix(SERVER_PREFIX).removeprefix(CLIENT_PREFIX)


Level = Literal["MUST", "SHOULD", "ADVICE"]
"""How binding the sentence behind a check is; `MUST NOT` counts as `MUST`, `SHOULD NOT` as `SHOULD`.

`ADVICE` is a sentence of a guide. It binds nobody and is no part of any verdict."""

LEVELS: Final[tuple[Level, ...]] = get_args(Level)
"""Every level, the most binding first."""

Status = Literal["pass", "fail", "warn", "advice", "unverified", "skip", "error"]
"""The outcome of one check in one cell: where its rule is broken, `fail`, `warn` or `advice`, by the check's level."""

SEVERITY: Final[tuple[Status, ...]] = ("error", "fail", "advice", "unverified", "warn", "pass", "skip")
"""Every status, the worst first; a check that passes wherever it applies has passed.

No check is `advice` in one cell and `fail` or `warn` in another."""

SkipReason = Literal["era", "transport", "profile", "effort", "not-offered", "fixture-feature", "driver-feature"]
"""Why a check does not apply: to this era, transport, profile or effort, to a target without the optional part that it
judges, to a fixture without the feature that it needs, or to a client whose driver cannot do what it needs."""

Profile = Literal["fixture", "live"]
"""Whether the target serves a catalog of the suite, or its own."""

DriverFeature = Literal["authorization", "federation", "concurrent", "cancel", "primitives"]
"""What a driver may be able to do beyond speaking over a transport."""

FixtureFeature = Literal["reload", "delay", "callers", "replicas"]
"""What a fixture may be able to do beyond serving a catalog."""

FIXTURE_FEATURES: Final[tuple[FixtureFeature, ...]] = get_args(FixtureFeature)

Effort = Literal["quick", "default", "deep"]
"""How many generated cases a property gets."""


@dataclass(frozen=True, kw_only=True)
class Check:
    """One rule of the draft and how it is judged. The same body runs in every cell that applies."""

    id: str
    title: str
    sends: str
    """The messages that go over the wire, in a sentence."""
    passes: str
    """What a conformant target does, in a sentence."""
    run: Callable[[Any], Awaitable[None]]
    """The body. It takes a `Bench`, or a `ClientBench` where it judges clients."""
    level: Level = "MUST"
    eras: tuple[Era, ...] = ERAS
    transports: tuple[TransportName, ...] = ("stdio", "http")
    profiles: tuple[Profile, ...] = ("fixture", "live")
    efforts: tuple[Effort, ...] = ("quick", "default", "deep")
    methods: tuple[str, ...] = (METHOD,)
    """The methods that it judges: of servers those that they advertise, of clients those that they can be asked for."""
    driver_feature: DriverFeature | None = None
    fixture_feature: FixtureFeature | None = None

    def __post_init__(self) -> None:
        if not self.id.startswith((SERVER_PREFIX, CLIENT_PREFIX)):
            raise ValueError(f"a check's id begins with {SERVER_PREFIX!r} or {CLIENT_PREFIX!r}: {self.id!r}")

    @property
    def party(self) -> Literal["server", "client"]:
        """Whom it judges."""
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
        """Whether each request has a response stream of its own, which a client closes to cancel the request."""
        return self.transport == "http" and self.era == MODERN


CELLS: Final = tuple(Cell(transport=transport, era=era) for transport in get_args(TransportName) for era in ERAS)


@dataclass(frozen=True, kw_only=True)
class Evidence:
    """What a verdict is based on."""

    observations: int = 0
    """Expectations that were tested against an exchange with a response, or a proven silence."""
    exchanges: tuple[int, ...] = ()
    """Numbers of the exchanges in this cell's wire log."""
    decisive: Exchange | None = None
    """The exchange that decided, kept when the verdict is not a pass, a very large one in brief."""
    case: str | None = None
    """The smallest case that shows what happened, such as `query "a", limit 1`."""
    requests: tuple[Exchange, ...] = ()
    """The requests that reproduce it, in order; the deciding exchange comes last."""
    catalog: str | JsonObject | None = None
    """The catalog it was seen on, by its name or as a document; `None` for the usual one."""


@dataclass(frozen=True, kw_only=True)
class Result:
    """The verdict of one check in one cell."""

    check: str
    level: Level
    cell: Cell
    status: Status
    message: str = ""
    """What happened and, where the target's author can do something, what."""
    skip: SkipReason | None = None
    evidence: Evidence = field(default_factory=Evidence)
    milliseconds: float = 0
    consequence_of: str | None = None
    """The id of the check because of which it probably did not pass, in the same cell."""
    expected: str | None = None
    """Why a baseline expects that the check does not pass."""


@dataclass(frozen=True, kw_only=True)
class UnavailableCell:
    """A cell that could not be run, and why."""

    cell: Cell
    reason: str
    expected: bool = False
    """Whether it should have been there: the target was to be started for it, or promises it."""


@dataclass(frozen=True, kw_only=True)
class Run:
    """Everything that one invocation found out."""

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
    """The methods that were judged: of a server, those that it advertises and serves in some cell."""
    asked: tuple[Cell, ...] = CELLS
    """The cells that the run was to consist of, as far as the target has their transports."""
    partial: bool = False
    """Whether only some of the checks were chosen, so that there is no verdict on the whole."""
    strict: bool = False
    interrupted: int | None = None
    """The number of the signal that ended the run before its time."""
    stale: tuple[str, ...] = ()
    """Problems with the entries of the baseline."""

    def of(self, *statuses: Status) -> list[Result]:
        """Return the results with one of `statuses`, in the order in which they were found."""
        return [result for result in self.results if result.status in statuses]


class VerdictError(Exception):
    """Base of the exceptions that end the body of a check early. A body that returns has nothing to complain of.

    VerdictError
    ├── ViolationError      the rule is broken: fail, warn or advice
    ├── UnverifiableError   the rule applies, but the target could not be brought to exercise it
    └── InapplicableError   the target lacks the optional part that the rule is about
        └── LeftOutError    the run is a brief one, and judging the rule would take long
    """

    status: Status = "error"
    """The status that it gives a check; of a `ViolationError`, the check's level decides."""

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
        """The rule, or the id, of the check whose failure is the cause where it failed in the same cell."""
        self.message = message
        self.exchange = exchange
        self.case = case
        self.steps: tuple[Exchange, ...] = ()
        """The exchanges that led to it, where it took more than following a cursor."""
        self.catalog: str | JsonObject | None = None
        """The catalog it was seen on, by its name or as a document; `None` for the usual one."""


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
