"""What the suite talks about: checks, cells, evidence, results and runs. Declarations only; nothing here acts."""

from __future__ import annotations

from collections.abc import Awaitable, Callable, Mapping
from dataclasses import dataclass, field
from typing import Any, Final, Literal, get_args

from tools_search_conformance.wire.codec import JsonObject
from tools_search_conformance.wire.eras import ERAS, Era
from tools_search_conformance.wire.record import Exchange
from tools_search_conformance.wire.transport import TransportName

__all__ = [
    "CELLS",
    "CHECK_PREFIX",
    "CLIENT_PREFIX",
    "FIXTURE_FEATURES",
    "LEVELS",
    "SEVERITY",
    "Cell",
    "Check",
    "DriverFeature",
    "Effort",
    "Evidence",
    "FixtureFeature",
    "Level",
    "Profile",
    "Result",
    "Run",
    "SkipReason",
    "Status",
    "UnavailableCell",
]

CHECK_PREFIX: Final = "tools-search-server-"
"""What the ids of server checks begin with."""

CLIENT_PREFIX: Final = "tools-search-client-"
"""What the ids of client checks begin with."""

Level = Literal["MUST", "SHOULD", "ADVICE"]
"""How binding the sentence behind a check is; `MUST NOT` counts as `MUST`, `SHOULD NOT` as `SHOULD`.

`ADVICE` is a sentence of a guide. It binds nobody and is no part of any verdict."""

LEVELS: Final[tuple[Level, ...]] = get_args(Level)
"""All of them, the most binding first."""

Status = Literal["pass", "fail", "warn", "advice", "unverified", "skip", "info", "error"]
"""What became of one check in one cell: where its rule is broken, `fail`, `warn` or `advice`, by the check's level."""

SEVERITY: Final[tuple[Status, ...]] = ("error", "fail", "advice", "unverified", "warn", "info", "skip", "pass")
"""The worst first. No check comes to `advice` in one cell and to `fail` or `warn` in another."""

SkipReason = Literal["era", "transport", "profile", "effort", "not-offered", "fixture-feature", "driver-feature"]
"""Why a check does not apply: to this era, transport, profile or effort, to a target without the optional part that it
judges, to a fixture without the feature that it needs, or to a client whose driver cannot do what it needs."""

Profile = Literal["fixture", "live"]
"""Whether the target serves a catalog of the suite, or its own."""

DriverFeature = Literal["authorization", "federation", "concurrent", "cancel"]
"""What a driver may be able to do beyond speaking over a transport."""

FixtureFeature = Literal["reload", "delay", "callers"]
"""What a fixture may be able to do beyond serving a catalog."""

FIXTURE_FEATURES: Final[tuple[FixtureFeature, ...]] = get_args(FixtureFeature)
"""All of them."""

Effort = Literal["quick", "default", "deep"]
"""How many generated cases a property gets."""


@dataclass(frozen=True, kw_only=True)
class Check:
    """One rule of the draft and how it is judged. The same body runs in every cell that applies."""

    id: str
    title: str
    sends: str
    """What goes over the wire, in a sentence."""
    passes: str
    """What a conformant target does, in a sentence."""
    run: Callable[[Any], Awaitable[None]]
    """The body. It takes a `Bench`, or a `ClientBench` where it judges clients."""
    level: Level = "MUST"
    eras: tuple[Era, ...] = ERAS
    transports: tuple[TransportName, ...] = ("stdio", "http")
    profiles: tuple[Profile, ...] = ("fixture", "live")
    efforts: tuple[Effort, ...] = ("quick", "default", "deep")
    driver_feature: DriverFeature | None = None
    """What it needs of a driver beyond a transport."""
    fixture_feature: FixtureFeature | None = None
    """What it needs of a fixture beyond serving a catalog."""

    def __post_init__(self) -> None:
        if not self.id.startswith((CHECK_PREFIX, CLIENT_PREFIX)):
            raise ValueError(f"a check's id begins with {CHECK_PREFIX!r} or {CLIENT_PREFIX!r}: {self.id!r}")

    @property
    def rule(self) -> str:
        """The id without what it begins with."""
        return self.id.removeprefix(CHECK_PREFIX).removeprefix(CLIENT_PREFIX)

    def applies(self, cell: Cell, profile: Profile = "fixture") -> bool:
        """Tell whether it can be run there."""
        return cell.transport in self.transports and cell.era in self.eras and profile in self.profiles


@dataclass(frozen=True, kw_only=True)
class Cell:
    """One way to speak to the target."""

    transport: TransportName
    era: Era

    @property
    def name(self) -> str:
        """As reports show it: `stdio-2026-07-28`."""
        return f"{self.transport}-{self.era}"


CELLS: Final = tuple(Cell(transport=transport, era=era) for transport in get_args(TransportName) for era in ERAS)
"""Every cell there is."""


@dataclass(frozen=True, kw_only=True)
class Evidence:
    """What a verdict stands on."""

    observations: int = 0
    """Expectations that were tested against an exchange with a response, or a proven silence."""

    exchanges: tuple[int, ...] = ()
    """Numbers of the exchanges in this cell's wire log."""

    decisive: Exchange | None = None
    """The exchange that decided, kept when the verdict is not a pass, a very large one in brief."""

    case: str | None = None
    """The smallest case that shows what happened, such as `query "a", limit 1`."""

    requests: tuple[Exchange, ...] = ()
    """What has to be sent to see it again, in order; the deciding exchange comes last."""

    catalog: str | JsonObject | None = None
    """Which catalog it was seen on, by its name or as it is; `None` for the usual one."""


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
    expected: str | None = None
    """Why a baseline expects that it does not pass."""


@dataclass(frozen=True, kw_only=True)
class UnavailableCell:
    """A cell that could not be run, and why."""

    cell: Cell
    reason: str
    expected: bool = False
    """Whether it should have been there: the target was to be started for it, or promises it."""


@dataclass(frozen=True, kw_only=True)
class Run:
    """Everything one invocation found out."""

    target: Mapping[str, Any]
    profile: Profile
    effort: Effort
    seed: int
    started: str
    """UTC, ISO 8601."""
    seconds: float
    cells: tuple[Cell, ...]
    unavailable: tuple[UnavailableCell, ...]
    results: tuple[Result, ...]
    partial: bool = False
    """Whether only some of the checks were chosen, which makes no verdict on the whole."""
    strict: bool = False
    """Whether what the draft only recommends counts as well."""
    interrupted: int | None = None
    """The number of the signal that ended the run before its time."""
    stale: tuple[str, ...] = ()
    """What is wrong with the entries of the baseline."""

    def of(self, *statuses: Status) -> list[Result]:
        """Return the results with one of `statuses`, in the order in which they were found."""
        return [result for result in self.results if result.status in statuses]
