"""What a caller does not see moves nothing that it is answered: a small part of `python -m benchmarks.isolation`."""

from __future__ import annotations

from dataclasses import replace
from pathlib import Path
from random import Random
from typing import Any, Final

import pytest

from benchmarks.isolation.measure import Figures, Pair, measure
from benchmarks.isolation.worlds import random_world

CASES: Final = 200


def test_a_caller_is_answered_as_by_a_gateway_that_has_nothing_but_what_it_sees() -> None:
    figures = measure(CASES, seed=20261123)
    assert figures.differences == []
    assert figures.cases.total() >= CASES
    assert figures.hidden_events


@pytest.mark.parametrize("change", ["instructions", "tools", "prompts"])
def test_what_differs_is_found(tmp_path: Path, change: str) -> None:
    rng = Random(3)  # noqa: S311
    world = random_world(rng)
    world = replace(world, rules=dict.fromkeys(world.servers, True))
    servers: dict[str, Any] = {name: {**one, "is_down": False, "has_more": True} for name, one in world.servers.items()}
    world, name = replace(world, servers=servers), next(iter(servers))
    other = {
        "instructions": {"instructions": "Something else."},
        "tools": {"tools": [{**tool, "description": "Else"} for tool in servers[name]["tools"]]},
        "prompts": {"prompts": [{**prompt, "title": "Else"} for prompt in servers[name]["prompts"]]},
    }
    alone = replace(world, servers={**servers, name: {**servers[name], **other[change]}})
    figures = Figures()
    with Pair(world, tmp_path, rng, figures, alone=alone) as pair:
        pair.compare(60)
    assert figures.differences
