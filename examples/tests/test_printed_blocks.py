"""Every `sh` and `python` block of every README runs as it is printed, page by page, where nothing was set up before.

A page is typed into one shell, from its first block on, in a fresh copy of the sources, with nothing of this
environment on the path: what a page needs, its own commands install. A mark above a block, an HTML comment, says what
is special about it. A judgment that several pages print is made once, and what another step of `.ci/run` does at length
is typed in short.
"""

from __future__ import annotations

import json
import os
import re
import shutil
import signal
import subprocess
import sys
import textwrap
from collections.abc import Iterator
from dataclasses import dataclass
from pathlib import Path
from typing import Final

import pytest

ROOT: Final = Path(__file__).parents[2]
PAGES: Final = (
    ("README.md", "reference_client/README.md"),
    ("spec/README.md",),
    ("sdk_ext/README.md", "sdk_ext/mcp_ext_search_primitives/README.md", "sdk_ext/tools_search_ranking/README.md"),
    ("conformance/README.md",),
    (
        "reference_server/README.md",
        "reference_server/docs/gateway.md",
        "reference_server/docs/hosts-without-search.md",
        "reference_server/docs/access.md",
        "reference_server/docs/replicas.md",
        "reference_server/docs/databases.md",
    ),
)
"""READMEs with blocks, and further pages; those in one group are read in one sitting, in one environment."""

BILLING: Final = {"command": "python", "args": ["examples/mcpserver_search.py"]}
GIT: Final = {"command": "python", "args": ["-m", "mcp_server_git", "--repository", "."]}
GIVEN: Final = {
    ("reference_server/README.md", "mcp.json"): {"mcpServers": {"billing": BILLING}},
    ("reference_server/README.md", "my-tools.json"): {"tools": [{"name": "a", "inputSchema": {"type": "object"}}]},
    ("reference_server/docs/databases.md", "my-tools.json"): {
        "tools": [{"name": "a", "inputSchema": {"type": "object"}}]
    },
    ("reference_client/README.md", "mcp.json"): {"mcpServers": {"billing": BILLING, "git": GIT}},
}
"""What a reader is said to have already."""

OVER_BOTH: Final = "--http-command 'tools-search-server --http 127.0.0.1:0' -- tools-search-server"
CLIENT: Final = "-- python conformance/drivers/one_server.py"
IN_SHORT: Final = {
    f"tools-search-conformance client {CLIENT}": f"tools-search-conformance client --only never-probes {CLIENT}",
    "pytest spec": "pytest spec -k '2026-07-28 or requirements'",
    f"tools-search-conformance server {OVER_BOTH}": f"tools-search-conformance server --only advertised {OVER_BOTH}",
}
"""What other steps of `.ci/run` do at length: here only far enough to see that the page has installed what it takes."""

NOT_RUN: Final = {"needs a server that has failed"}
SECONDS: Final = 1500

_BLOCK: Final = re.compile(
    r"(?P<marks>(?:^[ ]*<!-- [^\n]* -->\n)*)^(?P<indent>[ ]*)```(?P<language>sh|python)\n(?P<text>.*?)^(?P=indent)```$",
    re.MULTILINE | re.DOTALL,
)
_MARK: Final = re.compile(r"<!-- (?P<kind>ci|given|serves until it is stopped|not run): (?P<what>.*) -->")
_WAIT: Final = """\
import socket, sys, time
end = time.monotonic() + 120
while socket.socket().connect_ex((sys.argv[1], int(sys.argv[2]))):
    if time.monotonic() > end:
        sys.exit("nothing serves at " + ":".join(sys.argv[1:]))
    time.sleep(0.2)
"""


@dataclass(frozen=True)
class Block:
    """A block of a page."""

    page: str
    line: int
    language: str
    text: str
    marks: dict[str, str]


def blocks(page: str) -> Iterator[Block]:
    """Return the blocks of a page, in order."""
    written = (ROOT / page).read_text(encoding="utf-8")
    for found in _BLOCK.finditer(written):
        marks = {mark["kind"]: mark["what"] for mark in _MARK.finditer(found["marks"])}
        assert found["marks"].count("<!--") == len(marks), f"{page} has a mark that nobody knows: {found['marks']}"
        line = written[: found.start("language")].count("\n") + 1
        yield Block(page, line, found["language"], textwrap.dedent(found["text"]), marks)


ALL: Final = [block for group in PAGES for page in group for block in blocks(page)]
JUDGED_ON: Final = {
    line: block.page
    for block in ALL
    for line in block.text.splitlines()
    if line.startswith("tools-search-conformance ")
}
"""Where each judgment is made: what several pages print, on the last of them, where the least is installed."""


def test_every_readme_with_blocks_is_among_the_pages():
    written = [path for path in ROOT.rglob("README.md") if not {".venv", "node_modules"} & set(path.parts)]
    with_blocks = {str(path.relative_to(ROOT)) for path in written if _BLOCK.search(path.read_text(encoding="utf-8"))}
    assert with_blocks == {page for group in PAGES for page in group if page.endswith("README.md")}


def test_every_further_page_of_the_server_is_among_the_pages():
    written = {str(path.relative_to(ROOT)) for path in (ROOT / "reference_server/docs").glob("*.md")}
    assert written == {page for group in PAGES for page in group if page.startswith("reference_server/docs/")}


def test_only_blocks_that_cannot_run_here_are_left_out():
    assert {block.marks["not run"] for block in ALL if "not run" in block.marks} == NOT_RUN
    assert [block.marks["ci"] for block in ALL if "ci" in block.marks] == ["demo", "tests"]
    assert len(ALL) >= 20
    given = {(block.page, block.marks["given"]) for block in ALL if "given" in block.marks}
    assert given == set(GIVEN)


@pytest.mark.parametrize("block", [block for block in ALL if block.language == "python"], ids=lambda block: block.page)
def test_python_blocks_are_whole_programs(block: Block):
    compile(block.text, f"{block.page}:{block.line}", "exec", dont_inherit=True)


def test_what_is_typed_in_short_is_printed_and_done_at_length_by_a_step_of_its_own():
    assert IN_SHORT.keys() <= {line for block in ALL for line in block.text.splitlines()}
    at_length = (ROOT / ".ci" / "run").read_text(encoding="utf-8")
    assert OVER_BOTH in at_length
    assert "run_readme tests" in at_length


@pytest.mark.parametrize(
    "page",
    dict.fromkeys([*(group[0] for group in PAGES), *(block.page for block in ALL if "python3 -m venv" in block.text)]),
)
def test_a_page_makes_its_environment_before_it_uses_it(page: str):
    first = next(block for block in ALL if block.page == page)
    assert first.text.startswith("python3 -m venv .venv && ")
    if page != "README.md":
        assert "activate && pip install" in first.text
        before = (ROOT / page).read_text(encoding="utf-8").partition("python3 -m venv")[0]
        assert re.search(r"[Ff]rom the root\s+of a checkout", before)


@pytest.mark.parametrize("group", PAGES, ids=lambda group: group[0])
def test_a_page_runs_as_it_is_printed(group: tuple[str, ...], tmp_path: Path, request: pytest.FixtureRequest):
    if not request.config.getoption("--printed-blocks"):
        pytest.skip("takes minutes and a package index: --printed-blocks, as .ci/run says")
    checkout = _copy_of_the_sources(tmp_path / "checkout")
    script = tmp_path / "typed.sh"
    script.write_text(_typed(group, tmp_path))
    elsewhere = [folder for folder in os.environ["PATH"].split(os.pathsep) if folder != str(Path(sys.prefix, "bin"))]
    environment = os.environ | {"PATH": os.pathsep.join([str(Path(sys.base_prefix, "bin")), *elsewhere])}
    for name in ("VIRTUAL_ENV", "PYTHONPATH", *(name for name in environment if name.startswith(("COV", "PYTEST")))):
        environment.pop(name, None)
    with (tmp_path / "said").open("w+") as said:
        process = subprocess.Popen(
            ["bash", str(script)],
            cwd=checkout,
            env=environment,
            stdin=subprocess.DEVNULL,
            stdout=said,
            stderr=subprocess.STDOUT,
            start_new_session=True,
        )
        try:
            code = process.wait(SECONDS)
        finally:
            if process.poll() is None:
                os.killpg(process.pid, signal.SIGKILL)
                process.wait()
        said.seek(0)
        assert code == 0, said.read()[-6000:]


def _copy_of_the_sources(folder: Path) -> Path:
    listed = ["git", "ls-files", "-z", "--cached", "--others", "--exclude-standard"]
    names = subprocess.run(listed, cwd=ROOT, capture_output=True, text=True, check=True).stdout.split("\0")
    for name in filter(None, names):
        (folder / name).parent.mkdir(parents=True, exist_ok=True)
        shutil.copy2(ROOT / name, folder / name)
    identity = ["-c", "user.name=Reader", "-c", "user.email=reader@example.com"]
    for arguments in (["init", "--quiet"], [*identity, "commit", "--quiet", "--allow-empty", "--message", "Start"]):
        subprocess.run(["git", *arguments], cwd=folder, check=True)
    return folder


def _typed(group: tuple[str, ...], folder: Path) -> str:
    """Return the script that types all blocks of some pages into one shell."""
    lines = ["set -euo pipefail", "trap 'kill $(jobs -p) 2>/dev/null || true' EXIT"]
    for number, block in enumerate(block for block in ALL if block.page in group):
        lines.append(f"echo '== {block.page}, line {block.line}'")
        if "not run" in block.marks or block.marks.get("ci") == "tests":
            continue
        if (name := block.marks.get("given")) is not None:
            content = folder / f"{number}-{name}"
            content.write_text(json.dumps(GIVEN[block.page, name]))
            lines.append(f"cp {content} {name}")
        lines_here = [line for line in block.text.splitlines() if JUDGED_ON.get(line, block.page) == block.page]
        text = "\n".join(IN_SHORT.get(line, line) for line in lines_here)
        if "ci" in block.marks:  # the demo itself is run by a step of its own
            text = text.rpartition(" && ")[0]
        if block.language == "python":
            (folder / f"{number}.py").write_text(block.text)
            text = f"python {folder / f'{number}.py'}"
        address = block.marks.get("serves until it is stopped")
        if address is None:
            lines.append(text)
        else:
            (folder / "wait.py").write_text(_WAIT)
            lines.append(f"{text} &\npython {folder / 'wait.py'} {address.replace(':', ' ')}")
    return "\n".join(lines) + "\n"
