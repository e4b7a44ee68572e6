"""Files that only this user can read."""

from __future__ import annotations

from pathlib import Path
from tempfile import NamedTemporaryFile


def replace_private_file(path: Path, content: bytes) -> None:
    """Replace a file atomically, readable only by this user. If that fails, the old file is unchanged.

    Its folder is created if necessary, for this user only.

    Raises:
        OSError: The file cannot be written.
    """
    path.parent.mkdir(mode=0o700, parents=True, exist_ok=True)
    with NamedTemporaryFile(dir=path.parent, prefix=".", delete=False) as file:  # mode 0600
        try:
            file.write(content)
            file.close()
            Path(file.name).replace(path)
        except BaseException:
            Path(file.name).unlink(missing_ok=True)
            raise
