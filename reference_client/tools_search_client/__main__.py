"""The entry point of `tools-search-client`, which exits cleanly on Ctrl-C even during imports.

Nothing else handles signals before they are done.
"""

from __future__ import annotations

import gc
import json
import signal
import sys
from collections.abc import Sequence
from typing import NoReturn


def main(arguments: Sequence[str] | None = None) -> NoReturn:
    """Run the command and exit with its exit code."""
    # Imports create little garbage, and looking for it takes a tenth of a second. `run_until_signal` enables it again,
    # because commands import what they need before they call that.
    gc.disable()
    try:
        from tools_search_client.cli.command_line import run

        run(arguments)
    except ModuleNotFoundError as error:
        _exit_without(error.name)
    except KeyboardInterrupt:
        if sys.stderr:
            over = "\r" if sys.stderr.isatty() else ""  # over the `^C` that the terminal shows
            sys.stderr.write(f"{over}Error: interrupted by SIGINT\n")
        sys.exit(130)
    finally:
        gc.enable()
        if arguments is None:  # the program exits; Ctrl-C would otherwise print a traceback while it does
            signal.signal(signal.SIGINT, signal.SIG_DFL)


def _exit_without(module: str | None) -> NoReturn:
    """Exit because the distribution was installed without this program's dependencies."""
    command = f"{sys.executable} -m pip install 'mcp-ext-tools-search[client]'"
    checkout = "from a checkout, pip install '.[client]'"
    message = f"the module {module} is missing. Install the extra [client]: {command} ({checkout})"
    if "--json" in sys.argv:
        sys.stdout.write(json.dumps({"error": {"type": "MissingExtraError", "message": message}}, indent=2) + "\n")
    sys.stderr.write(f"Error: {message}\n")
    sys.exit(2)


if __name__ == "__main__":
    main()
