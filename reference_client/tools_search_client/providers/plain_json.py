"""JSON that others wrote: checked, copied, and made fit to be sent on."""

from __future__ import annotations

import json
import math
from collections.abc import Mapping
from typing import Any, NoReturn, TypeVar, cast

from pydantic import BaseModel, ValidationError

from tools_search_client.errors import InvalidAnswerError
from tools_search_client.text import shorten

__all__ = [
    "arguments_sent_back",
    "as_list",
    "as_object",
    "checked",
    "compact",
    "copied",
    "read_arguments",
    "without_nulls",
]

Model = TypeVar("Model", bound=BaseModel)

_MOST_PROBLEMS = 3
_QUOTED_CHARS = 200


def checked(model: type[Model], answer: Mapping[str, Any], provider: str) -> Model:
    """Return the parts of a provider's answer that are read.

    Raises:
        InvalidAnswerError: They are not as the provider says.
    """
    try:
        return model.model_validate(answer)
    except ValidationError as error:
        stated = answer.get("error")
        if isinstance(stated, Mapping):  # some services say so with a status of success
            raise InvalidAnswerError(f"{provider}: {shorten(compact(stated), 2 * _QUOTED_CHARS)}") from None
        faults = [f"{'.'.join(map(str, one['loc'])) or 'the whole'}: {one['msg']}" for one in error.errors()]
        told = shorten("; ".join(faults[:_MOST_PROBLEMS]), 2 * _QUOTED_CHARS)
        raise InvalidAnswerError(f"the answer is not one of {provider}: {told}") from None


def copied(value: Any) -> Any:
    """Return a copy of JSON that can be sent as UTF-8: half of a surrogate pair becomes U+FFFD.

    Raises:
        InvalidAnswerError: The value is not JSON, or nested too deeply.
    """
    try:
        return _copied(value)
    except RecursionError:
        raise InvalidAnswerError("the JSON is nested too deeply") from None


def without_nulls(block: Mapping[str, Any], *left_out: str) -> dict[str, Any]:
    """Return a copy of an object without the members that are null, which mean nothing, and those that are named."""
    return {name: copied(value) for name, value in block.items() if value is not None and name not in left_out}


def as_object(value: object) -> dict[str, Any]:
    """Return a copy of a value that is an object, and an empty one for any other."""
    return dict(cast("dict[str, Any]", value)) if isinstance(value, dict) else {}


def as_list(value: object) -> list[Any]:
    """Return a value that is a list, and an empty one for any other."""
    return cast("list[Any]", value) if isinstance(value, list) else []


def compact(value: Any) -> str:
    """Return JSON without any white space that means nothing."""
    return json.dumps(value, ensure_ascii=False, separators=(",", ":"))


def read_arguments(stated: object) -> dict[str, Any] | str:
    """Return the arguments of a call, or what is wrong with them, for the model to read."""
    if stated is None or stated == "":
        return {}
    try:
        value = json.loads(stated, parse_constant=_refuse) if isinstance(stated, str) else stated
        if isinstance(value, Mapping):
            return copied(value)
    except (ValueError, RecursionError, InvalidAnswerError) as error:
        reason = shorten(str(error), _QUOTED_CHARS)
        return f"The arguments are not valid JSON ({reason}). Nothing was called; call again with a JSON object."
    return "The arguments must be a JSON object. Nothing was called; call again."


def arguments_sent_back(stated: object) -> str:
    """Return the arguments of a call as JSON: the same text, but for one that is no object, which services refuse."""
    text = stated if isinstance(stated, str) and stated else compact(stated or {})
    return compact({"not_an_object": text}) if isinstance(read_arguments(text), str) else text


def _copied(value: Any) -> Any:
    if isinstance(value, str):
        return value.encode("utf-8", "replace").decode() if _is_torn(value) else value
    if isinstance(value, Mapping):
        members = cast("Mapping[Any, Any]", value)
        return {_copied(str(name)): _copied(member) for name, member in members.items()}
    if isinstance(value, list | tuple):
        return [_copied(member) for member in cast("list[Any]", value)]
    if value is None or isinstance(value, bool | int) or (isinstance(value, float) and math.isfinite(value)):
        return value
    quoted = shorten(repr(value), _QUOTED_CHARS)
    raise InvalidAnswerError(f'{quoted} is not JSON, as `model_dump(mode="json")` gives it')


def _is_torn(text: str) -> bool:
    return any("\ud800" <= char <= "\udfff" for char in text)


def _refuse(constant: str) -> NoReturn:
    raise ValueError(f"{constant} is not JSON")
