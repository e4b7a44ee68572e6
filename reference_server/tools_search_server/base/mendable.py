"""What an operator has to mend before the server can start."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

__all__ = ["Mendable", "read_json"]


class Mendable(Exception):
    """A file that cannot be used as it is: which file, where in it, what is wrong and what to do.

    Attributes:
        file: The file, as the operator named it.
        place: The place in its JSON, such as `mcpServers.git.args[1]`, or a line; empty for the whole file.
        wrong: What was found there.
        mend: What to write instead.
    """

    def __init__(self, file: Path | str, place: str, wrong: str, mend: str) -> None:
        self.file = str(file)
        self.place = place
        self.wrong = wrong
        self.mend = mend
        super().__init__(str(self))

    def __str__(self) -> str:
        where = f"{self.file}, at {self.place}" if self.place else self.file
        return f"{where}: {self.wrong}. {self.mend}"


def read_json(file: Path, what: str) -> Any:
    """Return the JSON of a file.

    Args:
        file: Where to read.
        what: What the file should hold, for the advice when it cannot be read.

    Raises:
        Mendable: The file cannot be read, or is not JSON.
    """
    try:
        text = file.read_text(encoding="utf-8-sig")
    except OSError as error:
        raise Mendable(file, "", f"cannot be read ({error.strerror})", f"Name {what} that exists.") from None
    except UnicodeDecodeError:
        raise Mendable(file, "", "is not UTF-8 text", "Save it as UTF-8.") from None
    if not text.strip():
        raise Mendable(file, "", "is empty", f"Name {what}.")
    try:
        return json.loads(text)
    except json.JSONDecodeError as error:
        place = f"line {error.lineno} column {error.colno}"
        raise Mendable(file, place, f"is not JSON ({error.msg})", "Comments and trailing commas are no JSON.") from None
    except RecursionError:
        raise Mendable(file, "", "is nested too deeply", f"Name {what}.") from None
