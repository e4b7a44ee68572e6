"""How to install what only some users of this distribution need."""

from __future__ import annotations

import sys


class MissingExtraError(ImportError):
    """An extra is not installed."""


def install_command(extra: str) -> str:
    """Return a sentence with the command that adds `extra` to the environment of this very program.

    The distribution is installed there already, so that the command fetches what the extra names and nothing else.
    """
    command = f"{sys.executable} -m pip install 'mcp-ext-tools-search[{extra}]'"
    return f"Install the extra [{extra}]: {command} (from a checkout: pip install '.[{extra}]')."
