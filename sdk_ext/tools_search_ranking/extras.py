"""Installation instructions for the optional dependencies of this distribution."""

from __future__ import annotations

import sys


class MissingExtraError(ImportError):
    """An extra is not installed."""


def install_command(extra: str) -> str:
    """Return a sentence with the command that installs `extra` in this program's environment.

    The distribution is already installed there, so the command fetches only the dependencies of the extra.
    """
    command = f"{sys.executable} -m pip install 'mcp-ext-tools-search[{extra}]'"
    return f"Install the extra [{extra}]: {command} (from a checkout: pip install '.[{extra}]')."
