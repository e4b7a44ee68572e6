"""A failure once more: its requests on a fresh connection, then its check with the same cases in the same cell."""

from __future__ import annotations

import json
from collections.abc import Mapping
from dataclasses import dataclass, replace
from pathlib import Path
from tempfile import TemporaryDirectory
from typing import Any, Final

import anyio
from jsonschema import Draft202012Validator, ValidationError

from tools_search_conformance.clients.judge import ClientOptions, judge_client
from tools_search_conformance.model import CLIENT_PREFIX, Cell, Result, Run
from tools_search_conformance.report.failures import failure_schema
from tools_search_conformance.run.invocation import Options, judge_servers, targets_of
from tools_search_conformance.run.runner import say_nothing
from tools_search_conformance.target.target import Target
from tools_search_conformance.wire.codec import JsonObject, Spelled, as_object, same
from tools_search_conformance.wire.connection import Connection, RefusedError
from tools_search_conformance.wire.process import TargetError
from tools_search_conformance.wire.record import Answer, Exchange, Recorder

__all__ = ["Failure", "FailureFileError", "Repeated", "judge_again", "read_failure", "same_answer", "send_again"]

_OPENING: Final = frozenset({"server/discover", "initialize"})
_UNTOLD: Final = frozenset({"nextCursor"})
"""What may differ in two answers that say the same."""


class FailureFileError(ValueError):
    """The file holds no failure of this suite; the message says why."""


@dataclass(frozen=True)
class Failure:
    """What a failure file says."""

    told: Mapping[str, Any]

    @property
    def check(self) -> str:
        """Id of the check."""
        return self.told["check"]

    @property
    def cell(self) -> Cell:
        """Where it failed."""
        return Cell(transport=self.told["transport"], era=self.told["era"])

    @property
    def of_client(self) -> bool:
        """Whether a client failed."""
        return self.check.startswith(CLIENT_PREFIX)


@dataclass(frozen=True)
class Repeated:
    """One request as it was answered then, and now."""

    sent: JsonObject
    then: Answer
    now: Answer


def read_failure(path: Path) -> Failure:
    """Return what the file at `path` says.

    Raises:
        FailureFileError: it cannot be read, or says something else.
    """
    try:
        told = json.loads(path.read_bytes(), parse_float=Spelled)  # requests are sent with numbers as they were spelled
        Draft202012Validator(failure_schema()).validate(told)  # pyright: ignore[reportUnknownMemberType] - untyped
    except ValidationError as error:
        raise FailureFileError(f"{path} is no failure of this suite: {error.message[:300]}") from error
    except (OSError, ValueError, RecursionError) as error:
        raise FailureFileError(f"{path} cannot be read as JSON: {error}") from error
    return Failure(told)


async def send_again(failure: Failure, options: Options) -> list[Repeated]:
    """Send the requests of a server's failure again, in their order, on one fresh connection.

    A cursor is replaced by the one that the same request brings now.

    Raises:
        TargetError: the target cannot be reached, or no longer speaks the era.
    """
    refused: TargetError | None = None
    repeated: list[Repeated] = []
    with TemporaryDirectory(prefix="tools-search-") as folder:
        async with anyio.create_task_group() as tasks:
            targets = targets_of(options, tasks, Path(folder))
            recorder = Recorder(failure.cell.name)
            catalog = _catalog(failure, targets[0]) if options.effective_profile == "fixture" else None
            try:
                transport = await targets[0].connect(recorder.note, catalog)
                connection = Connection(transport, failure.cell.era, recorder)
                try:
                    await connection.open(options.start_timeout)
                    repeated = await _all(failure, connection, options.timeout)
                finally:
                    await connection.aclose()
            except (TargetError, RefusedError) as error:
                refused = TargetError(str(error))  # raised outside the group, which would wrap it
            finally:
                with anyio.CancelScope(shield=True):
                    await targets[0].aclose()
            tasks.cancel_scope.cancel()
    if refused is not None:
        raise refused
    return repeated


async def _all(failure: Failure, connection: Connection, seconds: float) -> list[Repeated]:
    cursors: dict[str, Any] = {}
    repeated: list[Repeated] = []
    for request in failure.told["requests"]:
        sent: JsonObject = request["sent"]
        exchange = await _one(sent, request.get("headers", {}), cursors, connection, seconds)
        then = _answer(request["answer"])
        issued = _result(then).get("nextCursor")
        if isinstance(issued, str):
            cursors[issued] = _result(exchange.answer).get("nextCursor", issued)
        repeated.append(Repeated(exchange.sent, then, exchange.answer))
    return repeated


async def _one(
    sent: JsonObject, headers: Mapping[str, str], cursors: Mapping[str, Any], connection: Connection, seconds: float
) -> Exchange:
    if sent.get("method") in _OPENING and connection.opening is not None:
        return connection.opening
    params = as_object(sent.get("params")) or {}
    if params.get("cursor") in cursors:
        sent = {**sent, "params": {**params, "cursor": cursors[params["cursor"]]}}
    return await connection.resend(sent, headers, seconds=seconds)


def same_answer(one: Answer, other: Answer) -> bool:
    """Tell whether two answers say the same, whatever their cursors are."""
    if one.message is None or other.message is None:
        return one.message is other.message
    return one.status == other.status and same(_told(one.message), _told(other.message))


def _told(message: JsonObject) -> JsonObject:
    if (result := as_object(message.get("result"))) is None:
        return message
    return {**message, "result": {name: value for name, value in result.items() if name not in _UNTOLD}}


def _answer(held: JsonObject) -> Answer:
    return Answer(message=held.get("message"), status=held.get("status"), fault=held.get("fault"))


def _result(answer: Answer) -> JsonObject:
    return as_object((answer.message or {}).get("result")) or {}


def _catalog(failure: Failure, target: Target) -> str:
    """Return the name of the failure's catalog; one that was generated is placed for `target`."""
    catalog: str | JsonObject = failure.told.get("catalog", "core")
    if isinstance(catalog, str):
        return catalog
    target.place("replayed", catalog)
    return "replayed"


async def judge_again(options: Options | ClientOptions, failure: Failure) -> tuple[Run, Result | None]:
    """Run the failure's check in its cell; return the run and its result, `None` where the cell could not be run.

    Raises:
        TargetError: the target cannot be reached.
    """
    with TemporaryDirectory(prefix="tools-search-") as folder:
        if isinstance(options, ClientOptions):
            run = await judge_client(replace(options, out=Path(folder)), say_nothing)
        else:
            run = await judge_servers(replace(options, out=Path(folder)), say_nothing)
    return run, next((result for result in run.results if result.cell == failure.cell), None)
