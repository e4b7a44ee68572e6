"""Why a server cannot be started or connected to, in words that help and give nothing away."""

from __future__ import annotations

import socket
import ssl
from pathlib import Path

import anyio
import httpx2
import pytest
from tools_search_hosts import StdioTarget
from tools_search_hosts.child_process import child_streams
from tools_search_hosts.endings import Ending
from tools_search_hosts.unreachable import CannotStartError, why_not_connected

ADDRESS = "https://someone:secret@example.com:8443/secret/mcp?key=secret"


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
    ],
)
async def test_why_a_program_cannot_be_started_is_explained(target: StdioTarget, reason: str, tmp_path: Path) -> None:
    for name, mode in {"plain": 0o600, "empty": 0o700}.items():
        (tmp_path / name).touch(mode)
    target = StdioTarget(target.command, cwd=target.cwd or str(tmp_path))
    with anyio.fail_after(10), pytest.raises(CannotStartError) as error:
        async with child_streams(target, Ending()):
            raise AssertionError("it started")
    assert str(error.value).startswith(reason)


def distrusted() -> ssl.SSLCertVerificationError:
    error = ssl.SSLCertVerificationError(1, "certificate verify failed")
    error.verify_message = "self-signed certificate"
    return error


@pytest.mark.parametrize(
    ("cause", "reason"),
    [
        (ConnectionRefusedError(), "nothing answers at https://example.com:8443; start the server, or correct `url`"),
        (socket.gaierror(-2, "unknown"), "the address of 'example.com' cannot be looked up; correct `url`"),
        (distrusted(), "the certificate of https://example.com:8443 is not accepted: self-signed certificate"),
        (ssl.SSLError(1, "wrong version"), "no TLS connection to https://example.com:8443: "),
    ],
)
def test_why_an_address_cannot_be_connected_to_is_explained(cause: OSError, reason: str) -> None:
    between = OSError("handshake")  # as httpx2 raises it, two layers above the cause
    between.__cause__ = cause
    error = httpx2.ConnectError("no", request=httpx2.Request("POST", ADDRESS))
    error.__cause__ = between
    assert why_not_connected(error).startswith(reason)
    assert "secret" not in why_not_connected(error)
