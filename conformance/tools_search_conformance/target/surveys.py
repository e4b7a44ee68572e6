"""What a fixture makes of catalogs that nobody wrote, found out once in a cell and judged by many checks.

Every catalog takes a start, so one visit collects what all the checks need: the listing, a search for tools by their
names, walks, a search without a match. A catalog that breaks a rule is made smaller as far as a few restarts allow.
"""

from __future__ import annotations

import json
import time
from collections.abc import Callable, Iterator, Sequence
from contextlib import suppress
from dataclasses import dataclass
from pathlib import Path
from tempfile import TemporaryDirectory
from typing import TYPE_CHECKING, Any, Final

from tools_search_conformance.catalogs.strategies import catalog, kinds
from tools_search_conformance.target.pages import Listing, Page, Walk, read_page
from tools_search_conformance.target.vocabulary import NONSENSE, Vocabulary
from tools_search_conformance.verdict import UnverifiableError, ViolationError
from tools_search_conformance.wire.codec import JsonObject, same
from tools_search_conformance.wire.process import TargetError
from tools_search_conformance.wire.record import Exchange

if TYPE_CHECKING:
    from tools_search_conformance.model import Effort
    from tools_search_conformance.target.bench import Bench

__all__ = ["CATALOGS", "Survey", "judge_generated", "require_faithful"]

CATALOGS: Final[dict[Effort, int]] = {"quick": 0, "default": 2, "deep": 20}
"""How many generated catalogs a fixture is started with in each cell."""

_NAMED: Final = 25
_NAMED_OF_MANY: Final = 10
_LIMITS: Final = (3, 7)
_MOST_PAGES: Final = 4
_RESTARTS: Final = 20
_SHRINK_SECONDS: Final = 25.0
_SHOWN: Final = 1500
_BINDING: Final = ("inputSchema", "description")

Judgement = Callable[["Survey"], object]


@dataclass(frozen=True, kw_only=True)
class Survey:
    """What one visit to a fixture that serves a generated catalog brought."""

    catalog: JsonObject
    listing: Listing
    named: tuple[tuple[str, Exchange], ...]
    """For some names of tools, the first page of a search, whatever it brought."""
    walks: tuple[Walk, ...]
    wholes: tuple[Walk, ...]
    """A large first page for each of the same queries."""
    nothing: Exchange
    """A search for words of no language."""

    @property
    def pages(self) -> Iterator[Page]:
        """Every page of tools that a search brought."""
        yield from (page for walk in (*self.walks, *self.wholes) for page in walk.pages)
        for name, exchange in self.named:
            with suppress(UnverifiableError):  # that it is a page at all is for the searches by name to show
                yield read_page(exchange, name)


async def judge_generated(bench: Bench, judge: Judgement) -> None:
    """Judge what a fixture makes of generated catalogs; of a server with its own tools there is nothing to judge.

    Where a catalog could not be surveyed, that is for `require_faithful` to tell.

    Raises:
        ViolationError: of the smallest catalog that was found to break the rule.
    """
    for survey in await _surveys(bench):
        if isinstance(survey, Survey):
            try:
                judge(survey)
            except ViolationError as violation:
                raise await _smallest(bench, survey.catalog, violation, judge) from violation


async def require_faithful(bench: Bench) -> None:
    """Go on only where the fixture listed each generated catalog with the names, schemas and descriptions it has.

    Raises:
        UnverifiableError: it did not.
    """
    for survey in await _surveys(bench):
        if isinstance(survey, UnverifiableError):
            raise UnverifiableError(f"on a generated catalog, {survey.message}", survey.exchange)
        for tool in survey.catalog["tools"]:
            listed = survey.listing.by_name.get(tool["name"], {})
            wrong = [member for member in _BINDING if not same(listed.get(member), tool.get(member))]
            message = f"tools/list does not return {tool['name']!r} as a generated catalog file has it: {wrong}"
            bench.require(not wrong, message, survey.listing.exchange)


async def _surveys(bench: Bench) -> Sequence[Survey | UnverifiableError]:
    if bench.profile != "fixture":
        return []
    if bench.surveys is None:
        bench.surveys = []
        for number, kind in enumerate(kinds(CATALOGS[bench.setting.effort])):
            if kind == "vast" and not bench.setting.first:
                continue  # it takes seconds, and what cannot be held in one cell cannot be in another
            made = catalog(kind, f"{bench.setting.seed} {kind} {number}")
            try:
                bench.surveys.append(await _survey(bench, made))
            except (UnverifiableError, TargetError) as error:
                told = error if isinstance(error, UnverifiableError) else UnverifiableError(str(error))
                bench.surveys.append(told)
    return bench.surveys


async def _survey(bench: Bench, made: JsonObject) -> Survey:
    """Start a fixture that serves a catalog, and search it.

    Raises:
        UnverifiableError, TargetError: it cannot be started, or listed.
    """
    with TemporaryDirectory(prefix="tools-search-") as folder:
        file = Path(folder, "generated")  # a catalog's name may be a whole path
        file.with_suffix(".json").write_text(json.dumps(made, ensure_ascii=False), encoding="utf-8")
        async with bench.fresh(catalog=str(file)) as other:
            listing = await other.listing()
            words = Vocabulary.of(listing.tools)
            named = [(name, await other.search({"query": name, "limit": 1})) for name in _spread(words.names)]
            walks, wholes = await _walks(other, words)
            nothing = await other.search({"query": NONSENSE})
            return Survey(
                catalog=made,
                listing=listing,
                named=tuple(named),
                walks=tuple(walks),
                wholes=tuple(wholes),
                nothing=nothing,
            )


async def _walks(bench: Bench, words: Vocabulary) -> tuple[list[Walk], list[Walk]]:
    walks, wholes = list[Walk](), list[Walk]()
    for query, limit in zip([*words.broad(1), *words.sample(2)[-1:]], _LIMITS, strict=False):
        try:
            walk = await bench.walk(query, limit, most=_MOST_PAGES)
            wholes.append(await bench.walk(query, await bench.plenty(), most=1))
        except UnverifiableError:
            continue  # that a search is served at all is for the searches by name to show
        walks.append(walk)
    return walks, wholes


def _spread(names: Sequence[str]) -> list[str]:
    """Return names from everywhere in a catalog, the first and the last one among them."""
    count = _NAMED if len(names) <= _NAMED else _NAMED_OF_MANY
    step = max(1, (len(names) - 1) // (count - 1))
    return list(dict.fromkeys([*names[::step][: count - 1], *names[-1:]]))


async def _smallest(bench: Bench, made: JsonObject, violation: ViolationError, judge: Judgement) -> ViolationError:
    """Return the violation of a catalog from which nothing more could be left out, within a few restarts."""
    until = time.monotonic() + _SHRINK_SECONDS
    tools: list[JsonObject] = made["tools"]
    candidates = _smaller(tools)
    for _ in range(_RESTARTS):
        if time.monotonic() > until or (fewer := next(candidates, None)) is None:
            break
        try:
            judge(await _survey(bench, {"tools": fewer}))
        except ViolationError as found:
            tools, violation, candidates = fewer, found, _smaller(fewer)
        except (UnverifiableError, TargetError):
            continue
    many = "a tool" if len(tools) == 1 else f"{len(tools):,} tools"
    shown = json.dumps(tools, ensure_ascii=False)
    case = f"{violation.case or 'any search'}, on a generated catalog of {many}"
    smallest = ViolationError(
        f"{violation.message} (on a generated catalog of {many})",
        violation.exchange,
        f"{case}: {shown}" if len(shown) <= _SHOWN else case,
    )
    smallest.catalog = {"tools": tools}
    return smallest


def _smaller(tools: list[JsonObject]) -> Iterator[list[JsonObject]]:
    """Yield catalogs that lack something: halves first, then ever smaller parts; at last members of a single tool."""
    parts = 2
    while parts <= len(tools):
        size = -(-len(tools) // parts)
        yield from (tools[:start] + tools[start + size :] for start in range(0, len(tools), size))
        parts *= 2
    if len(tools) == 1:
        yield from ([lesser] for lesser in _lesser(tools[0]))


def _lesser(tool: JsonObject) -> Iterator[JsonObject]:
    for name in tool:
        if name not in {"name", "inputSchema"}:
            yield _without(tool, name)
    schema: dict[str, Any] = tool["inputSchema"]
    for name in schema:
        if name != "type":
            yield {**tool, "inputSchema": _without(schema, name)}
    for name in schema.get("properties", ()):
        yield {**tool, "inputSchema": {**schema, "properties": _without(schema["properties"], name)}}


def _without(members: JsonObject, name: str) -> JsonObject:
    return {kept: value for kept, value in members.items() if kept != name}
