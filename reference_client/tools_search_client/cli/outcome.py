"""What a command's exit code says."""

from __future__ import annotations

import sys
from collections.abc import Sequence
from typing import Final, NoReturn

from tools_search_client.found import ServerReport

__all__ = [
    "EXIT_FAILED",
    "EXIT_INCOMPLETE",
    "EXIT_OK",
    "EXIT_SIGNAL",
    "EXIT_USAGE",
    "HOW_TO_ALLOW",
    "answered_code",
    "epilog",
    "leave",
]

EXIT_OK: Final = 0
EXIT_FAILED: Final = 1
EXIT_USAGE: Final = 2
EXIT_INCOMPLETE: Final = 3
EXIT_SIGNAL: Final = 128
"""Added to the number of the signal that ended the program."""

_EXIT_CODES: Final = """\b
Exit codes:
  0  answered, even if some servers failed (they are reported)
  1  every server failed, or the called tool did
  2  wrong use: options, configuration, unknown tool, missing confirmation
  3  nothing was found, but some servers failed and might have had it
  128 and more  interrupted by a signal: 130 is Ctrl-C, 141 that nobody reads the output any more"""


def epilog(*examples: str, exit_codes: str = _EXIT_CODES) -> str:
    """Return the end of a command's help: examples, each without the program's name, and what exit codes say."""
    lines = "\n".join(f"  tools-search-client {example}" for example in examples)
    return f"\b\nExamples:\n{lines}\n\n{exit_codes}"


HOW_TO_ALLOW: Final = "add --yes to call it, or name it in `alwaysAllow` of its server in the configuration"
"""What to do where nobody can be asked for consent."""


def answered_code(reports: Sequence[ServerReport], *, found: bool) -> int:
    """Return the exit code for a question that went to many servers."""
    failed = [report for report in reports if report.failure is not None]
    if failed and len(failed) == len(reports):
        return EXIT_FAILED
    return EXIT_INCOMPLETE if failed and not found else EXIT_OK


def leave(code: int) -> NoReturn:
    """End the program."""
    sys.exit(code)
