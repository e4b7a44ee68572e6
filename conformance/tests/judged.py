"""Judges one target after another, each in a process of its own, and reports each outcome.

In: a JSON array of arguments a line. Out: a line each, `{"status", "seconds", "megabytes", "said"}`; the peak of memory
is that of the run's process alone. The processes are forked, so that the suite is imported once.
"""

from __future__ import annotations

import json
import os
import resource
import sys
import time
import traceback
from pathlib import Path

from click.testing import CliRunner
from tools_search_conformance.cli.cli import cli

KIBIBYTES = 1024


def peak() -> float:
    """Return the most memory, in MiB, that this process has had in use."""
    status = Path("/proc/self/status")
    if status.exists():
        line = next(line for line in status.read_text(encoding="ascii").splitlines() if line.startswith("VmHWM:"))
        return int(line.split()[1]) / KIBIBYTES
    return resource.getrusage(resource.RUSAGE_SELF).ru_maxrss / KIBIBYTES**2


def judge(arguments: list[str]) -> dict[str, object]:
    began = time.monotonic()
    ended = CliRunner().invoke(cli, arguments)
    unexpected = ended.exception if not isinstance(ended.exception, SystemExit) else None
    return {
        "status": 4 if unexpected else ended.exit_code,  # as the command ends
        "seconds": round(time.monotonic() - began, 2),
        "megabytes": round(peak()),
        "said": ended.output + "".join(traceback.format_exception(unexpected) if unexpected else ()),
    }


def main() -> None:
    for line in sys.stdin:
        child = os.fork()
        if not child:
            sys.stdout.write(json.dumps(judge(json.loads(line))) + "\n")
            return
        os.waitpid(child, 0)


if __name__ == "__main__":
    main()
