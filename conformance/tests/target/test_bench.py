"""Which cells judge a check for the lists other than that of tools."""

from __future__ import annotations

import pytest
from tools_search_conformance.checks import SERVER_CHECKS
from tools_search_conformance.target.bench import transport_of
from tools_search_conformance.target.primitives import OTHER_METHODS

SHARED = {
    check.id: (check, methods)
    for check in SERVER_CHECKS.all
    if (methods := [method for method in check.methods if method in OTHER_METHODS])
}


@pytest.mark.parametrize("id_", SHARED)
def test_each_check_judges_some_list_over_each_transport(id_: str) -> None:
    check, methods = SHARED[id_]
    over = {transport_of(check, method, check.transports) for method in methods}
    assert len(over) == min(len(methods), len(check.transports))
