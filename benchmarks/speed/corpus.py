"""Catalogs of any size made from real tools."""

from __future__ import annotations

import random
import re
from collections.abc import Sequence
from dataclasses import dataclass
from itertools import count
from pathlib import Path
from typing import Any, TypeVar

from mcp_types import Tool

from benchmarks.datasets import read_dataset

_Part = TypeVar("_Part")


@dataclass(frozen=True)
class Corpus:
    """A catalog and its requests."""

    tools: Sequence[Tool]
    queries: Sequence[str]


def read_corpus(directories: Sequence[Path], size: int, *, queries: int, seed: int) -> Corpus:
    """Return `size` tools and some queries from all directories.

    A size below the number of tools takes a sample; one above adds `crossed` tools. Equal arguments give equal results.

    Raises:
        OSError: A file is missing.
        pydantic.ValidationError: A line has the wrong format.
    """
    datasets = [read_dataset(directory, "all") for directory in directories]
    chance = random.Random(seed)  # noqa: S311  # the same catalog in every run
    real = _uniquely_named([tool for dataset in datasets for tool in dataset.tools])
    asked = [query.query for dataset in datasets for query in dataset.queries]
    tools = chance.sample(real, size) if size <= len(real) else [*real, *crossed(real, size - len(real), seed)]
    return Corpus(tools, chance.sample(asked, min(queries, len(asked))))


def crossed(parents: Sequence[Tool], number: int, seed: int) -> list[Tool]:
    """Return tools crossed from two parents each, which keep the parents' vocabulary and text lengths.

    The first half of the name, description and parameters comes from one parent, and the second half from the other;
    labels come from the first.
    """
    chance = random.Random(seed)  # noqa: S311
    taken = {tool.name for tool in parents}
    children: list[Tool] = []
    while len(children) < number:
        first, other = chance.choice(parents), chance.choice(parents)
        name, description, schema = halves(first, other)
        children.append(
            Tool(name=_free(name or first.name, taken), description=description, input_schema=schema, _meta=first.meta)
        )
    return children


def halves(first: Tool, other: Tool) -> tuple[str, str, dict[str, Any]]:
    """Return name, description and input schema from the first half of one tool and the second half of another."""
    words = _halves(re.findall(r"[A-Za-z0-9]+", first.name), re.findall(r"[A-Za-z0-9]+", other.name))
    description = _halves((first.description or "").split(" "), (other.description or "").split(" "))
    properties = dict(_halves(_properties(first), _properties(other)))
    return "_".join(words), " ".join(description), {"type": "object", "properties": properties}


def _halves(first: Sequence[_Part], other: Sequence[_Part]) -> list[_Part]:
    return [*first[: (len(first) + 1) // 2], *other[len(other) // 2 :]]


def _properties(tool: Tool) -> list[tuple[str, Any]]:
    properties: dict[str, Any] = tool.input_schema.get("properties") or {}
    return list(properties.items())


def _free(name: str, taken: set[str]) -> str:
    """Return the name, with a number if it is already taken, and mark it as taken."""
    free = name if name not in taken else next(own for end in count(2) if (own := f"{name}_{end}") not in taken)
    taken.add(free)
    return free


def _uniquely_named(tools: Sequence[Tool]) -> list[Tool]:
    taken: set[str] = set()
    return [tool.model_copy(update={"name": _free(tool.name, taken)}) for tool in tools]
