"""The circumstances in which a cell is judged, and of one connection in it."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field

from tools_search_conformance.model import Cell, Effort, FixtureFeature, Profile

__all__ = ["Opening", "Setting"]


@dataclass(frozen=True, kw_only=True)
class Opening:
    """What a connection is opened to, and how."""

    catalog: str = "core"
    """Name of the catalog that a fixture serves."""
    env: Mapping[str, str] = field(default_factory=dict[str, str])
    """More of the environment that the fixture is started in."""
    headers: Mapping[str, str] = field(default_factory=dict[str, str])
    """HTTP headers of every request."""


@dataclass(frozen=True, kw_only=True)
class Setting:
    """The circumstances of one cell."""

    cell: Cell
    profile: Profile
    effort: Effort = "default"
    seed: int = 0
    features: frozenset[FixtureFeature] = frozenset()
    """What the fixture can do beyond serving a catalog."""
    seconds: float = 10
    """How long one request may take."""
    brief: bool = False
    """Whether the target is started once only, and of many like cases some are tried."""
    first: bool = True
    """Whether it is the first cell of a run."""
