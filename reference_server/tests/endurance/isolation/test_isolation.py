"""Nothing that a caller does not see changes its answers.

A gateway over random servers, of which a random toolset shows a caller some, answers random requests of every kind in
both eras; so does one that has nothing but those servers and tools. Answers and notifications have to be the same, byte
for byte but for times, session names and random tokens, while hidden servers crash and change and others search.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import replace
from pathlib import Path
from random import Random
from typing import Any, Final

import pytest
from isolation.configurations import random_configuration
from isolation.gateway_pair import Figures, GatewayPair, measure

CASES: Final = 200


@pytest.mark.rotating
def test_a_caller_is_answered_as_by_a_gateway_that_has_nothing_but_what_it_sees(say: Callable[[str], None]) -> None:
    figures = measure(CASES, 20261123, say)
    assert figures.differences == []
    assert figures.cases.total() >= CASES
    assert figures.hidden_events


@pytest.mark.endurance
def test_a_caller_is_answered_so_for_minutes(seconds: float, seed: int, say: Callable[[str], None]) -> None:
    figures = measure(CASES, seed, say, seconds=seconds)
    say(f"{figures.errors:,} errors, {figures.hidden_events:,} hidden events, {dict(sorted(figures.cases.items()))}")
    assert figures.differences == []


@pytest.mark.rotating
@pytest.mark.parametrize("change", ["instructions", "tools", "prompts"])
def test_what_differs_is_found(tmp_path: Path, change: str) -> None:
    rng = Random(3)  # noqa: S311
    full = random_configuration(rng)
    full = replace(full, rules=dict.fromkeys(full.servers, True))
    servers: dict[str, Any] = {name: {**one, "is_down": False, "has_more": True} for name, one in full.servers.items()}
    full, name = replace(full, servers=servers), next(iter(servers))
    other = {
        "instructions": {"instructions": "Something else."},
        "tools": {"tools": [{**tool, "description": "Else"} for tool in servers[name]["tools"]]},
        "prompts": {"prompts": [{**prompt, "title": "Else"} for prompt in servers[name]["prompts"]]},
    }
    alone = replace(full, servers={**servers, name: {**servers[name], **other[change]}})
    figures = Figures()
    with GatewayPair(full, tmp_path, rng, figures, alone=alone) as pair:
        pair.compare(60)
    assert figures.differences
