"""One id from the draft's sentence to the check: no check without a row, no row without its check."""

from __future__ import annotations

import json
from importlib.resources import files

import pytest
from jsonschema import Draft202012Validator
from tools_search_conformance import catalogs
from tools_search_conformance.checks import registered
from tools_search_conformance.clients.checks import client_checks
from tools_search_conformance.explain import rows_of
from tools_search_conformance.model import Check
from tools_search_spec import requirements

EVERY = (*registered(), *client_checks())


def test_every_check_that_a_row_names_is_registered():
    named = {check for row in requirements() for check in row.checks}
    assert named == {check.id for check in EVERY}


@pytest.mark.parametrize("check", EVERY, ids=lambda check: check.id)
def test_a_check_is_as_binding_as_its_sentences(check: Check):
    assert {row.level.removesuffix(" NOT") for row in rows_of(check.id)} == {check.level}


@pytest.mark.parametrize("check", EVERY, ids=lambda check: check.id)
def test_a_check_says_what_it_is_about(check: Check):
    assert all(text.strip() for text in (check.title, check.sends, check.passes))
    assert check.sends.endswith(".")
    assert check.passes.endswith(".")


@pytest.mark.parametrize("name", catalogs.NAMES)
def test_arguments_that_a_fixture_is_called_with_fit_its_schemas(name: str):
    tools = json.loads((files(catalogs) / f"{name}.json").read_bytes())["tools"]
    for tool in tools:
        for example in tool["inputSchema"]["examples"]:
            Draft202012Validator(tool["inputSchema"]).validate(example)  # pyright: ignore[reportUnknownMemberType] - untyped
            if "outputSchema" in tool:
                echo = {"name": tool["name"], "arguments": example}
                Draft202012Validator(tool["outputSchema"]).validate(echo)  # pyright: ignore[reportUnknownMemberType] - untyped


def test_the_core_catalogue_has_what_the_checks_need():
    tools = json.loads((files(catalogs) / "core.json").read_bytes())["tools"]
    assert len(tools) == len({tool["name"] for tool in tools}) == 48
    assert sum("Lumenfield" in tool.get("description", "") for tool in tools) > 20
    assert any("outputSchema" in tool for tool in tools)
    assert any("_meta" in tool for tool in tools)
    assert any(not tool.get("description", "").isascii() for tool in tools)
