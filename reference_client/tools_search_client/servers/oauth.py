"""OAuth 2.1 for servers that require it: sign-in with the SDK's flow, and token storage and refresh.

Requests never prompt the user. A request is sent with the stored tokens, refreshed if they have expired, or fails with
an `UnauthorizedError`. A host calls `OAuth.sign_in` when its user wants to sign in; a program on the user's machine
uses `LoopbackRedirect` for it.
"""

from __future__ import annotations

import hashlib
import logging
import webbrowser
from collections.abc import AsyncGenerator, Callable
from contextlib import AbstractAsyncContextManager, ExitStack, aclosing, asynccontextmanager, nullcontext, suppress
from dataclasses import replace
from fcntl import LOCK_EX, LOCK_NB, flock
from functools import partial
from http import HTTPStatus
from inspect import isawaitable
from os import PathLike
from pathlib import Path
from types import NoneType
from typing import Any, BinaryIO, Final, Protocol
from urllib.parse import parse_qs, urlsplit

import anyio
import httpx2
from anyio.abc import SocketAttribute, SocketStream
from anyio.streams.stapled import MultiListener
from mcp.client.auth import AuthorizationCodeResult, OAuthClientProvider, OAuthFlowError
from mcp.client.auth.utils import is_valid_client_metadata_url
from mcp.shared.auth import (
    OAuthClientInformationFull,
    OAuthClientMetadata,
    OAuthMetadata,
    OAuthToken,
    ProtectedResourceMetadata,
)
from pydantic import AnyUrl, BaseModel, ValidationError
from tools_search_hosts import HttpTarget
from tools_search_hosts.bounded_http import BoundedHttp, certificates
from tools_search_hosts.counts import number_of
from tools_search_hosts.locations import state_folder
from tools_search_ranking.private_files import replace_private_file

from tools_search_client.errors import (
    Challenge,
    ConsentRefusedError,
    HostError,
    LocalError,
    ServerUnavailableError,
    SignInError,
    require_kind,
    require_seconds,
)
from tools_search_client.servers.connection import ConnectionOptions, open_server
from tools_search_client.servers.faults import AUTHORIZATION_PROBLEM, as_server_error, host_faults
from tools_search_client.text import shorten
from tools_search_client.threads import in_daemon_thread

_REFRESH_SECONDS: Final = 20.0
_LOCK_SECONDS: Final = 0.05
"""Seconds until a lock that another process holds is tried again."""

_MAX_ATTEMPTS: Final = 3
"""Attempts per request: with the current token, with a stored one, and with a refreshed one."""

_MAX_ANSWER_BYTES: Final = 256 * 1024
_REQUEST_SECONDS: Final = 5.0
"""Timeout in seconds for the browser's request to the loopback address."""

_MAX_REQUEST_BYTES: Final = 16 * 1024
_PROBLEM_CHARS: Final = 200
_STORE: Final = "the token store"

NO_BROWSER: Final = (
    "no browser could be opened; to sign in, open the address yourself in a browser on this machine, or on another one "
    "that forwards the port in its redirect_uri to this machine (ssh -L)"
)


_logger = logging.getLogger(__name__)


class TokenStore(Protocol):
    """Stores a secret text for each server; its exceptions are raised as a `HostError`.

    If it also has a `lock(server)`, an asynchronous context manager as that of `FileTokenStore`, tokens are only
    refreshed inside its block.
    """

    async def load(self, server: str, /) -> str | None:
        """Return the text saved last for the server at this address."""
        ...

    async def save(self, server: str, secret: str, /) -> None:
        """Store a secret for the server at this address, replacing any earlier one."""
        ...

    async def delete(self, server: str, /) -> None:
        """Delete the secret for the server at this address, if any."""
        ...


class FileTokenStore:
    """Stores each server's secret in a file that only the user can read (mode 0600), replaced atomically.

    Args:
        folder: The folder for the files; defaults to `tools-search-client/tokens` in `$XDG_STATE_HOME` (or
            `~/.local/state`).
    """

    def __init__(self, folder: str | PathLike[str] | None = None) -> None:
        self.folder = Path(folder) if folder else state_folder("tools-search-client") / "tokens"

    async def load(self, server: str, /) -> str | None:
        """Return the text saved last for a server; raises `OSError` if it cannot be read."""
        try:
            return self._path(server).read_text(encoding="utf-8")
        except (FileNotFoundError, UnicodeDecodeError):
            return None

    async def save(self, server: str, secret: str, /) -> None:
        """Store a secret for a server; raises `OSError` if it cannot be written."""
        replace_private_file(self._path(server), secret.encode())

    async def delete(self, server: str, /) -> None:
        """Delete a server's secret; raises `OSError` if that fails."""
        self._path(server).unlink(missing_ok=True)

    @asynccontextmanager
    async def lock(self, server: str, /) -> AsyncGenerator[None]:
        """Let only one process at a time refresh a server's tokens; the others wait at most 20 seconds.

        An authorization server that gets a refresh token twice can take it for stolen and end the grant (RFC 9700).
        """
        with ExitStack() as held:
            with suppress(OSError), anyio.move_on_after(_REFRESH_SECONDS):
                file = held.enter_context(self._path(server).open("rb"))
                while not _lock_now(file):  # noqa: ASYNC110 - by another process, which wakes nobody
                    await anyio.sleep(_LOCK_SECONDS)
            yield

    def _path(self, server: str) -> Path:
        return self.folder / f"{hashlib.sha256(server.encode()).hexdigest()[:32]}.json"


def _lock_now(file: BinaryIO) -> bool:
    """Lock a file until it is closed, unless another process has locked it; return whether it is locked now."""
    try:
        flock(file, LOCK_EX | LOCK_NB)
    except BlockingIOError:
        return False
    return True


class Redirect(Protocol):
    """Sends the user to the authorization server, and returns its response."""

    @property
    def redirect_uri(self) -> str:
        """The URI to which the authorization server redirects the user."""
        ...

    async def __call__(self, authorization_url: str, /) -> AuthorizationCodeResult:
        """Show the user `authorization_url`, and return the parameters with which `redirect_uri` is then opened.

        Raises:
            ConsentRefusedError: The user declined (`error=access_denied`).
            TimeoutError: Nobody signed in in time.
            OAuthFlowError: The user did not sign in for another reason.
        """
        ...


class OAuth:
    """Authorizes requests with the tokens from a sign-in. Pass it as `ConnectionOptions.auth`, for any servers.

    Args:
        store: Stores the tokens; defaults to `FileTokenStore`.
        client_name: The name that the authorization server registers and shows its user.
        client: A registered client, for authorization servers without dynamic registration.
        client_metadata_url: The HTTPS URL, with a path, of the host's Client ID Metadata Document, which replaces
            registration if the authorization server accepts it.

    Raises:
        LocalError: `client_metadata_url` is not an HTTPS URL with a path, or an argument is of the wrong type, such as
            a path as `store`.
    """

    def __init__(
        self,
        store: TokenStore | None = None,
        *,
        client_name: str = "tools-search-client",
        client: OAuthClientInformationFull | None = None,
        client_metadata_url: str | None = None,
    ) -> None:
        require_kind("client_name", client_name, str, instead="a text")
        instead = "an `mcp.shared.auth.OAuthClientInformationFull`"
        require_kind("client", client, OAuthClientInformationFull, NoneType, instead=instead)
        require_kind("client_metadata_url", client_metadata_url, str, NoneType, instead="an HTTPS URL with a path")
        if client_metadata_url is not None and not is_valid_client_metadata_url(client_metadata_url):
            raise LocalError(f"client_metadata_url must be an HTTPS URL with a path, not {client_metadata_url!r}")
        if store is not None and not callable(getattr(store, "load", None)):
            raise LocalError(f"`store` must be a token store, such as `FileTokenStore({str(store)!r})`")
        self.store = FileTokenStore() if store is None else store
        self.client_name = client_name
        self.client = client
        self.client_metadata_url = client_metadata_url
        self._grants: dict[str, _StoredGrant] = {}

    def __call__(self, url: str, /) -> OAuthClientProvider:
        """Return the authorization for requests to the server at `url`; all its connections share it."""
        if url not in self._grants:
            self._grants[url] = _StoredGrant(url, self, None)
        return self._grants[url]

    async def sign_in(
        self,
        server: HttpTarget | str,
        redirect: Redirect,
        options: ConnectionOptions | None = None,
        *,
        challenge: Challenge | None = None,
        scope: str = "",
    ) -> bool:
        """Sign the user in to a server and store the tokens. Open connections use them too.

        Args:
            server: The server's target, or its address.
            redirect: Takes the user through the sign-in.
            options: Connection options for the server.
            challenge: The server's challenge to an earlier request, such as one for more scopes (HTTP 403), which are
                requested in addition to those already granted. Without it, the server is asked.
            scope: Additional scopes to request if there is no challenge, separated by spaces.

        Returns:
            Whether the server required signing in.

        Raises:
            ConsentRefusedError: The user declined.
            SignInError: The authorization server refused, or nobody signed in in time; `step` says which.
            ServerError: The server failed.
            HostError: The token store or the redirect raised.
        """
        target = _target(server)
        grant = _Grant(target.url, self, redirect)
        challenge = challenge or (Challenge(HTTPStatus.FORBIDDEN, "Bearer", scope) if scope else None)
        if challenge is not None:
            await grant.answer(challenge)
            return True
        async with open_server(target, replace(options or ConnectionOptions(), auth=grant, follow_changes=False)):
            return grant.context.current_tokens is not None

    async def sign_out(self, server: HttpTarget | str) -> bool:
        """Delete a server's tokens, for open connections too. No request is sent.

        Returns:
            Whether there were any.

        Raises:
            HostError: The token store raised.
        """
        url = _target(server).url
        context = self(url).context
        async with context.lock:  # so that no refresh stores them again
            try:
                was_stored = await self.store.load(url) is not None
            except Exception:  # what cannot be read can still be deleted
                was_stored = True
            with host_faults(_STORE):
                await self.store.delete(url)
            was_held = context.current_tokens is not None
            context.clear_tokens()
        return was_stored or was_held


def _target(server: HttpTarget | str) -> HttpTarget:
    require_kind("server", server, HttpTarget, str, instead="an address, or the `HttpTarget` of a `ServerEntry`")
    return HttpTarget(server) if isinstance(server, str) else server


class _Kept(BaseModel):
    """The stored result of a sign-in."""

    tokens: OAuthToken
    expires_at: float | None
    client: OAuthClientInformationFull
    authorization_server: OAuthMetadata | None
    resource: ProtectedResourceMetadata | None


class _Grant(OAuthClientProvider):
    """The SDK's flow, which stores everything that a later process needs to refresh tokens."""

    def __init__(self, url: str, oauth: OAuth, redirect: Redirect | None) -> None:
        self.oauth = oauth
        self._redirect = redirect
        self._shown = ""
        super().__init__(
            url,
            OAuthClientMetadata(
                client_name=oauth.client_name,
                redirect_uris=[AnyUrl(redirect.redirect_uri if redirect else "http://127.0.0.1/")],
                grant_types=["authorization_code", "refresh_token"],
                response_types=["code"],
                token_endpoint_auth_method="none",  # noqa: S106 - a public client has no secret
            ),
            self,
            self._show,
            self._await_redirect,
            client_metadata_url=oauth.client_metadata_url,
        )

    async def get_tokens(self) -> OAuthToken | None:
        """Return `None`, because a sign-in starts from scratch."""
        return None

    async def set_tokens(self, tokens: OAuthToken) -> None:
        """Store the tokens with everything needed to refresh them."""
        context = self.context
        if context.client_info is not None:
            kept = _Kept(
                tokens=tokens,
                expires_at=context.token_expiry_time,
                client=context.client_info,
                authorization_server=context.oauth_metadata,
                resource=context.protected_resource_metadata,
            )
            with host_faults(_STORE):
                await self.oauth.store.save(context.server_url, kept.model_dump_json(exclude_none=True))

    async def answer(self, challenge: Challenge) -> None:
        """Run the flow for a request that got `challenge`; raises the same errors as `OAuth.sign_in`."""
        header = f'Bearer scope="{challenge.scope}"' if challenge.scope else "Bearer"
        header += f', resource_metadata="{challenge.resource_metadata}"' if challenge.resource_metadata else ""
        header += ', error="insufficient_scope"' if challenge.status == HTTPStatus.FORBIDDEN else ""
        # The SDK's flow begins with a response, so it gets one with the challenge of the earlier request.
        request = httpx2.Request("POST", self.context.server_url)
        answer = httpx2.Response(challenge.status, headers={"WWW-Authenticate": header}, request=request)
        try:
            await self.load()
            client, places = self.context.client_info, self.context.client_metadata.redirect_uris or []
            if client and client.redirect_uris and not {*places} <= {*client.redirect_uris}:
                self.context.client_info = self.oauth.client  # register a client again that can redirect to this URI
            async with aclosing(self.async_auth_flow(request)) as flow:
                sent = await anext(flow)
                while sent is not request:  # the stored tokens might have to be refreshed
                    sent = await flow.asend(await self.send(sent))
                sent = await flow.asend(answer)
                while sent is not request:
                    sent = await flow.asend(await self.send(sent))
        except Exception as error:
            raise as_server_error(error) from error

    async def load(self) -> None:
        """Load the stored tokens, which another process might have written."""
        with host_faults(_STORE):
            text = await self.oauth.store.load(self.context.server_url)
        self._initialized = True
        context = self.context
        try:
            kept = _Kept.model_validate_json(text or "")
        except ValidationError:
            context.client_info = self.oauth.client
            context.clear_tokens()
            return
        context.current_tokens, context.token_expiry_time = kept.tokens, kept.expires_at
        context.client_info = kept.client
        context.oauth_metadata, context.protected_resource_metadata = kept.authorization_server, kept.resource

    async def send(self, request: httpx2.Request) -> httpx2.Response:
        """Send a request to the authorization server, or for its metadata."""
        bounded = BoundedHttp(max_bytes=_MAX_ANSWER_BYTES, on_excess=lambda _: None, on_malformed=lambda _: None)
        with anyio.fail_after(_REFRESH_SECONDS):
            async with httpx2.AsyncClient(
                timeout=_REFRESH_SECONDS, verify=certificates(), event_hooks={"response": [bounded.guard]}
            ) as http:
                return await http.send(request)

    async def _perform_authorization(self) -> httpx2.Request:
        """Choose how a client with a secret authenticates, if its registration does not say (RFC 8414)."""
        client, server = self.context.client_info, self.context.oauth_metadata
        if client is not None and client.client_secret and client.token_endpoint_auth_method is None:
            known = (server and server.token_endpoint_auth_methods_supported) or ["client_secret_basic"]
            method = "client_secret_basic" if "client_secret_basic" in known else "client_secret_post"
            self.context.client_info = client.model_copy(update={"token_endpoint_auth_method": method})
        return await super()._perform_authorization()

    async def get_client_info(self) -> OAuthClientInformationFull | None:
        return self.oauth.client

    async def set_client_info(self, client_info: OAuthClientInformationFull) -> None:
        """Do nothing: the client is stored with the tokens."""

    async def _show(self, authorization_url: str) -> None:
        self._shown = authorization_url

    async def _await_redirect(self) -> AuthorizationCodeResult:
        if self._redirect is None:
            raise OAuthFlowError("there is no user to sign in")
        try:
            with host_faults("the redirect", OAuthFlowError, ConsentRefusedError, TimeoutError):
                return await self._redirect(self._shown)
        except TimeoutError as error:
            raise SignInError(str(error) or "nobody signed in in time", "redirect") from error


class _StoredGrant(_Grant):
    """Authorizes concurrent requests with stored tokens, with one refresh for all of them.

    Unlike the SDK's flow, it holds no lock during a request, refreshes tokens that the server rejects, and never starts
    a sign-in. The states of its tokens:

        none -> valid           a sign-in stored them, here or in another process
        valid -> expired        their time is over, or the server rejects them (HTTP 401)
        expired -> valid        they were refreshed, here or by another process
        expired -> none         the authorization server does not refresh them any more (`_give_up`)
        any -> none             `OAuth.sign_out`

    If it cannot be reached, they stay expired, and the next request tries again.
    """

    _unrefreshed: OAuthToken | None = None
    """The tokens of the last refresh that failed."""
    _problem: str | ServerUnavailableError = ""
    """Why it failed, as an error if another attempt can succeed; empty otherwise, and once there are other tokens."""

    async def set_tokens(self, tokens: OAuthToken) -> None:
        """Store the tokens if possible; this process can use them in any case."""
        try:
            await super().set_tokens(tokens)
        except HostError as error:
            _logger.warning("cannot store refreshed tokens, so another process may have to sign in again: %s", error)

    async def load(self) -> None:
        """Load the stored tokens, unless they cannot be refreshed any more."""
        await super().load()
        if self.context.current_tokens != self._unrefreshed:
            self._problem = ""
        elif self._problem and isinstance(self._problem, str):
            self.context.clear_tokens()

    async def _auth_flow(self, request: httpx2.Request) -> AsyncGenerator[httpx2.Request, httpx2.Response]:
        refused: str | None = None
        lacks = False
        for _ in range(_MAX_ATTEMPTS):
            problem: str | HostError | ServerUnavailableError = ""
            try:
                token = await self._token(refused, refreshes=not lacks)
                problem = self._problem
            except HostError as fault:  # the server might answer without authorization
                token, problem = "", fault
            if refused is not None and token in ("", refused):
                if problem:
                    request.extensions[AUTHORIZATION_PROBLEM] = problem
                return
            if token:
                request.headers["Authorization"] = f"Bearer {token}"
            response = yield request
            # More scopes are needed, which no refresh brings, but a sign-in in the meantime can have.
            lacks = response.status_code == HTTPStatus.FORBIDDEN and "www-authenticate" in response.headers
            if not lacks and response.status_code != HTTPStatus.UNAUTHORIZED:
                return
            refused = token

    async def _token(self, refused: str | None, *, refreshes: bool) -> str:
        """Return the current token, preferably not `refused`; empty if there is none.

        A refresh does not help if more scopes are needed.
        """
        async with self.context.lock:
            if not self._initialized or (refused is not None and self._held in ("", refused)):
                await self.load()  # another process might have refreshed it, or the user might have signed in
            if self._held and ((self._held == refused and refreshes) or not self.context.is_token_valid()):
                # Finish a refresh even if nobody waits for it any more, because many refresh tokens are single-use.
                with anyio.CancelScope(shield=True):
                    await self._refresh_in_turn()
            return self._held

    @property
    def _held(self) -> str:
        return self.context.current_tokens.access_token if self.context.current_tokens else ""

    async def _refresh_in_turn(self) -> None:
        """Refresh the tokens, unless another process that shares the store has."""
        context = self.context
        before, until = context.current_tokens, context.token_expiry_time
        lock: Callable[[str], AbstractAsyncContextManager[Any]] = getattr(self.oauth.store, "lock", nullcontext)
        async with lock(context.server_url):
            with suppress(HostError):  # a store that cannot be read
                await self.load()
            if context.current_tokens == before or (self._held and not context.is_token_valid()):
                # What this process could not store is newer than what is stored.
                context.current_tokens, context.token_expiry_time = before, until
                await self._refresh()

    async def _refresh(self) -> None:
        self._unrefreshed = before = self.context.current_tokens
        if not self.context.can_refresh_token():
            self._give_up("the authorization has expired and cannot be refreshed")
            return
        try:
            response = await self.send(await self._refresh_token())
        except (httpx2.HTTPError, httpx2.StreamError, OAuthFlowError, TimeoutError) as error:
            self._problem = _not_refreshed(str(error) or "no answer")
            return
        if await self._handle_refresh_response(response):
            self._problem = ""
            return
        await self.load()  # another process might have been faster
        if self.context.current_tokens == before:
            is_passing = response.status_code == HTTPStatus.TOO_MANY_REQUESTS
            if is_passing or response.status_code >= HTTPStatus.INTERNAL_SERVER_ERROR:
                self._problem = _not_refreshed(f"HTTP {response.status_code}")
            else:
                self._give_up(f"the authorization has ended: {_reason(response)}")

    def _give_up(self, problem: str) -> None:
        self._problem = problem
        self.context.clear_tokens()


def _not_refreshed(reason: str) -> ServerUnavailableError:
    """Return the error for a refresh that failed temporarily, so that nobody has to sign in again."""
    return ServerUnavailableError(
        f"the authorization could not be refreshed: {shorten(reason, _PROBLEM_CHARS)}; try again later"
    )


def _reason(response: httpx2.Response) -> str:
    """Return a token endpoint's error (RFC 6749, section 5.2) on one line."""
    try:
        members = response.json()
        stated = [str(members[name]) for name in ("error", "error_description") if members.get(name)]
    except (ValueError, AttributeError):
        stated = []
    return shorten(": ".join(stated) or f"HTTP {response.status_code}", _PROBLEM_CHARS)


class LoopbackRedirect:
    """A `Redirect` for programs on the user's machine (RFC 8252): a browser, and a local port for its redirect.

    Create it with `loopback_redirect`.
    """

    def __init__(self, listener: MultiListener[SocketStream], show: Callable[[str], object], seconds: float) -> None:
        self._listener = listener
        self._show = show
        self._seconds = seconds
        port = listener.extra(SocketAttribute.local_port)  # noqa: S610 - of anyio, not of Django
        self.redirect_uri = f"http://127.0.0.1:{port}/callback"

    async def __call__(self, authorization_url: str, /) -> AuthorizationCodeResult:
        """Show the address and wait for the browser's redirect with the same `state`; other requests are rejected.

        Raises:
            ConsentRefusedError: The user declined.
            TimeoutError: Nobody signed in in time.
            OAuthFlowError: The authorization server refused.
        """
        state = parse_qs(urlsplit(authorization_url).query).get("state", [""])[0]
        results: list[dict[str, str]] = []

        async def answer(stream: SocketStream) -> None:
            async with stream:
                returned = await _returned(stream, state)
                status = "400 Bad Request" if returned is None else "200 OK"
                text = "This is not a response to the sign-in." if returned is None else "You can close this page."
                # A client that has gone, such as a browser that only opened a connection early, gets no answer.
                with anyio.move_on_after(_REQUEST_SECONDS), suppress(anyio.BrokenResourceError):
                    await stream.send(
                        f"HTTP/1.1 {status}\r\nContent-Type: text/plain\r\nContent-Length: {len(text)}\r\n"
                        f"Connection: close\r\n\r\n{text}".encode()
                    )
            if returned is not None:
                results.append(returned)
                tasks.cancel_scope.cancel()

        with anyio.move_on_after(self._seconds):
            async with anyio.create_task_group() as tasks:
                tasks.start_soon(self._listener.serve, answer)
                shown = await in_daemon_thread(partial(self._show, authorization_url))
                if (await shown if isawaitable(shown) else shown) is False:
                    _logger.warning("%s: %s", NO_BROWSER, authorization_url)
        if not results:
            raise TimeoutError(f"nobody signed in within {number_of(self._seconds, 'second')}")
        if problem := results[0].get("error"):
            described = results[0].get("error_description")
            kind = ConsentRefusedError if problem == "access_denied" else OAuthFlowError
            raise kind(shorten(f"{problem}: {described}" if described else problem, _PROBLEM_CHARS))
        return AuthorizationCodeResult(code=results[0].get("code", ""), state=state, iss=results[0].get("iss"))


@asynccontextmanager
async def loopback_redirect(
    show: Callable[[str], object] = webbrowser.open, *, seconds: float = 300.0, port: int = 0
) -> AsyncGenerator[LoopbackRedirect]:
    """Listen on a loopback port of this machine for the browser's redirect after a sign-in.

    Args:
        show: Shows the user the address for signing in. An ordinary function runs in a thread. If it returns `False`,
            as `webbrowser.open` does on a machine without a browser, a warning with the address is logged.
        seconds: Timeout for the user to sign in.
        port: The port to listen on; by default any free port.

    Raises:
        LocalError: `seconds` is not above 0, or `show` is not a function.
    """
    require_kind("show", show, Callable, instead="a function that shows the user the address it gets")
    require_seconds("seconds", seconds)
    async with await anyio.create_tcp_listener(local_host="127.0.0.1", local_port=port) as listener:
        yield LoopbackRedirect(listener, show, seconds)


async def _returned(stream: SocketStream, state: str) -> dict[str, str] | None:
    """Return the parameters of the browser's redirect; `None` for any other request."""
    received = b""
    with anyio.move_on_after(_REQUEST_SECONDS):
        try:
            while b"\r\n" not in received and len(received) < _MAX_REQUEST_BYTES:
                received += await stream.receive()
        except (anyio.EndOfStream, anyio.BrokenResourceError):
            return None
    method, _, rest = received.partition(b"\r\n")[0].decode("ascii", "replace").partition(" ")
    try:
        address = urlsplit(rest.partition(" ")[0])
    except ValueError:
        return None
    parameters = {name: values[0] for name, values in parse_qs(address.query).items()}
    is_answer = method == "GET" and address.path == "/callback" and parameters.get("state") == state
    return parameters if is_answer else None
