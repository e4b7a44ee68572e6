"""Before any check: does the target start, speak this era, list its tools and offer the extension?

One sentence then says what forty failures would hide.
"""

from __future__ import annotations

import json
from contextlib import suppress
from importlib.resources import files

from tools_search_spec import EXTENSION_ID

from tools_search_conformance import catalogs
from tools_search_conformance.target.bench import Bench
from tools_search_conformance.target.pages import Listing, compared
from tools_search_conformance.target.shape import advertised
from tools_search_conformance.target.vocabulary import Vocabulary
from tools_search_conformance.verdict import UnverifiableError
from tools_search_conformance.wire.codec import JsonObject, as_array
from tools_search_conformance.wire.connection import Connection
from tools_search_conformance.wire.eras import LEGACY, Era

__all__ = ["NotOfferedError", "UnadvertisedError", "claims_legacy", "smoke"]


class NotOfferedError(Exception):
    """The target speaks, but has nothing to judge in this cell; the message says what is missing."""


class UnadvertisedError(NotOfferedError):
    """The target neither advertises the extension in this era nor serves it."""


def claims_legacy(connection: Connection) -> bool:
    """Tell whether a modern discovery promises the legacy revision as well."""
    return LEGACY in (as_array(connection.server.get("supportedVersions")) or [])


async def smoke(bench: Bench, *, known: bool = False) -> Connection:
    """Return the cell's connection once the target has shown that there is something to judge.

    Of a `known` fixture, which served its catalog before, another listing is a fault that list-unchanged tells.

    Raises:
        TargetError: it cannot be started or reached.
        RefusedError: it does not speak this era.
        NotOfferedError: it does not offer the extension in this era, or is no fixture although it should be one.
    """
    connection = await bench.connection()
    try:
        listing = await bench.listing()
    except UnverifiableError as error:
        raise NotOfferedError(f"it cannot list its tools: {error.message}") from error
    if advertised(connection) is None:
        probe = await bench.search({"query": await bench.plain()})
        if probe.result is None:
            raise UnadvertisedError(f"it does not advertise {EXTENSION_ID}, and refuses tools/search")
    if bench.profile == "fixture" and not known and not _is_fixture(listing, bench.cell.era):
        raise NotOfferedError(
            "it does not serve the catalog that the environment variable TOOLS_SEARCH_CATALOG names;"
            " --profile live judges a server with its own tools"
        )
    with suppress(UnverifiableError):  # that a listing fails later on, checks will tell
        again = await bench.listing()
        # The last tool: a server that moves what was found to the front shows it.
        await bench.search({"query": Vocabulary.of(listing.tools[::-1]).plain})
        after = await bench.listing()
        kept = compared(listing, again)(again, after) or not again.same_as(listing)
        bench.first_search = (kept, after.exchange.in_brief())
    return connection


def _is_fixture(listing: Listing, era: Era) -> bool:
    tools: list[JsonObject] = json.loads((files(catalogs) / "core.json").read_bytes())["tools"]
    names = {tool["name"] for tool in tools}
    # Such a definition is none of a legacy tool, so a server may leave the tool out.
    modern = {tool["name"] for tool in tools if tool.get("outputSchema", {"type": "object"}).get("type") != "object"}
    return set(listing.by_name) in ((names, names - modern) if era == LEGACY else (names,))
