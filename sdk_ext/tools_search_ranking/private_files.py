"""Files that only this user can read."""

from __future__ import annotations

import time
from contextlib import suppress
from pathlib import Path
from tempfile import NamedTemporaryFile
from typing import Final

_ABANDONED_SECONDS: Final = 3600
"""Age from which an unfinished file is left over from a process that was killed."""


def replace_private_file(path: Path, content: bytes) -> None:
    """Replace a file atomically, readable only by this user. If that fails, the old file is unchanged.

    Its folder is created if necessary, for this user only.

    Raises:
        OSError: The file cannot be written.
    """
    path.parent.mkdir(mode=0o700, parents=True, exist_ok=True)
    prefix = f".{path.name}."
    with suppress(OSError):  # first, since the disk may be full of them
        for draft in path.parent.iterdir():
            if draft.name.startswith(prefix) and time.time() - draft.stat().st_mtime > _ABANDONED_SECONDS:
                draft.unlink()
    with NamedTemporaryFile(dir=path.parent, prefix=prefix, delete=False) as file:  # mode 0600
        try:
            file.write(content)
            file.close()
            Path(file.name).replace(path)
        except BaseException:
            Path(file.name).unlink(missing_ok=True)
            raise
