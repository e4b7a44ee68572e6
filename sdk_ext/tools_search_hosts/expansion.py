"""Variables in configuration values, in the spellings that hosts use.

`${NAME}` and `${env:NAME}` stand for an environment variable, `${NAME:-default}` for one that may be missing;
`${userHome}`, `${workspaceFolder}`, `${/}` and `${input:key}` are those of editors. A lone `$NAME` is left as it is:
arguments may mean it literally.
"""

from __future__ import annotations

import os
import re
from collections.abc import Callable, Mapping
from pathlib import Path
from typing import Final

__all__ = ["UnresolvedVariable", "expand"]

_REFERENCE: Final = re.compile(r"\$\{([^{}]*)\}")
_VARIABLE: Final = re.compile(r"(?:env:)?(?P<name>[A-Za-z_][A-Za-z0-9_]*)(?::-(?P<default>.*))?", re.DOTALL)
_EDITOR_FOLDERS: Final = frozenset({".vscode", ".cursor"})


class UnresolvedVariable(ValueError):
    """A reference that nothing stands behind; the message says how to mend it."""


def expand(
    text: str,
    environment: Mapping[str, str],
    folder: Path,
    inputs: Callable[[str], str],
    expanded: dict[str, str] | None = None,
) -> str:
    """Return `text` with every reference replaced.

    Args:
        text: A value of the configuration.
        environment: Where variables are looked up.
        folder: That of the configuration file.
        inputs: Returns the value of an input, or raises as this does.
        expanded: Takes the value of each variable and input, by name.

    Raises:
        UnresolvedVariable: A variable is not set and has no default, or there is no value for an input.
    """
    noted: dict[str, str] = {} if expanded is None else expanded
    return _REFERENCE.sub(lambda match: _value_of(match[1], environment, folder, inputs, noted), text)


def _value_of(
    reference: str,
    environment: Mapping[str, str],
    folder: Path,
    inputs: Callable[[str], str],
    expanded: dict[str, str],
) -> str:
    predefined = {"userHome": str(Path.home()), "workspaceFolder": str(_workspace(folder)), "/": os.sep}
    if reference in predefined:
        return predefined[reference]
    kind, colon, key = reference.partition(":")
    if kind == "input" and colon and key:
        return expanded.setdefault(reference, inputs(key))
    match = _VARIABLE.fullmatch(reference)
    if match is None:
        raise UnresolvedVariable(f"${{{reference}}} is not understood: use ${{NAME}} or ${{NAME:-default}}")
    default: str | None = match["default"]
    value = environment.get(match["name"], default)
    if value is None:
        name = match["name"]
        fault = f"the environment variable {name} is not set"
        raise UnresolvedVariable(f"{fault}: set it, or give a default as in ${{{name}:-value}}")
    expanded[match["name"]] = value
    return value


def _workspace(folder: Path) -> Path:
    return folder.parent if folder.name in _EDITOR_FOLDERS else folder
