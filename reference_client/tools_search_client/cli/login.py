"""The command `login`: a person signs in to servers that ask for OAuth."""

from __future__ import annotations

import webbrowser
from dataclasses import replace

import click
from tools_search_hosts import HttpTarget

from tools_search_client.cli.output import epilog, print_note
from tools_search_client.cli.running import run_until_signal
from tools_search_client.cli.targets import Target, server_options
from tools_search_client.errors import HostError, ServerError
from tools_search_client.servers.oauth import OAuth, loopback_redirect


@click.command(
    epilog=epilog(
        "login --url https://example.com/mcp",
        "login github --config mcp.json",
        exit_codes="""\b
Exit codes:
  0  every server knows you now, or does not ask
  1  a sign-in failed
  2  wrong usage: options, configuration, unknown server
  128 and more  ended by a signal: 130 is Ctrl-C""",
    )
)
@click.argument("server", required=False)
@click.option(
    "--wait",
    type=click.FloatRange(min=0, min_open=True),
    default=300.0,
    show_default=True,
    metavar="SECONDS",
    help="How long to wait for you.",
)
@server_options()
def login(target: Target, *, server: str | None, wait: float) -> None:
    """Sign in to servers, in your browser.

    With SERVER, to that one of the configuration; else to all that ask for it.

    The tokens stay on this machine, in files that only you can read, and are used and refreshed by the other commands.
    """
    entries = [entry for entry in target.configuration.servers if isinstance(entry.target, HttpTarget)]
    if server is not None:
        entries = [entry for entry in entries if entry.name == server]
    if not entries:
        raise click.UsageError("there is no such server with an address: only those over HTTP ask for a sign-in")
    options = target.options.connection
    oauth = options.auth if isinstance(options.auth, OAuth) else OAuth()

    async def sign_in() -> int:
        failures = 0
        for entry in entries:
            assert isinstance(entry.target, HttpTarget)  # noqa: S101 - for the type checker
            name = entry.name or entry.target.url
            try:
                async with loopback_redirect(_show, seconds=wait) as redirect:
                    asked = await oauth.sign_in(entry.target, redirect, replace(options, follow_changes=False))
                print_note(f"{name}: signed in" if asked else f"{name}: does not ask for a sign-in")
            except (ServerError, HostError) as error:
                print_note(f"{name}: {error}")
                failures += 1
        return failures

    if run_until_signal(sign_in):
        raise SystemExit(1)


def _show(url: str) -> None:
    print_note(f"Sign in at {url}")
    webbrowser.open(url)
