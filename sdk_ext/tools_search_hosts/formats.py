"""The configuration formats of different hosts, and their conversion to a common form.

An entry has `command`, `args`, `env`, `cwd`, `url` and `headers`. What each host adds:

- Claude Desktop and Cursor keep servers in `mcpServers`; `envFile`.
- Claude Code keeps them in `projects.FOLDER.mcpServers`, over `mcpServers`; `disabledMcpServers` of a project.
- VS Code keeps them in `servers`, or in `mcp.servers` of its settings; `inputs`, `envFile`.
- Codex keeps them in `mcp_servers`, in TOML; `env_vars`, `http_headers`, `env_http_headers`, `bearer_token_env_var`.
- Zed keeps them in `context_servers`; `command` can be an object with `path`, and extensions have neither command nor
  address.
- Goose keeps them in `extensions`, in YAML, as `cmd`, `uri`, `envs` and `env_keys`; types that are parts of Goose are
  omitted.
"""

from __future__ import annotations

import json
import re
import tomllib
from collections.abc import Callable, Collection, Mapping
from functools import partial
from pathlib import Path
from typing import Any, Final, TypeAlias, cast

from tools_search_hosts.json_values import as_list, as_object, is_object
from tools_search_hosts.variables import named_by

_Object: TypeAlias = dict[str, Any]
_Convert: TypeAlias = Callable[[_Object], _Object | None]

_STRING: Final = r'("(?:[^"\\]+|\\.?)*"?)'
# Each character belongs to one match, and nothing is matched twice, so hostile texts take no longer than others.
_COMMENT: Final = re.compile(rf"{_STRING}|(//[^\n]*|/\*.*?\*/)|/\*.*", re.DOTALL)
_TRAILING_COMMA: Final = re.compile(rf"{_STRING}|,(?=\s*[}}\]])", re.DOTALL)

_ESCAPES: Final = re.compile("escape|hex value")
"""Matches what the parsers say of a Windows path such as "C:\\Users"."""

_PARTS_OF_GOOSE: Final = frozenset({"builtin", "platform", "frontend", "inline_python"})
"""Types of extensions that run inside Goose, where no other program can reach them."""


def read_document(path: Path, text: str) -> Any:
    """Parse a file's text: TOML or YAML by its extension, or else JSON with `load_lenient_json`.

    Raises:
        ValueError: The text is not in that format. The message names the format and the position.
    """
    load, name = _FORMATS.get(path.suffix.lower(), (load_lenient_json, "JSON"))
    try:
        return load(text)
    except (ValueError, RecursionError) as error:
        has_backslash = _ESCAPES.search(str(error))
        hint = ". In a path, write each backslash twice, or use / instead" if has_backslash else ""
        raise ValueError(f"it is not {name}: {error}{hint}") from error


def load_lenient_json(text: str) -> Any:
    """Parse JSON as in editors' settings files: with comments, trailing commas and a byte order mark.

    Raises:
        ValueError: The text is not JSON in this sense, or a name occurs twice in one object, so that one of two servers
            would silently be lost. Positions in the message refer to the original text.
    """
    # Replace comments and commas with white space of the same shape, so that positions stay correct.
    text = _COMMENT.sub(lambda match: re.sub(r"[^\n]", " ", match[2]) if match[2] else match[0], text)
    text = _TRAILING_COMMA.sub(lambda match: match[1] or " ", text)
    return json.loads(text, object_pairs_hook=_unique_names)


def in_common_form(
    document: _Object, *, kept: Collection[str], environment: Mapping[str, str], workspace: Path
) -> _Object:
    """Convert the contents of a host's file to the form of most hosts, with the servers in `mcpServers` or `servers`.

    A file that is already in that form, or in an unknown one, is returned unchanged. From others, the host's settings
    are omitted, which are all members but those in `kept`. Some hosts pass on only variables that are set in the
    environment, and some have separate servers for each project (`workspace`).
    """
    own = {name: value for name, value in document.items() if name in kept}
    # Before `mcpServers`, which Claude Code has too, for all projects.
    projects = document.get("projects")
    if is_object(projects) and "servers" not in document:
        return own | {"mcpServers": _from_claude_code(document.get("mcpServers", {}), projects, workspace)}
    if "mcpServers" in document or "servers" in document:
        return document
    converters: dict[str, _Convert] = {
        "mcp_servers": partial(_from_codex, environment=environment),
        "context_servers": _from_zed,
        "extensions": _from_goose,
    }
    for member, convert in converters.items():
        if is_object(servers := document.get(member)):
            return own | {"mcpServers": _each(servers, convert)}
    settings = as_object(document.get("mcp")) or {
        name.removeprefix("mcp."): value for name, value in document.items() if name.startswith("mcp.")
    }
    if "servers" in settings:
        return own | {"servers": settings["servers"], "inputs": settings.get("inputs")}
    unusable = [document[member] for member in converters if document.get(member)]  # for an error that says so
    return own | {"mcpServers": unusable[0]} if unusable else document


def projects_with_servers(document: _Object) -> list[str]:
    """Return the folders for which a Claude Code file has servers."""
    projects = as_object(document.get("projects"))
    return [name for name, entry in projects.items() if as_object(entry).get("mcpServers")]


def _from_claude_code(everywhere: Any, projects: _Object, workspace: Path) -> Any:
    project = projects.get(str(workspace))
    if not is_object(everywhere) or not is_object(project):
        return everywhere
    servers = everywhere | as_object(project.get("mcpServers"))
    switched_off = as_list(project.get("disabledMcpServers"))
    return {name: entry for name, entry in servers.items() if name not in switched_off}


def _each(servers: _Object, convert: _Convert) -> _Object:
    """Convert the entries. Those that are not objects stay unchanged, and are reported later."""
    converted = {name: convert(entry) if is_object(entry) else entry for name, entry in servers.items()}
    return {name: entry for name, entry in converted.items() if entry is not None}


def _from_codex(entry: _Object, environment: Mapping[str, str]) -> _Object:
    entry = _renamed(entry, {"http_headers": "headers"})
    listed, by_header = entry.pop("env_vars", None), entry.pop("env_http_headers", None)
    token = entry.pop("bearer_token_env_var", None)
    names = [entry.get("name") if is_object(entry) else entry for entry in as_list(listed)]
    passed_on = {str(name): f"${{{name}}}" for name in names if str(name) in environment}
    headers = {header: f"${{{name}}}" for header, name in as_object(by_header).items() if str(name) in environment}
    if token is not None:
        headers["Authorization"] = f"Bearer {named_by('bearer_token_env_var', token)}"
    return _with_defaults(_with_defaults(entry, "env", passed_on), "headers", headers)


def _from_zed(entry: _Object) -> _Object:
    entry = _renamed(entry, {})
    command = entry.get("command")
    return entry | _renamed(command, {"path": "command"}) if is_object(command) else entry


def _from_goose(entry: _Object) -> _Object | None:
    if entry.get("type") in _PARTS_OF_GOOSE:
        return None
    entry = _renamed(entry, {"cmd": "command", "uri": "url", "envs": "env"})
    secrets = {str(name): named_by("env_keys", name) for name in as_list(entry.pop("env_keys", None))}
    return _with_defaults(entry, "env", secrets)


def _renamed(entry: _Object, names: Mapping[str, str]) -> _Object:
    """Rename members of `entry`, and remove those that are null."""
    return {names.get(name, name): value for name, value in entry.items() if value is not None}


def _with_defaults(entry: _Object, member: str, values: Mapping[str, str]) -> _Object:
    """Add values to one of the objects in `entry`. Its own values take precedence."""
    stated = entry.get(member, {})
    return {**entry, member: {**values, **stated}} if values and is_object(stated) else entry


def _unique_names(pairs: list[tuple[str, Any]]) -> _Object:
    members: _Object = {}
    for name, value in pairs:
        if name in members:
            raise ValueError(f"the name {name!r} occurs twice in one object")
        members[name] = value
    return members


def _load_yaml(text: str) -> Any:
    import yaml  # only one host uses it

    try:
        return _as_json_values(yaml.safe_load(text))
    except yaml.MarkedYAMLError as error:  # its own text quotes the file, which may contain keys
        place = error.problem_mark
        where = f": line {place.line + 1} column {place.column + 1}" if place else ""
        raise ValueError(f"{error.problem}{where}") from error
    except yaml.YAMLError as error:
        raise ValueError("it has a character that is not allowed") from error


def _as_json_values(value: Any) -> Any:
    """Convert to values that JSON supports: names and dates become text."""
    match value:
        case dict():
            return {str(name): _as_json_values(member) for name, member in cast("dict[Any, Any]", value).items()}
        case list():
            return [_as_json_values(member) for member in cast("list[Any]", value)]
        case str() | int() | float() | None:
            return value
        case _:
            return str(value)


_FORMATS: Final[Mapping[str, tuple[Callable[[str], Any], str]]] = {
    ".toml": (tomllib.loads, "TOML"),
    ".yaml": (_load_yaml, "YAML"),
    ".yml": (_load_yaml, "YAML"),
}
