"""Entry point of the command `tools-search-conformance`."""

from __future__ import annotations

import gc
import json
import sys


def main() -> None:
    """Run the command, or name the missing extra where the distribution was installed without the judge's libraries."""
    gc.disable()  # imports create little garbage, and looking for it takes a third of the startup time
    try:
        from tools_search_conformance.cli.cli import main as run
    except ModuleNotFoundError as error:
        command = f"{sys.executable} -m pip install 'mcp-ext-tools-search[conformance]'"
        checkout = "from a checkout, pip install '.[conformance]'"
        message = f"the module {error.name} is missing. Install the extra [conformance]: {command} ({checkout})"
        if "--json" in sys.argv:
            print(json.dumps({"error": {"type": "MissingExtraError", "message": message}}, indent=2))  # noqa: T201
        print(f"Error: {message}", file=sys.stderr)  # noqa: T201 - click may be the missing module
        sys.exit(2)
    finally:
        gc.freeze()
        gc.set_threshold(10_000)  # an answer brings hundreds of objects, hardly any of them in a cycle
        gc.enable()
    run()


if __name__ == "__main__":
    main()
