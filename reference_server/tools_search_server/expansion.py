"""Environment variables in a configuration: `${NAME}`, `${env:NAME}`, and `${NAME:-what to use without it}`."""

from __future__ import annotations

import os
import re
from collections.abc import Mapping
from typing import Final

__all__ = ["Unexpandable", "expanded"]

_VARIABLE: Final = re.compile(r"\$\{(?:env:)?(?P<name>[A-Za-z_][A-Za-z0-9_]*)(?::-(?P<default>[^}]*))?\}")

_OF_EDITORS: Final = re.compile(r"\$\{(?:(?:input|command|config):[^}]*|workspaceFolder[^}]*|userHome|pathSeparator)\}")


class Unexpandable(Exception):
    """A text that cannot be expanded here.

    Attributes:
        wrong: What stands in it.
        mend: What to do.
    """

    def __init__(self, wrong: str, mend: str) -> None:
        super().__init__(wrong)
        self.wrong = wrong
        self.mend = mend


def expanded(text: str, environment: Mapping[str, str] | None = None) -> str:
    """Return `text` with its variables replaced; anything else that starts with `$` stays as it is.

    Raises:
        Unexpandable: A variable is not set, or only an editor can know it.
    """
    values = os.environ if environment is None else environment
    if editor := _OF_EDITORS.search(text):
        raise Unexpandable(f"holds {editor[0]}, which only an editor can fill in", "Write the value itself.")

    def value(found: re.Match[str]) -> str:
        name, default = found["name"], found["default"]
        if name in values and (values[name] or default is None):
            return values[name]
        if default is not None:
            return default
        mend = f"Set {name} in the environment of this server, or write ${{{name}:-some default}}."
        raise Unexpandable(f"needs the environment variable {name}, which is not set", mend)

    return _VARIABLE.sub(value, text)
