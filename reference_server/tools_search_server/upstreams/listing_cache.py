"""What a server offered when it was last connected, kept in a file so that it can be known without being started.

A file is read as what anyone may have written: checked for its owner, its size and every entry, and passed over
otherwise. Its name is a digest of the server's entry, so that another command, variable or address has another file.
"""

from __future__ import annotations

import hashlib
import json
import logging
import os
import stat
from collections.abc import Mapping
from dataclasses import asdict, dataclass, field
from pathlib import Path
from tempfile import NamedTemporaryFile
from typing import Any, Final

from mcp_types import Prompt, Resource, ResourceTemplate, ServerCapabilities, Tool
from pydantic import BaseModel, ConfigDict, ValidationError
from tools_search_hosts import Target

__all__ = ["Kept", "ListingCache", "cache_folder"]

logger = logging.getLogger(__name__)

_VERSION: Final = 1
_MOST_BYTES: Final = 64 * 1024 * 1024


class Kept(BaseModel):
    """What is kept of a server."""

    model_config = ConfigDict(extra="forbid")

    version: int = _VERSION
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
    """Return where this user's programs keep what they can do without."""
    stated = environment.get("XDG_CACHE_HOME", "")
    base = Path(stated) if Path(stated).is_absolute() else Path.home() / ".cache"
    return base / "tools-search-server"


@dataclass(frozen=True)
class ListingCache:
    """The file of one server.

    Args:
        target: How the server is reached.
        folder: Where the files are.
    """

    target: Target
    folder: Path = field(default_factory=cache_folder)

    @property
    def path(self) -> Path:
        """Where the file is, or would be."""
        entry = json.dumps([type(self.target).__name__, asdict(self.target)], sort_keys=True)
        return self.folder / f"{hashlib.sha256(entry.encode('utf-8', 'surrogatepass')).hexdigest()[:32]}.json"

    def load(self) -> Kept | None:
        """Return what was kept, or `None` where there is nothing that can be relied on."""
        try:
            with self.path.open("rb") as file:
                about = os.fstat(file.fileno())
                if about.st_uid != os.getuid() or about.st_mode & (stat.S_IWGRP | stat.S_IWOTH):
                    logger.warning("%s is passed over: others may have written it", self.path)
                    return None
                if about.st_size > _MOST_BYTES:
                    return None
                kept = Kept.model_validate(json.load(file), by_name=False)
        except FileNotFoundError:
            return None
        except (OSError, ValueError, RecursionError, ValidationError) as error:
            logger.warning("%s is passed over: %s", self.path, type(error).__name__)
            return None
        return kept if kept.version == _VERSION and _are_distinct(kept.tools) else None

    def save(self, kept: Kept) -> None:
        """Replace what is kept, at once and for this user alone; what cannot be written is done without."""
        partial: Path | None = None
        try:
            self.folder.mkdir(mode=0o700, parents=True, exist_ok=True)
            with NamedTemporaryFile(dir=self.folder, prefix=".", delete=False) as file:  # which nobody else may read
                partial = Path(file.name)
                file.write(kept.model_dump_json(by_alias=True, exclude_none=True).encode("utf-8", "replace"))
            partial.replace(self.path)
        except (OSError, ValueError) as error:
            logger.warning("the tools of a lazy server are not kept: %s", error)
            if partial is not None:
                partial.unlink(missing_ok=True)


def _are_distinct(tools: list[Any]) -> bool:
    return len({tool.name for tool in tools}) == len(tools)
