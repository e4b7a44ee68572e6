"""Signing in at a real authorization server, and tokens that expire, are refreshed, refused and kept."""

from __future__ import annotations

import json
import re
import socket
import stat
import struct
import sys
from collections.abc import Generator
from contextvars import ContextVar
from pathlib import Path
from subprocess import PIPE, Popen
from typing import Any
from urllib.parse import parse_qsl, urlsplit

import anyio
import anyio.to_thread
import httpx2
import mcp.client.auth
import pytest
import tools_search_client.api
from mcp.shared.auth import OAuthClientInformationFull
from tools_search_client import (
    Configuration,
    ConnectionOptions,
    ConsentRefusedError,
    Conversation,
    DiscoveryOptions,
    Failure,
    FederationOptions,
    FileTokenStore,
    HostError,
    LocalError,
    OAuth,
    Redirect,
    Reply,
    ServerTools,
    ServerUnavailableError,
    SignInError,
    ToolCall,
    ToolDiscovery,
    UnauthorizedError,
    loopback_redirect,
    open_federation,
    open_server,
)
from tools_search_client.federation import fanout
from tools_search_hosts import HttpTarget, ServerEntry

SERVER = Path(__file__).parents[1] / "fixtures" / "servers" / "oauth.py"

HANGING = 300
"""Seconds after which a test hangs: on a busy machine, anything can take twenty times as long as on an idle one."""

pytestmark = pytest.mark.anyio


class Guarded:
    """The server behind OAuth."""

    def __init__(self, url: str, control: str) -> None:
        self.url = url
        self._control = control

    def __call__(self, **changes: Any) -> dict[str, Any]:
        """Change what happens next and return what happened so far."""
        return httpx2.post(self._control, json=changes, timeout=HANGING).json()

    @property
    def events(self) -> list[str]:
        return self()["events"]


@pytest.fixture(scope="module")
def process() -> Generator[Guarded]:
    with Popen([sys.executable, str(SERVER)], stdout=PIPE) as started:
        assert started.stdout is not None
        yield Guarded(**json.loads(started.stdout.readline()))
        started.kill()


@pytest.fixture
def guarded(process: Guarded) -> Guarded:
    process(expires_in=3600, uses=1_000_000, refusing=False, failing=False, denying=False, events=[])
    process(padding=0, registering=True, accepting_documents=False, demanded="")
    return process


@pytest.fixture
def store(tmp_path: Path) -> FileTokenStore:
    return FileTokenStore(tmp_path / "tokens")


def browse(url: str) -> None:
    """What a browser does for a person who agrees to everything."""
    httpx2.get(url, follow_redirects=True, timeout=HANGING)


@pytest.fixture
async def signed_in(guarded: Guarded, store: FileTokenStore) -> OAuth:
    """What a sign-in left behind: none of it is in this object but the store."""
    with anyio.fail_after(HANGING):
        async with loopback_redirect(browse, seconds=HANGING) as redirect:
            assert await OAuth(store).sign_in(guarded.url, redirect)
    guarded(events=[])
    return OAuth(store)


async def test_the_log_has_the_address_at_once_where_no_browser_can_be_opened(
    guarded: Guarded, store: FileTokenStore, caplog: pytest.LogCaptureFixture
):
    with anyio.fail_after(HANGING):
        async with (
            loopback_redirect(lambda _: False, seconds=HANGING) as redirect,
            anyio.create_task_group() as tasks,
        ):
            tasks.start_soon(OAuth(store).sign_in, guarded.url, redirect)
            while not (told := re.search(r"no browser could be opened.*: (http\S+)", caplog.text)):  # noqa: ASYNC110
                await anyio.sleep(0.02)
            await anyio.to_thread.run_sync(browse, told[1])
    assert await store.load(guarded.url)


def options(oauth: OAuth) -> ConnectionOptions:
    return ConnectionOptions(auth=oauth, follow_changes=False)


@pytest.mark.parametrize("order", [("bob", "ada"), ("ada", "bob")])
async def test_users_of_one_federation_connect_and_ask_with_their_own_sign_ins(
    guarded: Guarded, signed_in: OAuth, tmp_path: Path, order: tuple[str, str]
):
    user = ContextVar("user", default="nobody")
    oauths = {"ada": signed_in, "bob": OAuth(FileTokenStore(tmp_path / "bob"))}
    connection = ConnectionOptions(
        auth=lambda url: oauths[user.get()](url), discovery=DiscoveryOptions(authorization=user.get)
    )
    configuration = Configuration((ServerEntry("guarded", HttpTarget(guarded.url)),))
    with anyio.fail_after(HANGING):
        async with open_federation(
            configuration, FederationOptions(connection=connection, deadline=HANGING)
        ) as federation:

            async def search(name: str) -> None:
                user.set(name)
                answer = await federation.search("create an invoice", limit=1)
                found = [tool.name for tool in answer.tools]
                failed = [failure.kind for failure in answer.failed.values()]
                assert (found, failed) == answers[name]

            answers = {"ada": (["guarded__create_invoice"], list[str]()), "bob": (list[str](), ["unauthorized"])}
            async with anyio.create_task_group() as searches:  # they wait for the same connection
                for name in order * 2:
                    searches.start_soon(search, name)
            for name in order:
                await search(name)


async def test_a_server_that_nobody_signed_in_to_says_how(guarded: Guarded, store: FileTokenStore):
    with anyio.fail_after(HANGING):
        async with open_federation(
            Configuration((ServerEntry("guarded", HttpTarget(guarded.url)),)),
            FederationOptions(connection=options(OAuth(store)), deadline=HANGING),
        ) as federation:
            failure = (await federation.search("create an invoice")).failed["guarded"]
    assert failure.kind == "unauthorized"
    challenge = failure.challenge
    assert challenge is not None
    assert (challenge.status, challenge.scheme) == (401, "Bearer")
    assert challenge.resource_metadata.endswith("/.well-known/oauth-protected-resource/mcp")
    assert "it answered HTTP 401 and asks for authorization (scheme Bearer" in failure.message
    assert "tools-search-client" not in failure.message  # a model reads it, or the user of another product
    assert guarded.events == []


async def test_a_model_that_searches_tells_the_host_whose_user_must_sign_in_again(guarded: Guarded, signed_in: OAuth):
    entry = ServerEntry("guarded", HttpTarget(guarded.url))
    configuration = Configuration((entry,), ToolDiscovery(enabled=True, defer_all=True))
    search = ToolCall("search_tools", {"query": "create an invoice"})
    with anyio.fail_after(HANGING):
        async with (
            open_federation(
                configuration, FederationOptions(connection=options(signed_in), deadline=HANGING)
            ) as federation,
            loopback_redirect(browse, seconds=HANGING) as redirect,
        ):
            conversation = Conversation(federation)
            await conversation.begin_turn()
            await signed_in.sign_out(guarded.url)
            reply = await conversation.take(search)
            assert isinstance(reply, Reply)
            assert reply.failed["guarded"].kind == "unauthorized"
            await signed_in.sign_in(guarded.url, redirect)
            reply = await conversation.take(search)
            assert isinstance(reply, Reply)
            assert (reply.failed, reply.loaded[:1]) == ({}, ("guarded__create_invoice",))


async def test_a_person_signs_in_with_registration_and_proof_and_another_process_has_the_tokens(
    guarded: Guarded, store: FileTokenStore
):
    with anyio.fail_after(HANGING):
        async with loopback_redirect(browse, seconds=HANGING) as redirect:
            assert await OAuth(store, client_name="Example Host").sign_in(guarded.url, redirect)
        assert guarded.events == ["registered", "signed in", "authorization_code"]
        assert json.loads(await store.load(guarded.url) or "")["client"]["client_name"] == "Example Host"
        (file,) = store.folder.iterdir()
        assert (stat.S_IMODE(file.stat().st_mode), stat.S_IMODE(store.folder.stat().st_mode)) == (0o600, 0o700)
        program = (
            "import anyio, sys; from pathlib import Path; import tools_search_client as c; "
            "from tools_search_hosts import HttpTarget\n"
            "async def main():\n"
            "    options = c.ConnectionOptions(auth=c.OAuth(c.FileTokenStore(Path(sys.argv[2]))))\n"
            "    async with c.open_server(HttpTarget(sys.argv[1]), options) as tools:\n"
            "        print((await tools.search('create an invoice')).tools[0].name)\n"
            "anyio.run(main)"
        )
        guarded(expire=True)
        done = await anyio.run_process([sys.executable, "-c", program, guarded.url, str(store.folder)], stderr=None)
    assert done.stdout == b"create_invoice\n"
    assert guarded.events == ["registered", "signed in", "authorization_code", "refresh_token"]


async def test_a_host_that_publishes_its_metadata_signs_in_and_refreshes_without_registration(
    guarded: Guarded, store: FileTokenStore
):
    guarded(accepting_documents=True)
    published = "https://host.example/client.json"
    with anyio.fail_after(HANGING):
        async with loopback_redirect(browse, seconds=HANGING) as redirect:
            assert await OAuth(store, client_metadata_url=published).sign_in(guarded.url, redirect)
        guarded(expire=True)
        async with open_server(HttpTarget(guarded.url), options(OAuth(store, client_metadata_url=published))) as tools:
            assert (await tools.search("create an invoice")).tools
    assert guarded.events == ["signed in", "authorization_code", "refresh_token"]
    (file,) = store.folder.iterdir()
    assert json.loads(file.read_text())["client"]["client_id"] == published


async def test_a_host_that_publishes_its_metadata_registers_where_that_is_not_accepted(
    guarded: Guarded, store: FileTokenStore
):
    with anyio.fail_after(HANGING):
        async with loopback_redirect(browse, seconds=HANGING) as redirect:
            oauth = OAuth(store, client_metadata_url="https://host.example/client.json")
            assert await oauth.sign_in(guarded.url, redirect)
    assert guarded.events == ["registered", "signed in", "authorization_code"]


@pytest.mark.parametrize("url", ["http://host.example/client.json", "https://host.example", "client.json"])
def test_an_address_that_no_metadata_document_can_have_is_refused_at_once(url: str, store: FileTokenStore):
    with pytest.raises(LocalError, match="HTTPS URL with a path"):
        OAuth(store, client_metadata_url=url)


async def test_tokens_that_expire_during_searches_are_refreshed_once_and_nothing_is_lost(
    guarded: Guarded, signed_in: OAuth
):
    with anyio.fail_after(HANGING):
        async with open_server(HttpTarget(guarded.url), options(signed_in)) as tools:
            assert guarded.events == []
            guarded(expire=True)
            found: dict[str, str] = {}

            async def search(noun: str) -> None:
                found[noun] = (await tools.search(f"create a {noun}")).tools[0].name

            async with anyio.create_task_group() as tasks:
                for noun in ("invoice", "customer", "shipment", "refund", "order"):
                    tasks.start_soon(search, noun)
    assert found == {noun: f"create_{noun}" for noun in found}
    assert len(found) == 5
    assert guarded.events == ["refresh_token"]


async def test_tokens_that_expire_between_the_pages_of_a_search_are_refreshed(guarded: Guarded, signed_in: OAuth):
    guarded(uses=1)
    with anyio.fail_after(HANGING):
        async with open_server(HttpTarget(guarded.url), options(signed_in)) as tools:
            guarded(expire=True)
            found = await tools.search("create", limit=8)
            assert len(found.tools) == 8
            assert not (await tools.call("create_invoice")).is_error
    assert len(guarded.events) >= 2
    assert set(guarded.events) == {"refresh_token"}


async def test_tokens_that_are_known_to_have_expired_are_refreshed_before_they_are_sent(
    guarded: Guarded, store: FileTokenStore, signed_in: OAuth
):
    (file,) = store.folder.iterdir()
    kept = json.loads(file.read_text())
    file.write_text(json.dumps(kept | {"expires_at": 1.0}))
    guarded(expire=True)
    with anyio.fail_after(HANGING):
        async with open_server(HttpTarget(guarded.url), options(signed_in)) as tools:
            assert (await tools.search("create an invoice")).tools
    assert guarded.events == ["refresh_token"]
    assert json.loads(file.read_text())["expires_at"] > 1.0


async def test_two_processes_refresh_in_turn_though_each_refresh_token_is_good_for_once(
    guarded: Guarded, store: FileTokenStore, signed_in: OAuth
):
    other = OAuth(store)
    with anyio.fail_after(HANGING):
        async with (
            open_server(HttpTarget(guarded.url), options(signed_in)) as tools,
            open_server(HttpTarget(guarded.url), options(other)) as others,
        ):
            for one in (tools, others, tools):
                guarded(expire=True)
                assert not (await one.call("create_invoice")).is_error
    assert guarded.events == ["refresh_token"] * 3


async def test_of_two_processes_whose_tokens_expire_at_once_one_refreshes_for_both(
    guarded: Guarded, store: FileTokenStore, signed_in: OAuth
):
    """An authorization server may take a refresh token that comes a second time for a stolen one, and end them all."""
    found_old = anyio.Event()

    class Watched(FileTokenStore):
        async def load(self, server: str, /) -> str | None:
            found_old.set()
            return await super().load(server)

    async def call(tools: ServerTools) -> None:
        assert not (await tools.call("create_invoice")).is_error

    with anyio.fail_after(HANGING):
        async with (
            open_server(HttpTarget(guarded.url), options(signed_in)) as tools,
            open_server(HttpTarget(guarded.url), options(OAuth(Watched(store.folder)))) as others,
            anyio.create_task_group() as calls,
        ):
            guarded(expire=True, holding=True)
            calls.start_soon(call, tools)
            while not guarded.events:  # noqa: ASYNC110
                await anyio.sleep(0.02)
            found_old = anyio.Event()
            calls.start_soon(call, others)
            await found_old.wait()
            guarded(holding=False)
    assert guarded.events == ["refresh_token"]


async def test_a_refresh_that_is_refused_fails_with_its_reason_and_a_new_sign_in_mends_open_connections(
    guarded: Guarded, store: FileTokenStore, signed_in: OAuth
):
    with anyio.fail_after(HANGING):
        async with open_server(HttpTarget(guarded.url), options(signed_in)) as tools:
            guarded(expire=True, refusing=True)
            for _ in range(2):
                with pytest.raises(UnauthorizedError, match="the authorization has ended: invalid_grant"):
                    await tools.call("create_invoice")
            assert guarded.events == ["refresh_token"]
            guarded(refusing=False)
            async with loopback_redirect(browse, seconds=HANGING) as redirect:
                await OAuth(store).sign_in(guarded.url, redirect)
            assert not (await tools.call("create_invoice")).is_error


async def test_a_token_endpoint_that_answers_too_much_is_not_read_to_the_end_and_costs_nothing_but_the_moment(
    guarded: Guarded, signed_in: OAuth
):
    too_much = "it sent an answer of more than 0.25 MiB"
    with anyio.fail_after(HANGING):
        async with (
            open_server(HttpTarget(guarded.url), options(signed_in)) as tools,
            loopback_redirect(browse, seconds=HANGING) as redirect,
        ):
            guarded(expire=True, padding=256 * 1024)
            with pytest.raises(ServerUnavailableError, match=f"could not be refreshed: {too_much}; try again later"):
                await tools.search("create an invoice")
            with pytest.raises(ServerUnavailableError, match=too_much):
                await signed_in.sign_in(guarded.url, redirect, scope="invoices:write")
            guarded(padding=0)
            assert await signed_in.sign_in(guarded.url, redirect)
            assert (await tools.search("create an invoice")).tools


async def test_a_token_endpoint_that_is_out_of_order_costs_nothing_but_the_moment(guarded: Guarded, signed_in: OAuth):
    with anyio.fail_after(HANGING):
        async with open_server(HttpTarget(guarded.url), options(signed_in)) as tools:
            guarded(expire=True, failing=True)
            with pytest.raises(ServerUnavailableError, match="could not be refreshed: HTTP 503") as error:
                await tools.call("create_invoice")
            assert not isinstance(error.value, UnauthorizedError)  # nobody has to sign in
            guarded(failing=False)
            assert not (await tools.call("create_invoice")).is_error


async def test_what_a_refresh_failed_for_says_nothing_of_a_later_sign_in_or_sign_out(
    guarded: Guarded, signed_in: OAuth
):
    with anyio.fail_after(HANGING):
        async with open_server(HttpTarget(guarded.url), options(signed_in)) as tools:
            guarded(expire=True, failing=True)
            with pytest.raises(ServerUnavailableError, match="could not be refreshed: HTTP 503"):
                await tools.call("create_invoice")
            guarded(failing=False, demanded="invoices:write")
            async with loopback_redirect(browse, seconds=HANGING) as redirect:
                assert await signed_in.sign_in(guarded.url, redirect)
            with pytest.raises(UnauthorizedError, match="scope 'invoices:write'"):
                await tools.call("create_invoice")
            guarded(demanded="", expire=True, failing=True)
            with pytest.raises(ServerUnavailableError, match="could not be refreshed: HTTP 503"):
                await tools.call("create_invoice")
            await signed_in.sign_out(guarded.url)
            with pytest.raises(UnauthorizedError) as error:
                await tools.call("create_invoice")
    assert "refreshed" not in error.value.challenge.problem


async def test_a_search_that_is_given_up_does_not_lose_the_refresh_that_it_began(guarded: Guarded, signed_in: OAuth):
    with anyio.fail_after(HANGING):
        async with open_server(HttpTarget(guarded.url), options(signed_in)) as tools:
            guarded(expire=True, holding=True)
            async with anyio.create_task_group() as tasks:
                tasks.start_soon(tools.search, "create an invoice")
                while not await anyio.to_thread.run_sync(lambda: guarded.events):
                    await anyio.lowlevel.checkpoint()
                tasks.cancel_scope.cancel()
            guarded(holding=False)
            assert not (await tools.call("create_invoice")).is_error
    assert guarded.events == ["refresh_token"]


async def test_a_call_that_takes_more_is_granted_that_besides_what_was_granted(guarded: Guarded, signed_in: OAuth):
    guarded(demanded="invoices:write")
    with anyio.fail_after(HANGING):
        async with open_server(HttpTarget(guarded.url), options(signed_in)) as tools:
            with pytest.raises(UnauthorizedError, match=r"asks for authorization .*scope 'invoices:write'") as error:
                await tools.call("create_invoice")
            assert (error.value.challenge.status, error.value.challenge.scope) == (403, "invoices:write")
            async with loopback_redirect(browse, seconds=HANGING) as redirect:
                assert await signed_in.sign_in(guarded.url, redirect, challenge=error.value.challenge)
            assert guarded.events == ["registered", "signed in", "authorization_code"]  # for another port
            assert not (await tools.call("create_invoice")).is_error
    kept = json.loads(await signed_in.store.load(guarded.url) or "")
    assert kept["tokens"]["scope"].split() == ["tools:search", "invoices:write"]


async def test_a_registered_client_signs_in_and_refreshes_with_its_secret_where_nobody_else_is_registered(
    guarded: Guarded, store: FileTokenStore
):
    guarded(registering=False)
    own = OAuth(store, client=OAuthClientInformationFull(client_id="own", client_secret="s3cret"))  # noqa: S106
    with anyio.fail_after(HANGING):
        async with loopback_redirect(browse, seconds=HANGING) as redirect:
            with pytest.raises(SignInError, match="the sign-in failed: ") as unregistered:
                await OAuth(store).sign_in(guarded.url, redirect)
            unproved = OAuth(store, client=OAuthClientInformationFull(client_id="own"))  # it has a secret
            with pytest.raises(SignInError, match="the sign-in failed: ") as refused:
                await unproved.sign_in(guarded.url, redirect)
            assert [error.value.step for error in (unregistered, refused)] == ["registration", "token"]
            guarded(events=[])
            assert await own.sign_in(guarded.url, redirect)
        async with open_server(HttpTarget(guarded.url), options(OAuth(store))) as tools:
            guarded(expire=True)
            assert not (await tools.call("create_invoice")).is_error
    assert guarded.events == ["signed in", "authorization_code", "refresh_token"]


class Vault:
    """A store of the host that fails where it is said to."""

    def __init__(self, *, failing: str) -> None:
        self.failing = failing
        self.kept: str | None = None

    async def load(self, server: str, /) -> str | None:
        if self.failing == "load":
            raise PermissionError(13, "the vault is locked")
        return self.kept

    async def save(self, server: str, secret: str, /) -> None:
        if self.failing == "save":
            raise KeyError(secret)
        self.kept = secret

    async def delete(self, server: str, /) -> None:
        self.kept = None


async def test_a_token_store_that_raises_is_named_and_the_server_is_not_blamed(guarded: Guarded):
    vault = Vault(failing="load")
    oauth = OAuth(vault)
    locked = "the token store of the host failed: the vault is locked"
    with anyio.fail_after(HANGING):
        async with open_federation(
            Configuration((ServerEntry("guarded", HttpTarget(guarded.url)),)),
            FederationOptions(connection=options(oauth), deadline=HANGING),
        ) as federation:
            assert (await federation.search("create an invoice")).failed == {"guarded": Failure("host", locked)}
            vault.failing = "save"
            async with loopback_redirect(browse, seconds=HANGING) as redirect:
                with pytest.raises(HostError, match=r"the token store of the host failed: KeyError\Z"):
                    await oauth.sign_in(guarded.url, redirect)
                vault.failing = ""
                assert await oauth.sign_in(guarded.url, redirect)
            assert (await federation.search("create an invoice")).tools
            vault.failing = "save"  # a refresh goes on without it
            guarded(expire=True, events=[])
            assert not (await federation.call("guarded__create_invoice")).is_error
            vault.failing = "load"
            guarded(expire=True, refusing=True)
            with pytest.raises(HostError, match=locked):
                await federation.call("guarded__create_invoice")


async def test_what_a_sign_in_or_the_host_has_resolved_is_tried_at_once_however_long_it_took_to_fail(
    guarded: Guarded, monkeypatch: pytest.MonkeyPatch
):
    monkeypatch.setattr(fanout, "_SLOW_START_SECONDS", 0.0)
    vault = Vault(failing="load")
    oauth = OAuth(vault)
    configuration = Configuration((ServerEntry("guarded", HttpTarget(guarded.url)),))
    connection = options(oauth)
    with anyio.fail_after(HANGING):
        async with open_federation(
            configuration, FederationOptions(connection=connection, deadline=HANGING)
        ) as federation:
            assert (await federation.search("create an invoice")).failed["guarded"].kind == "host"
            vault.failing = ""
            assert (await federation.search("create an invoice")).failed["guarded"].kind == "unauthorized"
            async with loopback_redirect(browse, seconds=HANGING) as redirect:
                assert await oauth.sign_in(guarded.url, redirect)
            assert (await federation.search("create an invoice")).failed == {}


async def test_other_authorization_and_a_redirect_that_raise_are_named(guarded: Guarded, store: FileTokenStore):
    class Signing(httpx2.Auth):
        def auth_flow(self, request: httpx2.Request) -> Generator[httpx2.Request, httpx2.Response]:
            raise KeyError("key")
            yield request

    def no_auth(url: str) -> httpx2.Auth:
        raise KeyError(url)

    def no_browser(url: str) -> None:
        raise KeyError(url)

    with anyio.fail_after(HANGING):
        for auth in (Signing(), no_auth):
            with pytest.raises(HostError, match="`auth` of the host failed: KeyError"):
                async with open_server(HttpTarget(guarded.url), ConnectionOptions(auth=auth)):
                    pass
        async with loopback_redirect(no_browser, seconds=HANGING) as redirect:
            with pytest.raises(HostError, match="the redirect of the host failed"):
                await OAuth(store).sign_in(guarded.url, redirect)


async def test_a_person_who_says_no_or_nothing_is_reported(guarded: Guarded, store: FileTokenStore):
    guarded(denying=True)
    with anyio.fail_after(HANGING):
        for show, seconds, kind, told in (
            (browse, HANGING, ConsentRefusedError, "access_denied"),
            (str, 0.1, SignInError, "nobody signed in within 0.1 seconds"),
        ):
            async with loopback_redirect(show, seconds=seconds) as redirect:
                with pytest.raises(kind, match=told) as error:
                    await OAuth(store).sign_in(guarded.url, redirect)
                assert getattr(error.value, "step", "redirect") == "redirect"
                assert "it last said" not in str(error.value)  # that it asks for a sign-in is no news
    assert not store.folder.exists()


async def test_a_connection_that_is_reset_does_not_end_a_sign_in(guarded: Guarded, store: FileTokenStore):
    def browse_late(address: str) -> None:
        for sent in (b"", b"GET / HTTP/1.1\r\n"):
            with socket.create_connection(("127.0.0.1", urlsplit(redirect.redirect_uri).port)) as early:
                early.sendall(sent)
                early.setsockopt(socket.SOL_SOCKET, socket.SO_LINGER, struct.pack("ii", True, 0))  # reset on closing
        browse(address)

    with anyio.fail_after(HANGING):
        async with loopback_redirect(browse_late, seconds=HANGING) as redirect:
            assert await OAuth(store).sign_in(guarded.url, redirect)


async def test_the_address_can_be_shown_by_a_coroutine_function(guarded: Guarded, store: FileTokenStore):
    async def show(address: str) -> None:
        await anyio.to_thread.run_sync(browse, address)

    with anyio.fail_after(HANGING):
        async with loopback_redirect(show, seconds=HANGING) as redirect:
            assert await OAuth(store).sign_in(guarded.url, redirect)


async def test_after_a_sign_out_open_connections_and_the_store_have_no_tokens(
    guarded: Guarded, store: FileTokenStore, signed_in: OAuth
):
    with anyio.fail_after(HANGING):
        async with open_server(HttpTarget(guarded.url), options(signed_in)) as tools:
            assert not (await tools.call("create_invoice")).is_error
            assert await signed_in.sign_out(guarded.url)
            assert [*store.folder.iterdir()] == []
            assert not await signed_in.sign_out(guarded.url)
            with pytest.raises(UnauthorizedError):
                await tools.call("create_invoice")
            async with loopback_redirect(browse, seconds=HANGING) as redirect:
                assert await signed_in.sign_in(guarded.url, redirect, scope="tools:search invoices:write")
            assert not (await tools.call("create_invoice")).is_error
    assert "invoices:write" in json.loads(await store.load(guarded.url) or "")["tokens"]["scope"].split()


async def test_the_redirect_of_a_web_host_on_the_page_signs_in_and_says_who_refused(
    guarded: Guarded, store: FileTokenStore
):
    page = (Path(__file__).parents[2] / "docs" / "hosts.md").read_text(encoding="utf-8")
    (program,) = re.findall(r"```python\n(class WebRedirect.*?)```", page, re.DOTALL)
    names: dict[str, Any] = dict(vars(tools_search_client.api)) | {"anyio": anyio} | vars(mcp.client.auth)
    exec(program, names)  # noqa: S102 - it is the page that is tested

    def redirect() -> Redirect:
        async def show(address: str) -> None:
            returned = urlsplit(httpx2.get(address, timeout=HANGING).headers["location"])
            made.came_back(dict(parse_qsl(returned.query)))

        made = names["WebRedirect"](show)
        return made

    with anyio.fail_after(HANGING):
        assert await OAuth(store).sign_in(guarded.url, redirect())
        guarded(denying=True)
        with pytest.raises(ConsentRefusedError):
            await OAuth(store).sign_in(guarded.url, redirect())


async def test_a_secret_that_cannot_be_read_is_none_and_is_deleted(tmp_path: Path):
    class Unreadable(FileTokenStore):
        async def load(self, server: str, /) -> str | None:
            raise PermissionError

    def files() -> list[Path]:
        return list(tmp_path.iterdir())

    url, store = "https://crm.example/mcp", FileTokenStore(tmp_path)
    await store.save(url, "a secret")
    [file] = files()
    file.write_bytes(b"\xff")
    assert await store.load(url) is None
    assert await OAuth(Unreadable(tmp_path)).sign_out(url)
    assert files() == []
    assert not await OAuth(store).sign_out(url)
