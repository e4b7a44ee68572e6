"""A client to copy: negotiate, search or fall back, federate, load tools on demand in a conversation.

The public names are those of `tools_search_client.api`.
"""

from __future__ import annotations

from importlib import import_module
from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    from tools_search_client.api import *  # noqa: F403  # pyright: ignore[reportWildcardImportFromLibrary] - of this very package
else:

    def __getattr__(name: str) -> Any:
        """Return a public name, and import the library with the first.

        Not before, since that takes most of a second, in which the command line would not be ready for Ctrl-C.
        """
        return __dir__() if name == "__all__" else getattr(import_module("tools_search_client.api"), name)

    def __dir__() -> list[str]:
        """Return the public names, and import the library for them."""
        return [name for name in vars(import_module("tools_search_client.api")) if not name.startswith("_")]
