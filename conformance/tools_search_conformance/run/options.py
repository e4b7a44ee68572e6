"""The options of a run: the command line, the pytest plugin and `replay` give them, and every check reads them."""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass, field
from pathlib import Path
from typing import Literal

from tools_search_conformance.model import FIXTURE_FEATURES, Effort, FixtureFeature, Profile
from tools_search_conformance.run.baseline import Entry
from tools_search_conformance.run.registry import Selection
from tools_search_conformance.wire.eras import ERAS, Era, TransportName


@dataclass(frozen=True, kw_only=True)
class Options:
    """What a run is asked for. Each option has the name that it has on the command line."""

    selection: Selection
    out: Path
    """Folder for the reports and the wire log."""
    argv: tuple[str, ...] = ()
    """Command of a server on stdio, of a client's driver, or of a one-shot client."""
    era: Era | Literal["auto"] = "auto"
    effort: Effort = "default"
    seed: int = 0
    timeout: float = 10
    """Seconds for one request, or for one operation of a driver."""
    start_timeout: float = 60
    env: Mapping[str, str] = field(default_factory=dict[str, str])
    cwd: str | None = None
    strict: bool = False
    baseline: tuple[Entry, ...] = ()
    """What is known not to pass."""
    sep: int | None = None
    """Number of the proposal that `checks.json` names checks after."""

    # Of servers only.
    url: str | None = None
    http_argv: tuple[str, ...] = ()
    headers: Mapping[str, str] = field(default_factory=dict[str, str])
    allow_remote: bool = False
    ca_file: str | None = None
    """File of certificate authorities to trust, besides the usual ones."""
    profile: Profile | None = None
    """`None` is `live` for a `url`, and `fixture` for a server that is started here."""
    fixture_features: frozenset[FixtureFeature] = frozenset()
    brief: bool | None = None
    """Whether a cell has one start of its target, and some cases stand for many; `None` is so where effort is quick."""

    # Of clients only.
    one_shot: bool = False
    """Whether `argv` is no driver, but a client after the contract of the official suite."""
    transport: TransportName | Literal["auto"] = "auto"

    @property
    def eras(self) -> Sequence[Era]:
        """The protocol revisions to speak."""
        return ERAS if self.era == "auto" else (self.era,)

    @property
    def effective_brief(self) -> bool:
        """Whether the run is a brief one."""
        return self.effort == "quick" if self.brief is None else self.brief

    @property
    def effective_profile(self) -> Profile:
        """The profile asked for, or the one that fits the target."""
        return self.profile or ("live" if self.url else "fixture")


def features_named(names: Iterable[str]) -> frozenset[FixtureFeature]:
    """Return the fixture features with these names; `ValueError` says which there are."""
    named = set(names)
    if unknown := sorted(named.difference(FIXTURE_FEATURES)):
        raise ValueError(f"{', '.join(map(repr, unknown))} unknown; the features are {', '.join(FIXTURE_FEATURES)}")
    return frozenset(feature for feature in FIXTURE_FEATURES if feature in named)
