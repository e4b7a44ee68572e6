"""The command `tools-search-server`.

The module loads what serves, and with it the SDK, in the functions that need it, so that neither completion nor help
waits for it. The modules of the other commands do the same.
"""

from __future__ import annotations

import errno
import gc
import json
import math
import sys
from collections.abc import Sequence
from dataclasses import replace
from pathlib import Path
from typing import TYPE_CHECKING, Any, Final, NoReturn

import anyio
import click
from tools_search_hosts.exits import run_and_exit
from tools_search_hosts.locations import cache_folder

from tools_search_server.base.address import Address
from tools_search_server.base.defaults import (
    CALL_SECONDS,
    CATALOG_VARIABLE,
    COMPAT_MODES,
    CURSOR_KEY_VARIABLE,
    DEFAULT_CHANNEL,
    DELAY_VARIABLE,
    IDLE_SECONDS,
    INDEX_AT_MOST,
    LIST_AT_MOST,
    MAX_PAGE_BYTES,
    MAX_PAGE_SIZE,
    REDIS_VARIABLE,
    SEARCHED,
    START_SECONDS,
    Searched,
)
from tools_search_server.programs.database import (
    DEFAULT_NAME,
    checked_index,
    import_,
    is_database,
    printable_name,
    reindex,
)
from tools_search_server.programs.exits import CannotServeError, Commands, report
from tools_search_server.programs.log import LogFormat, log_to_stderr
from tools_search_server.programs.models import model_options, selected_model
from tools_search_server.programs.status import check, status

if TYPE_CHECKING:
    from mcp_ext_tools_search.ranking import Ranker
    from tools_search_ranking.semantic import Embedder

    from tools_search_server.programs.serving import Program

_FILE = click.Path(path_type=Path)
_MAX_LISTED: Final = 10_000
_MEBI: Final = 1024 * 1024

_EPILOG = f"""\b
Examples:
  tools-search-server                          serve the bundled catalog
  tools-search-server --http 127.0.0.1:8000    over Streamable HTTP, not stdio
  tools-search-server --config mcp.json        serve your own servers as one
  tools-search-server --config mcp.json --check
                      show what each server offers, or why it fails
  tools-search-server --config mcp.json --compat meta-tools
                      for hosts that cannot search
  tools-search-server token alice              make a bearer token
  tools-search-server status                   show the servers of a gateway
  tools-search-server import tools.json --to embedded:db
  tools-search-server --catalog embedded:db    import tools, and serve them

\b
Environment:
  {CURSOR_KEY_VARIABLE}  key that authenticates cursors, shared by replicas
  {REDIS_VARIABLE}       address of Redis, for addresses with a password

\b
Environment for conformance runs (fixture profile):
  {CATALOG_VARIABLE}     catalog to serve; its tools echo calls
  {DELAY_VARIABLE}    milliseconds to delay each search

\b
Shell completion for bash (or zsh, fish):
  eval "$(_TOOLS_SEARCH_SERVER_COMPLETE=bash_source tools-search-server)"

\b
Exit codes:
  0  stopped on request; with --check: every server can be used
  1  could not serve; with --check: at least one server cannot be used
  2  an option or the configuration is invalid
  141  the reader of the output has gone away
"""

_EXAMPLES_FOR_PRINCIPALS = """\b
Examples:
  tools-search-server token alice
  tools-search-server token alice --toolset reading"""


def _address(_ctx: click.Context, _param: click.Parameter, value: str | None) -> Address | None:
    if value is None:
        return None
    host, _, port = value.rpartition(":")
    if not host or not port.isdecimal() or int(port) > 65_535:
        raise click.BadParameter(f"{value!r} is not HOST:PORT. Write for example 127.0.0.1:8000.")
    return Address(host.strip("[]"), int(port))


def _modes(_ctx: click.Context, _param: click.Parameter, values: Sequence[str]) -> list[tuple[str, int]]:
    modes: list[tuple[str, int]] = []
    for value in values:
        mode, colon, tools = value.partition(":")
        if mode not in COMPAT_MODES or (colon and mode != "auto"):
            known = ", ".join(repr(mode) for mode in COMPAT_MODES)
            raise click.BadParameter(f"{value!r} is not one of {known}, 'auto:TOOLS'.")
        if colon and not (tools.isdecimal() and 1 <= int(tools) <= _MAX_LISTED):
            raise click.BadParameter(f"{value!r}: write a number of tools from 1 to {_MAX_LISTED}, as in auto:128.")
        modes.append((mode, int(tools) if colon else LIST_AT_MOST))
    return modes


def _searched(_ctx: click.Context, _param: click.Parameter, values: Sequence[str]) -> frozenset[Searched]:
    named = [name.strip() for value in values for name in value.split(",")]
    if unknown := [name for name in named if name not in SEARCHED]:
        known = ", ".join(repr(kind) for kind in SEARCHED)
        raise click.BadParameter(f"{unknown[0]!r} is not one of {known}.")
    return frozenset(kind for kind in SEARCHED if kind in named)


class _NumberRange(click.FloatRange):
    """A range without NaN, which Click takes to be in every range."""

    def convert(self, value: Any, param: click.Parameter | None, ctx: click.Context | None) -> float:
        seconds = super().convert(value, param, ctx)
        return self.fail(f"{value!r} is not a number.", param, ctx) if math.isnan(seconds) else seconds


@click.group(
    cls=Commands,
    invoke_without_command=True,
    subcommand_metavar="[COMMAND]",
    epilog=_EPILOG,
    context_settings={"help_option_names": ["-h", "--help"], "max_content_width": 100},
)
@click.option("--config", type=_FILE, metavar="FILE", help="Serve all MCP servers of this mcp.json as one.")
@click.option("--catalog", metavar="FILE|DATABASE",
              help='Serve the tools in this file, {"tools": [...]}, or those imported into this database.')  # fmt: skip
@click.option("--catalog-name", callback=printable_name, metavar="NAME", default=DEFAULT_NAME, show_default=True,
              help="Name of the catalog, or of the index, in a database.")  # fmt: skip
@click.option("--http", callback=_address, metavar="HOST:PORT",
              help="Serve Streamable HTTP here, not stdio. Port 0 picks a free one.")  # fmt: skip
@click.option("--allow-remote", is_flag=True, help="Serve a catalog to other machines too, without authentication.")
@click.option("--toolset", metavar="NAME", help="Show only the tools of this toolset in the --config file.")
@click.option("--compat", "modes", callback=_modes, multiple=True, metavar=f"[{'|'.join(COMPAT_MODES)}[:TOOLS]]",
              help="Serve hosts that cannot search; over HTTP, at an additional path. `auto` lists all tools to a "
                   f"caller who sees at most TOOLS ({LIST_AT_MOST}), else works like `meta-tools`.")  # fmt: skip
@click.option("--compat-prefix", default="", metavar="TEXT", help="Prefix for the names of the tools --compat adds.")
@click.option("--compat-max-tools", type=click.IntRange(1, 1000), default=100, show_default=True,
              help="Maximum number of found tools in the list of a list-changed session.")  # fmt: skip
@click.option("--search", "searched", callback=_searched, multiple=True, metavar=f"[{'|'.join(SEARCHED)}]",
              help="Let clients search more than tools: `resources` (by definition), `contents` (resources by text "
                   "too, which the gateway then reads), `prompts`. Separate several with commas.")  # fmt: skip
@click.option("--page-size", type=click.IntRange(1, MAX_PAGE_SIZE), default=MAX_PAGE_SIZE, metavar="TOOLS",
              help=f"Maximum tools per list page; default: what fits in {MAX_PAGE_BYTES // 1024} KiB.")  # fmt: skip
@click.option("--default-limit", type=click.IntRange(1, 20), default=10, show_default=True,
              help="Results per search page if the request has no limit.")  # fmt: skip
@click.option("--max-limit", type=click.IntRange(1, 1000), default=50, show_default=True,
              help="Maximum results per search page.")  # fmt: skip
@click.option("--searches-at-once", type=click.IntRange(1), default=64, show_default=True, metavar="SEARCHES",
              help="Maximum concurrent searches; any more get a busy error.")  # fmt: skip
@click.option("--least-confidence", type=_NumberRange(0, 1), metavar="SHARE",
              help="Return nothing if the probability that any tool fits is lower; "
                   "default 0.02.")  # fmt: skip
@model_options
@click.option("--cursor-key-file", type=_FILE, metavar="FILE", help="File with the key for cursors; replicas share it.")
@click.option("--index", metavar="DATABASE", help="Share the tool index with replicas in this database.")
@click.option("--redis", metavar="URL", help="Exchange list changes with replicas through this Redis server.")
@click.option("--redis-channel", metavar="NAME", default=DEFAULT_CHANNEL, show_default=True,
              help="Redis channel for this set of replicas.")  # fmt: skip
@click.option("--stateless", is_flag=True, help="Keep no HTTP sessions, so that any replica can answer any request.")
@click.option("--start-deadline", type=_NumberRange(0), default=START_SECONDS, show_default=True,
              metavar="SECONDS", help="How long requests for tools wait for servers to start.")  # fmt: skip
@click.option("--call-timeout", type=_NumberRange(0, min_open=True), default=CALL_SECONDS, show_default=True,
              metavar="SECONDS", help="Give up on a tool call after this time without progress.")  # fmt: skip
@click.option("--max-message", type=click.IntRange(1, 1024), default=16, show_default=True,
              metavar="MIB", help="Maximum size of a server's message, and of all its lists together.")  # fmt: skip
@click.option("--index-at-most", type=click.IntRange(0), default=INDEX_AT_MOST, show_default=True, metavar="TOOLS",
              help="Forward searches to a server that has more tools, if it supports tools/search.")  # fmt: skip
@click.option("--lazy", is_flag=True, help='Start each server on first use, unless it has "lazy": false.')
@click.option("--idle-stop", type=_NumberRange(0, min_open=True), default=IDLE_SECONDS, show_default=True,
              metavar="SECONDS", help="Stop a lazy server after this time without use.")  # fmt: skip
@click.option("--keep-queries", is_flag=True,
              help="Keep queries that found nothing or led to no call, for `status` to show.")  # fmt: skip
@click.option("--check", "only_check", is_flag=True, help="Show what each server in --config offers, and exit.")
@click.option("--json", "as_json", is_flag=True, help="With --check: print one JSON object instead.")
@click.option("--log-format", type=click.Choice(["text", "json"]), default="text", show_default=True,
              help="Format of the log on standard error.")  # fmt: skip
@click.version_option(package_name="mcp-ext-tools-search", prog_name="tools-search-server")
@click.pass_context
def command(
    ctx: click.Context,
    *,
    config: Path | None,
    catalog: str | None,
    catalog_name: str,
    http: Address | None,
    allow_remote: bool,
    toolset: str | None,
    modes: list[tuple[str, int]],
    compat_prefix: str,
    compat_max_tools: int,
    searched: frozenset[Searched],
    page_size: int,
    default_limit: int,
    max_limit: int,
    searches_at_once: int,
    least_confidence: float | None,
    semantic: bool,
    multilingual: bool,
    cursor_key_file: Path | None,
    index: str | None,
    redis: str | None,
    redis_channel: str,
    stateless: bool,
    start_deadline: float,
    call_timeout: float,
    max_message: int,
    index_at_most: int,
    lazy: bool,
    idle_stop: float,
    keep_queries: bool,
    only_check: bool,
    as_json: bool,
    log_format: LogFormat,
) -> None:
    """Serve MCP tools that clients can search with `tools/search`.

    Without options it serves a bundled catalog of tools with canned answers. With --config it is a gateway: it serves
    all servers of an mcp.json as one and makes them searchable, even if they do not support search.
    """
    if ctx.invoked_subcommand is not None:
        return
    gc.disable()  # imports create little garbage, and looking for it takes a quarter of the startup time or more
    from tools_search_server.base.limits import Limits, read_cursor_key
    from tools_search_server.compat.definitions import PREFIX_RULE, CompatOptions, is_prefix
    from tools_search_server.gateway.gateway import GatewayOptions
    from tools_search_server.gateway.replicas import redis_address
    from tools_search_server.programs.catalog import catalog_program
    from tools_search_server.programs.gateway import configured_gateway, gateway_program
    from tools_search_server.upstreams.lazy import Laziness

    gc.freeze()
    gc.enable()
    names = tuple(dict.fromkeys(mode for mode, _ in modes))
    at_most = {tools for mode, tools in modes if mode == "auto"}
    remote = "" if http is None or http.is_loopback else f"{http.host} can be reached from other machines, and "
    problems = [
        (config and catalog, "--config and --catalog select different servers. Give only one of them."),
        (only_check and not config, "--check requires --config."),
        (toolset and not config, "--toolset requires --config."),
        (modes and not config, "--compat requires --config."),
        (searched and not config, "--search requires --config: a catalog file itself determines what can be searched."),
        (keep_queries and not config, "--keep-queries requires --config."),
        (index and not config, "--index requires --config. Use --catalog to serve a catalog in a database."),
        (
            (index or (catalog and is_database(catalog))) and least_confidence is not None,
            "a database has no confidence threshold: remove --least-confidence.",
        ),
        (redis and not config, "--redis requires --config."),
        (as_json and not only_check, "--json requires --check."),
        (len(at_most) > 1, f"--compat auto was given several numbers of tools: {sorted(at_most)}. Give only one."),
        (stateless and not http, "--stateless requires --http: stdio is a single session."),
        (
            stateless and "list-changed" in names,
            "--compat list-changed keeps a list for each session, but --stateless has no sessions.",
        ),
        (len(names) > 1 and not http, "stdio has only one endpoint: give only one --compat, or serve with --http."),
        (
            not is_prefix(compat_prefix),
            f"--compat-prefix {compat_prefix!r} is not a valid prefix: use {PREFIX_RULE}.",
        ),
        (
            remote and not config and not allow_remote,
            f"{remote}every caller may use all tools. Use 127.0.0.1, or add --allow-remote if you intend that.",
        ),
    ]
    for is_present, problem in problems:
        if is_present:
            raise click.UsageError(problem)
    compat = CompatOptions(names, compat_prefix, compat_max_tools, next(iter(at_most), LIST_AT_MOST))
    log_to_stderr(log_format)
    cursor_key = read_cursor_key(cursor_key_file)
    model = selected_model(semantic=semantic, multilingual=multilingual)
    ranker = _ranker(model, least_confidence)
    # The default of one option may exceed a stated value of the other.
    limits = Limits(page_size, min(default_limit, max_limit), max_limit, cursor_key, ranker, searches_at_once)
    options = GatewayOptions(
        start_deadline=start_deadline,
        call_timeout=call_timeout,
        toolset=toolset,
        index_at_most=index_at_most,
        laziness=None if only_check else Laziness(for_all=lazy, idle_seconds=idle_stop),
        max_message_bytes=max_message * _MEBI,
        keeps_queries=keep_queries,
        redis=redis_address(redis, redis_channel),
        searched=searched,
    )
    if config is None:
        program = catalog_program(catalog, limits, catalog_name)
    elif only_check:
        sys.exit(0 if anyio.run(check, *configured_gateway(config, limits, options), as_json) else 1)
    else:
        if index is not None:
            limits = replace(limits, index=checked_index(index, model), index_name=catalog_name)
        program = gateway_program(config, limits, options, compat, over_http=http is not None)
        if remote and program.guard is None:
            raise click.UsageError(
                f"{remote}the configuration has no `principals`. Make a token with `tools-search-server token "
                "NAME` and add the entry that it prints to the file, or use 127.0.0.1."
            )
        if http is not None and program.guard is not None and toolset is not None:
            raise click.UsageError(
                "--toolset cannot be used with principals: set each principal's `toolset` in the configuration."
            )
    _run(replace(program, is_stateless=stateless), http)


@command.command("token", epilog=_EXAMPLES_FOR_PRINCIPALS, short_help="Make a bearer token for a principal.")
@click.argument("name")
@click.option("--toolset", metavar="NAME", help="Toolset for the principal; by default it sees everything.")
def token(*, name: str, toolset: str | None) -> None:
    """Make a token for the principal NAME, and its entry for the configuration.

    The token is shown only once: the entry holds a hash of it. A running gateway watches its
    --config file and applies the entry at once; only the first principal requires a restart.
    """
    from tools_search_server.access.principals import new_token, token_hash

    made = new_token()
    entry = {"token": token_hash(made)} | ({} if toolset is None else {"toolset": toolset})
    click.echo(f"The token for {name}, shown only once. Clients send it as `Authorization: Bearer …`:\n\n  {made}\n")
    click.echo("Its entry, for `principals` in the --config file:\n")
    click.echo(f"  {json.dumps(name, ensure_ascii=False)}: {json.dumps(entry, ensure_ascii=False)}")


command.add_command(status)
command.add_command(import_)
command.add_command(reindex)


def _ranker(model: Embedder | None, least_confidence: float | None) -> Ranker:
    """Return the default ranker, or a semantic one, which keeps its vectors in this user's cache folder."""
    from tools_search_ranking import default_ranker

    lexical = default_ranker(least_confidence)
    if model is None:
        return lexical
    from tools_search_ranking.semantic import SemanticRanker

    return SemanticRanker(model, lexical=lexical, folder=cache_folder("tools-search-server"))


def _run(program: Program, http: Address | None) -> None:
    if http is None and not (sys.__stdin__ and sys.__stdout__):
        raise CannotServeError(
            "cannot serve on stdio: it is closed. Have an MCP host start this program, or serve with --http."
        )
    from tools_search_hosts.endings import first_error

    from tools_search_server.programs.serving import serve

    failed: list[BaseException] = []
    try:
        anyio.run(serve, program, http)
    except* OSError as errors:
        failed.append(first_error(errors))
    if failed:  # raised here because early Python 3.11 releases wrap an exception raised in `except*` in a group
        where = "stdio" if http is None else f"{http.host}:{http.port}"
        reason = str(failed[0])
        if isinstance(failed[0], OSError) and failed[0].errno == errno.EADDRINUSE:
            reason = "the address is already in use. Choose another port, or 0 for any free one."
        raise CannotServeError(f"cannot serve on {where}: {reason}")


def run(arguments: Sequence[str] | None = None) -> NoReturn:
    """Run the command line and exit with its exit code."""
    given = sys.argv[1:] if arguments is None else list(arguments)
    run_and_exit(
        command, given, program="tools-search-server", report=lambda error: report(error, as_json="--json" in given)
    )
