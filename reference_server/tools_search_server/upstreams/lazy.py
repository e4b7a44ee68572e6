"""Lazy upstreams: when one is started and stopped, and the file by which its tools are known while it is not running.

A lazy server is started by the first request to it and stopped when it has had none for a while. A server that cannot
be started keeps its tools, and is tried again by the first request after a growing pause.

A listing file is read as what anyone may have written: its owner, its size and every entry are checked, and it is
ignored if any is wrong. Its name is a digest of the server's entry, so that another command, variable or address has
another file.
"""

from __future__ import annotations

import hashlib
import json
import logging
import math
import os
import stat
from collections.abc import Callable, Mapping
from dataclasses import asdict, dataclass, field
from pathlib import Path
from tempfile import NamedTemporaryFile
from typing import Final

import anyio
from mcp_types import Prompt, Resource, ResourceTemplate, ServerCapabilities, Tool
from pydantic import BaseModel, ConfigDict, ValidationError
from tools_search_hosts import ServerEntry, Target

logger = logging.getLogger(__name__)

IDLE_SECONDS: Final = 300
_SHORTEST_CHECK_SECONDS: Final = 0.05
_FORMAT_VERSION: Final = 1
_MAX_FILE_BYTES: Final = 64 * 1024 * 1024


@dataclass(frozen=True)
class Laziness:
    """Which servers are lazy, and for how long one runs on without a request."""

    for_all: bool = False
    """Whether a server is lazy whose entry does not say."""

    idle_seconds: float = IDLE_SECONDS

    def applies_to(self, entry: ServerEntry) -> bool:
        """Return whether this server is lazy."""
        return self.for_all if entry.lazy is None else entry.lazy


class SavedListing(BaseModel):
    """Everything that a server listed, and said of itself, when it was last connected."""

    model_config = ConfigDict(extra="forbid")

    version: int = _FORMAT_VERSION
    about: str
    says: str = ""
    protocol: str | None
    features: list[str]
    capabilities: ServerCapabilities
    tools: list[Tool]
    prompts: list[Prompt]
    resources: list[Resource]
    templates: list[ResourceTemplate]


def cache_folder(environment: Mapping[str, str] = os.environ) -> Path:
    """Return the folder for files of this user's programs that can be made again."""
    stated = environment.get("XDG_CACHE_HOME", "")
    base = Path(stated) if Path(stated).is_absolute() else Path.home() / ".cache"
    return base / "tools-search-server"


@dataclass(frozen=True)
class ListingFile:
    """The listing file of one server.

    Args:
        target: How the server is reached.
        folder: The folder of all listing files.
    """

    target: Target
    folder: Path = field(default_factory=cache_folder)

    @property
    def path(self) -> Path:
        """The path of the file, whether it exists or not."""
        entry = json.dumps([type(self.target).__name__, asdict(self.target)], sort_keys=True)
        return self.folder / f"{hashlib.sha256(entry.encode('utf-8', 'surrogatepass')).hexdigest()[:32]}.json"

    def load(self) -> SavedListing | None:
        """Return the saved listing, or `None` if there is none that can be relied on."""
        try:
            with self.path.open("rb") as file:
                status = os.fstat(file.fileno())
                if status.st_uid != os.getuid() or status.st_mode & (stat.S_IWGRP | stat.S_IWOTH):
                    logger.warning("%s is ignored: others may have written it", self.path)
                    return None
                if status.st_size > _MAX_FILE_BYTES:
                    return None
                saved = SavedListing.model_validate(json.load(file), by_name=False)
        except FileNotFoundError:
            return None
        except (OSError, ValueError, RecursionError, ValidationError) as error:
            logger.warning("%s is ignored: %s", self.path, type(error).__name__)
            return None
        has_duplicates = len({tool.name for tool in saved.tools}) < len(saved.tools)
        return None if saved.version != _FORMAT_VERSION or has_duplicates else saved

    def save(self, listing: SavedListing) -> None:
        """Replace the file, atomically and readable for this user alone; failure is logged and costs nothing else."""
        partial: Path | None = None
        try:
            self.folder.mkdir(mode=0o700, parents=True, exist_ok=True)
            # A temporary file can be read by nobody else, and one that is renamed is never seen half written.
            with NamedTemporaryFile(dir=self.folder, prefix=".", delete=False) as file:
                partial = Path(file.name)
                file.write(listing.model_dump_json(by_alias=True, exclude_none=True).encode("utf-8", "replace"))
            partial.replace(self.path)
        except (OSError, ValueError) as error:
            logger.warning("the tools of a lazy server are not saved: %s", error)
            if partial is not None:
                partial.unlink(missing_ok=True)


class OnDemand:
    """The decisions of one lazy upstream: when to start, when not to try, and when to stop.

    Args:
        idle_seconds: How long the server runs on without a request.
        file: Its listing file.
    """

    def __init__(self, idle_seconds: float, file: ListingFile) -> None:
        self.idle_seconds = idle_seconds
        self.file = file
        self.saved: SavedListing | None = None
        """Its last listing; while there is none, the server is started without a request, to be known."""
        self._wanted = anyio.Event()
        self._attempted = anyio.Event()
        """Set when the attempt to start that is under way, or comes next, has succeeded or failed."""
        self._not_before = -math.inf
        self._last_used = -math.inf

    @property
    def may_start(self) -> bool:
        """Whether the pause after the last failure is over."""
        return anyio.current_time() >= self._not_before

    def touch(self) -> None:
        """Note that the server is in use."""
        self._last_used = anyio.current_time()

    async def start(self) -> None:
        """Ask for the server to be started, and return when that has succeeded or failed."""
        attempted = self._attempted
        self._wanted.set()
        await attempted.wait()

    async def wanted(self) -> None:
        """Return when a request asks for the server to be started."""
        await self._wanted.wait()

    def started(self) -> None:
        """Note that the server is connected."""
        self._not_before = -math.inf
        self.touch()
        self._attempted.set()

    def stopped(self, pause: float = 0) -> None:
        """Note that the server is not connected; requests have to ask for another start, after `pause` seconds."""
        self._not_before = anyio.current_time() + pause
        self._attempted.set()
        self._attempted, self._wanted = anyio.Event(), anyio.Event()

    def is_unused(self, *, is_busy: bool) -> bool:
        """Return whether the server has been in no use for long enough to be stopped."""
        if is_busy:
            self.touch()
        return anyio.current_time() - self._last_used >= self.idle_seconds

    async def until_unused(self, is_busy: Callable[[], bool]) -> None:
        """Return when the server has not been used for a while."""
        while not self.is_unused(is_busy=is_busy()):
            left = self._last_used + self.idle_seconds - anyio.current_time()
            await anyio.sleep(max(left, _SHORTEST_CHECK_SECONDS))
