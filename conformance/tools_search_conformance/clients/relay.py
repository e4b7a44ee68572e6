"""The program that a client starts as its stdio server; it relays bytes between its own streams and the suite.

    relay.py HOST PORT TOKEN

A client starts it for every connection, so it only imports modules written in C, and exits without interpreter
shutdown. Otherwise it would take a third longer.
"""

from __future__ import annotations

import _socket as socket
import _thread as threads
import posix
import sys

_CHUNK = 65536


def main() -> None:
    """Relay bytes until either side ends."""
    host, port, token = sys.argv[1:4]
    connection = socket.socket()
    connection.settimeout(10)
    connection.connect((host, int(port)))
    connection.settimeout(None)
    connection.setsockopt(socket.IPPROTO_TCP, socket.TCP_NODELAY, 1)
    connection.sendall(token.encode("ascii") + b"\n")
    threads.start_new_thread(_send_stdin, (connection,))
    while chunk := connection.recv(_CHUNK):
        sys.stdout.buffer.write(chunk)
        sys.stdout.buffer.flush()
    posix._exit(0)  # pyright: ignore[reportPrivateUsage] - its documented name is `os._exit`


def _send_stdin(connection: socket.socket) -> None:
    while chunk := posix.read(0, _CHUNK):
        connection.sendall(chunk)
    connection.shutdown(socket.SHUT_WR)


if __name__ == "__main__":
    main()
