"""JSON from model providers, models and servers: validated, copied, and made safe to send."""

from __future__ import annotations

import json
from collections.abc import Mapping
from typing import Any, Final, TypeVar, cast

from pydantic import BaseModel, ValidationError
from pydantic_core import to_jsonable_python
from tools_search_hosts.validation import validation_problem

from tools_search_client.errors import InvalidAnswerError, LocalError
from tools_search_client.text import shorten

Model = TypeVar("Model", bound=BaseModel)

_MAX_PROBLEMS: Final = 3
_QUOTED_CHARS: Final = 200


class ArgumentsError(ValueError):
    """A call's arguments cannot be parsed. The message is for the model."""


def checked(model: type[Model], answer: Mapping[str, Any], provider: str) -> Model:
    """Return the parts of a provider's answer that the adapter reads.

    Raises:
        InvalidAnswerError: They do not have the provider's format.
    """
    try:
        return model.model_validate(answer)
    except ValidationError as error:
        stated = answer.get("error")
        if isinstance(stated, Mapping):  # some services report a failure with a status of success
            raise InvalidAnswerError(f"{provider}: {shorten(compact_json(stated), 2 * _QUOTED_CHARS)}") from None
        problems = map(validation_problem, error.errors(include_url=False)[:_MAX_PROBLEMS])
        quoted = shorten("; ".join(problems), 2 * _QUOTED_CHARS)
        raise InvalidAnswerError(f"the answer is not one of {provider}: {quoted}") from None


def copied(value: Any) -> Any:
    """Return a copy of JSON that can be sent as UTF-8: a lone surrogate becomes a question mark.

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
    """Refuse `params` that the SDK cannot send, because trying would end the connection for all its users.

    Raises:
        LocalError: They are not JSON in Unicode, are nested too deeply, or are invalid. The message calls them `what`.
    """
    try:
        # Nested as deeply as in the whole message.
        text = json.dumps(to_jsonable_python([[[params]]]), ensure_ascii=False, allow_nan=False)
        text.encode()
        model.model_validate(params)
    except UnicodeEncodeError:
        raise LocalError(f"{what} cannot be sent: it contains an unpaired surrogate") from None
    except ValidationError as error:
        raise LocalError(f"{what} cannot be sent: {validation_problem(error.errors()[0])}") from None
    except (TypeError, ValueError, RecursionError) as error:
        raise LocalError(f"{what} cannot be sent as JSON: {shorten(str(error), _QUOTED_CHARS)}") from None


def without_nulls(block: Mapping[str, Any], *left_out: str) -> dict[str, Any]:
    """Return an object without its null members, which mean nothing, and without `left_out`."""
    return {name: value for name, value in block.items() if value is not None and name not in left_out}


def compact_json(value: Any) -> str:
    """Return a value as JSON without white space between tokens."""
    return json.dumps(value, ensure_ascii=False, separators=(",", ":"))


def parse_arguments(stated: object) -> dict[str, Any]:
    """Return the arguments of a call, which providers send as an object or as JSON text.

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
    """Return the arguments of a call as JSON. If they are not an object, wrap them in one, or services refuse them."""
    text = stated if isinstance(stated, str) and stated else compact_json(stated or {})
    try:
        parse_arguments(text)
    except ArgumentsError:
        return compact_json({"not_an_object": text})
    return text
