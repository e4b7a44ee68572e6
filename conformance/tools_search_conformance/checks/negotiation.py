"""Negotiation: the server's advertisement and settings, and which clients it serves."""

from __future__ import annotations

from collections.abc import AsyncGenerator
from contextlib import AbstractAsyncContextManager, nullcontext, suppress
from functools import partial
from typing import Any, Final

from tools_search_spec import EXTENSION_ID

from tools_search_conformance.catalogs import COMMON, items
from tools_search_conformance.checks.callers import callers
from tools_search_conformance.checks.changes import changed_for_new_connections, with_added_item
from tools_search_conformance.model import InapplicableError, UnverifiableError
from tools_search_conformance.target.bench import Bench, server_check
from tools_search_conformance.target.generated import judge_surveys
from tools_search_conformance.target.list_bench import INVALID_PARAMS, MISSING_CAPABILITY, early_page
from tools_search_conformance.target.pages import Page, advertised_settings, complaint, settings_in, settings_of
from tools_search_conformance.target.primitives import OTHERS, TOOLS, keys_in
from tools_search_conformance.target.vocabulary import NONSENSE
from tools_search_conformance.wire.codec import JsonObject, as_object, json_text, same
from tools_search_conformance.wire.eras import DECLARED, LEGACY, MODERN, OLDER, OLDEST, UNDECLARED
from tools_search_conformance.wire.record import Exchange

_METHOD_NOT_FOUND: Final = -32601
_SETTINGS: Final = {primitive.setting for primitive in OTHERS}
_NAME_RULE: Final = "http-name-not-required"
_ONLY_NAMED: Final = "the server serves a search only with an Mcp-Name header"
_NO_OTHERS: Final = "the settings advertise no other search than the one for tools"
_NON_OBJECTS: Final[tuple[Any, ...]] = (True, None, "yes", [], [{}], 1, 0, False, "", "{}", 0.5)
_OF_NOTHING: Final = " for an empty catalog"
_OF_ONE_TOOL: Final = " for a catalog of a single tool"
_TO_RESTRICTED: Final = " for a caller from whom tools are hidden"
_CHANGED: Final = " after a change of the catalog"
_OF_EACH: Final = 2
_UNDECLARED: Final[tuple[tuple[JsonObject, str], ...]] = (
    ({}, "no capability"),
    ({"extensions": {"com.example/other": {}}}, "another extension only"),
    ({"experimental": {EXTENSION_ID: {}}}, "the extension under experimental, as only legacy clients may"),
    ({"extensions": {}, "tools": {"search": {}}, "sampling": {}, "roots": {}}, "other capabilities"),
    ({EXTENSION_ID: {}}, "the extension outside of extensions"),
    ({"extensions": {EXTENSION_ID.upper(): {}}}, "the identifier in capitals"),
    ({"extensions": {f"{EXTENSION_ID}-2": {}, f"{EXTENSION_ID}.2": {}}}, "longer identifiers"),
    ({"extensions": {EXTENSION_ID[:-1]: {}}}, "the beginning of the identifier"),
    ({"extensions": {"com.example/tools-search": {}}}, "the end of the identifier"),
    ({"extensions": {"com.example/other": {EXTENSION_ID: {}}}}, "the extension within another extension"),
    ({"Extensions": {EXTENSION_ID: {}}}, "the extension under Extensions"),
)
_MALFORMED: Final[tuple[JsonObject, ...]] = (
    {"extensions": None}, {"extensions": [EXTENSION_ID]}, {"extensions": EXTENSION_ID}, {"extensions": True},
    {"extensions": {key: {} for key in (f"{EXTENSION_ID}/", f" {EXTENSION_ID}", *EXTENSION_ID.split("/"))}},
)  # fmt: skip
"""Capabilities that a server may refuse as a whole, with any error."""
_DECLARATIONS: Final[tuple[tuple[JsonObject, str], ...]] = (
    ({"future": [1, {"deep": None}], "x": True}, "unknown members"),
    ({"enabled": False, "version": "2", "maxLimit": "many", "": None}, "unknown members with familiar names"),
    (
        {"version": 99, "maxLimit": 1, "limit": 1, "pageSize": 1, "settings": {"maxLimit": 1}},
        "unknown members with numbers",
    ),
)


@server_check(
    title="The server advertises the extension and the `tools` capability",
    sends="In the modern era, `server/discover` before any search and after some, also from a client that declares"
    " nothing; in the legacy era, `initialize` from such a client, from clients of older revisions, and from an"
    " ordinary client. Over HTTP, from a caller from whom a fixture hides tools. Once more after a change of the"
    " catalog, if the fixture can be reloaded.",
    passes="`capabilities.extensions` in a `server/discover` result has the settings object; `capabilities.tools` is"
    " declared too.",
    methods=(TOOLS.method,),
)
async def advertised(bench: Bench) -> None:
    async for capabilities, exchange, whom in _openings(bench):
        present = settings_of(capabilities, bench.cell.era) is not None
        if bench.cell.era == LEGACY and not present:
            continue  # advertised-legacy-both judges this
        bench.expect(present, exchange, f"capabilities.extensions has no object at {EXTENSION_ID!r}{whom}")
        tools = as_object((as_object(capabilities) or {}).get("tools"))
        bench.expect(tools is not None, exchange, f"the extension is advertised without the tools capability{whom}")
    bench.applies(
        bool(bench.recorder.judged), "the server does not advertise the extension; see advertised-legacy-both"
    )


@server_check(
    title="Other searches are advertised along with the base protocol's capability for their list",
    sends="`server/discover` or `initialize`, as in `advertised`; to a fixture, a search for an item of the catalog"
    " file with each method that the settings do not advertise.",
    passes="If the settings have `resources` or `prompts`, `capabilities` has the member of that name too, and the"
    " settings have them for every client; no search that is not advertised finds the item.",
    methods=(TOOLS.method,),
)
async def primitives_advertised(bench: Bench) -> None:
    settings = advertised_settings(await bench.server.connection())
    unnamed = [each for each in OTHERS if settings is not None and each.setting not in settings]
    for primitive in unnamed if bench.profile == "fixture" else ():
        key = items("core", primitive.member)[0][primitive.key]
        exchange = await bench.server.ask(primitive.method, {"query": key})
        if not exchange.replied:
            break  # the next one would get no answer either
        message = f"{primitive.method} finds {key!r}, but the settings have no {primitive.setting}"
        bench.expect(key not in keys_in(exchange), exchange, message, case=f"{primitive.method}, query {key!r}")
    judged, usual = False, set[str]()
    async for capabilities, settings, exchange, whom in _openings_with_others(bench):
        named = {name for name in _SETTINGS if as_object(settings.get(name)) is not None}
        usual = usual or named
        lacking = ", ".join(sorted(usual - named)) if whom not in {_OF_NOTHING, _OF_ONE_TOOL} else ""
        bench.expect(not lacking, exchange, f"the settings have no {lacking}, unlike those at the first opening{whom}")
        for name in named:
            declared = as_object((as_object(capabilities) or {}).get(name)) is not None
            message = f"the settings have {name}, but capabilities.{name} is not declared{whom}"
            bench.expect(declared, exchange, message)
            judged = True
    bench.applies(judged, _NO_OTHERS)


@server_check(
    title="The settings of other searches conform to the schema",
    sends="`server/discover` or `initialize`, as in `advertised`.",
    passes="`resources` and `prompts`, if present, conform to `PrimitivesServerSettings`; unknown members are allowed.",
    methods=(TOOLS.method,),
)
async def primitives_settings_shape(bench: Bench) -> None:
    async for _, settings, exchange, whom in _openings_with_others(bench):
        own = {name: settings[name] for name in _SETTINGS if name in settings}
        wrong = complaint(own, "PrimitivesServerSettings")
        bench.expect(wrong is None, exchange, f"the settings do not conform to the schema at {wrong}{whom}")


async def _openings_with_others(bench: Bench) -> AsyncGenerator[tuple[Any, JsonObject, Exchange, str]]:
    """Yield the openings with their settings, if the first one advertises other searches."""
    connection, _ = await bench.server.opening()
    named = _SETTINGS & (advertised_settings(connection) or {}).keys()
    bench.applies(bool(named), _NO_OTHERS)
    async for capabilities, exchange, whom in _openings(bench):
        settings = settings_of(capabilities, bench.cell.era)
        if settings is not None:  # `advertised` judges whether there are any
            yield capabilities, settings, exchange, whom


@server_check(
    title="The server serves every other search that it advertises",
    sends="Before any check, the list of resources, templates and prompts if their search is advertised, and searches"
    " for one by its key, for a word that several have, and for a word that none has.",
    passes="A result for at least one of these searches by each method; `resources` also advertises that for"
    " templates.",
    methods=(TOOLS.method,),
)
async def primitives_served(bench: Bench) -> None:
    bench.applies(bool(bench.offered), _NO_OTHERS)
    for other in bench.offered:
        exchange = other.first_answer
        if exchange is None:
            raise UnverifiableError(f"{other.method}: {other.unread}")
        bench.require(exchange.replied, f"{other.method}: a search got {exchange.describe()}", exchange)
        if not other.has_served and bench.cell.transport == "http":
            only_named, again = await other.wants_name_header()
            bench.require(not only_named, f"{other.method}: {_ONLY_NAMED}", again, consequence_of=_NAME_RULE)
        _expect_served(bench, exchange, other.method, served=other.has_served)


def _expect_served(bench: Bench, exchange: Exchange, what: str, *, served: bool) -> None:
    hint = ": is the method registered?" if exchange.error_code == _METHOD_NOT_FOUND else ""
    bench.expect(served, exchange, f"{what} is advertised, but plain searches got {exchange.describe()}{hint}")


async def _openings(bench: Bench) -> AsyncGenerator[tuple[Any, Exchange, str]]:
    """Yield the advertised capabilities, the exchange, and for which client or where, for each place."""
    connection, exchange = await bench.server.opening()
    yield connection.server.get("capabilities"), exchange, ""
    nothing = " for a client that declares nothing"
    if bench.cell.era == MODERN:
        exchange = await bench.server.ask("server/discover", {}, capabilities=UNDECLARED)
        bench.require_result(exchange, "server/discover from a client that declares nothing")
        yield (exchange.result or {}).get("capabilities"), exchange, nothing
    others: list[tuple[AbstractAsyncContextManager[Bench], str]] = []
    if bench.cell.era == LEGACY and bench.can_start("core"):
        others.append((bench.undeclaring(), nothing))
        if bench.starts_freely:
            who = " for a client of revision {} that declares in `experimental`"
            others += [(bench.older(revision), who.format(revision)) for revision in (OLDER, *OLDEST)]
    for catalog, whom in (("empty", _OF_NOTHING), ("single", _OF_ONE_TOOL)):
        if bench.may_serve(catalog):
            others.append((bench.serving(catalog), whom))
    for opened, whom in others:
        with suppress(UnverifiableError):  # an older revision may be refused
            async with opened as other:
                connection, exchange = await other.server.opening()
            yield connection.server.get("capabilities"), exchange, whom
    for make, whom in ((_of_restricted, _TO_RESTRICTED), (_after_change, _CHANGED)):
        with suppress(UnverifiableError, InapplicableError):  # change-seen judges whether a change shows
            if (opened := await bench.once(whom, partial(make, bench))) is not None:
                yield *opened, whom


async def _of_restricted(bench: Bench) -> tuple[Any, Exchange] | None:
    """Return the capabilities advertised to a caller who does not see everything, and the exchange."""
    if (restricted := await _restricted(bench)) is None:
        return None
    connection, exchange = await restricted.server.opening()
    return connection.server.get("capabilities"), exchange


async def _restricted(bench: Bench) -> Bench | None:
    """Return the bench of a caller who does not see everything, if the fixture distinguishes callers."""
    able = "callers" in bench.options.fixture_features and bench.cell.transport == "http"
    return (await callers(bench))[1] if able and bench.can_start("callers") else None


async def _after_change(bench: Bench) -> tuple[Any, Exchange] | None:
    """Return the capabilities advertised by a running fixture after its catalog changed, and the exchange."""
    if "reload" not in bench.options.fixture_features or not bench.can_start("changing"):
        return None
    if bench.cell.era == MODERN:
        other, _ = await with_added_item(bench)
        exchange = await other.server.ask("server/discover", {})
        other.require_result(exchange, "server/discover after a change of the catalog")
        return (exchange.result or {}).get("capabilities"), exchange
    if bench.cell.transport == "stdio":
        return None  # a process has one legacy client
    other = await changed_for_new_connections(bench)
    connection, exchange = await other.server.opening()
    return connection.server.get("capabilities"), exchange


@server_check(
    title="`extensions` and `experimental` in an `initialize` result have equal settings",
    sends="`initialize`, also from a client that declares nothing and from clients of older revisions, which"
    " declare the extension in `experimental`; over HTTP, to a caller from whom a fixture hides tools, and once more"
    " after a change of its catalog.",
    passes="`capabilities.extensions` and `capabilities.experimental` have equal objects at the extension identifier.",
    eras=(LEGACY,),
    methods=(TOOLS.method,),
)
async def advertised_legacy_both(bench: Bench) -> None:
    places = ("extensions", "experimental")
    async for capabilities, exchange, whom in _openings(bench):
        held = [settings_in(capabilities, place) for place in places]
        for place, settings in zip(places, held, strict=True):
            message = f"capabilities.{place} has no object at {EXTENSION_ID!r}{whom}"
            bench.expect(settings is not None, exchange, message)
        different = f"capabilities.extensions and capabilities.experimental have different settings{whom}"
        bench.expect(same(*held), exchange, different)


@server_check(
    title="A server that advertises the extension serves searches",
    sends="Before all other checks, searches for a tool by its name, for a word of several tools, and for a word of"
    " none; over HTTP, the same search on another connection.",
    passes="A result for at least one of them; otherwise the other checks have nothing to judge. A result on the other"
    " connection. The server has not exited before, such as at the very first search.",
    methods=(TOOLS.method,),
)
async def served_where_advertised(bench: Bench) -> None:
    words = await bench.vocabulary()
    exchange = await bench.server.search({"query": words.key_query})
    if exchange.result is None and bench.cell.transport == "http":
        only_named, exchange = await bench.wants_name_header()
        bench.require(not only_named, _ONLY_NAMED, exchange, consequence_of=_NAME_RULE)
    for query in (*words.broad(1), NONSENSE):
        bench.require(exchange.replied, f"a search got {exchange.describe()}", exchange)
        if exchange.result is not None:
            break
        exchange = await bench.server.search({"query": query})
    _expect_served(bench, exchange, "the extension", served=exchange.result is not None)
    bench.has_served = True
    await early_page(bench)  # for cursor-forged
    if bench.cell.transport == "http" and bench.can_start("core"):
        async with bench.fresh() as other:
            exchange = await other.server.search(exchange.params)
            message = f"a search that got a result on one connection got {exchange.describe()} on a second connection"
            bench.serves_first_alone = exchange.result is None and exchange.replied
            other.expect(not bench.serves_first_alone, exchange, message)
    if bench.early_death is not None:
        ended, last = bench.early_death
        bench.expect(False, last, f"at the very first {last.sent['method']}, {ended}; later searches were served")


@server_check(
    title="The settings conform to the schema",
    sends="`server/discover` or `initialize`, as in `advertised`; also to a fixture with an empty catalog or a"
    " generated one.",
    passes="`catalogSize`, `topics` and `maxLimit`, if present, have the right types; unknown members are allowed.",
    methods=(TOOLS.method,),
)
async def settings_shape(bench: Bench) -> None:
    def judge(capabilities: Any, exchange: Exchange, whom: str = "") -> None:
        settings = settings_of(capabilities, bench.cell.era)
        if settings is not None:
            wrong = complaint(settings, "ServerSettings")
            bench.expect(wrong is None, exchange, f"the settings do not conform to the schema at {wrong}{whom}")

    async for opened in _openings(bench):
        judge(*opened)
    await judge_surveys(bench, lambda survey: judge((survey.opening.result or {}).get("capabilities"), survey.opening))
    bench.applies(bool(bench.recorder.judged), "the server does not advertise the extension; see advertised")


async def _require_declared_served(bench: Bench, query: str) -> None:
    control = await bench.server.search({"query": query}, capabilities=DECLARED)
    bench.require_result(control, "the same search from a client that declares the extension")


async def _require_undeclared_refused(bench: Bench) -> None:
    exchange = await bench.server.search({"query": "anything, undeclared"}, capabilities=UNDECLARED)
    served = "the server serves a client that declares nothing; see undeclared-client-refused"
    bench.require(exchange.error is not None, served, exchange)


@server_check(
    title="A search that does not declare the extension is refused",
    sends="`tools/search` whose client capabilities have no extensions, only other extensions, the extension in another"
    " place, or a similar identifier; as the first search of a connection, with a cursor after a search that declares"
    " the extension, and with a token, if the fixture distinguishes callers.",
    passes=f"Error {MISSING_CAPABILITY} with an empty object for the extension in"
    " `data.requiredCapabilities.extensions`.",
    eras=(MODERN,),
)
async def undeclared_client_refused(bench: Bench) -> None:
    name = (await bench.vocabulary()).key_query
    async with bench.undeclaring() if bench.can_start("core") else nullcontext(bench) as other:

        async def expect_missing(undeclared: tuple[int, tuple[JsonObject, str]]) -> None:
            number, (capabilities, case) = undeclared
            plain: JsonObject = {"query": f"anything for a client that declares {case}"}
            # A server may test the declaration only for some searches, such as those without a limit.
            params = (plain, {**plain, "limit": 1}, {"query": name}, {"query": "a"})[number % 4]
            exchange = await other.server.search(params, capabilities=capabilities)
            if exchange.error_code == INVALID_PARAMS:  # query-unusual-characters judges whether it refuses the query
                exchange = await other.server.search(plain, capabilities=capabilities)
            _expect_missing(other, exchange, case)

        async def expect_error(capabilities: JsonObject) -> None:
            shown = json_text(capabilities)
            exchange = await other.server.search({"query": f"anything for {shown}"}, capabilities=capabilities)
            message = f"a client with the capabilities {shown} got {exchange.describe()} instead of an error"
            other.expect(exchange.error is not None, exchange, message, case=f"capabilities {shown}")

        await other.each(enumerate(bench.some(_UNDECLARED, 4)), expect_missing)
        await other.each(_MALFORMED, expect_error)
        misplaced: JsonObject = {"_meta": {EXTENSION_ID: {}}, "capabilities": DECLARED, **DECLARED}
        params = {"query": "anything for a client that declares in params", **misplaced}
        exchange = await other.server.search(params, capabilities=UNDECLARED)
        if exchange.error_code != INVALID_PARAMS:  # unknown-members-ignored judges whether it refuses these members
            _expect_missing(other, exchange, "the extension elsewhere in params and `_meta`")
        await _require_declared_served(bench, await bench.key_query())  # not on `other`, which must stay undeclared
    await _refuse_undeclared_pages(bench)
    with suppress(UnverifiableError, InapplicableError):  # call-authorized judges whether a token counts
        if (restricted := await _restricted(bench)) is not None:
            exchange = await restricted.server.search({"query": COMMON}, capabilities=UNDECLARED)
            _expect_missing(restricted, exchange, "no capability, but has a token")
    late = await bench.server.search({"query": name}, capabilities=UNDECLARED)
    if late.error is not None and bench.may_serve("empty"):  # otherwise, declaration-per-request judges it
        async with bench.serving("empty") as other:
            exchange = await other.server.search({"query": "anything"}, capabilities=UNDECLARED)
            _expect_missing(other, exchange, "no capability, on an empty catalog")


async def _refuse_undeclared_pages(bench: Bench) -> None:
    for query in (await bench.vocabulary()).broad(2):
        cursor = (await bench.server.page(query, limit=1)).next_cursor
        plain = await bench.server.search({"query": query, "limit": 1}, capabilities=UNDECLARED)
        # If the first page is served, declaration-per-request judges that.
        if cursor is not None and plain.error is not None:
            params = {"query": query, "limit": 1, "cursor": cursor}
            exchange = await bench.server.search(params, capabilities=UNDECLARED)
            # If the cursor is no longer valid, two errors apply.
            refused = exchange.error_code in (MISSING_CAPABILITY, INVALID_PARAMS)
            message = (
                f"a client that declares no capability got {exchange.describe()} for a second page instead of error"
                f" {MISSING_CAPABILITY}"
            )
            bench.expect(refused, exchange, message, case="no capability, with a cursor")
            return


def _expect_missing(bench: Bench, exchange: Exchange, case: str) -> None:
    message = f"a client that declares {case} got {exchange.describe()} instead of error {MISSING_CAPABILITY}"
    bench.expect(exchange.error_code == MISSING_CAPABILITY, exchange, message, case=case)
    required: Any = exchange.error and exchange.error.data
    for member in ("requiredCapabilities", "extensions", EXTENSION_ID):
        required = (as_object(required) or {}).get(member)
    place = f"requiredCapabilities.extensions[{EXTENSION_ID!r}]"
    bench.expect(same(required, {}), exchange, f"the error's `data` has no empty object at {place}", case=case)


@server_check(
    title=f"Error {MISSING_CAPABILITY} has HTTP status 400",
    sends="`tools/search` whose client capabilities lack the extension, over modern Streamable HTTP.",
    passes="HTTP status 400.",
    eras=(MODERN,),
    transports=("http",),
)
async def undeclared_client_status(bench: Bench) -> None:
    exchange = await bench.server.search({"query": "anything, with a status"}, capabilities=UNDECLARED)
    what, cause = f"the search got {exchange.describe()} instead of an error", "undeclared-client-refused"
    bench.require(exchange.error is not None, what, exchange, consequence_of=cause)
    status = exchange.answer.status
    bench.expect(status == 400, exchange, f"the error came with HTTP status {status} instead of 400")


@server_check(
    title="A declaration that is not an object is treated as absent, or refused",
    sends="`tools/search` or `initialize` with `true`, `null`, a string or an array at the extension identifier.",
    passes=f"For a search, error {MISSING_CAPABILITY}, or another error if an SDK refuses such capabilities as a whole;"
    " for `initialize`, an error or a result, and after a result also one for a search.",
)
async def declaration_not_object(bench: Bench) -> None:
    if bench.cell.era == LEGACY:
        bench.applies(bench.primitive is TOOLS, "a handshake is about the whole extension and not about one method")
        # On stdio, each handshake takes another start, so most are sent over HTTP if that is judged too.
        costly = bench.cell.transport == "stdio" and bench.options.http_argv
        for value in _NON_OBJECTS[1:2] if costly else _NON_OBJECTS[:4]:
            await _expect_handshake(bench, value)
        return
    async with bench.another() as other:

        async def expect_error(value: Any) -> None:
            shown = json_text(value)
            params = {"query": f"anything for a client that declares {shown}"}
            exchange = await other.server.search(params, capabilities={"extensions": {EXTENSION_ID: value}})
            message = f"a client that declares {shown} got {exchange.describe()} instead of an error"
            other.expect(exchange.error is not None, exchange, message, case=f"declaration {shown}")

        await _require_undeclared_refused(other)
        await other.each(_NON_OBJECTS, expect_error)
        await _require_declared_served(other, await bench.key_query())


async def _expect_handshake(bench: Bench, value: Any) -> None:
    try:
        async with bench.fresh(capabilities={"extensions": {EXTENSION_ID: value}}) as other:
            _, exchange = await other.server.opening()
            if bench.starts_freely:
                case = f"a search from a client that declared {json_text(value)}"
                await other.served({"query": await bench.key_query()}, case)
    except UnverifiableError as error:
        if error.exchange is None:
            raise
        exchange = error.exchange
    answered = exchange.error is not None or exchange.result is not None
    message = f"initialize from a client that declares {json_text(value)} got {exchange.describe()}"
    bench.expect(answered, exchange, message, case=f"declaration {json_text(value)}")


@server_check(
    title="A declaration in one modern request does not count for another",
    sends="A search that declares the extension, then on the same connection one that does not, and one that does. A"
    " search without a declaration on a connection that began with a `server/discover` that declares the extension."
    " Over HTTP, one after a legacy client declared it in `initialize`. A few of both kinds in flight together.",
    passes=f"A result for each search that declares the extension, error {MISSING_CAPABILITY} for each that does not.",
    eras=(MODERN,),
)
async def declaration_per_request(bench: Bench) -> None:
    query = await bench.key_query()
    async with bench.undeclaring() as other:
        await _require_undeclared_refused(other)
        await _require_declared_served(other, query)
        await _expect_refused_later(other, query, "after a search that declared the extension, one that did not")
        again = await other.server.search({"query": query}, capabilities=DECLARED)
        other.expect_result(again, "a later search that declared the extension")
    after = "after a server/discover that declared the extension"
    await _expect_refused_later(bench, query, f"{after}, a search that did not")
    if bench.cell.transport == "http" and len(bench.options.eras) > 1 and bench.can_start("core"):
        with suppress(UnverifiableError):  # the server may not support that era
            async with bench.of_legacy_client() as legacy:
                await legacy.server.search({"query": query})
        after = "after a legacy client had declared the extension"
        await _expect_refused_later(bench, query, f"{after}, a modern search that did not")
    if bench.primitive is TOOLS:
        await _expect_declarations_apart(bench, query)


async def _expect_refused_later(bench: Bench, query: str, which: str) -> None:
    exchange = await bench.server.search({"query": query}, capabilities=UNDECLARED)
    bench.expect(exchange.error is not None, exchange, f"{which} was served")


async def _expect_declarations_apart(bench: Bench, query: str) -> None:
    """Expect concurrent searches, half of which declare the extension, to get the right answers."""
    capabilities = [DECLARED, UNDECLARED] * _OF_EACH
    params, seconds = [{"query": query}] * len(capabilities), bench.options.timeout
    exchanges = await bench.server.at_once(params, seconds=seconds, capabilities=capabilities)
    for declared, exchange in zip(capabilities, exchanges, strict=True):
        refused = exchange.error_code == MISSING_CAPABILITY
        fitting = not refused if declared is DECLARED else exchange.result is None  # either may find the server busy
        how = "declares" if declared is DECLARED else "does not declare"
        message = f"in flight together with others, a search that {how} the extension got {exchange.describe()}"
        bench.expect(fitting, exchange, message, case=f"a search that {how} the extension, among others")


@server_check(
    title="Unknown members of a declaration are ignored",
    sends="`tools/search` whose declaration has unknown members, next to other capabilities.",
    passes="The same tools, definitions, hit metadata and members of the result as with a plain declaration.",
)
async def declaration_unknown_members(bench: Bench) -> None:
    good = {"query": await bench.query_with_matches()}

    async def plain() -> Page:
        async with bench.fresh() if bench.cell.era == LEGACY else nullcontext(bench) as other:
            await other.server.known_listing()
            return await other.served(good, "a search with a plain declaration")

    expected = await bench.served(good, "a search with a plain declaration")
    for members, what in _DECLARATIONS if bench.cell.era == MODERN else _DECLARATIONS[:1]:
        declared: JsonObject = {
            "extensions": {"com.example/other": {}, EXTENSION_ID: members},
            "experimental": {"x": {}},
        }
        case = f"a search whose declaration has {what}"
        async with bench.fresh(capabilities=declared) if bench.cell.era == LEGACY else nullcontext(bench) as other:
            await other.server.known_listing()  # as on the first one
            overrides: dict[str, Any] = {"capabilities": declared} if bench.cell.era == MODERN else {}
            page = await other.served(good, case, **overrides)
        await bench.expect_alike(page, expected, plain, f"a declaration with {what}")


@server_check(
    title="A legacy client is served even if it declared nothing",
    sends="`initialize` without the extension, then searches, including a second page; if that needs no other start of"
    " the server, also from a client that declares another extension and from a client of an older revision,"
    " which declares the extension in `experimental`.",
    passes="A result with a tool for each search: a stateless legacy server cannot know what was declared.",
    eras=(LEGACY,),
)
async def undeclared_legacy_served(bench: Bench) -> None:
    # What other clients declared must not count either, so the query comes from one whose handshake is the latest.
    async with bench.fresh() if bench.starts_freely and bench.cell.transport == "http" else nullcontext(bench) as own:
        query = await own.query_with_matches()
    clients = [(bench.undeclaring(), "a legacy client that declared nothing")]
    if bench.starts_freely:
        another: JsonObject = {"extensions": {"com.example/other": {}}, "sampling": {}}
        clients.append((bench.fresh(capabilities=another), "a legacy client that declared another extension"))
        clients.append((bench.older(), f"a client of revision {OLDER}, which declares in `experimental`,"))
    for opened, who in clients:
        with suppress(UnverifiableError) if OLDER in who else nullcontext():  # a server may refuse that revision
            async with opened as other:
                await other.server.known_listing()  # search-unlisted judges searches without a listing
                await other.served({"query": query}, f"a search from {who}", control=bench)
                page = await other.served({"query": query, "limit": 1}, f"a second search from {who}", control=bench)
                found = page if page.items else await other.server.first(query, limit=1)
                other.expect(bool(found.items), found.exchange, f"the query {query!r} found nothing for {who}")
                await other.next_served(page, f"the next page of a search from {who}")
