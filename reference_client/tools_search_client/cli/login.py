"""The command `login`: sign in to servers that require OAuth, and out."""

from __future__ import annotations

import os
import webbrowser
from collections.abc import Mapping
from typing import TYPE_CHECKING, Final

import click
from tools_search_hosts import HttpTarget

from tools_search_client.cli.completion import complete_server
from tools_search_client.cli.output import EXIT_FAILED, EXIT_OK, as_json_option, epilog, print_json, print_note
from tools_search_client.cli.running import run_until_signal
from tools_search_client.cli.selection import SECONDS, ServerCommand, ServerSelection, server_options
from tools_search_client.errors import HostError, ServerError, SignInError, SignInStep

if TYPE_CHECKING:
    from mcp.shared.auth import OAuthClientInformationFull


_REMEDIES: Final[Mapping[SignInStep, str]] = {
    "registration": "register a client there yourself and name it with --client-id. A server that does not use "
    "OAuth needs a header instead",
    "redirect": "run the command again; --wait gives you more time",
}
"""What to do, by the step in which a sign-in failed."""

_CHECK_CLIENT: Final = "check --client-id, and whether the client has a secret, for --client-secret-env"


@click.command(
    cls=ServerCommand,
    epilog=epilog(
        "login --url https://example.com/mcp",
        "login github --config mcp.json",
        "login github --client-id my-client --client-secret-env MY_SECRET --port 8765",
        exit_codes="""\b
Exit codes:
  0  signed in to every server that requires it, or to none with --forget
  1  a sign-in failed
  2  usage error: bad options or configuration, unknown server
  128 and up  ended by a signal: 130 is Ctrl-C""",
    ),
)
@click.argument("server", required=False, shell_complete=complete_server)
@click.option(
    "--wait",
    type=SECONDS,
    default=300.0,
    show_default=True,
    metavar="SECONDS",
    help="How long to wait for you to sign in.",
)
@click.option("--forget", is_flag=True, help="Sign out: delete the stored tokens instead.")
@click.option("--scope", metavar="SCOPES", help="Request these scopes in addition to the ones already granted.")
@click.option(
    "--client-id", metavar="ID", help="The client you registered, if the authorization server does not register one."
)
@click.option(
    "--client-secret-env", metavar="NAME", help="The environment variable that holds the client's secret, if any."
)
@click.option(
    "--port",
    type=click.IntRange(0, 65535),
    default=0,
    help="Port of the redirect URI, http://127.0.0.1:PORT/callback. Default: any free port.",
)
@server_options()
@as_json_option
def login(
    selection: ServerSelection,
    *,
    server: str | None,
    wait: float,
    forget: bool,
    scope: str | None,
    client_id: str | None,
    client_secret_env: str | None,
    port: int,
    as_json: bool,
) -> int:
    """Sign in to servers in your browser.

    SERVER names one server in the configuration. Without it, you sign in to every server that requires it. --client-id
    and --scope apply to a single server.

    The tokens stay on this machine, in files that only you can read. Other commands use and refresh them. --forget
    deletes them.
    """
    from tools_search_client.servers.oauth import OAuth, loopback_redirect

    entries = [entry for entry in selection.configuration.servers if isinstance(entry.target, HttpTarget)]
    if server is not None:
        entries = [entry for entry in entries if entry.name == server]
    if not entries:
        raise click.UsageError("no such HTTP server: only servers with a URL can require signing in")
    options = selection.options.connection
    if len(entries) > 1 and (scope or client_id):
        raise click.UsageError("name a server: --scope and --client-id apply to a single one")
    oauth = OAuth(client=_client(client_id, client_secret_env))

    async def sign_in() -> list[tuple[str, str, str | None]]:
        outcomes: list[tuple[str, str, str | None]] = []
        for entry in entries:
            assert isinstance(entry.target, HttpTarget)  # noqa: S101 - for the type checker
            name = entry.name or entry.target.url
            try:
                if forget:
                    had_tokens = await oauth.sign_out(entry.target)
                    print_note(f"{name}: signed out" if had_tokens else f"{name}: was not signed in")
                    outcomes.append((name, "signedOut" if had_tokens else "notSignedIn", None))
                    continue
                async with loopback_redirect(_show, seconds=wait, port=port) as redirect:
                    asked = await oauth.sign_in(entry.target, redirect, options, scope=scope or "")
                print_note(f"{name}: signed in" if asked else f"{name}: does not require signing in")
                outcomes.append((name, "signedIn" if asked else "notRequired", None))
            except (ServerError, HostError) as error:
                message = _with_remedy(error, client_id)
                print_note(f"{name}: {message}")
                outcomes.append((name, "failed", message))
            except OSError as error:  # of the listener; those of a connection are a `ServerError`
                raise click.BadParameter(
                    f"cannot listen on port {port}: {error.strerror or error}. Choose another one.", param_hint="--port"
                ) from error
        return outcomes

    outcomes = run_until_signal(sign_in)
    if as_json:
        print_json(
            {"servers": [dict(zip(("server", "status", "failure"), outcome, strict=True)) for outcome in outcomes]}
        )
    return EXIT_FAILED if any(status == "failed" for _, status, _ in outcomes) else EXIT_OK


def _with_remedy(error: ServerError | HostError, client_id: str | None) -> str:
    step = error.step if isinstance(error, SignInError) else "other"
    remedy = _CHECK_CLIENT if step == "token" and client_id is not None else _REMEDIES.get(step)
    return f"{error}: {remedy}" if remedy else str(error)


def _client(client_id: str | None, secret_variable: str | None) -> OAuthClientInformationFull | None:
    """Return the client the user registered, if any."""
    from mcp.shared.auth import OAuthClientInformationFull

    if client_id is None:
        if secret_variable is not None:
            raise click.UsageError("--client-secret-env requires --client-id")
        return None
    if secret_variable is not None and secret_variable not in os.environ:
        raise click.UsageError(f"the environment variable {secret_variable!r} is not set")
    return OAuthClientInformationFull(
        client_id=client_id, client_secret=secret_variable and os.environ[secret_variable]
    )


def _show(url: str) -> None:
    print_note(f"Sign in at {url}")
    if not webbrowser.open(url):
        from tools_search_client.servers.oauth import NO_BROWSER

        print_note(NO_BROWSER)
