"""Why a server cannot be started or connected to, in words that help and give nothing away."""

from __future__ import annotations

import ssl
from collections.abc import AsyncGenerator
from errno import ENOENT
from pathlib import Path

import anyio
import httpx2
import pytest
import trustme
from anyio.abc import ByteStream, SocketAttribute
from anyio.streams.tls import TLSListener
from tools_search_hosts import StdioTarget
from tools_search_hosts.child_process import child_streams
from tools_search_hosts.endings import Ending
from tools_search_hosts.unreachable import CannotStartError, why_not_connected, why_not_started


@pytest.mark.anyio
@pytest.mark.parametrize(
    ("target", "reason"),
    [
        (StdioTarget("no-such"), "'no-such' was not found; install it, or give its full path as `command`"),
        (StdioTarget("/nowhere/a program"), "'/nowhere/a program' was not found; install it"),
        (StdioTarget("sh -c key=1"), "`command` has more than 'sh': put the rest in `args`"),
        (StdioTarget("true", cwd="/gone"), "its folder '/gone' does not exist; correct `cwd`"),
        (StdioTarget("/"), "'/' is a folder; give the path of a program as `command`"),
        (StdioTarget("./plain"), "'./plain' may not be executed; make it executable, or give the program that runs it"),
        (StdioTarget("./empty"), "'./empty' cannot be started: Exec format error"),
        (
            StdioTarget("./script"),
            "'./script' is there, but not the program in its first line, which runs it; install that",
        ),
    ],
)
async def test_why_a_program_cannot_be_started_is_explained(target: StdioTarget, reason: str, tmp_path: Path) -> None:
    for name, mode in {"plain": 0o600, "empty": 0o700}.items():
        (tmp_path / name).touch(mode)
    (tmp_path / "script").write_text("#!/nowhere/interpreter")
    (tmp_path / "script").chmod(0o700)
    target = StdioTarget(target.command, cwd=target.cwd or str(tmp_path))
    with anyio.fail_after(10), pytest.raises(CannotStartError) as error:
        async with child_streams(target, Ending()):
            raise AssertionError("it started")
    assert str(error.value).startswith(reason)


def test_a_missing_folder_is_named_although_the_error_does_not_say_which_file_is_missing() -> None:
    error = FileNotFoundError(ENOENT, "No such file or directory")  # as the event loop of uvloop raises it
    assert why_not_started(StdioTarget("true", cwd="/gone"), error).startswith("its folder '/gone' does not exist")


@pytest.fixture
async def ports() -> AsyncGenerator[dict[str, int]]:
    """The ports of a server without TLS, of one whose certificate nobody trusts, and of none."""
    context = ssl.SSLContext(ssl.PROTOCOL_TLS_SERVER)
    trustme.CA().issue_cert("localhost").configure_cert(context)  # pyright: ignore[reportUnknownMemberType] - untyped

    async def end(stream: ByteStream) -> None:
        async with stream:
            await stream.send(b"HTTP/1.1 400 Bad Request\r\n\r\n")

    listeners = {name: await anyio.create_tcp_listener(local_host="127.0.0.1") for name in ("plain", "private", "none")}
    local = SocketAttribute.local_port
    ports = {name: listener.extra(local) for name, listener in listeners.items()}  # noqa: S610 - of anyio, not of Django
    await listeners["none"].aclose()
    async with listeners["plain"] as plain, listeners["private"] as private, anyio.create_task_group() as tasks:
        tasks.start_soon(plain.serve, end)
        tasks.start_soon(TLSListener(private, context).serve, end)
        yield ports
        tasks.cancel_scope.cancel()


@pytest.mark.anyio
@pytest.mark.parametrize(
    ("place", "reason"),
    [
        ("http://localhost:{none}", "nothing answers at {place}; start the server, or correct `url`"),
        (
            "http://no-such.invalid",
            "the address of 'no-such.invalid' cannot be looked up; check the network, or correct `url`",
        ),
        ("https://localhost:{private}", "the certificate of {place} is not accepted: unable to get local issuer"),
        ("https://localhost:{plain}", "no TLS connection to {place}: "),
    ],
)
async def test_why_an_address_cannot_be_connected_to_is_explained(
    place: str, reason: str, ports: dict[str, int]
) -> None:
    place = place.format(**ports)
    address = place.replace("//", "//someone:secret@") + "/secret/mcp?key=secret"
    with anyio.fail_after(10), pytest.raises(httpx2.ConnectError) as error:
        async with httpx2.AsyncClient(timeout=None) as client:
            await client.post(address)
    assert why_not_connected(error.value).startswith(reason.format(place=place))
    assert "secret" not in why_not_connected(error.value)
