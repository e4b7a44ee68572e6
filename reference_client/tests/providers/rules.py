"""What each provider refuses beyond the types of its SDK, as is known from its documentation and its errors."""

from __future__ import annotations

import json
import re
from collections import Counter
from collections.abc import Callable, Iterable, Mapping
from functools import cache
from typing import Any, cast

from jsonschema import Draft202012Validator
from jsonschema.exceptions import SchemaError

Json = Mapping[str, Any]

_NAME = {"gemini": re.compile(r"[A-Za-z_][A-Za-z0-9_.:-]{0,127}"), "other": re.compile(r"[a-zA-Z0-9_-]{1,64}")}
_ARGUMENT = re.compile(r"[a-zA-Z0-9_.-]{1,64}")
_PLAIN_ARGUMENT = re.compile(r"[a-zA-Z_][a-zA-Z0-9_]{0,63}")
_GEMINI = frozenset(
    ["$defs", "$ref", "type", "format", "title", "description", "enum", "items", "prefixItems", "minItems", "maxItems",
     "minimum", "maximum", "anyOf", "oneOf", "properties", "additionalProperties", "required", "propertyOrdering"]
)  # fmt: skip


def faults_of_chat_completions(body: Json) -> list[str]:
    tools = [tool["function"] for tool in body.get("tools", [])]
    faults = _of_tools([(tool["name"], tool["description"], tool["parameters"]) for tool in tools])
    faults += [f"the description of {tool['name']} is too long" for tool in tools if len(tool["description"]) > 1_024]
    faults += ["too many tools"] if len(tools) > 128 else []
    faults += ["tools are empty"] if body.get("tools") == [] else []
    open_calls: list[str] = []
    used: list[str] = []
    for number, message in enumerate(body["messages"]):
        role = message["role"]
        if role == "system" and number:
            faults.append("a system message is not the first")
        if role == "tool":
            if message["tool_call_id"] not in open_calls:
                faults.append("a result answers no open call")
            else:
                open_calls.remove(message["tool_call_id"])
        elif open_calls:
            faults.append(f"a {role} message stands before the results of {open_calls}")
        if role == "user" and number and body["messages"][number - 1]["role"] == "user":
            faults.append("a message of the user follows another")  # which the templates of many open models refuse
        if role in ("user", "tool") and not message["content"]:
            faults.append(f"a {role} message is empty")
        for call in message.get("tool_calls", []):
            open_calls.append(call["id"])
            used.append(call["id"])
            faults += [*_of_arguments(call["function"]["arguments"]), *_of_name(call["function"]["name"])]
        if message.get("tool_calls") == []:
            faults.append("tool_calls are empty")
    return faults + _of_ids(used, open_calls)


def faults_of_anthropic_messages(body: Json) -> list[str]:
    tools = body.get("tools", [])
    faults = _of_tools([(tool["name"], tool["description"], tool["input_schema"]) for tool in tools])
    deferred = {tool["name"] for tool in tools if tool.get("defer_loading")}
    if tools and len(deferred) == len(tools):
        faults.append("all tools are deferred")
    if body["messages"][0]["role"] != "user":
        faults.append("the first message is not of the user")
    shown: set[str] = set()
    open_calls: list[str] = []
    used: list[str] = []
    for message in body["messages"]:
        blocks = message["content"]
        results = [block for block in blocks if block["type"] == "tool_result"]
        faults += [] if blocks else ["a message is empty"]
        faults += ["a system message without the beta"] if message["role"] == "system" and "betas" not in body else []
        faults += _of_results(message["role"], results, open_calls)
        if blocks[: len(results)] != results:
            faults.append("results do not come first")
        faults += [fault for block in blocks for fault in [*_of_text(block), *_of_references(block)]]
        shown |= _shown_by(blocks)
        made = [block for block in blocks if block["type"] == "tool_use"]
        faults += [fault for block in made for fault in _of_name(block["name"])]
        open_calls = [block["id"] for block in made]
        used += open_calls
    if shown != deferred:
        faults.append(f"{shown ^ deferred} are either deferred or referred to, but not both")
    return faults + _of_ids(used, open_calls)


def faults_of_openai_responses(body: Json) -> list[str]:
    listed = [tool for tool in body.get("tools", []) if tool["type"] == "function"]
    loaded = [tool for item in body["input"] for tool in item.get("tools", [])]
    faults = _of_tools([(tool["name"], tool["description"], tool["parameters"]) for tool in [*listed, *loaded]])
    faults += ["there are several searches"] if len(body.get("tools", [])) - len(listed) > 1 else []
    open_calls: dict[str, str] = {}
    used: list[str] = []
    answer_to = {"function_call_output": "function_call", "tool_search_output": "tool_search_call"}
    for item in body["input"]:
        kind = item["type"]
        if kind in answer_to.values():
            open_calls[item["call_id"]] = kind
            used.append(item["call_id"])
        elif kind in answer_to:
            if open_calls.pop(item["call_id"], None) != answer_to[kind]:
                faults.append("an output answers no open call of its kind")
        elif kind == "message" and item["role"] == "user" and open_calls:
            faults.append("a message stands before the outputs of all calls")
        if kind == "function_call":
            faults += [*_of_arguments(item["arguments"]), *_of_name(item["name"])]
    return faults + _of_ids(used, open_calls)


def faults_of_gemini(body: Json) -> list[str]:
    config = body.get("config", body)
    declared = [one for tool in config.get("tools", []) for one in tool["functionDeclarations"]]
    schema = "parametersJsonSchema" if "config" in body else "parameters_json_schema"
    faults = _of_tools([(tool["name"], tool["description"], tool[schema]) for tool in declared], is_gemini=True)
    faults += ["too many declarations"] if len(declared) > 512 else []
    faults += [f"{tool['name']}: {key}" for tool in declared for key in _keywords(tool[schema]) if key not in _GEMINI]
    open_calls: list[tuple[str, str | None]] = []
    for content in body["contents"]:
        parts = content["parts"]
        responses = [part["functionResponse"] for part in parts if "functionResponse" in part]
        answered = [(response["name"], response.get("id")) for response in responses]
        if answered != open_calls:
            faults.append(f"{answered} does not answer {open_calls}")
        if responses and (len(responses) != len(parts) or content["role"] != "user"):
            faults.append("responses of functions stand among something else")
        calls = [part.get("functionCall") or part.get("function_call") for part in parts]
        open_calls = [(call["name"], call.get("id")) for call in calls if call]
        faults += [fault for name, _ in open_calls for fault in _of_name(name, is_gemini=True)]
        faults += [] if parts and content["role"] in ("user", "model") else ["a content is empty or of nobody"]
    return faults + ([f"{open_calls} is not answered"] if open_calls else [])


def _of_results(role: str, results: list[Json], open_calls: list[str]) -> list[str]:
    answered = sorted(result["tool_use_id"] for result in results)
    if answered == sorted(open_calls) and (role == "user" or not answered):
        return []
    return [f"a message answers {answered} after calls of {open_calls}"]


def _of_references(block: Json) -> list[str]:
    inner = [part["type"] for part in block["content"]] if block["type"] == "tool_result" else []
    return ["references are mixed with something else"] if "tool_reference" in inner and len(set(inner)) > 1 else []


def _shown_by(blocks: Iterable[Json]) -> set[str]:
    """Return the names of the tools that are shown by these blocks."""
    added = {block["tool"]["name"] for block in blocks if block["type"] == "tool_addition"}
    parts = [part for block in blocks if block["type"] == "tool_result" for part in block["content"]]
    return added | {part["tool_name"] for part in parts if part["type"] == "tool_reference"}


RULES: Mapping[str, Callable[[Json], list[str]]] = {
    "ChatCompletions": faults_of_chat_completions,
    "AnthropicMessages": faults_of_anthropic_messages,
    "OpenAIResponses": faults_of_openai_responses,
    "Gemini": faults_of_gemini,
}


def _of_tools(tools: Iterable[tuple[str, str, Any]], *, is_gemini: bool = False) -> list[str]:
    faults: list[str] = []
    names: Counter[str] = Counter()
    for name, description, schema in tools:
        names[name] += 1
        faults += [] if description else [f"{name} has no description"]
        faults += _of_name(name, is_gemini=is_gemini)
        if schema.get("type") != "object" or not isinstance(schema.get("properties"), dict):
            faults.append(f"the schema of {name} is not one of an object")
        faults += [
            f"{key} at the root of {name}" for key in ("oneOf", "anyOf", "allOf", "not", "enum") if key in schema
        ]
        pattern = _PLAIN_ARGUMENT if is_gemini else _ARGUMENT
        faults += [f"{name} has an argument {key!r}" for key in schema["properties"] if not pattern.fullmatch(key)]
        faults += [f"the schema of {name}: {error}" for error in _schema_errors(json.dumps(schema))]
    return faults + [f"{name} is there {count} times" for name, count in names.items() if count > 1]


def _of_name(name: str, *, is_gemini: bool = False) -> list[str]:
    return [] if _NAME["gemini" if is_gemini else "other"].fullmatch(name) else [f"{name!r} is not a valid name"]


@cache
def _schema_errors(schema: str) -> list[str]:
    try:
        Draft202012Validator.check_schema(json.loads(schema))
    except SchemaError as error:
        return [error.message]
    return []


def _keywords(schema: object) -> set[str]:
    """Return the keywords of a schema and of all schemas in it."""
    if not isinstance(schema, dict):
        return set()
    stated = cast("dict[str, Any]", schema)
    inner: list[object] = []
    for key, value in stated.items():
        if key in ("properties", "$defs"):
            inner += value.values()
        elif key not in ("enum", "required", "type", "propertyOrdering"):
            inner += cast("list[object]", value) if isinstance(value, list) else [value]
    return set(stated).union(*map(_keywords, inner))


def _of_arguments(stated: str) -> list[str]:
    try:
        return [] if isinstance(json.loads(stated), dict) else ["arguments are no object"]
    except ValueError:
        return ["arguments are not JSON"]


def _of_text(block: Json) -> list[str]:
    inner = [part for part in block["content"] if part["type"] == "text"] if block["type"] == "tool_result" else []
    texts = [part["text"] for part in [*inner, *([block] if block["type"] == "text" else [])]]
    return ["a text is blank"] if any(not text.strip() for text in texts) else []


def _of_ids(used: list[str], open_calls: Iterable[str]) -> list[str]:
    faults = ["an id is used twice"] if len(used) != len(set(used)) else []
    return faults + [f"{key} is not answered" for key in open_calls]
