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

from tools_search_conformance.model import SkipReason
from tools_search_conformance.verdict import InapplicableError
from tools_search_conformance.wire.codec import JsonObject, as_array, as_object
from tools_search_conformance.wire.large import cut
from tools_search_conformance.wire.process import TargetError

__all__ = ["CONTRACT_VERSION", "DriverError", "NoDriverFeatureError", "Told", "contract_schema", "read_answer"]

CONTRACT_VERSION: Final = 1
"""Version of `DRIVER.md` and of its schema."""

_EMPTY: Final[Registry[Any]] = Registry()


class DriverError(TargetError):
    """The driver cannot be started, spoken to or believed; the message says what to mend in it."""


class NoDriverFeatureError(InapplicableError):
    """The driver cannot do what the check needs."""

    kind: SkipReason = "driver-feature"


class UntoldError(NoDriverFeatureError):
    """What a client made of an answer is what the check is about, and nobody tells."""


@dataclass(frozen=True, kw_only=True)
class Told:
    """What a driver answered to one operation. Just one of `ok`, `error` and `unsupported` is set."""

    op: str
    answer: JsonObject | None
    """The whole answer, or `None` where the client did something and nobody tells what it made of it."""

    @property
    def ok(self) -> JsonObject | None:
        """What came of it.

        Raises:
            UntoldError: nobody tells.
        """
        return self._told().get("ok")

    @property
    def error(self) -> JsonObject | None:
        """Why it could not be done.

        Raises:
            UntoldError: nobody tells.
        """
        return self._told().get("error")

    @property
    def heard(self) -> bool:
        """Whether it is known what the client made of the answers."""
        return self.answer is not None

    @property
    def unsupported(self) -> bool:
        """Whether the driver or the client has no such operation."""
        return self.answer is not None and "unsupported" in self.answer

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
        if self.answer is None:
            return "nothing that a one-shot client tells"
        if self.error is not None:
            return f"the error {str(self.error['message'])[:200]!r}"
        if self.unsupported:
            return "unsupported"
        return f"the tools {cut(str(self.names), 500)}" if "tools" in (self.ok or {}) else "success"

    def _told(self) -> JsonObject:
        if self.answer is None:
            raise UntoldError("a one-shot client does not tell what it made of the answers")
        return self.answer


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
    told = Told(op=op, answer=answer)
    if told.ok is not None:
        _require(op, told.ok, contract_schema()["$defs"]["ok"].get(op, {"type": "object"}))
    return told


def _require(op: str, value: JsonObject, shape: Mapping[str, Any]) -> None:
    validator = Draft202012Validator({**shape, "$defs": contract_schema()["$defs"]}, registry=_EMPTY)
    error = next(iter(validator.iter_errors(value)), None)  # pyright: ignore[reportUnknownMemberType, reportUnknownArgumentType, reportUnknownVariableType] - untyped generator
    if error is not None:
        raise DriverError(
            f"the driver's answer to `{op}` is not one of DRIVER.md: {error.json_path[:300]}: {error.message[:300]}"
        )
