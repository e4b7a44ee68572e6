"""The commands `prompts` and `resources`, and the search of prompts, resources and templates."""

from __future__ import annotations

from collections.abc import Awaitable, Sequence
from dataclasses import replace
from difflib import get_close_matches
from typing import TYPE_CHECKING, Any, Final, Literal, TypeAlias

import click
from pydantic import BaseModel

from tools_search_client.cli import output
from tools_search_client.cli.arguments import by_name, read_arguments
from tools_search_client.cli.selection import ServerCommand, ServerSelection, server_options
from tools_search_client.errors import LocalError
from tools_search_client.remedies import naming

if TYPE_CHECKING:
    from mcp_types import GetPromptResult, Prompt, ReadResourceResult, Resource, ResourceTemplate

    from tools_search_client.federation.federation import Federation
    from tools_search_client.found import FederatedItems, FederatedOffers, NamedItem, ServerReport

_MORE_TIME: Final = "`call_timeout` in the configuration gives it more time"


@click.command(
    cls=ServerCommand,
    epilog=output.epilog("prompts --config mcp.json", "prompts notes__summary length=short --config mcp.json"),
    short_help="List the servers' prompts, or show one.",
)
@click.argument("name", required=False)
@click.argument("arguments", metavar="[ARGUMENT]…", nargs=-1)
@server_options()
@output.as_json_option
def prompts(name: str | None, arguments: tuple[str, ...], selection: ServerSelection, *, as_json: bool) -> int:
    """List every server's prompts, or with NAME, show that prompt with its arguments filled in.

    NAME is a name shown in the list. `server:prompt` also works, and so does the prompt's own name if only one server
    has it. Each ARGUMENT is written as for `call`; all values are text.
    """
    from mcp_types import GetPromptResult

    given = {member: str(value) for member, value in by_name(read_arguments(arguments)).items()}

    async def ask(servers: Federation) -> FederatedOffers[Prompt] | GetPromptResult:
        listing = await servers.prompts()
        if name is None:
            return listing
        prompt = _meant(
            name, [(f"{found.server}:{found.item.name}", found.item.name, found) for found in listing.items], listing
        )
        required = [argument.name for argument in prompt.item.arguments or () if argument.required]
        if missing := [argument for argument in required if argument not in given]:
            takes = _stated_arguments(prompt.item)
            raise LocalError(f"{prompt.name} needs {' and '.join(missing)}: it takes {takes}")
        with naming(prompt.name, _MORE_TIME):
            return await servers.get_prompt(prompt.server, prompt.item.name, given)

    answer = selection.ask(ask)
    if isinstance(answer, GetPromptResult):
        return _print_read(answer, [(message.role, message.content) for message in answer.messages], as_json=as_json)
    if as_json:
        output.print_json(
            {"prompts": [output.item_json("prompt", found) for found in answer.items]}
            | output.servers_json(answer.servers)
        )
    else:
        rows = [(found.name, found.server or "-", _stated_arguments(found.item)) for found in answer.items]
        purposes = [output.purpose(found.item) for found in answer.items]
        output.print_listing("prompt", ("prompt", "server", "arguments"), rows, purposes, answer.servers)
    return output.exit_code(answer.servers, found=bool(answer.items))


@click.command(
    cls=ServerCommand,
    epilog=output.epilog("resources --config mcp.json", "resources notes://today --config mcp.json --server notes"),
    short_help="List the servers' resources, or read one.",
)
@click.argument("uri", required=False)
@server_options()
@output.as_json_option
def resources(uri: str | None, selection: ServerSelection, *, as_json: bool) -> int:
    """List every server's resources and resource templates, or with URI, read that resource.

    To read a URI that no server lists, such as one built from a template, name its server with --server.
    """
    from mcp_types import ReadResourceResult

    async def ask(
        servers: Federation,
    ) -> tuple[FederatedOffers[Resource], FederatedOffers[ResourceTemplate]] | ReadResourceResult:
        if uri is not None and len(selection.configuration.servers) == 1:
            with naming(uri, _MORE_TIME):
                return await servers.read_resource(selection.configuration.servers[0].name, uri)
        listing = await servers.resources()
        if uri is None:
            return listing, await servers.resource_templates()
        resource = _meant(uri, [(str(found.item.uri), found.name, found) for found in listing.items], listing)
        with naming(uri, _MORE_TIME):
            return await servers.read_resource(resource.server, str(resource.item.uri))

    answer = selection.ask(ask)
    if isinstance(answer, ReadResourceResult):
        return _print_read(answer, [("", content) for content in answer.contents], as_json=as_json)
    listing, templates = answer[0], answer[1].items
    reports = [_both(*of_server) for of_server in zip(listing.servers, answer[1].servers, strict=True)]
    if as_json:
        shown = {
            "resources": [output.item_json("resource", found) for found in listing.items],
            "templates": [output.item_json("template", found) for found in templates],
        }
        output.print_json(shown | output.servers_json(reports))
    else:
        rows = [(str(found.item.uri), found.server or "-", found.item.mime_type or "-") for found in listing.items]
        rows += [(found.item.uri_template, found.server or "-", found.item.mime_type or "-") for found in templates]
        purposes = [output.purpose(found.item) for found in (*listing.items, *templates)]
        output.print_listing("resource", ("uri", "server", "type"), rows, purposes, reports)
    return output.exit_code(reports, found=bool(listing.items or templates))


def _both(resources: ServerReport, templates: ServerReport) -> ServerReport:
    """Return the report on a server's resources and templates together."""
    return replace(
        resources,
        milliseconds=resources.milliseconds + templates.milliseconds,
        hits=resources.hits + templates.hits,
        left_out=resources.left_out + templates.left_out,
        failure=resources.failure or templates.failure,
    )


SearchedKind: TypeAlias = Literal["resources", "templates", "prompts"]
"""What `search` can look for besides tools."""


def search_offers(kind: SearchedKind, query: str, limit: int, selection: ServerSelection) -> FederatedItems[Any]:
    """Search prompts, resources or templates. Servers for which the toolset names individual tools are not searched.

    Raises:
        LocalError: The query is blank or not valid Unicode.
    """
    rules = {entry.name: selection.toolset.rule(entry.name) for entry in selection.configuration.servers}
    shown = [name for name, rule in rules.items() if rule is not None and rule.shows_more]

    def question(servers: Federation) -> Awaitable[FederatedItems[Any]]:
        search = {
            "resources": servers.search_resources,
            "templates": servers.search_resource_templates,
            "prompts": servers.search_prompts,
        }[kind]
        return search(query, limit=limit, servers=shown)

    return selection.ask(question)


def _meant(
    name: str, spelled: Sequence[tuple[str, str, NamedItem[Any]]], listing: FederatedOffers[Any]
) -> NamedItem[Any]:
    """Return the item that `name` means; raises `LocalError` if no item or several items match."""
    meant = [found for *spellings, found in spelled if name in (found.name, *spellings)]
    if len(meant) == 1:
        return meant[0]
    if meant:
        servers = " or ".join(f"--server {found.server}" for found in meant)
        raise LocalError(f"several servers have {name!r}: choose one with {servers}")
    if name in [report.server for report in listing.servers]:
        raise LocalError(f"{name!r} is the name of a server: use --server {name} to see only what it has")
    near = get_close_matches(name, [spelling for *spellings, _ in spelled for spelling in spellings], n=1)
    text = f"no server lists {name!r}" + (f"; the closest is {near[0]}" if near else "")
    failed = [f"{server}: {failure}" for server, failure in listing.failed.items()]
    raise LocalError(text + (f" (these servers failed: {'; '.join(failed)})" if failed else ""))


def _stated_arguments(prompt: Prompt) -> str:
    return (
        " ".join(argument.name if argument.required else f"[{argument.name}]" for argument in prompt.arguments or ())
        or "-"
    )


def _print_read(result: BaseModel, contents: Sequence[tuple[str, BaseModel]], *, as_json: bool) -> int:
    """Print the contents, each after its role if it has one, and return the exit code."""
    if as_json:
        output.print_json(output.model_json(result))
        return output.EXIT_OK
    for role, content in contents:
        if role:
            output.print_note(f"{role}:")
        output.print_content(content)
    return output.EXIT_OK
