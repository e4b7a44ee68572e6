"""Lazy upstreams: servers that run only while they are used, and the files that store their lists for other times.

A listing file is treated as untrusted: its owner, its size and every entry are checked, and it is ignored if any check
fails. Its name is a digest of the server's entry, so another command, variable or address has another file.
"""

from __future__ import annotations

import hashlib
import json
import logging
import os
import stat
from dataclasses import asdict, dataclass
from typing import Final, Literal

from mcp_types import Prompt, Resource, ResourceTemplate, Tool
from pydantic import BaseModel, ConfigDict, ValidationError
from tools_search_hosts import Target
from tools_search_hosts.locations import cache_folder
from tools_search_ranking.private_files import replace_private_file

from tools_search_server.base.defaults import IDLE_SECONDS
from tools_search_server.upstreams.state import Greeting

logger = logging.getLogger(__name__)

_MAX_FILE_BYTES: Final = 64 * 1024 * 1024


@dataclass(frozen=True)
class Laziness:
    """Which servers are lazy, and how long they keep running without requests."""

    for_all: bool = False
    """Whether servers are lazy by default."""

    idle_seconds: float = IDLE_SECONDS


class SavedListing(BaseModel):
    """A server's lists and greeting from its last connection."""

    model_config = ConfigDict(extra="forbid")

    version: Literal[2] = 2
    greeting: Greeting
    tools: list[Tool]
    prompts: list[Prompt]
    resources: list[Resource]
    templates: list[ResourceTemplate]


class ListingFile:
    """The listing file of one server."""

    def __init__(self, server: str, target: Target) -> None:
        self._server = server
        self._failure = ""
        entry = json.dumps([type(target).__name__, asdict(target)], sort_keys=True)
        digest = hashlib.sha256(entry.encode("utf-8", "surrogatepass")).hexdigest()
        self.path = cache_folder("tools-search-server") / f"{digest[:32]}.json"

    def load(self) -> SavedListing | None:
        """Return the saved listing, or `None` if there is no trustworthy one."""
        try:
            with self.path.open("rb") as file:
                # Of the open file: the one of that name could be replaced between the check and the reading.
                status = os.fstat(file.fileno())
                if status.st_uid != os.getuid() or status.st_mode & (stat.S_IWGRP | stat.S_IWOTH):
                    logger.warning("%s is ignored: others may have written it", self.path)
                    return None
                if status.st_size > _MAX_FILE_BYTES:
                    return None
                saved = SavedListing.model_validate(json.load(file), by_name=False)
        except (FileNotFoundError, NotADirectoryError):
            return None
        except (OSError, ValueError, RecursionError, ValidationError) as error:
            logger.warning("%s is ignored: %s", self.path, type(error).__name__)
            return None
        # The gateway never saves such a listing, so this one cannot be trusted.
        has_duplicates = len({tool.name for tool in saved.tools}) < len(saved.tools)
        return None if has_duplicates else saved

    def save(self, listing: SavedListing) -> None:
        """Replace the file atomically, readable only by this user. A failure is only logged, once in a row."""
        try:
            text = listing.model_dump_json(by_alias=True, exclude_none=True)
            replace_private_file(self.path, text.encode("utf-8", "replace"))
        except (OSError, ValueError) as error:
            failure = (error.strerror if isinstance(error, OSError) else None) or str(error)
            if failure != self._failure:
                text = "%s: its lists are not saved in %s, so each gateway starts it once to know them: %s; %s"
                advice = "make room there, or set XDG_CACHE_HOME to a folder that can be written"
                logger.warning(text, self._server, self.path.parent, failure, advice, extra={"server": self._server})
            self._failure = failure
        else:
            self._failure = ""
