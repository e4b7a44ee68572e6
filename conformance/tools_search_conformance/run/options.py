"""A run's options, set by the command line, the pytest plugin and `replay`."""

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
    """A run's options, with the same names as on the command line."""

    selection: Selection
    out: Path
    """The folder for the reports and the wire log."""
    argv: tuple[str, ...] = ()
    """The command of a server on stdio, a client's driver, or a one-shot client."""
    era: Era | Literal["auto"] = "auto"
    effort: Effort = "default"
    seed: int = 0
    timeout: float = 10
    """Timeout in seconds for a request or a driver operation."""
    start_timeout: float = 60
    env: Mapping[str, str] = field(default_factory=dict[str, str])
    cwd: str | None = None
    strict: bool = False
    baseline: tuple[Entry, ...] = ()
    """Known failures."""
    sep: int | None = None
    """The number of the proposal that `checks.json` names checks after."""

    # Servers only.
    url: str | None = None
    http_argv: tuple[str, ...] = ()
    headers: Mapping[str, str] = field(default_factory=dict[str, str])
    allow_remote: bool = False
    ca_file: str | None = None
    """A file with certificate authorities to trust in addition to the usual ones."""
    profile: Profile | None = None
    """`None` means `live` for a `url`, and `fixture` for a server that the suite starts."""
    fixture_features: frozenset[FixtureFeature] = frozenset()
    brief: bool | None = None
    """Whether to start the target once per cell and try a sample of the cases; `None` means only for quick effort."""

    # Clients only.
    one_shot: bool = False
    """Whether `argv` is not a driver, but a client that follows the official suite's contract."""
    transport: TransportName | Literal["auto"] = "auto"

    @property
    def eras(self) -> Sequence[Era]:
        """The protocol revisions to test."""
        return ERAS if self.era == "auto" else (self.era,)

    @property
    def effective_brief(self) -> bool:
        """Whether the run is brief."""
        return self.effort == "quick" if self.brief is None else self.brief

    @property
    def effective_profile(self) -> Profile:
        """The requested profile, or the default for the target."""
        return self.profile or ("live" if self.url else "fixture")


def features_named(names: Iterable[str]) -> frozenset[FixtureFeature]:
    """Return the fixture features with these names; raises `ValueError`, which lists the known ones."""
    named = set(names)
    if unknown := sorted(named.difference(FIXTURE_FEATURES)):
        raise ValueError(f"{', '.join(map(repr, unknown))} unknown; the features are {', '.join(FIXTURE_FEATURES)}")
    return frozenset(feature for feature in FIXTURE_FEATURES if feature in named)
