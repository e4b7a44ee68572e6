"""What hosts are known to lose of a long list, so that an operator hears of it before a user does.

Each limit has a public report, and the month of it: hosts change. `README.md` has the table with the reports.
"""

from __future__ import annotations

from collections.abc import Iterable
from dataclasses import dataclass
from typing import Final

from tools_search_hosts.toolsets import Toolset

from tools_search_server.gateway.views import View, Views

__all__ = ["lost_on_hosts", "warnings_of"]

_LARGEST_SCHEMA: Final = 16_384
_MOST_PAGES: Final = 64
_VERSION: Final = "2025-11-25"
"""What today's hosts speak."""

_COMPAT: Final = "--compat auto or --compat meta-tools"
_SHOWN: Final = 3


@dataclass(frozen=True, slots=True)
class _Limit:
    """A number of tools above which a host loses some."""

    tools: int
    what: str


_LIMITS: Final = (
    _Limit(256, "Claude Desktop's Cowork keeps the first 256 tools of a connector (2026-07)"),
    _Limit(128, "GitHub Copilot refuses more than 128, in VS Code where it does not group them (2026-07)"),
    _Limit(80, "Cursor complains about more than 80 of all servers together (2025-09)"),
)


def lost_on_hosts(view: View) -> list[str]:
    """Return a sentence for each known limit that the plain list of a view exceeds, each with what helps."""
    pages, tools = view.pages, view.tool_count or len(view.offers)
    said: list[str] = []
    page_count = pages.page_count(_VERSION)
    if page_count > 1 or view.remotes:
        said.append(
            f"tools/list has several pages, and hosts that read only the first one see {pages.first_page(_VERSION)} of "
            f"{tools} tools: claude.ai (2026-03), Codex (2026-07), Factory Droid (2026-08). For them use {_COMPAT}."
        )
    if page_count > _MOST_PAGES:
        said.append(
            f"tools/list has {page_count} pages, and hosts on the TypeScript SDK stop after {_MOST_PAGES} (2026-09). "
            f"Use a larger --page-size, or {_COMPAT}."
        )
    if exceeded := [limit.what for limit in _LIMITS if tools > limit.tools]:
        said.append(f"tools/list has {tools} tools. {'; '.join(exceeded)}. For them use {_COMPAT}, or a toolset.")
    if large := pages.with_large_schemas(_VERSION, _LARGEST_SCHEMA):
        names = ", ".join(large[:_SHOWN]) + (f" and {len(large) - _SHOWN} more" if len(large) > _SHOWN else "")
        said.append(
            f"Connectors of Claude Desktop drop tools whose input schema has more than {_LARGEST_SCHEMA} bytes "
            f"(2026-07): {names}. For them use --compat meta-tools."
        )
    return said


def warnings_of(views: Views, toolsets: Iterable[Toolset]) -> list[str]:
    """Return what callers with each of some toolsets lose on hosts."""
    said: list[str] = []
    for toolset in toolsets:
        place = "" if toolset.rules is None else f"toolset {toolset.name!r}: "
        said += [f"{place}{line}" for line in lost_on_hosts(views.of(toolset))]
    return list(dict.fromkeys(said))
