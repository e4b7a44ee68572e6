"""JSON written by model providers, models and servers: checked, copied, and made safe to send on."""

from __future__ import annotations

import json
from collections.abc import Mapping
from typing import Any, Final, TypeVar, cast

from pydantic import BaseModel, ValidationError
from pydantic_core import to_jsonable_python

from tools_search_client.errors import InvalidAnswerError, LocalError
from tools_search_client.text import shorten

Model = TypeVar("Model", bound=BaseModel)

_MAX_PROBLEMS: Final = 3
_QUOTED_CHARS: Final = 200


class ArgumentsError(ValueError):
    """A call whose arguments cannot be understood; the message is written for the model."""


def checked(model: type[Model], answer: Mapping[str, Any], provider: str) -> Model:
    """Return the parts of a provider's answer that are read.

    Raises:
        InvalidAnswerError: They do not have the provider's format.
    """
    try:
        return model.model_validate(answer)
    except ValidationError as error:
        stated = answer.get("error")
        if isinstance(stated, Mapping):  # some services report a failure with a status of success
            raise InvalidAnswerError(f"{provider}: {shorten(compact_json(stated), 2 * _QUOTED_CHARS)}") from None
        problems = [f"{'.'.join(map(str, one['loc'])) or 'the whole'}: {one['msg']}" for one in error.errors()]
        quoted = shorten("; ".join(problems[:_MAX_PROBLEMS]), 2 * _QUOTED_CHARS)
        raise InvalidAnswerError(f"the answer is not one of {provider}: {quoted}") from None


def copied(value: Any) -> Any:
    """Return a copy of JSON that can be sent as UTF-8: half of a surrogate pair becomes a question mark.

    Raises:
        InvalidAnswerError: The value is not JSON, or is nested too deeply.
    """

    def members(value: object) -> dict[str, Any]:  # of mappings that are not dictionaries
        if isinstance(value, Mapping):
            return dict(cast("Mapping[str, Any]", value))
        raise TypeError(f"{shorten(repr(value), _QUOTED_CHARS)} is not JSON")

    try:
        text = json.dumps(value, ensure_ascii=False, allow_nan=False, default=members)
        return json.loads(text.encode(errors="replace"))
    except RecursionError:
        raise InvalidAnswerError("the JSON is nested too deeply") from None
    except (TypeError, ValueError) as error:
        raise InvalidAnswerError(f'not JSON, as `model_dump(mode="json")` gives it: {error}') from None


def require_sendable(model: type[BaseModel], what: str, **params: object) -> None:
    """Refuse what the SDK cannot send, before it is sent: that would end the connection for everyone who uses it.

    Raises:
        LocalError: `what`, as the message calls it, is not JSON in Unicode, is nested too deeply, or is invalid.
    """
    try:
        # The message around them is nested as well.
        text = json.dumps(to_jsonable_python([[[params]]]), ensure_ascii=False, allow_nan=False)
        text.encode()
        model.model_validate(params)
    except UnicodeEncodeError:
        raise LocalError(f"{what} cannot be sent: it contains an unpaired surrogate") from None
    except ValidationError as error:
        raise LocalError(f"{what} cannot be sent: {first_problem(error)}") from None
    except (TypeError, ValueError, RecursionError) as error:
        raise LocalError(f"{what} cannot be sent as JSON: {shorten(str(error), _QUOTED_CHARS)}") from None


def first_problem(error: ValidationError) -> str:
    """Return where the first problem is, and what it is."""
    first = error.errors(include_url=False, include_input=False)[0]
    place = ".".join(str(step) for step in first["loc"])
    return f"{place}: {first['msg']}" if place else first["msg"]


def without_nulls(block: Mapping[str, Any], *left_out: str) -> dict[str, Any]:
    """Return an object without the members that are null, which mean nothing, and those that are named."""
    return {name: value for name, value in block.items() if value is not None and name not in left_out}


def compact_json(value: Any) -> str:
    """Return JSON without white space between its parts."""
    return json.dumps(value, ensure_ascii=False, separators=(",", ":"))


def parse_arguments(stated: object) -> dict[str, Any]:
    """Return the arguments of a call, which providers send as an object or as the text of one.

    Raises:
        ArgumentsError: They are not a JSON object.
    """
    if stated is None or stated == "":
        return {}
    try:
        value = copied(json.loads(stated) if isinstance(stated, str) else stated)
    except (ValueError, RecursionError, InvalidAnswerError) as error:
        reason = shorten(str(error), _QUOTED_CHARS)
        raise ArgumentsError(
            f"The arguments are not valid JSON ({reason}). Nothing was called; call again with a JSON object."
        ) from None
    if not isinstance(value, dict):
        raise ArgumentsError("The arguments must be a JSON object. Nothing was called; call again.")
    return cast("dict[str, Any]", value)


def arguments_sent_back(stated: object) -> str:
    """Return the arguments of a call as JSON, unchanged unless they are no object, which services refuse."""
    text = stated if isinstance(stated, str) and stated else compact_json(stated or {})
    try:
        parse_arguments(text)
    except ArgumentsError:
        return compact_json({"not_an_object": text})
    return text
