"""The driver contract: what is asked of a driver, what it may answer, and how the answer is read."""

from __future__ import annotations

import json
from collections.abc import Mapping
from dataclasses import dataclass
from functools import cache
from importlib.resources import files
from typing import Any, Final

from jsonschema import Draft202012Validator
from referencing import Registry

from tools_search_conformance.wire.codec import JsonObject, as_array, as_object
from tools_search_conformance.wire.process import TargetError

__all__ = ["CONTRACT_VERSION", "DriverError", "Told", "contract_schema", "read_answer"]

CONTRACT_VERSION: Final = 1
"""Version of `DRIVER.md` and of its schema."""

_EMPTY: Final[Registry[Any]] = Registry()


class DriverError(TargetError):
    """The driver cannot be started, spoken to or believed; the message says what to mend in it."""


@dataclass(frozen=True, kw_only=True)
class Told:
    """What a driver answered to one operation. Just one of the three members is set."""

    op: str
    ok: JsonObject | None = None
    error: JsonObject | None = None
    unsupported: bool = False

    @property
    def tools(self) -> list[JsonObject]:
        """The tools that the client found, as it handed them over; none where the operation failed."""
        found = as_array((self.ok or {}).get("tools")) or []
        return [tool for tool in map(as_object, found) if tool is not None]

    @property
    def names(self) -> list[str]:
        """Their names, in their order."""
        return [str(tool.get("name")) for tool in self.tools]

    @property
    def failed(self) -> list[str]:
        """The servers that the client says failed, in a federation."""
        return [str(name) for name in as_array((self.ok or {}).get("failed")) or []]

    def describe(self) -> str:
        """Return in a few words what the client said."""
        if self.error is not None:
            return f"the error {str(self.error['message'])[:200]!r}"
        if self.unsupported:
            return "unsupported"
        return f"the tools {self.names}" if "tools" in (self.ok or {}) else "success"


@cache
def contract_schema() -> JsonObject:
    """Return the JSON Schema of the contract."""
    return json.loads((files(__package__ or "") / "driver.schema.json").read_bytes())


def read_answer(op: str, answer: JsonObject) -> Told:
    """Return what a driver's answer to `op` says.

    Raises:
        DriverError: the answer is not one of the contract.
    """
    if op == "hello" and "sdk" in answer and "ok" not in answer:
        # What a driver says of itself may also stand beside the id.
        answer = {"id": answer["id"], "ok": {name: value for name, value in answer.items() if name != "id"}}
    _require(op, answer, {"$ref": "#/$defs/answer"})
    told = Told(
        op=op, ok=answer.get("ok"), error=answer.get("error"), unsupported=bool(answer.get("unsupported", False))
    )
    if told.ok is not None:
        _require(op, told.ok, contract_schema()["$defs"]["ok"].get(op, {"type": "object"}))
    return told


def _require(op: str, value: JsonObject, shape: Mapping[str, Any]) -> None:
    validator = Draft202012Validator({**shape, "$defs": contract_schema()["$defs"]}, registry=_EMPTY)
    error = next(iter(validator.iter_errors(value)), None)  # pyright: ignore[reportUnknownMemberType, reportUnknownArgumentType, reportUnknownVariableType] - untyped generator
    if error is not None:
        raise DriverError(
            f"the driver's answer to `{op}` is not one of DRIVER.md: {error.json_path}: {error.message[:300]}"
        )
