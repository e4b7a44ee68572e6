"""The command `tools-search-server`."""

from __future__ import annotations

import errno
import json
import os
import signal
import sys
from collections.abc import Mapping, Sequence
from dataclasses import replace
from pathlib import Path
from typing import Any, Final, NoReturn

import anyio
import click
from tools_search_hosts import ConfigurationError, load_host_file
from tools_search_hosts.messages import MAX_MESSAGE_BYTES
from tools_search_ranking import DEFAULT_LEAST_CONFIDENCE

from tools_search_server.base.limits import CURSOR_KEY_VARIABLE, MOST_PAGE_SIZE, Limits, read_cursor_key
from tools_search_server.base.paging import MOST_PAGE_BYTES
from tools_search_server.compat.always_available import read_always_available
from tools_search_server.compat.definitions import PREFIX_RULE, is_prefix
from tools_search_server.compat.endpoint import LIST_AT_MOST, CompatOptions
from tools_search_server.gateway.gateway import CALL_SECONDS, INDEX_AT_MOST
from tools_search_server.gateway.redis_address import DEFAULT_CHANNEL, REDIS_VARIABLE, redis_address
from tools_search_server.programs.catalog_program import CATALOG_VARIABLE, catalog_program, chosen_catalog
from tools_search_server.programs.check import check
from tools_search_server.programs.compat_program import MODES, compat_program
from tools_search_server.programs.gateway_program import GatewayOptions, configured_gateway, gateway_program
from tools_search_server.programs.logs import LogFormat, log_to_stderr
from tools_search_server.programs.ranker_choice import chosen_ranker
from tools_search_server.programs.serving import Address, Program, is_loopback, serve
from tools_search_server.programs.status_command import status
from tools_search_server.programs.token_command import token
from tools_search_server.upstreams.connection import first_error
from tools_search_server.upstreams.lazy import IDLE_SECONDS, Laziness

__all__ = ["command", "run"]

_EXIT_SIGNAL: Final = 128
"""Added to the number of the signal that ended the program."""

_OF_A_STREAM: Final = frozenset({errno.EBADF, errno.EIO, errno.ENOSPC, errno.EPIPE})
"""What writing to standard output ends in; errors of a file say which file it is."""

_FILE = click.Path(path_type=Path)
_MOST_LISTED: Final = 10_000
_MEBI: Final = 1024 * 1024

_EPILOG = f"""\b
Examples:
  tools-search-server                               the bundled catalog, on stdio
  tools-search-server --config mcp.json             your own servers as one, on stdio
  tools-search-server --http 127.0.0.1:8000         the same over Streamable HTTP
  tools-search-server --config mcp.json --compat meta-tools  for hosts that cannot search
  tools-search-server --config mcp.json --check        what each server offers, or why it fails
  tools-search-server token alice                   the bearer token of a principal, and its entry
  tools-search-server status                        how a gateway on HTTP and its servers are

\b
Environment:
  {CATALOG_VARIABLE}      catalog file of a conformance run; calls answer with themselves
  {CURSOR_KEY_VARIABLE}   key that authenticates search cursors, shared by replicas
  {REDIS_VARIABLE}        address of Redis with its password, in place of --redis

\b
Shell completion, for bash (or zsh, fish):
  eval "$(_TOOLS_SEARCH_SERVER_COMPLETE=bash_source tools-search-server)"

\b
Exit codes:
  0  stopped as it was asked to, or (--check) every server can be used
  1  could not serve, or (--check) some server cannot be used
  2  something to correct first: options or configuration
  141  nobody reads the output any more
"""


class _AddressType(click.ParamType[Address]):
    name = "HOST:PORT"

    def convert(self, value: Any, param: click.Parameter | None, ctx: click.Context | None) -> Address:
        host, _, port = str(value).rpartition(":")
        if not host or not port.isdecimal() or int(port) > 65_535:
            self.fail(f"{value!r} is not HOST:PORT. Write for example 127.0.0.1:8000.", param, ctx)
        return Address(host.strip("[]"), int(port))


class _ModeType(click.ParamType[tuple[str, int]]):
    name = "MODE"

    def convert(self, value: Any, param: click.Parameter | None, ctx: click.Context | None) -> tuple[str, int]:
        mode, colon, tools = str(value).partition(":")
        if mode not in MODES or (colon and mode != "auto"):
            known = ", ".join(repr(one) for one in MODES)
            self.fail(f"{value!r} is not one of {known}, 'auto:TOOLS'.", param, ctx)
        if colon and not (tools.isdecimal() and 1 <= int(tools) <= _MOST_LISTED):
            self.fail(f"{value!r}: write a number of tools from 1 to {_MOST_LISTED}, as in auto:128.", param, ctx)
        return mode, int(tools) if colon else LIST_AT_MOST


@click.group(
    invoke_without_command=True,
    subcommand_metavar="[COMMAND]",
    epilog=_EPILOG,
    context_settings={"help_option_names": ["-h", "--help"], "max_content_width": 100},
)
@click.option("--config", type=_FILE, metavar="FILE", help="Serve all MCP servers of this mcp.json as one.")
@click.option("--catalog", type=_FILE, metavar="FILE", help='Serve the tools of this file, {"tools": [...]}.')
@click.option("--http", type=_AddressType(), help="Serve Streamable HTTP here, not stdio. Port 0: any free one.")
@click.option("--allow-remote", is_flag=True, help="Serve a catalog beyond this machine, to anyone.")
@click.option("--toolset", metavar="NAME", help="Show only what this toolset of --config names.")
@click.option("--compat", "modes", type=_ModeType(), multiple=True, metavar=f"[{'|'.join(MODES)}[:TOOLS]]",
              help="Serve hosts that cannot search; over HTTP, at a path of its own. `auto` lists all tools while a "
                   f"caller sees at most TOOLS ({LIST_AT_MOST}), and is as `meta-tools` above.")  # fmt: skip
@click.option("--compat-prefix", default="", metavar="TEXT", help="Stands before the names of what --compat adds.")
@click.option("--compat-max-tools", type=click.IntRange(1, 1000), default=100, show_default=True,
              help="Found tools in the list of one list-changed session.")  # fmt: skip
@click.option("--page-size", type=click.IntRange(1, MOST_PAGE_SIZE), default=MOST_PAGE_SIZE, metavar="TOOLS",
              help=f"Tools per list page; as many as fit into {MOST_PAGE_BYTES // 1024} KiB unless given.")  # fmt: skip
@click.option("--default-limit", type=click.IntRange(1, 20), default=10, show_default=True, help="Tools per search.")
@click.option("--max-limit", type=click.IntRange(1, 1000), default=50, show_default=True, help="Most tools per search.")
@click.option("--searches-at-once", type=click.IntRange(1), default=64, show_default=True, metavar="SEARCHES",
              help="Searches at once; more are refused as too busy.")  # fmt: skip
@click.option("--least-confidence", type=click.FloatRange(0, 1), metavar="SHARE",
              help=f"Find nothing where a tool fits less likely; default {DEFAULT_LEAST_CONFIDENCE}.")  # fmt: skip
@click.option("--semantic", is_flag=True, help="Rank by meaning as well, in English; needs the extra [semantic].")
@click.option("--cursor-key-file", type=_FILE, metavar="FILE", help="Key of search cursors, shared by replicas.")
@click.option("--redis", metavar="URL", help="Tell replicas of list changes through this Redis server.")
@click.option("--redis-channel", metavar="NAME", default=DEFAULT_CHANNEL, show_default=True,
              help="Channel of Redis, one for each set of replicas.")  # fmt: skip
@click.option("--stateless", is_flag=True, help="No sessions over HTTP in any revision: any replica answers anything.")
@click.option("--start-deadline", type=click.FloatRange(0), default=10, show_default=True, metavar="SECONDS",
              help="How long the first request waits for servers that are slow to start.")  # fmt: skip
@click.option("--call-timeout", type=click.FloatRange(0, min_open=True), default=CALL_SECONDS, show_default=True,
              metavar="SECONDS", help="When a tool call is given up that reports no progress.")  # fmt: skip
@click.option("--max-message", type=click.IntRange(1, 1024), default=MAX_MESSAGE_BYTES // _MEBI, show_default=True,
              metavar="MIB", help="What a server may send at once, or list in all.")  # fmt: skip
@click.option("--index-at-most", type=click.IntRange(0), default=INDEX_AT_MOST, show_default=True, metavar="TOOLS",
              help="A server with more, if it offers tools/search, is searched itself.")  # fmt: skip
@click.option("--lazy", is_flag=True, help='Start each server when it is first used, unless it says "lazy": false.')
@click.option("--idle-stop", type=click.FloatRange(0, min_open=True), default=IDLE_SECONDS, show_default=True,
              metavar="SECONDS", help="When a lazy server that is not used is stopped.")  # fmt: skip
@click.option("--check", "only_check", is_flag=True, help="Say what each server of --config offers, and stop.")
@click.option("--json", "as_json", is_flag=True, help="With --check: print one JSON object instead.")
@click.option("--log-format", type=click.Choice(["text", "json"]), default="text", show_default=True,
              help="How standard error is written.")  # fmt: skip
@click.version_option(package_name="mcp-ext-tools-search", prog_name="tools-search-server")
@click.pass_context
def command(
    ctx: click.Context,
    *,
    config: Path | None,
    catalog: Path | None,
    http: Address | None,
    allow_remote: bool,
    toolset: str | None,
    modes: tuple[tuple[str, int], ...],
    compat_prefix: str,
    compat_max_tools: int,
    page_size: int,
    default_limit: int,
    max_limit: int,
    searches_at_once: int,
    least_confidence: float | None,
    semantic: bool,
    cursor_key_file: Path | None,
    redis: str | None,
    redis_channel: str,
    stateless: bool,
    start_deadline: float,
    call_timeout: float,
    max_message: int,
    index_at_most: int,
    lazy: bool,
    idle_stop: float,
    only_check: bool,
    as_json: bool,
    log_format: LogFormat,
) -> None:
    """Serve MCP tools that clients can search with `tools/search`.

    Without options it serves a bundled catalog of tools with canned answers. With --config it is a gateway: the
    servers of an mcp.json as one server, searchable although they know nothing of search.
    """
    if ctx.invoked_subcommand is not None:
        return
    if config is not None and catalog is not None:
        raise click.UsageError("--config and --catalog are two different servers. Give one of them.")
    if config is None:
        _require_no_option_of_the_gateway(
            {"--check": only_check, "--toolset": toolset, "--compat": modes, "--redis": redis}
        )
    if as_json and not only_check:
        raise click.UsageError("--json is about what --check prints. Add --check.")
    compat = _compat_options(modes, compat_prefix, compat_max_tools)
    _require_usable(compat, http, stateless=stateless)
    if http is not None and config is None and not allow_remote and not is_loopback(http.host):
        message = f"{http.host} can be reached from other machines, and every caller may use all tools. "
        raise click.UsageError(message + "Use 127.0.0.1, or add --allow-remote if that is meant.")
    log_to_stderr(log_format)
    try:
        cursor_key = read_cursor_key(cursor_key_file)
        ranker = chosen_ranker(semantic=semantic, least_confidence=least_confidence)
        limits = Limits(page_size, min(default_limit, max_limit), max_limit, cursor_key, ranker, searches_at_once)
        redis_at = redis_address(redis, redis_channel)
        laziness = None if only_check else Laziness(for_all=lazy, idle_seconds=idle_stop)
        max_bytes = max_message * _MEBI
        options = GatewayOptions(start_deadline, call_timeout, toolset, index_at_most, laziness, max_bytes, redis_at)
        if config is not None and only_check:
            always = read_always_available(load_host_file(config), str(config))
            sys.exit(0 if anyio.run(check, configured_gateway(config, limits, options), always, as_json) else 1)
        if config is not None:
            if modes:
                program = compat_program(config, limits, options, compat, over_http=http is not None)
            else:
                program = gateway_program(config, limits, options)
            _require_guard(program, http, toolset)
        else:
            program = catalog_program(chosen_catalog(catalog), limits)
    except ConfigurationError as error:
        raise _ConfigurationRefused(str(error)) from None
    _run(replace(program, is_stateless=stateless), http)


def _compat_options(modes: tuple[tuple[str, int], ...], prefix: str, most_tools: int) -> CompatOptions:
    numbers = {tools for mode, tools in modes if mode == "auto"}
    if len(numbers) > 1:
        raise click.UsageError(f"--compat auto is given with several numbers of tools: {sorted(numbers)}. Give one.")
    names = tuple(dict.fromkeys(mode for mode, _ in modes))
    return CompatOptions(names, prefix, most_tools, next(iter(numbers), LIST_AT_MOST))


def _require_no_option_of_the_gateway(given: Mapping[str, object]) -> None:
    for option, value in given.items():
        if value:
            what = "servers" if option in {"--check", "--redis"} else "tools"
            raise click.UsageError(f"{option} is about the {what} of a --config file. Name one.")


def _require_usable(compat: CompatOptions, http: Address | None, *, stateless: bool) -> None:
    """Refuse compatibility modes that cannot be served, and sessions where there are none."""
    if stateless and http is None:
        raise click.UsageError("--stateless is about HTTP: stdio is one session. Add --http.")
    if stateless and "list-changed" in compat.modes:
        raise click.UsageError("--compat list-changed keeps a list for each session, and --stateless has none.")
    if len(compat.modes) > 1 and http is None:
        raise click.UsageError("stdio has one endpoint: give one --compat, or serve with --http.")
    if not is_prefix(compat.prefix):
        raise click.UsageError(f"--compat-prefix {compat.prefix!r} cannot stand before names: use {PREFIX_RULE}.")


def _require_guard(program: Program, http: Address | None, toolset: str | None) -> None:
    """Refuse to serve what a gateway offers to whoever can reach it."""
    if http is not None and program.guard is None and not is_loopback(http.host):
        raise click.UsageError(
            f"{http.host} can be reached from other machines, and the configuration names no `principals`. Make a "
            "token with `tools-search-server token NAME` and put the entry that it prints into the file, or use "
            "127.0.0.1."
        )
    if http is not None and program.guard is not None and toolset is not None:
        raise click.UsageError("--toolset is not for principals: give each its `toolset` in the configuration.")


def _run(program: Program, http: Address | None) -> None:
    if http is None and not (sys.stdin and sys.stdout):
        raise _CannotServe("cannot serve on stdio: it is closed. Let an MCP host start this, or serve with --http.")
    failed: list[BaseException] = []
    try:
        anyio.run(serve, program, http)
    except* OSError as errors:
        failed.append(first_error(errors))
    if failed:  # raised here, since early releases of Python 3.11 wrap what is raised above into a group
        where = "stdio" if http is None else f"{http.host}:{http.port}"
        raise _CannotServe(f"cannot serve on {where}: {_reason(failed[0])}")


def _reason(error: BaseException) -> str:
    if isinstance(error, OSError) and error.errno == errno.EADDRINUSE:
        return "something else listens there. Choose another port, or 0 for any free one."
    return str(error)


class _CannotServe(click.ClickException):
    exit_code = 1


class _ConfigurationRefused(click.ClickException):
    exit_code = 2


command.add_command(status)
command.add_command(token)


def run(arguments: Sequence[str] | None = None) -> NoReturn:
    """Run the command line; exits with the code that the outcome deserves."""
    given = sys.argv[1:] if arguments is None else list(arguments)
    try:
        code = _outcome(given)
        if sys.stdout:
            sys.stdout.flush()
    except OSError as error:
        code = _unwritten(error)
    sys.exit(code)


def _outcome(given: list[str]) -> int:
    """Perform what was asked and return the exit code; errors are JSON on standard output as well, if that is asked.

    Raises:
        OSError: Standard output cannot be written.
    """
    output = sys.stdout
    try:
        return command.main(given, prog_name="tools-search-server", standalone_mode=False) or 0
    except click.ClickException as error:
        _print_error(given, type(error).__name__.strip("_"), error.format_message())
        error.show()
        return error.exit_code
    except click.Abort:
        _print_error(given, "Interrupted", "interrupted by SIGINT")
        click.echo("Error: interrupted by SIGINT", err=True)
        return _EXIT_SIGNAL + signal.SIGINT
    except SystemExit:
        if sys.stdout is not output:  # replaced by Click: nobody reads it
            return _EXIT_SIGNAL + signal.SIGPIPE
        raise
    except OSError as error:
        if error.filename is None and error.errno in _OF_A_STREAM:
            raise
        message = f"{error.filename or 'the system'}: {error.strerror or error}"
        _print_error(given, type(error).__name__, message)
        click.echo(f"Error: {message}", err=True)
        return 1


def _print_error(given: list[str], kind: str, message: str) -> None:
    if "--json" in given:
        click.echo(json.dumps({"error": {"type": kind, "message": message}}, indent=2))


def _unwritten(error: OSError) -> int:
    sys.stdout = Path(os.devnull).open("w", encoding="utf-8")  # noqa: SIM115 - what is left in the buffer goes nowhere
    if isinstance(error, BrokenPipeError):
        return _EXIT_SIGNAL + signal.SIGPIPE
    click.echo(f"Error: the answer cannot be written to standard output: {error.strerror or error}", err=True)
    return 1
