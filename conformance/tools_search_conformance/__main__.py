"""Entry point of the command `tools-search-conformance`."""

from __future__ import annotations

import sys

__all__ = ["main"]


def main() -> None:
    """Run the command, or say what is missing where the distribution was installed without what the judge needs."""
    try:
        from tools_search_conformance.cli import main as run
    except ModuleNotFoundError as error:
        missing = f"the module {error.name} is missing: install the distribution with its extra [conformance]"
        print(f"tools-search-conformance: {missing}", file=sys.stderr)  # noqa: T201 - click may be what is missing
        sys.exit(2)
    run()


if __name__ == "__main__":
    main()
