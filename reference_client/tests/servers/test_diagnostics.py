"""What is kept of a server's standard error: its last lines, and never more."""

from __future__ import annotations

import subprocess
import sys
from threading import enumerate as threads

from tools_search_client.servers.diagnostics import kept_diagnostics

LOUD = "import sys\nfor n in range(100_000): print(f'complaint {n}', 'x' * 90, file=sys.stderr)\n"


def test_the_last_lines_are_there_as_soon_as_the_process_has_ended() -> None:
    source = r"import sys; sys.stderr.write('one\ntwo\n\n  three  \nfour\nfour\n')"
    with kept_diagnostics() as diagnostics:
        subprocess.run([sys.executable, "-c", source], stderr=diagnostics.file, timeout=30, check=True)
        assert diagnostics.last_lines() == "three / four"


def test_a_process_that_complains_without_pause_is_neither_halted_nor_kept_whole() -> None:
    with kept_diagnostics() as diagnostics:
        subprocess.run([sys.executable, "-c", LOUD], stderr=diagnostics.file, timeout=30, check=True)
        said = diagnostics.last_lines()
    assert "complaint 99999" in said
    assert len(said) < 500
    assert diagnostics.last_lines() == said


def test_nothing_runs_on_when_nobody_writes_any_more() -> None:
    before = set(threads())
    with kept_diagnostics() as diagnostics:
        [follower] = set(threads()) - before
        assert diagnostics.last_lines() == ""
    follower.join(10)
    assert not follower.is_alive()
