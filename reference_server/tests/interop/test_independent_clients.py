"""Clients that share no code with this project search the reference server, over both transports and in both eras.

It installs three SDKs of other lines.
"""

from __future__ import annotations

import json
import shutil
import subprocess
import sys
import venv
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest

HERE = Path(__file__).parent
SERVER = [sys.executable, "-m", "tools_search_server"]
QUERY = "refund a payment"
INSTALL_SECONDS = 300
RUN_SECONDS = 60


def run(argv: list[str], cwd: Path, seconds: float = INSTALL_SECONDS) -> str:
    """Return what the command printed; its failure shows what it said."""
    done = subprocess.run(argv, cwd=cwd, capture_output=True, text=True, timeout=seconds, check=False)
    assert done.returncode == 0, f"{argv} ended with {done.returncode}:\n{done.stderr}\n{done.stdout}"
    return done.stdout


@pytest.fixture(scope="session")
def clients(tmp_path_factory: pytest.TempPathFactory) -> dict[str, list[str]]:
    """Install each SDK in a folder of its own; return the command that runs its search script."""
    commands: dict[str, list[str]] = {}
    for name in ("typescript-v1", "typescript-v2"):
        folder = tmp_path_factory.mktemp(name)
        shutil.copytree(HERE / name, folder, dirs_exist_ok=True)
        run(["npm", "install", "--no-audit", "--no-fund", "--no-package-lock"], folder)
        commands[name] = ["node", str(folder / "search.mjs")]
    folder = tmp_path_factory.mktemp("python-v1")
    venv.create(folder / ".venv")
    python = str(folder / ".venv/bin/python")
    pip = [sys.executable, "-m", "pip", "--python", python]
    run([*pip, "install", "--quiet", "-r", str(HERE / "python-v1/requirements.txt")], folder)
    commands["python-v1"] = [python, str(HERE / "python-v1/search.py")]
    return commands


@pytest.fixture(scope="session")
def url() -> Iterator[str]:
    with subprocess.Popen([*SERVER, "--http", "127.0.0.1:0"], stdout=subprocess.PIPE, text=True) as server:
        assert server.stdout is not None
        yield json.loads(server.stdout.readline())["url"]
        server.terminate()


@pytest.mark.parametrize("transport", ["stdio", "http"])
@pytest.mark.parametrize(
    ("client", "mode", "era"),
    [
        ("typescript-v2", "auto", "modern"),
        ("typescript-v2", "legacy", "legacy"),
        ("typescript-v1", "legacy", "legacy"),
        ("python-v1", "legacy", "legacy"),
    ],
)
def test_an_independent_client_negotiates_searches_every_page_is_refused_and_calls(
    clients: dict[str, list[str]], url: str, client: str, mode: str, era: str, transport: str
) -> None:
    command, *args = SERVER
    target = {"url": url} if transport == "http" else {"command": command, "args": args}
    printed = run([*clients[client], json.dumps(target), mode, QUERY], HERE, RUN_SECONDS)
    report: dict[str, Any] = json.loads(printed.splitlines()[-1])

    assert report["era"] == era
    assert isinstance(report["advertised"], dict)
    if era == "legacy":
        assert report["advertisedExperimental"] == report["advertised"]
    assert len(report["names"]) == len(set(report["names"])) > 2
    assert any("refund" in name.lower() for name in report["names"][:3])
    assert report["refusal"] == -32602
    assert report["called"]
