"""Files that only their user can read are replaced as a whole or not at all."""

from __future__ import annotations

import os
import stat
import subprocess
import sys
import time
from pathlib import Path

import pytest
from tools_search_ranking.private_files import replace_private_file


def test_a_file_and_its_folder_are_readable_by_the_user_only(tmp_path: Path):
    file = tmp_path / "own" / "file"
    for content in b"first", b"second":
        replace_private_file(file, content)
    assert file.read_bytes() == b"second"
    assert [stat.S_IMODE(path.stat().st_mode) for path in (file, file.parent)] == [0o600, 0o700]


@pytest.mark.parametrize("failure", [OSError, KeyboardInterrupt])
def test_a_failure_leaves_the_old_file_and_nothing_else(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, failure: type[BaseException]
):
    file = tmp_path / "file"
    replace_private_file(file, b"first")

    def failing(*_: object) -> None:
        raise failure

    monkeypatch.setattr(Path, "replace", failing)
    with pytest.raises(failure):
        replace_private_file(file, b"second")
    assert [path.read_bytes() for path in tmp_path.iterdir()] == [b"first"]


WRITER = """
import sys
from pathlib import Path
from tools_search_ranking.private_files import replace_private_file

while True:
    replace_private_file(Path(sys.argv[1]), sys.argv[2].encode() * 32_000_000)
"""


def test_of_two_processes_one_of_which_is_killed_while_it_writes_a_whole_file_is_left_and_later_nothing_else(
    tmp_path: Path,
):
    file = tmp_path / "file"
    writers = [subprocess.Popen([sys.executable, "-c", WRITER, str(file), letter]) for letter in "ab"]
    deadline = time.monotonic() + 30
    try:
        while not (file.exists() and any(path != file for path in tmp_path.iterdir())):
            assert time.monotonic() < deadline
        content = file.read_bytes()
        assert content.strip(content[:1]) == b""
    finally:
        for writer in writers:
            writer.kill()
            writer.wait()
    for name in (".file.old", ".file.new", ".other.old"):
        (tmp_path / name).touch()
    for draft in [path for path in tmp_path.iterdir() if path.name not in ("file", ".file.new")]:
        os.utime(draft, (0, 0))  # while another process may still be writing the new one
    replace_private_file(file, b"c")
    assert file.read_bytes() == b"c"
    assert {path.name for path in tmp_path.iterdir()} == {"file", ".file.new", ".other.old"}
