"""Files that only their user can read are replaced as a whole or not at all."""

from __future__ import annotations

import stat
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
