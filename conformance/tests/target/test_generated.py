"""Generated catalogs: the same ones for the same seed, legal ones, and as small as a failure needs."""

from __future__ import annotations

import re
from collections.abc import Awaitable, Callable

import pytest
from jsonschema import Draft202012Validator
from tools_search_conformance.catalogs.generated import VAST, catalog, kinds
from tools_search_conformance.model import Run
from tools_search_conformance.target.pages import complaint

Command = Callable[..., tuple[str, ...]]
Judge = Callable[..., Awaitable[Run]]


@pytest.mark.parametrize("kind", kinds(4))
def test_a_generated_catalog_is_legal_and_follows_from_its_name(kind: str):
    made = catalog(kind, "7")
    assert made == catalog(kind, "7")
    names = [tool["name"] for tool in made["tools"]]
    assert len({*names}) == len(names)
    assert all(re.fullmatch(r"[A-Za-z0-9_.-]{1,128}", name) for name in names)
    for tool in made["tools"][:50]:
        assert complaint(tool, "LegacyTool") is None
        Draft202012Validator.check_schema(tool["inputSchema"])


def test_a_run_has_catalogs_of_every_kind_first():
    assert kinds(0) == []
    assert kinds(6) == ["odd", "vast", "single", "empty", "odd", "odd"]
    assert len(catalog("vast", "1")["tools"]) == VAST
    assert catalog("odd", "1") != catalog("odd", "2")


@pytest.mark.anyio
async def test_a_catalog_that_is_not_served_as_it_is_shows_nothing(target: Command, judge: Judge):
    broken = target("miniature", "--fault", "composed-everywhere")
    run = await judge("definition-identity", "no-duplicates", argv=broken, effort="default", era="2026-07-28")
    assert {result.check.rpartition("server-")[2]: result.status for result in run.results} == {
        "definition-identity": "unverified",
        "no-duplicates": "pass",
    }
    assert "as a generated catalog file has it" in run.of("unverified")[0].message
