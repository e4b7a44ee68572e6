"""Which cells judge a check for the lists other than that of tools."""

from __future__ import annotations

import pytest
from tools_search_conformance.checks import SERVER_CHECKS
from tools_search_conformance.target.bench import turn_of
from tools_search_conformance.target.primitives import OTHER_METHODS

SHARED = {
    check.id: (check, methods)
    for check in SERVER_CHECKS.all
    if (methods := [method for method in check.methods if method in OTHER_METHODS])
}


@pytest.mark.parametrize("id_", SHARED)
def test_each_check_judges_some_list_in_both_eras_and_some_over_each_transport(id_: str) -> None:
    check, methods = SHARED[id_]
    turns = [turn_of(check, method, check.transports) for method in methods]
    assert any(in_both_eras for _, in_both_eras in turns)
    assert len({over for over, _ in turns}) == min(len(methods), len(check.transports))
    adapted = check.rule in {"definition-identity", "result-schema"}
    assert all(in_both_eras for _, in_both_eras in turns) is (adapted or len(methods) == 1)
