"""The draft's requirements as data: schema, examples, one row per rule, and the rules of the base protocol.

This package only loads files. It imports no SDK and nothing else from this repository, so that the conformance suite
shares no code with what it judges.
"""

from __future__ import annotations

import json
from collections.abc import Mapping
from dataclasses import dataclass
from functools import cache
from importlib.resources import files
from typing import Any, Final, Literal

__all__ = [
    "EXTENSION_ID",
    "METHOD",
    "PRIMITIVES",
    "Advice",
    "BaseRule",
    "Example",
    "ExclusionKind",
    "Level",
    "Primitive",
    "Requirement",
    "Role",
    "advice",
    "base_rules",
    "examples",
    "requirements",
    "retired",
    "schema",
]

EXTENSION_ID: Final = "io.github.tools-search/tools-search"
"""The extension's identifier, in capabilities and in `Tool._meta`. Provisional and unofficial."""

METHOD: Final = "tools/search"
"""The request method that the extension defines."""


@dataclass(frozen=True, kw_only=True)
class Primitive:
    """A row of the table of methods in `draft/search-primitives.md`."""

    method: str
    """The method that searches."""
    items: str
    """Name of the found items' type in `$defs`."""
    member: str
    """The member of a result that contains the found items."""
    key: str
    """The member that distinguishes items."""
    list_method: str
    """The method that lists the same items."""
    setting: str
    """The member of the settings that advertises the method; empty for tools, which the extension itself advertises."""
    notification: str
    """The notification that the list has changed."""
    use_method: str
    """The method that uses a found item."""


PRIMITIVES: Final = (
    Primitive(
        method=METHOD,
        items="Tool",
        member="tools",
        key="name",
        list_method="tools/list",
        setting="",
        notification="notifications/tools/list_changed",
        use_method="tools/call",
    ),
    Primitive(
        method="resources/search",
        items="Resource",
        member="resources",
        key="uri",
        list_method="resources/list",
        setting="resources",
        notification="notifications/resources/list_changed",
        use_method="resources/read",
    ),
    Primitive(
        method="resources/templates/search",
        items="ResourceTemplate",
        member="resourceTemplates",
        key="uriTemplate",
        list_method="resources/templates/list",
        setting="resources",
        notification="notifications/resources/list_changed",
        use_method="resources/read",
    ),
    Primitive(
        method="prompts/search",
        items="Prompt",
        member="prompts",
        key="name",
        list_method="prompts/list",
        setting="prompts",
        notification="notifications/prompts/list_changed",
        use_method="prompts/get",
    ),
)
"""What can be searched. Only the first is part of the extension's core; the others are optional."""

Level = Literal["MUST", "MUST NOT", "SHOULD", "SHOULD NOT"]
"""The keyword of a sentence."""

Role = Literal["server", "client", "both"]
"""The party that a sentence binds."""

ExclusionKind = Literal["not-observable", "no-ground-truth"]
"""Why no check decides a sentence; the head of `requirements.yaml` says what each means."""

_DATA: Final = files(__name__)


@dataclass(frozen=True, kw_only=True)
class _Row:
    id: str
    """Such as `R-LIM-02`; never reused for another sentence."""
    role: Role
    text: str
    """The sentence in the document, with white space collapsed and without emphasis."""
    checks: tuple[str, ...]
    """Ids of the checks that decide it."""


@dataclass(frozen=True, kw_only=True)
class Requirement(_Row):
    """One normative sentence of the draft, with the checks that decide it or the reason why none does."""

    section: str
    """Anchor of the sentence's section, such as `#request`."""
    level: Level
    page: str = "tools-search.md"
    """File in the folder `draft` that has the sentence."""
    excluded: str | None = None
    """Why no check decides it; `None` if one does."""
    kind: ExclusionKind | None = None
    """The kind of exclusion; `None` if it is not excluded."""


@dataclass(frozen=True, kw_only=True)
class BaseRule(_Row):
    """One rule of the base protocol that a search can break, reworded; checked in the eras of `links`."""

    level: Level
    links: Mapping[str, str]
    """Places in the published specification by protocol revision, newest first."""


@dataclass(frozen=True, kw_only=True)
class Advice(_Row):
    """One sentence of a guide that checks judge. It is not binding. Ids are those of the first edition."""

    place: str
    """File and heading of the guide, such as `guides/servers.md#cursors`."""


@dataclass(frozen=True, kw_only=True)
class Example:
    """An example value for a type of the schema: valid, or invalid on purpose."""

    type: str
    """Name in `$defs` of the schema."""
    valid: bool
    name: str
    """File name without its suffix: what the example shows."""
    value: Any


@cache
def _read(name: str) -> str:
    return _DATA.joinpath(name).read_text(encoding="utf-8")


def schema() -> dict[str, Any]:
    """Return the JSON Schema (2020-12) of all messages, as a new value."""
    return json.loads(_read("schema.json"))


@cache
def _document() -> dict[str, Any]:
    import yaml  # comes with the judge's extra; callers that need only the schema do not need it

    # The C loader takes a tenth of the time, which matters at each start of the suite. Some builds of PyYAML lack it.
    loader = getattr(yaml, "CSafeLoader", yaml.SafeLoader)
    return yaml.load(_read("requirements.yaml"), loader)  # noqa: S506 - both are safe


def _rows(table: str) -> list[dict[str, Any]]:
    """Return the rows of a table, with the string or list `check` converted to the tuple `checks`."""
    rows: list[dict[str, Any]] = []
    for row in _document()[table]:
        members = dict(row)
        check: str | list[str] = members.pop("check", [])
        rows.append({**members, "checks": (check,) if isinstance(check, str) else tuple(check)})
    return rows


def requirements() -> list[Requirement]:
    """Return the rows of `requirements.yaml`, in the order of the draft."""
    return [Requirement(**row) for row in _rows("requirements")]


def base_rules() -> list[BaseRule]:
    """Return the rows of `requirements.yaml` that come from the base protocol."""
    url, rules = _document()["base_url"], list[BaseRule]()
    for row in _rows("base"):
        sections: dict[str, str] = row.pop("section")
        links = {revision: f"{url}/{revision}/{section}" for revision, section in sections.items()}
        rules.append(BaseRule(links=links, **row))
    return rules


def advice() -> list[Advice]:
    """Return the sentences of the guides that checks judge."""
    return [Advice(**row) for row in _rows("advice")]


def retired() -> dict[str, str]:
    """Return retired rows of the first edition by id, each with the reason or the id of the row that replaces it."""
    return dict(_document()["retired"])


def examples() -> list[Example]:
    """Return every file of `examples/<type>/{valid,invalid}/`, ordered by type, then validity, then name."""
    found = [
        Example(
            type=type_folder.name,
            valid=validity_folder.name == "valid",
            name=file.name.removesuffix(".json"),
            value=json.loads(file.read_text(encoding="utf-8")),
        )
        for type_folder in _DATA.joinpath("examples").iterdir()
        for validity_folder in type_folder.iterdir()
        for file in validity_folder.iterdir()
    ]
    return sorted(found, key=lambda example: (example.type, not example.valid, example.name))
