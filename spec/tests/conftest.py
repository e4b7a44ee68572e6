"""What the tests of the draft share: its text, and its schema as a judge would use it."""

from __future__ import annotations

import sys
from collections.abc import Callable
from pathlib import Path
from typing import Protocol, cast

import pytest
from jsonschema import Draft202012Validator
from referencing import Registry
from tools_search_spec import schema

# So that the tests find the modules of this folder.
sys.path.insert(0, str(Path(__file__).parent))

Accepts = Callable[[str, object], bool]


@pytest.fixture(scope="session")
def spec_folder() -> Path:
    return Path(__file__).parents[1]


@pytest.fixture(scope="session")
def draft(pages: dict[str, str]) -> str:
    """Return the text of the core page."""
    return pages["tools-search.md"]


@pytest.fixture(scope="session")
def pages(spec_folder: Path) -> dict[str, str]:
    """Return the text of each page of the draft by its name, the core page first."""
    names = ("tools-search.md", "search-primitives.md")
    assert {path.name for path in (spec_folder / "draft").iterdir()} == {*names}
    return {name: (spec_folder / "draft" / name).read_text(encoding="utf-8") for name in names}


@pytest.fixture(scope="session")
def guides(spec_folder: Path) -> dict[str, str]:
    """Return the text of each guide by its path below the folder `spec`."""
    return {f"guides/{path.name}": path.read_text(encoding="utf-8") for path in (spec_folder / "guides").glob("*.md")}


@pytest.fixture(scope="session")
def accepts() -> Accepts:
    """Return whether a value is of a type of the schema, without ever fetching a reference."""
    whole = schema()
    validators = {
        name: Draft202012Validator({**whole, "$ref": f"#/$defs/{name}"}, registry=Registry()) for name in whole["$defs"]
    }
    return lambda name, value: cast("_Validator", validators[name]).is_valid(value)


class _Validator(Protocol):
    """What is used of a validator; its own annotations lack a type."""

    def is_valid(self, instance: object) -> bool: ...
