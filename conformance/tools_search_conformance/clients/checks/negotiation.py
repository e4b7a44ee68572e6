"""Negotiation: where the advertisement is looked for, which settings it may have, and how a client declares itself."""

from __future__ import annotations

import json
import secrets
from collections.abc import Mapping
from contextlib import suppress
from dataclasses import replace
from typing import Any, Final

from tools_search_spec import EXTENSION_ID, METHOD

from tools_search_conformance.clients.bench import ClientBench, NotConnectedError, Session, client_check
from tools_search_conformance.clients.disguise import Undisguised
from tools_search_conformance.clients.driver import NoDriverFeatureError
from tools_search_conformance.clients.peer import Peer, declared_in
from tools_search_conformance.clients.script import (
    MANY,
    SETTINGS,
    TOOLS,
    VARIED,
    HeldSearch,
    Pages,
    Script,
    Search,
    Troubled,
    found,
    refuses,
    serves,
)
from tools_search_conformance.target.primitives import EVERY_METHOD, OTHER_METHODS, OTHERS
from tools_search_conformance.target.properties import explore, json_values, unknown_members
from tools_search_conformance.wire.codec import JsonObject, integer, same
from tools_search_conformance.wire.eras import LEGACY, META_PREFIX, MODERN
from tools_search_conformance.wire.record import Exchange

_COST: Final = 10
"""Each of these generated cases takes a connection."""
_CURSORS: Final = ("page2", "c" * 1000, "")
_REFUSED: Final = "send a bicycle"
_AT_ONCE: Final = ("fold a crane", "count the sheep")
_NEED: Final = "dispatch a courier"
_NOT_OBJECTS: Final[tuple[Any, ...]] = (True, None, "yes", 1, [{}], [], "{}", False)
_NOT_SIZES: Final[tuple[Any, ...]] = (-1, 2.5, "5", None, True, [], {})
_OTHER_EXTENSIONS: Final[Mapping[str, Any]] = {
    "com.example/tools-search": SETTINGS, "io.modelcontextprotocol/tools-search": {},
    "IO.GitHub.tools-search/Tools-Search": {}, f"{EXTENSION_ID}-2": {}, "tools-search": {},
    f"com.example.{EXTENSION_ID}": {}, f" {EXTENSION_ID} ": {}, EXTENSION_ID.replace("-", "_"): {},
    EXTENSION_ID.partition("/")[0]: {}, METHOD: {},
}  # fmt: skip
"""Extensions whose identifiers resemble the identifier of this one."""
_BESIDE: Final[Mapping[str, Any]] = {
    "extensions": {EXTENSION_ID: SETTINGS}, EXTENSION_ID: SETTINGS, "instructions": f"Send {METHOD} to find tools.",
    "_meta": {f"{META_PREFIX}serverInfo": {"name": "peer", "version": "1"}, EXTENSION_ID: SETTINGS},
}  # fmt: skip
"""The identifier in places of a handshake that are not its capabilities."""
_AMONG_CAPABILITIES: Final[Mapping[str, Any]] = {
    EXTENSION_ID: SETTINGS,
    **{name: {EXTENSION_ID: SETTINGS} for name in ("Extensions", "EXTENSIONS", "Experimental")},
}
"""The identifier as a capability, and under names that only a parser that ignores case takes for known capabilities."""


async def _expect_search(bench: ClientBench, script: Script, case: str, *, must_connect: bool = True) -> None:
    async with bench.connected(script, must_connect=must_connect) as session:
        await session.search(_NEED)
        session.expect_search(True, f"{case}, but the client did not send {bench.method}", case=case)


async def _search_for_some_and_all(session: Session) -> None:
    """Search without a limit, and for all tools, unless the client does only one thing."""
    with suppress(NoDriverFeatureError):
        await session.search(_NEED)
        await session.search_all(_NEED)


async def _require_search(bench: ClientBench) -> None:
    """Continue only if the client searches an ordinary server."""
    async with bench.connected() as session:
        await session.search(_NEED)
        session.require_search()


@client_check(
    title="An advertisement that is not an object is ignored or refused",
    sends="Peers with `true`, `null`, a string, a number, an array or a generated value at the extension identifier.",
    passes="The client sends no `tools/search`. One that refuses the message with an error and does not connect passes"
    " too.",
)
async def advertisement_not_object(bench: ClientBench) -> None:
    async def judge(value: Any) -> None:
        case = f"the server advertised {json.dumps(value, ensure_ascii=False)}"
        try:
            async with bench.connected(Script(settings=value)) as session:
                with suppress(NoDriverFeatureError):
                    await session.search(_NEED)
                    await session.search_all(_NEED)
                session.expect_search(False, f"{case}, but the client sent tools/search", case=case)
        except NotConnectedError as refused:
            _expect_no_search_before(bench, refused, case)

    for value in bench.share(_NOT_OBJECTS):
        await judge(value)
    await explore(bench, json_values().filter(lambda value: not isinstance(value, dict)), judge, cost=_COST)


def _expect_no_search_before(bench: ClientBench, refused: NotConnectedError, case: str) -> None:
    """Expect that a client that did not connect sent no search last; raises `refused` if it sent nothing."""
    if refused.exchange is None:
        raise refused
    message = f"{case}, but the client sent tools/search, although it did not connect"
    bench.expect(refused.exchange.sent.get("method") != METHOD, refused.exchange, message, case=case)


@client_check(
    title="A legacy advertisement is found under `extensions` and under `experimental`",
    sends="Legacy peers that advertise only under `capabilities.extensions` or only under `capabilities.experimental`; "
    "the other place has nothing, or `true`.",
    passes="The client sends `tools/search` to each. If its SDK refuses to connect because of `true`, it passes too.",
    eras=(LEGACY,),
)
async def advertisement_either_place(bench: ClientBench) -> None:
    for place, other in (("extensions", "experimental"), ("experimental", "extensions")):
        case = f"the server advertised only under capabilities.{place}"
        await _expect_search(bench, Script(advertised={place: SETTINGS}), case)
        with suppress(NotConnectedError):
            mixed = Script(advertised={place: SETTINGS, other: True})
            await _expect_search(bench, mixed, f"{case}, with true under {other}", must_connect=False)


@client_check(
    title="Unknown settings are ignored",
    sends="Peers whose settings have unknown members, some of them generated. Then two peers without known settings, "
    "one of which has an unknown one.",
    passes="The client searches as usual. Of the last two peers, it searches both or neither.",
    methods=EVERY_METHOD,
)
async def settings_unknown_members(bench: ClientBench) -> None:
    settings = {**SETTINGS, "future": {"deep": [1, None]}, "maxQueries": "many", "x": True}
    settings |= {"enabled": False, "disabled": True, "supported": False, "deprecated": True, "version": 99}
    settings |= {"tools": False, "search": False, "methods": [], "requires": ["com.example/other"], "score": None}
    await _require_search(bench)
    await _expect_search(bench, Script(settings=settings), "the settings had unknown members")
    async with bench.connected(Script(settings={})) as session:
        await session.search(_NEED)
        searched = bool(session.peer.searches)
    async with bench.connected(Script(settings={"future": True})) as session:
        await session.search(_NEED)
        empty, unknown = ("searched", "did not search") if searched else ("did not search", "searched")
        message = f"the client {empty} a server with empty settings and {unknown} one with only an unknown setting"
        session.expect_search(searched, message, case="no known settings")

    async def judge(members: JsonObject) -> None:
        case = f"the settings had {json.dumps(members, ensure_ascii=False)}"
        await _expect_search(bench, Script(settings={**SETTINGS, **members}), case)

    await explore(bench, unknown_members(), judge, cost=_COST)


@client_check(
    title="Malformed settings do not disable the search",
    sends="Peers with a `maxLimit`, `topics`, `catalogSize` or setting for another search of a wrong type or range, or "
    "with a `maxLimit` of `50.0` or 2^64; the client has to find five tools, some, and all. A client that lists if "
    "there is no `catalogSize` is not judged by that setting.",
    passes="The client connects and searches as usual, with a valid `limit` or none.",
    methods=EVERY_METHOD,
)
async def settings_malformed(bench: ClientBench) -> None:
    wrong: tuple[tuple[str, Any], ...] = (
        ("maxLimit", 0), ("maxLimit", -1), ("maxLimit", 2.5), ("maxLimit", "fifty"), ("maxLimit", None),
        ("maxLimit", "2"), ("maxLimit", True), ("maxLimit", []),
        ("maxLimit", 50.0), ("maxLimit", 2**64), ("resources", True),
        ("topics", "invoices"), ("topics", [1, {}]), ("topics", None), ("topics", {"a": 1}),
    )  # fmt: skip
    await _require_search(bench)
    unsized = {name: value for name, value in SETTINGS.items() if name != "catalogSize"}
    async with bench.connected(Script(settings=unsized)) as session:
        await session.search(_NEED, 5)
        await _search_for_some_and_all(session)
        # A limit that the client sends whatever the settings are is what request-params judges.
        usual = [exchange.params["limit"] for exchange in session.peer.searches if "limit" in exchange.params]
        if session.peer.searches:
            wrong += tuple(("catalogSize", value) for value in _NOT_SIZES)
    cases: list[JsonObject] = [{member: value} for member, value in bench.share(wrong)]
    if bench.primitive.setting:
        others = {each.setting: True for each in OTHERS if each.setting != bench.primitive.setting}
        around = {"maxLimit": "fifty", "catalogSize": -1, "topics": 7, **others}
        of_resources = {"contents": "yes", "unlisted": None} if bench.primitive.setting == "resources" else {}
        cases.insert(0, Undisguised({**around, bench.primitive.setting: {**SETTINGS, **of_resources}}))
    for malformed in bench.some(cases, 4):
        settings = malformed if isinstance(malformed, Undisguised) else {**SETTINGS, **malformed}
        case = f"the settings had {json.dumps(malformed)}"
        async with bench.connected(Script(settings=settings), must_connect=True) as session:
            await session.search(_NEED, 5)
            session.expect_search(True, f"{case}, but the client did not send {bench.method}", case=case)
            await _search_for_some_and_all(session)
            for exchange in session.peer.searches:
                asked = exchange.params.get("limit", 1)
                message = f"{case}, and the client sent a search with limit {json.dumps(asked)}"
                valid = (integer(asked) or 0) >= 1 or any(same(asked, each) for each in usual)
                session.expect(valid, message, exchange, case=case)


@client_check(
    title="A server that does not advertise the extension is never searched",
    sends="Peers that advertise other extensions or none, but would answer `tools/search`. Some have `search` under "
    "`tools`; one has the address of a peer that advertised the extension; some list no tool or 2,000, or refuse "
    "`tools/list`, `tools/call` or `server/discover`; one declares no tools; some have the identifier in a wrong "
    "place, such as the name of a capability, next to the capabilities, in them under `Extensions`, or in the `_meta` "
    "of a listed tool. If the driver has `federation`, a peer in a federation with one that advertises the extension.",
    passes="The client sends no `tools/search`, however it searches, lists or calls, and whatever it finds. One that "
    "does not connect because `server/discover` or `tools/list` is refused or `extensions` is an array passes too.",
)
async def never_probes(bench: ClientBench) -> None:
    others = {"extensions": _OTHER_EXTENSIONS, "experimental": _OTHER_EXTENSIONS}
    plain = Script(advertised={}, capabilities={**others, "tools": {"listChanged": True, "search": True}})
    ways: tuple[tuple[str, dict[str, Any]], ...] = (
        ("search", {"query": _NEED, "limit": 2}), ("search_all", {"query": _NEED}), ("list_tools", {}),
    )  # fmt: skip
    for way, members in ways:
        async with bench.connected(plain, must_connect=True) as session:
            with suppress(NoDriverFeatureError):
                await session.ask(way, **members)
            message = "the server did not advertise the extension, but the client sent tools/search"
            session.expect_search(False, message, case=way)
    address = secrets.token_hex(16)
    async with bench.connected(address=address) as session:
        await session.search(_NEED, 2)
    unlisted, unknown = "and refused tools/list", "and did not know tools/list"
    toolless, array = "and declared no tools either", "but had an array as extensions"
    scripts = {
        "but an earlier one at its address had": plain,
        "and advertised no other": Script(advertised={}),
        "and listed no tool": replace(plain, tools=()),
        "and listed 2,000 tools": replace(plain, tools=MANY, list_page=500),
        unlisted: replace(plain, refuses={"tools/list": -32603}),
        unknown: replace(plain, refuses={"tools/list": -32601}),
        "and refused tools/call": replace(plain, refuses={"tools/call": -32020}),
        "and did not know the called tool": replace(plain, refuses={"tools/call": -32602}),
        toolless: Script(advertised={}, capabilities={**others, "tools": None}),
        "but had its identifier as a capability, under Extensions, next to capabilities, and in listed tools": Script(
            advertised={},
            capabilities=_AMONG_CAPABILITIES,
            handshake=_BESIDE,
            tools=[{**each, "_meta": {EXTENSION_ID: {"score": 1}}} for each in TOOLS],
        ),
        array: Script(advertised={}, capabilities={"extensions": [EXTENSION_ID]}),
    }
    untold = "and refused server/discover"
    if bench.cell.era == MODERN:
        scripts["but had its identifier under experimental"] = Script(advertised={"experimental": SETTINGS})
        scripts["but had its identifier under tools"] = Script(
            advertised={}, capabilities={"tools": {EXTENSION_ID: {}, "extensions": {EXTENSION_ID: {}}}}
        )
        scripts[untold] = replace(plain, refuses={"server/discover": -32601})
    for case, script in bench.share([*scripts.items()]):
        refused = case in (untold, array, unlisted, unknown, toolless)  # some clients then refuse to connect
        with suppress(*((NoDriverFeatureError,) if refused else ())):
            try:
                async with bench.connected(script, address=address, must_connect=not refused) as session:
                    with suppress(NoDriverFeatureError):  # a one-shot client does one thing
                        for need in (_NEED, "praise nobody", str(TOOLS[0]["name"])):
                            await session.search(need, 2)
                        await session.ask("call", name=TOOLS[0]["name"], arguments={})
                    if script is plain:
                        await session.do_everything(_NEED)
                    _expect_none(bench, session.peer, session.evidence, case)
            except NotConnectedError as unconnected:
                _expect_no_search_before(bench, unconnected, f"the server did not advertise the extension ({case})")

    async def beside_another(bench: ClientBench) -> None:
        async with bench.federated({"a": Script(), "b": plain}) as session:
            await session.search(_NEED, 10)
            _expect_none(bench, session.peers["b"], session.evidence, "but another server of the federation did")

    await bench.where_named("federation", beside_another)


def _expect_none(bench: ClientBench, peer: Peer, evidence: Exchange, case: str) -> None:
    message = f"the server did not advertise the extension ({case}), but the client sent tools/search"
    bench.expect(not peer.searches, (*peer.searches, evidence)[0], message, case=case)


@client_check(
    title="A client sends another search only to servers whose settings advertise it",
    sends="Peers that would answer this search, but do not advertise the extension, or advertise it with no other "
    "search, with only other searches and similar names, with a value that is not an object for this search, or, on a "
    "modern connection, with this search under `experimental` alone. The base protocol's capability for the list has a "
    "member `search`. Before, the client searches a peer that advertises it.",
    passes="The client sends no `resources/search`, `resources/templates/search` or `prompts/search`, however it "
    "searches.",
    driver_feature="primitives",
    methods=OTHER_METHODS,
)
async def never_probes_primitives(bench: ClientBench) -> None:
    name = bench.primitive.setting
    others: JsonObject = {primitive.setting: {} for primitive in OTHERS if primitive.setting != name}
    similar = (name[:-1], name.capitalize(), name.upper(), bench.primitive.member, "templates")
    like: JsonObject = {each: {} for each in similar if each != name}
    lacking: dict[str, JsonObject] = {
        "no setting of another search": {}, "only settings of other searches, and similar names": {**others, **like},
        f"{name} as an array": {**others, name: []},
        **{f"{name} as {json.dumps(value)}": {name: value} for value in (True, None, "{}", 1, False)},
    }  # fmt: skip
    address = secrets.token_hex(16)
    async with bench.connected(address=address) as session:
        await session.search(_NEED, 2)
    searched: JsonObject = {name: {"listChanged": True, "search": {}}}
    scripts = {
        f"the settings had {what}": Script(
            advertised=dict.fromkeys(("extensions", "experimental"), Undisguised({**SETTINGS, **settings})),
            capabilities=searched,
        )
        for what, settings in lacking.items()
    }
    if bench.cell.era == MODERN:
        experimental = Undisguised({**SETTINGS, name: {}})
        scripts["the setting was under experimental alone"] = Script(
            advertised={"extensions": Undisguised(SETTINGS), "experimental": experimental}
        )
    scripts["the extension was not advertised"] = Script(
        advertised={}, capabilities={"extensions": _OTHER_EXTENSIONS, **searched}
    )
    for case, script in scripts.items():
        async with bench.connected(script, address=address, must_connect=True) as session:
            await session.search(_NEED, 2)
            await session.search_all(_NEED)
            message = f"{case}, but the client sent {bench.method}"
            bench.expect(not session.peer.searches, (*session.peer.searches, session.evidence)[0], message, case=case)


@client_check(
    title="Every modern search declares the extension",
    sends="An ordinary modern peer to which the client sends everything that it can, including two concurrent "
    "searches, short, long and non-ASCII queries with small and large limits, many in a row, and one that is refused. "
    "Then a peer at the same address that is too busy at first, later refuses a cursor and a call, and has four pages, "
    "one of them empty, with a long and an empty cursor; a peer with empty settings, whose results may be cached "
    "for a moment; and one with few tools. If the driver has `federation`, also two peers at once.",
    passes="Each `tools/search` has an object at the extension identifier in `extensions` of the client capabilities.",
    eras=(MODERN,),
    methods=EVERY_METHOD,
)
async def declares_in_every_request(bench: ClientBench) -> None:
    address = secrets.token_hex(16)
    pages, held = Pages(TOOLS[:2], TOOLS[2:4]), HeldSearch(dict.fromkeys(_AT_ONCE, found()))
    searches: Mapping[str, Search] = {**dict.fromkeys(_AT_ONCE, held), _REFUSED: refuses(-32601)}
    ordinary = Script(search=lambda params: searches.get(params["query"], pages)(params))
    scripts = {
        "an ordinary server": ordinary,
        "a server that refuses some": Script(
            search=Troubled(Pages(*([each] for each in TOOLS[:2]), (), TOOLS[3:4], cursors=_CURSORS)),
            refuses={"tools/call": -32020},
        ),
        "a server without settings": Script(search=serves(found(TOOLS[0], ttlMs=1)), settings={}),
        "a server with few tools": Script(settings={"catalogSize": 2, "topics": [], "maxLimit": 1}),
    }
    for case, script in scripts.items():
        async with bench.connected(script, address=address) as session:
            await session.search_all("keep the books")
            with suppress(NoDriverFeatureError):  # a one-shot client does one thing
                await session.search("dispatch a courier", limit=3)
                await session.search_all("keep the books")
                if script.refuses:
                    await session.ask("call", name=TOOLS[0]["name"], arguments={})
                if script is ordinary:
                    await session.do_everything("keep the books")
                    await _search_at_once(bench, session, held)
                    for query, limit in VARIED:
                        await session.search(query, limit)
                    for need in (_REFUSED, "keep the books"):
                        await session.search(need, limit=3)
            if script.settings is SETTINGS:  # a client may list few tools, or if their number is not stated
                session.require_search()
            _expect_declared(bench, session.peer, case)
    await bench.where_named("federation", _expect_declared_to_several)


async def _expect_declared_to_several(bench: ClientBench) -> None:
    async with bench.federated({name: Script() for name in ("a", "b")}) as session:
        await session.search(_NEED, 10)
        for name, peer in session.peers.items():
            _expect_declared(bench, peer, f"the server {name} of two")


def _expect_declared(bench: ClientBench, peer: Peer, case: str) -> None:
    for number, exchange in enumerate(peer.searches, 1):
        message = f"{bench.method} does not declare the extension in extensions of its client capabilities"
        declares = declared_in(exchange, "extensions") is not None
        bench.expect(declares, exchange, message, case=f"request {number} to {case}")


async def _search_at_once(bench: ClientBench, session: Session, held: HeldSearch) -> None:
    """Have the client search while another search is under way, cancel that one, and search on, as far as it can."""
    features = (await bench.driver()).features
    if bench.primitive.setting or "concurrent" not in features:
        return
    for query in _AT_ONCE:
        await session.begin(query, query)
    if "cancel" in features:
        await session.cancel(_AT_ONCE[0])
    for query in _AT_ONCE:
        held.release(query)
    for query in _AT_ONCE["cancel" in features :]:
        await session.ask("await", of=query)


@client_check(
    title="A legacy handshake declares the extension",
    sends="An ordinary legacy peer.",
    passes="`initialize` has an object at the extension identifier in `extensions` or `experimental` of the "
    "capabilities.",
    eras=(LEGACY,),
)
async def declares_in_initialize(bench: ClientBench) -> None:
    async with bench.connected() as session:
        await session.search("keep the books")
        opening = session.opening
        session.expect(
            declared_in(opening) is not None,
            "initialize does not declare the extension in extensions or experimental of the capabilities",
            opening,
        )
