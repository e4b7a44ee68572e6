"""Following a configuration while a gateway serves: who may use it, and what each sees, changes without a restart."""

from __future__ import annotations

import logging
from pathlib import Path
from typing import Final

from tools_search_hosts import ConfigurationError, load_host_file

from tools_search_server.access.configuration import Access, read_access
from tools_search_server.catalog.watching import changes_of

__all__ = ["follow_principals"]

logger = logging.getLogger(__name__)

_LOOK_SECONDS: Final = 0.5


async def follow_principals(file: Path, access: Access) -> None:
    """Let those use the gateway whom the file names, each time it changes; never returns.

    A file that is missing or cannot be used is reported, and who could use the gateway before still can.
    """
    async for _ in changes_of(file, _LOOK_SECONDS):
        try:
            stated = read_access(load_host_file(file), str(file), None).principals
        except ConfigurationError as error:
            logger.warning("%s\nPrincipals and toolsets stay as they were.", error)
            continue
        if not stated:
            logger.warning("%s names no `principals` any more, who stay as they were: restart to serve without", file)
            continue
        access.replace_principals(stated)
        logger.info("%s changed: %d principals", file, len(stated))
