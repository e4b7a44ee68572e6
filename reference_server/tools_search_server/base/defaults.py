"""What an operator can set on the command line or in the environment, with its defaults and bounds.

The rest of the server uses these too. They are in one module that loads nothing, so that `--help` and shell completion
answer at once.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import Final, Literal, TypeAlias, get_args

CATALOG_VARIABLE: Final = "TOOLS_SEARCH_CATALOG"
CURSOR_KEY_VARIABLE: Final = "TOOLS_SEARCH_CURSOR_KEY"
DELAY_VARIABLE: Final = "TOOLS_SEARCH_DELAY_MS"
REDIS_VARIABLE: Final = "TOOLS_SEARCH_REDIS"

DEFAULT_CHANNEL: Final = "tools-search"

MAX_PAGE_SIZE: Final = 10_000
"""More than fit on a page, so only the size in bytes limits pages unless the operator sets a page size."""

MAX_PAGE_BYTES: Final = 896 * 1024
"""Maximum bytes of the definitions on one page."""

START_SECONDS: Final = 10
CALL_SECONDS: Final = 90
"""As long as people wait, but shorter than clients' default timeouts, so that clients learn which server is slow."""

IDLE_SECONDS: Final = 300
INDEX_AT_MOST: Final = 5_000

LIST_AT_MOST: Final = 64
"""Below the lowest number of tools that a host is known to warn about, with room for the host's own tools."""

COMPAT_MODES: Final = ("meta-tools", "list-changed", "auto")

Searched: TypeAlias = Literal["resources", "contents", "prompts"]
"""Items that can be searched besides tools. `contents` means resources by their text too."""

SEARCHED: Final[Sequence[Searched]] = get_args(Searched)
