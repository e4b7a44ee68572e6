"""Visible tools and side effects: a search finds listed tools, as they are listed, and changes nothing."""

from __future__ import annotations

import json
from collections.abc import Callable, Sequence
from typing import Final

from tools_search_conformance.checks.matching import chosen
from tools_search_conformance.target.bench import Bench, server_check
from tools_search_conformance.target.generated import judge_pages, require_faithful
from tools_search_conformance.target.pages import Listing, Page, bare
from tools_search_conformance.target.vocabulary import Vocabulary, is_query
from tools_search_conformance.wire.codec import JsonObject, same

_SAMPLE: Final = 10
_CALLED: Final = 6


async def _judge_every_page(bench: Bench, judge: Callable[[Page, Listing], None], *, names: Sequence[str] = ()) -> None:
    """Judge the pages of searches of every kind, of searches for each of `names`, and of generated ones."""
    words = Vocabulary((await bench.nonempty_listing()).tools)
    queries = bench.some(words.sample(_SAMPLE))

    async def search(_: Listing) -> list[Page]:
        pages = [page for query in queries for page in (await bench.server.walk(query, most=10)).pages]
        return pages + [await bench.server.first(name, limit=1) for name in names]

    listing, pages = await bench.with_stable_listing(search)
    bench.require(any(page.tools for page in pages), f"no search found anything; tried {queries}")
    for page in pages:
        judge(page, listing)
    await judge_pages(bench, judge)


@server_check(
    title="Only listed tools are found",
    sends="`tools/list`, searches of every kind and generated ones, `tools/list`.",
    passes="Every tool found is on the list.",
)
async def subset_of_list(bench: Bench) -> None:
    def judge(page: Page, listing: Listing) -> None:
        case = f"query {page.exchange.sent['params']['query']!r}"
        for name in page.names:
            unlisted = f"{name!r} was found but is not on the list"
            bench.expect(name in listing.by_name, page.exchange, unlisted, case=case)

    await _judge_every_page(bench, judge)


@server_check(
    title="A tool is found as it is listed",
    sends="`tools/list`, searches of every kind, generated ones and for each tool by its name, `tools/list`.",
    passes="Definitions equal as JSON values, apart from `_meta` at the extension's key.",
)
async def definition_identity(bench: Bench) -> None:
    def judge(page: Page, listing: Listing) -> None:
        for tool in page.tools:
            if (listed := listing.by_name.get(tool["name"])) is not None:
                where = _difference(bare(listed), bare(tool))
                bench.expect(where is None, page.exchange, f"{tool['name']!r} differs from its listing: {where}")

    tools = chosen(bench, (await bench.nonempty_listing()).tools)
    await _judge_every_page(bench, judge, names=[name for tool in tools if is_query(name := tool["name"])])
    await require_faithful(bench)


def _difference(listed: JsonObject, found: JsonObject) -> str | None:
    for name in sorted({*listed, *found}):
        if (name in listed) != (name in found) or not same(listed.get(name), found.get(name)):
            shown, wanted = (
                json.dumps(tool[name], ensure_ascii=False)[:200] if name in tool else "absent"
                for tool in (found, listed)
            )
            return f"member {name!r} is {shown}, listed is {wanted}"
    return None


@server_check(
    title="A page holds each tool once",
    sends="Searches of every kind, and generated ones.",
    passes="The names on each page are distinct.",
)
async def no_duplicates(bench: Bench) -> None:
    def judge(page: Page, _: Listing) -> None:
        twice = sorted({name for name in page.names if page.names.count(name) > 1})
        bench.expect(not twice, page.exchange, f"{twice} more than once on a page")

    await _judge_every_page(bench, judge)


@server_check(
    title="A search changes no listing",
    sends="`tools/list` twice, a search for a tool by its name, and `tools/list` again: first of all, then once more.",
    passes="The same definitions in the same order each time.",
)
async def list_unchanged(bench: Bench) -> None:
    if bench.first_search is not None:
        kept, exchange = bench.first_search
        bench.expect(kept, exchange, "after the first search of all, tools/list returned something else")
    before = await bench.nonempty_listing()
    again = await bench.server.listing()
    bench.require(again.same_as(before), "tools/list changes without any search", again.exchange)
    same_listing = again.compared_to(before)
    names = [name for name in before.by_name if name.strip()]
    bench.require(bool(names), "the list is empty")
    allowed = 0 if bench.profile == "fixture" else 1  # on a live server one change may be a coincidence
    for name in names[:: max(1, len(names) // 3)][:3]:
        await bench.server.page(name)
        after = await bench.server.listing()
        allowed -= not same_listing(before, after)
        message = f"after a search for {name!r}, tools/list returned something else"
        bench.expect(allowed >= 0, after.exchange, message, case=f"query {name!r}")
        before = after


@server_check(
    title="A refused request changes no other answer",
    sends="`tools/list` and a first page; invalid searches; `tools/list`, that page and its second one again.",
    passes="The same listing and page, and the first page's cursor still holds.",
)
async def refusal_changes_nothing(bench: Bench) -> None:
    query = await bench.query_with_matches()
    good = {"query": query, "limit": 1}
    listing, first = await bench.server.listing(), await bench.server.page(query, limit=1)
    for bad in ({}, {"query": ""}, {**good, "limit": 0}, {"query": query, "cursor": "no such cursor"}):
        await bench.server.search(bad)
    after = await bench.server.listing()
    bench.expect(after.same_as(listing), after.exchange, "tools/list returned something else after refused searches")
    repeated = await bench.served(good, "a search after refused ones")
    kept = bool(repeated.tools) == bool(first.tools)
    bench.expect(kept, repeated.exchange, "a search found something else after refused ones")
    if first.next_cursor:
        await bench.served({**good, "cursor": first.next_cursor}, "a cursor from before refused searches")


@server_check(
    title="A search needs no listing before it",
    sends="`tools/search` for a tool by its name, as the first request of a fresh connection.",
    passes="A result that begins with that tool.",
)
async def search_unlisted(bench: Bench) -> None:
    name = Vocabulary((await bench.nonempty_listing()).tools).name_query
    async with bench.fresh() as other:
        await other.served({"query": name}, "a search as the first request of a connection")
        page = await other.server.first(name)
        message = f"{name!r} is not found before tools are listed"
        other.expect(name in page.names, page.exchange, message, case=f"query {name!r}")


@server_check(
    title="A found tool can be called at once",
    sends="On a fresh connection a search, and `tools/call` of the tools found, without any `tools/list`.",
    passes="A result that is no error for each call.",
    profiles=("fixture",),
)
async def callable_(bench: Bench) -> None:
    query = await bench.query_with_matches()
    found = [tool for tool in (await bench.server.first(query)).tools if "x-mcp-header" not in json.dumps(tool)]
    async with bench.fresh() as other:
        await other.server.search({"query": query})
        for tool in found[:_CALLED]:
            name, schema = tool["name"], tool["inputSchema"]
            arguments = schema.get("examples", [{}])[0]
            call = await other.server.ask("tools/call", {"name": name, "arguments": arguments})
            fine = call.result is not None and call.result.get("isError") is not True
            answer = call.describe() if call.result is None else json.dumps(call.result.get("content"))[:200]
            other.expect(fine, call, f"{name!r} was found, but its call was answered by {answer}", case=name)
