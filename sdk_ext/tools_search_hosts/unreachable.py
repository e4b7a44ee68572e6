"""Why a program cannot be started, or nothing answers at an address, for the user who configured it."""

from __future__ import annotations

import socket
import ssl
from pathlib import Path
from shutil import which

import httpx2

from tools_search_hosts.targets import StdioTarget


class CannotStartError(OSError):
    """A program cannot be started. The message says why, and what to correct."""


def why_not_started(target: StdioTarget, error: OSError) -> str:
    """Return why a program could not be started, and what to correct."""
    match error:
        case FileNotFoundError() if target.cwd and not Path(target.cwd).exists():  # uvloop does not say which file
            return f"its folder {target.cwd!r} does not exist; correct `cwd`"
        case FileNotFoundError() if which(target.command) or Path(target.cwd or "", target.command).is_file():
            return f"{target.command!r} is there, but not the program in its first line, which runs it; install that"
        case FileNotFoundError():
            program = target.command.split(" ")[0]  # the last word might be a key
            if which(program):
                return f"`command` has more than {program!r}: put the rest in `args`"
            return f"{target.command!r} was not found; install it, or give its full path as `command`"
        case PermissionError() if Path(target.cwd or "", target.command).is_dir():
            return f"{target.command!r} is a folder; give the path of a program as `command`"
        case PermissionError():
            advice = "make it executable, or give the program that runs it as `command`, and it in `args`"
            return f"{target.command!r} may not be executed; {advice}"
        case _:
            return f"{target.command!r} cannot be started: {error.strerror or error}"


def why_not_connected(error: httpx2.ConnectError) -> str:
    """Return why a request could not connect, with the address but not its path, which might contain a key."""
    url = error.request.url
    place = f"{url.scheme}://{url.netloc.decode('ascii')}"
    # httpx hides the TLS error, which says what to do, behind the error of the connection.
    cause: BaseException | None = error
    while cause is not None and not isinstance(cause, ssl.SSLError | socket.gaierror):
        cause = cause.__cause__ or cause.__context__
    match cause:
        case None:
            return f"nothing answers at {place}; start the server, or correct `url`"
        case socket.gaierror():
            return f"the address of {url.host!r} cannot be looked up; check the network, or correct `url`"
        case ssl.SSLCertVerificationError(verify_message=problem):
            return f"the certificate of {place} is not accepted: {problem}"
        case problem:
            return f"no TLS connection to {place}: {problem}"
