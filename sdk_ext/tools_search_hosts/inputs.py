"""What `${input:key}` stands for: editors ask their user for it, and a file says under `inputs` what to ask."""

from __future__ import annotations

import re
from collections.abc import Callable, Mapping
from dataclasses import dataclass
from typing import Any, Final, TypeAlias, cast

from tools_search_hosts.expansion import UnresolvedVariable

__all__ = ["AskForInput", "Input", "Inputs"]

_PREFIX: Final = "MCP_INPUT_"
_NOT_IN_VARIABLES: Final = re.compile(r"[^A-Z0-9]+")


@dataclass(frozen=True, slots=True)
class Input:
    """One value that is asked for."""

    key: str
    description: str = ""
    is_secret: bool = False
    """Whether it is not shown while it is typed."""

    default: str | None = None

    @property
    def variable(self) -> str:
        """The environment variable that holds it, such as `MCP_INPUT_API_KEY` for `api-key`."""
        return _PREFIX + _NOT_IN_VARIABLES.sub("_", self.key.upper())


AskForInput: TypeAlias = Callable[[Input], str | None]
"""Asks the user; `None` where nobody can be asked."""


class Inputs:
    """The values of one file, each asked for at most once.

    Args:
        stated: The member `inputs`; what is not understood in it is passed over, since it is the editor's.
        environment: Where variables are looked up first.
        ask: Asks for what no variable holds.
    """

    def __init__(self, stated: Any, environment: Mapping[str, str], ask: AskForInput | None) -> None:
        objects = cast("list[Any]", stated) if isinstance(stated, list) else []
        described = [_input(cast("dict[str, Any]", one)) for one in objects if isinstance(one, dict)]
        self._described = {one.key: one for one in described}
        self._environment = environment
        self._ask = ask
        self._values: dict[str, str] = {}

    def __call__(self, key: str) -> str:
        """Return the value of `key`.

        Raises:
            UnresolvedVariable: There is none; the message says what to set.
        """
        if key not in self._values:
            self._values[key] = self._value(self._described.get(key, Input(key)))
        return self._values[key]

    def _value(self, wanted: Input) -> str:
        value = self._environment.get(wanted.variable)
        if value is None and self._ask is not None:
            value = self._ask(wanted)
        if value is None:
            value = wanted.default
        if value is None:
            raise UnresolvedVariable(
                f"the input {wanted.key!r} is not given: set the environment variable {wanted.variable}"
            )
        return value


def _input(stated: dict[str, Any]) -> Input:
    def text(member: str) -> str | None:
        value = stated.get(member)
        return value if isinstance(value, str) else None

    return Input(text("id") or "", text("description") or "", stated.get("password") is True, text("default"))
