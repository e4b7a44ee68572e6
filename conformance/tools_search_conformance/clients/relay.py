"""The program that a client starts as its server on stdio: it carries bytes between its own streams and the suite.

    relay.py HOST PORT TOKEN

It needs the standard library alone, so that it starts at once, anywhere.
"""

from __future__ import annotations

import os
import socket
import sys
import threading

_CHUNK = 65536


def main() -> None:
    """Carry bytes until either side ends."""
    host, port, token = sys.argv[1:4]
    with socket.create_connection((host, int(port)), 10) as connection:
        connection.settimeout(None)
        connection.setsockopt(socket.IPPROTO_TCP, socket.TCP_NODELAY, 1)
        connection.sendall(token.encode("ascii") + b"\n")
        threading.Thread(target=_send_stdin, args=(connection,), daemon=True).start()
        while chunk := connection.recv(_CHUNK):
            sys.stdout.buffer.write(chunk)
            sys.stdout.buffer.flush()


def _send_stdin(connection: socket.socket) -> None:
    while chunk := os.read(0, _CHUNK):
        connection.sendall(chunk)
    connection.shutdown(socket.SHUT_WR)


if __name__ == "__main__":
    main()
