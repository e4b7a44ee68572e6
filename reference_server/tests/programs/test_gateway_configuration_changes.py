"""A gateway follows its configuration file: what has changed there applies without a restart, and nothing else."""

from __future__ import annotations

import json
from collections.abc import Callable
from pathlib import Path
from typing import Any

import anyio
import pytest
from clients import ToolListChanges, call, names, server_entry, wait_for
from mcp import Client
from mcp.server.subscriptions import ResourceUpdated
from mcp_ext_tools_search.client import iter_pages
from mcp_types import EmptyResult, ResourceUpdatedNotification, SubscribeRequest, SubscribeRequestParams

pytestmark = pytest.mark.anyio


@pytest.fixture
def write(tmp_path: Path) -> Callable[..., Path]:
    """Write the configuration, or replace it, in one step."""

    def written(document: dict[str, Any] | str) -> Path:
        new, file = tmp_path / "new.json", tmp_path / "mcp.json"
        new.write_text(document if isinstance(document, str) else json.dumps(document))
        return new.rename(file)

    return written


@pytest.mark.rotating
@pytest.mark.parametrize(("transport", "mode"), [("stdio", "legacy"), ("http", "auto")])
async def test_servers_are_started_stopped_and_restarted_as_the_file_says_and_the_others_go_on(
    connect: Any,
    raw: Any,
    write: Any,
    is_alive: Callable[[int], bool],
    until: Any,
    tmp_path: Path,
    transport: str,
    mode: str,
) -> None:
    folder = tmp_path / "gone"
    folder.mkdir()
    first = {
        "gone": raw("good", folder),
        "kept": raw("good"),
        "other": raw("named", Path("one")),
        "broken": {"command": "no-such-program-anywhere"},
    }
    second = {
        "new": raw("named", Path("fresh")),
        "kept": first["kept"],
        "other": raw("named", Path("two")),
        "broken": raw("named", Path("mended")),
    }
    with anyio.fail_after(60):
        async with connect(transport, mode, "--config", str(write({"mcpServers": first}))) as client:
            await wait_for(client, ["gone__plain", "kept__plain", "other__one"])
            before = await call(client, "kept__plain")
            gone = int((folder / "pid").read_text())
            write({"mcpServers": second})
            await wait_for(client, ["new__fresh", "kept__plain", "other__two", "broken__mended"])
            found = [tool.name async for page in iter_pages(client, "plain tool") for tool in page.tools]
            after = await call(client, "kept__plain")
            await until(lambda: not is_alive(gone))
            write({"mcpServers": first})
            await wait_for(client, ["gone__plain", "kept__plain", "other__one"])
            assert int((folder / "pid").read_text()) != gone
    assert set(found) == {"new__fresh", "kept__plain", "other__two", "broken__mended"}
    assert before == after


async def test_clients_are_notified_of_servers_that_the_file_adds(connect: Any, raw: Any, write: Any) -> None:
    changes = ToolListChanges()
    file = write({"mcpServers": {"one": raw("good")}})
    with anyio.fail_after(60):
        async with connect("stdio", "legacy", "--config", str(file), message_handler=changes) as client:
            await wait_for(client, ["one__plain"])
            changes.forget()
            write({"mcpServers": {"one": raw("good"), "two": raw("good")}})
            await changes.once_more()
            await wait_for(client, ["one__plain", "two__plain"])


@pytest.mark.rotating
async def test_a_call_that_is_open_as_its_server_is_configured_anew_ends_with_the_reason(
    connect: Any, versatile: Any, raw: Any, write: Any, until: Any, tmp_path: Path
) -> None:
    results: list[tuple[bool, str]] = []

    async def wait() -> None:
        results.append(await call(client, "busy__wait"))

    file = write({"mcpServers": {"busy": versatile(tmp_path), "other": raw("good")}})
    with anyio.fail_after(60):
        async with connect("http", "auto", "--config", str(file)) as client:
            async with anyio.create_task_group() as tasks:
                tasks.start_soon(wait)
                await until((tmp_path / "waiting").exists)
                write({"mcpServers": {"busy": raw("good"), "other": raw("good")}})
            await wait_for(client, ["busy__plain", "other__plain"])
    [(is_error, text)] = results
    assert is_error
    assert "went away during this request: its configuration has changed" in text


async def test_a_server_that_does_not_stop_holds_up_no_change_and_is_gone_in_the_end(
    servers: Any, raw: Any, write: Any, is_alive: Callable[[int], bool], until: Any, tmp_path: Path
) -> None:
    log = tmp_path / "log"
    with log.open("w") as stderr:
        file = write({"mcpServers": {"one": raw("stubborn", tmp_path), "other": raw("good")}})
        url = await anyio.to_thread.run_sync(lambda: servers.start_http("--config", str(file), stderr=stderr))
    with anyio.fail_after(60):
        async with Client(url) as client:
            await wait_for(client, ["one__plain", "other__plain"])
            old = int((tmp_path / "pid").read_text())
            for number in range(3):  # in less time than it takes to stop
                write({"mcpServers": {"one": raw("named", Path(f"tool_{number}")), "other": raw("good")}})
                await until(lambda number=number: log.read_text().count("one restarts because") > number)
            await wait_for(client, ["one__tool_2", "other__plain"])
            await until(lambda: not is_alive(old))


async def test_a_lazy_server_is_known_anew_when_its_entry_changes(
    connect: Any, raw: Any, write: Any, tmp_path: Path
) -> None:
    def entry(behavior: str, *arguments: Path) -> dict[str, Any]:
        return {"mcpServers": {"one": raw(behavior, *arguments) | {"lazy": True}}}

    file = write(entry("named", Path("first")))
    options = ["--idle-stop", "0.1", "--config", str(file)]
    env = {"XDG_CACHE_HOME": str(tmp_path / "cache")}
    with anyio.fail_after(60):
        async with connect("stdio", "auto", *options, env=env) as client:
            await wait_for(client, ["one__first"])
            assert not (await call(client, "one__first"))[0]
            for behavior, arguments, name in (("named", [Path("second")], "one__second"), ("good", [], "one__plain")):
                write(entry(behavior, *arguments))
                await wait_for(client, [name])
                assert not (await call(client, name))[0]


@pytest.mark.rotating
@pytest.mark.parametrize("mode", ["auto", "legacy"])
async def test_who_follows_a_resource_follows_it_still_when_its_server_is_configured_anew(
    connect: Any, write: Any, mode: str
) -> None:
    def entry(**more: Any) -> dict[str, Any]:
        return {"mcpServers": {"old": server_entry("library.py", "modern", "old") | more}}

    uri = "gateway://old/file:///shared.txt"
    seen, updates = anyio.create_memory_object_stream[str](100)

    async def on_message(message: object) -> None:
        if isinstance(message, ResourceUpdatedNotification):
            await seen.send(message.params.uri)

    async def follow(*, task_status: Any) -> None:
        if mode == "legacy":
            request = SubscribeRequest(params=SubscribeRequestParams(uri=uri))
            await client.session.send_request(request, EmptyResult)
            task_status.started()
            return
        async with client.listen(resource_subscriptions=[uri]) as events:
            task_status.started()
            async for event in events:
                if isinstance(event, ResourceUpdated):
                    await seen.send(event.uri)

    with anyio.fail_after(60):
        async with (
            connect("http", mode, "--config", str(write(entry())), message_handler=on_message) as client,
            anyio.create_task_group() as tasks,
        ):
            await tasks.start(follow)
            write(entry(env={"ANY": "1"}))
            assert await updates.receive() == uri  # it may have changed meanwhile
            assert await call(client, "old__change", what=[uri.removeprefix("gateway://old/")]) == (False, "changed")
            assert await updates.receive() == uri
            tasks.cancel_scope.cancel()
    seen.close()
    updates.close()


async def test_toolsets_categories_and_always_available_tools_apply_with_the_servers(
    connect: Any, raw: Any, write: Any
) -> None:
    def document(*shown: str, group: str, always: str) -> dict[str, Any]:
        return {
            "mcpServers": {name: raw("named", Path(f"tool_{name}")) for name in ("one", "two")},
            "toolsets": {"some": dict.fromkeys(shown, True)},
            "metadata": {"servers": {"one": {"group": group}}},
            "always_available": [always],
        }

    async def groups() -> Any:
        _, text = await call(client, "list_tool_categories")
        return sorted(category["name"] for category in json.loads(text)["categories"])

    options = ["--toolset", "some", "--compat", "meta-tools"]
    file = write(document("one", group="first", always="tool_one"))
    with anyio.fail_after(60):
        async with connect("stdio", "legacy", "--config", str(file), *options) as client:
            while "one__tool_one" not in await names(client):  # noqa: ASYNC110
                await anyio.sleep(0.05)
            assert await groups() == ["first"]
            write(document("one", "two", group="second", always="two__tool_two"))
            while "two__tool_two" not in await names(client):  # noqa: ASYNC110
                await anyio.sleep(0.05)
            assert "one__tool_one" not in await names(client)
            assert await groups() == ["second", "two"]


async def test_a_file_that_cannot_be_used_or_needs_a_restart_changes_nothing_and_the_log_says_so(
    servers: Any, raw: Any, write: Any, until: Any, tmp_path: Path
) -> None:
    entries = {"one": raw("good")}
    log = tmp_path / "log"
    principals = {"alice": {"token": f"sha256:{'0' * 32}:{'0' * 64}"}}
    with log.open("w") as stderr:
        file = write({"mcpServers": entries})
        url = await anyio.to_thread.run_sync(lambda: servers.start_http("--config", str(file), stderr=stderr))
    with anyio.fail_after(60):
        async with Client(url) as client:
            await wait_for(client, ["one__plain"])
            write('{"mcpServers": {"two"')
            await until(lambda: "The previous configuration stays in effect." in log.read_text())
            loop = {"command": "tools-search-server", "args": ["--config", str(file)]}
            write({"mcpServers": {"self": loop}})
            await until(lambda: "is a gateway for this same file" in log.read_text())
            write({"mcpServers": {"two": raw("good")}, "principals": principals})
            await until(lambda: "nothing has changed until then" in log.read_text())
            assert await names(client) == ["one__plain"]
            write({"mcpServers": {"two": raw("good")}})
            await wait_for(client, ["two__plain"])
