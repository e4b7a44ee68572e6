"""`tools-search-server token`: makes the bearer token of a principal."""

from __future__ import annotations

import json

import click

from tools_search_server.access.principals import TokenHash, new_token

__all__ = ["token"]


_EPILOG = """\b
Examples:
  tools-search-server token alice
  tools-search-server token alice --toolset reading"""


@click.command(epilog=_EPILOG, short_help="Make the bearer token of a principal.")
@click.argument("name")
@click.option("--toolset", metavar="NAME", help="What the principal sees; everything unless given.")
def token(*, name: str, toolset: str | None) -> None:
    """Make a token for principal NAME, and the entry by which the configuration knows it.

    The token is shown this once: the entry holds a hash of it. A running gateway follows the
    file of --config and reads the entry at once; only the first principal of a gateway needs a restart.
    """
    made = new_token()
    entry = {"token": str(TokenHash.of(made))} | ({} if toolset is None else {"toolset": toolset})
    click.echo(f"The token of {name}, shown only now. Clients send it as `Authorization: Bearer …`:\n\n  {made}\n")
    click.echo("Its entry, for `principals` in the file of --config:\n")
    click.echo(f"  {json.dumps(name, ensure_ascii=False)}: {json.dumps(entry, ensure_ascii=False)}")
