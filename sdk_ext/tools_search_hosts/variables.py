"""Variables in configuration values, in the syntaxes that hosts use.

`${NAME}` and `${env:NAME}` refer to an environment variable, and `${NAME:-default}` to one that may be missing. Editors
define `${userHome}`, `${workspaceFolder}`, `${workspaceFolderBasename}`, `${pathSeparator}` (or `${/}`) and
`${input:key}`. A plain `$NAME` is left unchanged, since arguments may mean it literally.
"""

from __future__ import annotations

import os
import re
from collections.abc import Callable, Mapping
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any, Final, TypeAlias

from tools_search_hosts.json_values import as_list, is_object
from tools_search_hosts.locations import home_folder

_REFERENCE: Final = re.compile(r"\$\{(?P<reference>(?P<name>(?:\w+(?::\w+)?)?)[^{}]*)(?P<end>\}?)")
_VARIABLE: Final = re.compile(r"(?:env:)?(?P<name>[A-Za-z_][A-Za-z0-9_]*)(?::-(?P<default>.*))?", re.DOTALL)
_NAME: Final = re.compile(r"[A-Za-z_][A-Za-z0-9_]*")
_NAMING_MEMBERS: Final = ("bearer_token_env_var", "env_keys")
"""Members of hosts' files with names of environment variables. Unlike references, they have no default."""
_NOT_IN_VARIABLES: Final = re.compile(r"[^A-Z0-9]+")


def named_by(member: str, name: object) -> str:
    """Return a reference to the environment variable whose name is the value of a host's `member`."""
    # Without an invalid name, which could be the secret itself, as many people write there.
    return f"${{{member}:{name if isinstance(name, str) and _NAME.fullmatch(name) else ''}}}"


@dataclass(frozen=True, slots=True)
class Input:
    """A value that editors prompt their user for."""

    key: str
    description: str = ""
    is_secret: bool = False
    """Whether to hide it while it is typed."""

    default: str | None = None

    @property
    def variable(self) -> str:
        """The environment variable for it, such as `MCP_INPUT_API_KEY` for `api-key`."""
        return "MCP_INPUT_" + _NOT_IN_VARIABLES.sub("_", self.key.upper())


AskForInput: TypeAlias = Callable[[Input], str | None]
"""Prompts the user. Returns `None` if that is not possible."""


@dataclass
class Variables:
    """The values for the references in one configuration file."""

    environment: Mapping[str, str]
    workspace: Path
    """The folder that editors call `${workspaceFolder}`."""

    inputs: Mapping[str, Input]
    """The inputs that the file describes, by key."""

    ask: AskForInput | None = None
    expanded: dict[str, str] = field(default_factory=dict[str, str])
    """Values of the variables and inputs that were referred to, by name."""

    given: dict[str, str] = field(default_factory=dict[str, str])
    """Values of inputs, so that each is asked for only once."""

    def expand(self, text: str) -> str:
        """Return `text` with every reference replaced.

        Raises:
            ValueError: A variable is not set and has no default, there is no value for an input, or a reference is not
                closed; the message says what to set or write.
        """
        return _REFERENCE.sub(self._value, text)

    def _value(self, match: re.Match[str]) -> str:
        if not match["end"]:  # without the rest of the text, which may be a key
            problem = f"`${{{match['name']}` is not closed, or has braces within it"
            raise ValueError(f"{problem}: write ${{NAME}} or ${{NAME:-default}}")
        reference = match["reference"]
        predefined = {
            "userHome": str(home_folder()),
            "workspaceFolder": str(self.workspace),
            "workspaceFolderBasename": self.workspace.name,
            "pathSeparator": os.sep,
            "/": os.sep,
        }
        if reference in predefined:
            return predefined[reference]
        kind, _, key = reference.partition(":")
        if kind == "input" and key:
            return self.expanded.setdefault(reference, self._input(key))
        if kind in _NAMING_MEMBERS:
            if not key:
                raise ValueError(f"`{kind}` must name an environment variable, not be its value")
            if key not in self.environment:
                raise ValueError(f"the environment variable {key}, which `{kind}` names, is not set: set it")
            return self.expanded.setdefault(key, self.environment[key])
        variable = _VARIABLE.fullmatch(reference)
        if variable is None:
            raise ValueError(f"${{{reference}}} is not understood: use ${{NAME}} or ${{NAME:-default}}")
        name: str = variable["name"]
        default: str | None = variable["default"]
        value = self.environment.get(name, default)
        if value is None:
            fault = f"the environment variable {name} is not set"
            raise ValueError(f"{fault}: set it, or give a default as in ${{{name}:-value}}")
        self.expanded[name] = value
        return value

    def _input(self, key: str) -> str:
        if key not in self.given:
            wanted = self.inputs.get(key, Input(key))
            value = self.environment.get(wanted.variable)
            if value is None and self.ask is not None:
                value = self.ask(wanted)
            if (value := wanted.default if value is None else value) is None:
                fault = f"the input {key!r} is not given"
                raise ValueError(f"{fault}: set the environment variable {wanted.variable}")
            self.given[key] = value
        return self.given[key]


def read_inputs(stated: Any) -> dict[str, Input]:
    """Return the inputs that a file's member `inputs` describes, by key.

    Editors define this member, so unknown content is skipped.
    """
    inputs: dict[str, Input] = {}
    for entry in as_list(stated):
        if is_object(entry):
            texts = {name: value for name, value in entry.items() if isinstance(value, str)}
            key, is_secret = texts.get("id", ""), entry.get("password") is True
            inputs[key] = Input(key, texts.get("description", ""), is_secret, texts.get("default"))
    return inputs
