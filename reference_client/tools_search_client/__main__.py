"""`tools-search-client`: starts the command line so that Ctrl-C ends it in good order from the first moment.

Importing the rest takes most of a second, in which nothing else watches for signals.
"""

from __future__ import annotations

import sys
from collections.abc import Sequence
from typing import NoReturn


def main(arguments: Sequence[str] | None = None) -> NoReturn:
    """Run the command line, and exit with its code."""
    try:
        from tools_search_client.cli.command_line import run

        run(arguments)
    except KeyboardInterrupt:
        if sys.stderr:
            sys.stderr.write("Error: interrupted by SIGINT\n")
        sys.exit(130)


if __name__ == "__main__":
    main()
