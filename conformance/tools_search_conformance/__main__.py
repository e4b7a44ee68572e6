"""`python -m tools_search_conformance`, and the entry point of the `tools-search-conformance` command."""

from __future__ import annotations

from tools_search_conformance.cli import main

__all__ = ["main"]

if __name__ == "__main__":
    main()
