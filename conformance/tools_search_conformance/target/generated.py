"""Generated searches and catalogs, run once per cell and judged by many checks.

Because checks share the walks, seven invariants can be tested on as many cases as one; only a failing case is sent
again, to shrink it. Each generated catalog needs a server start, so one visit collects the evidence for all checks. The
judging functions raise `ViolationError` for the smallest case or catalog found that breaks the rule, and
`UnverifiableError` if a listing or a search's pages cannot be read.
"""

from __future__ import annotations

import json
import time
from collections import Counter
from collections.abc import Awaitable, Callable, Iterator, Sequence
from contextlib import suppress
from pathlib import Path
from tempfile import TemporaryDirectory
from typing import Any, Final

from hypothesis import strategies as st

from tools_search_conformance.catalogs.generated import CAPITALS, FEWER, LAST, catalog, kinds
from tools_search_conformance.model import Effort, UnverifiableError, ViolationError
from tools_search_conformance.target.bench import Bench
from tools_search_conformance.target.list_bench import content_terms
from tools_search_conformance.target.pages import Listing, Page, Survey, Walk
from tools_search_conformance.target.primitives import TOOLS
from tools_search_conformance.target.properties import draw, examples_for, explore, limits, queries
from tools_search_conformance.target.vocabulary import NONSENSE, Vocabulary, terms
from tools_search_conformance.wire.codec import JsonObject, same
from tools_search_conformance.wire.process import TargetError

CATALOGS: Final[dict[Effort, int]] = {"quick": 0, "default": 2, "deep": 20}
"""Number of generated catalogs per cell, each in a fixture of its own."""

_MAX_WALK_PAGES: Final = 12
_MAX_SURVEY_PAGES: Final = 4
_MAX_SHARED_PAGES: Final = 30
_MAX_WHOLE_PAGES: Final = 22
"""As many pages of 50 as it takes to go beyond `_COUNTED`."""
_COUNTED: Final = 1024
"""The last power of two that positions in the largest catalogs reach."""
_NAMED: Final = 40
_NAMED_OF_MANY: Final = 10
_LISTED_AGAIN: Final = 200
_SURVEY_LIMITS: Final = (3, 7)
_RESTARTS: Final = 20
_SHRINK_SECONDS: Final = 25.0
_SHOWN_CHARACTERS: Final = 1500

Judgement = Callable[[Survey], object]


async def explore_walks(bench: Bench, judge: Callable[[Walk, Listing], Awaitable[None]]) -> None:
    """Judge the walks of generated queries and limits, over a listing that did not change meanwhile."""
    shared = bench.shared

    async def search(listing: Listing) -> None:
        if shared.walked_over is None or not shared.walked_over.same_as(listing):
            shared.walked_over, shared.walks, shared.drawn = listing, {}, []

        async def walk(case: tuple[str, int]) -> None:
            if case not in shared.walks:
                shared.walks[case] = await bench.server.walk(*case, most=_MAX_WALK_PAGES)
            try:
                await judge(shared.walks[case], listing)
            except ViolationError:
                # Send it again next time, so that an intermittent fault is reported as such.
                shared.walks.pop(case)
                shared.walks.pop((case[0], None), None)
                raise

        contained = [inside for _, inside in await content_terms(bench)]
        cases = st.tuples(queries(await bench.vocabulary(), contained), limits())
        shared.drawn = shared.drawn or await draw(bench, cases, "walks", examples_for(bench))
        await explore(bench, cases, walk, name="walks", drawn=shared.drawn)

    await bench.with_stable_listing(search)


async def shared_whole(bench: Bench, query: str) -> Walk:
    """Return all pages, large ones, of a search that `explore_walks` found; walked once."""
    walks = bench.shared.walks
    if (query, None) not in walks:
        walks[query, None] = await bench.server.whole(query)
    return walks[query, None]


async def judge_pages(bench: Bench, judge: Callable[[Page, Listing], None]) -> None:
    """Judge every page of the searches with generated queries and of generated catalogs."""

    async def judge_walk(walk: Walk, listing: Listing) -> None:
        for page in walk.pages:
            judge(page, listing)

    await explore_walks(bench, judge_walk)
    await judge_surveys(bench, lambda survey: [judge(page, survey.listing) for page in survey.pages])


async def judge_walks(bench: Bench, judge: Callable[[Walk], None]) -> None:
    """Judge every walk of the searches with generated queries and of generated catalogs."""

    async def judge_walk(walk: Walk, _: Listing) -> None:
        judge(walk)

    await explore_walks(bench, judge_walk)
    await judge_surveys(bench, lambda survey: [judge(walk) for walk in (*survey.walks, *survey.wholes, *survey.shared)])


async def judge_surveys(bench: Bench, judge: Judgement) -> None:
    """Judge a fixture's surveys of generated catalogs; `require_faithful` reports failed ones."""
    for survey in await _surveys(bench):
        if isinstance(survey, Survey):
            try:
                judge(survey)
            except ViolationError as violation:
                raise await _smallest(bench, survey.catalog, violation, judge) from violation


async def require_faithful(bench: Bench) -> None:
    """Continue only if the fixture listed each generated catalog with its names, schemas and descriptions."""
    for survey in await _surveys(bench):
        if isinstance(survey, UnverifiableError):
            raise UnverifiableError(f"on a generated catalog, {survey.message}", survey.exchange)
        for tool in survey.catalog["tools"]:
            listed = survey.listing.by_key.get(tool["name"], {})
            schemas = same(listed.get("inputSchema"), tool["inputSchema"])
            texts = (listed.get("description") or "") == tool.get("description", "")  # some SDKs leave out empty ones
            wrong = [name for name, kept in (("inputSchema", schemas), ("description", texts)) if not kept]
            message = f"tools/list does not return {tool['name']!r} as a generated catalog file has it: {wrong}"
            bench.require(not wrong, message, survey.listing.exchange)


async def _surveys(bench: Bench) -> Sequence[Survey | UnverifiableError]:
    if bench.profile != "fixture" or bench.primitive is not TOOLS:
        return []
    if bench.shared.surveys is None:
        bench.shared.surveys = []
        for number, kind in enumerate(kinds(CATALOGS[bench.options.effort])):
            if kind == "vast" and not bench.first_cell:
                continue  # it takes seconds, and a server that cannot hold it fails the same way in every cell
            if kind != "vast" and not bench.has_turn(number):
                continue
            try:
                made = await _survey(bench, catalog(kind, f"{bench.options.seed} {kind} {number}"))
            except UnverifiableError as error:
                made = error
            except TargetError as error:
                made = UnverifiableError(str(error))
            bench.shared.surveys.append(made)
    return bench.shared.surveys


async def _survey(bench: Bench, made: JsonObject) -> Survey:
    """Start a fixture that serves a catalog, and search it; raises `TargetError` if it cannot be started."""
    with TemporaryDirectory(prefix="tools-search-") as folder:
        file = Path(folder, "generated")  # a catalog's name can be a full path
        file.with_suffix(".json").write_text(json.dumps(made, ensure_ascii=False), encoding="utf-8")
        async with bench.fresh(catalog=str(file)) as other:
            server, walks, wholes = other.server, list[Walk](), list[Walk]()
            _, opening = await server.opening()
            listing = await server.listing()
            words = Vocabulary(listing.items)
            # Names from across the catalog, including the first and the last one.
            count = _NAMED if len(words.keys) <= _NAMED else _NAMED_OF_MANY
            step = max(1, (len(words.keys) - 1) // (count - 1))
            spread = dict.fromkeys([*words.keys[::step][: count - 1], *words.keys[-1:]])
            spelled = Counter(name.casefold() for name in words.keys)
            asked = [(name, name) for name in spread]
            asked += [(name, f"\n\u0085{name}\u3000") for name in spread if spelled[name.casefold()] > 1]
            exchanges = await other.each(asked, lambda case: server.search({"query": case[1], "limit": 1}))
            named = [(name, exchange) for (name, _), exchange in zip(asked, exchanges, strict=True)]
            for query, limit in zip([*words.broad(1), *words.sample(2)[-1:]], _SURVEY_LIMITS, strict=False):
                try:
                    walk = await server.walk(query, limit, most=_MAX_SURVEY_PAGES)
                    beyond = len(listing.items) > _COUNTED and not walks
                    most = _MAX_WHOLE_PAGES if beyond else 1
                    wholes.append(await server.walk(query, await server.large_limit(), most=most))
                except UnverifiableError:
                    continue  # the searches by name show whether a search is served at all
                walks.append(walk)
            nothing, shared = await server.search({"query": NONSENSE}), list[Walk]()
            held = (FEWER, LAST, *(word for word in CAPITALS if len(listing.items) <= _COUNTED))
            for query in (word for word in held if words.frequency[terms(word)[0]]):
                with suppress(UnverifiableError):
                    shared.append(await server.walk(query, await server.large_limit(), most=_MAX_SHARED_PAGES))
            after = await server.listing() if len(listing.items) <= _LISTED_AGAIN else listing
    return Survey(made, opening, listing, tuple(named), tuple(walks), tuple(wholes), nothing, tuple(shared), after)


async def _smallest(bench: Bench, made: JsonObject, violation: ViolationError, judge: Judgement) -> ViolationError:
    """Return the violation for a minimal catalog, found within a few restarts."""
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
    case += f": {shown}" if len(shown) <= _SHOWN_CHARACTERS else ""
    smallest = ViolationError(f"{violation.message} (on a generated catalog of {many})", violation.exchange, case)
    smallest.catalog = {"tools": tools}
    return smallest


def _smaller(tools: list[JsonObject]) -> Iterator[list[JsonObject]]:
    """Yield smaller catalogs: without halves first, then ever smaller parts, and finally members of a single tool."""

    def without(members: JsonObject, name: str) -> JsonObject:
        return {kept: value for kept, value in members.items() if kept != name}

    parts = 2
    while parts <= len(tools):
        size = -(-len(tools) // parts)
        yield from (tools[:start] + tools[start + size :] for start in range(0, len(tools), size))
        parts *= 2
    if len(tools) == 1:
        (tool,) = tools
        schema: dict[str, Any] = tool["inputSchema"]
        yield from ([without(tool, name)] for name in tool if name not in {"name", "inputSchema"})
        yield from ([{**tool, "inputSchema": without(schema, name)}] for name in schema if name != "type")
        for name in schema.get("properties", ()):
            yield [{**tool, "inputSchema": {**schema, "properties": without(schema["properties"], name)}}]
