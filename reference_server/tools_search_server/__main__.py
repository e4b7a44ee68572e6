"""The entry point of `tools-search-server`, which exits cleanly on Ctrl-C even during imports.

Nothing else handles signals before they are done.
"""

from __future__ import annotations

import json
import sys
from collections.abc import Sequence
from typing import NoReturn


def main(arguments: Sequence[str] | None = None) -> NoReturn:
    """Run the command and exit with its exit code."""
    try:
        from tools_search_server.programs.cli import run

        run(arguments)
    except ModuleNotFoundError as error:
        _exit_without(error.name)
    except KeyboardInterrupt:
        if sys.stderr:
            sys.stderr.write("Error: interrupted by SIGINT\n")
        sys.exit(130)


def _exit_without(module: str | None) -> NoReturn:
    """Exit because the distribution was installed without this program's dependencies."""
    command = f"{sys.executable} -m pip install 'mcp-ext-tools-search[server]'"
    checkout = "from a checkout, pip install '.[server]'"
    message = f"the module {module} is missing. Install the extra [server]: {command} ({checkout})"
    if "--json" in sys.argv:
        sys.stdout.write(json.dumps({"error": {"type": "MissingExtraError", "message": message}}, indent=2) + "\n")
    sys.stderr.write(f"Error: {message}\n")
    sys.exit(2)


if __name__ == "__main__":
    main()
