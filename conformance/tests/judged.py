"""Judges one target after another in a separate process, and reports each outcome.

In: a JSON array of arguments a line. Out: a line each, `{"status", "seconds", "megabytes", "said"}`; the peak of memory
is that of this process alone, since the run before.
"""

from __future__ import annotations

import gc
import json
import resource
import sys
import time
import traceback
from contextlib import suppress
from pathlib import Path

from click.testing import CliRunner
from tools_search_conformance.cli.cli import cli

KIBIBYTES = 1024


def forget_peak() -> None:
    gc.collect()  # what the run before has left is not of the next one
    with suppress(OSError):  # where there is no such file, the peak is that of all runs so far
        Path("/proc/self/clear_refs").write_text("5", encoding="ascii")


def peak() -> float:
    """Return the most memory, in MiB, that this process has had in use."""
    status = Path("/proc/self/status")
    if status.exists():
        line = next(line for line in status.read_text(encoding="ascii").splitlines() if line.startswith("VmHWM:"))
        return int(line.split()[1]) / KIBIBYTES
    return resource.getrusage(resource.RUSAGE_SELF).ru_maxrss / KIBIBYTES**2


def main() -> None:
    for line in sys.stdin:
        forget_peak()
        began = time.monotonic()
        ended = CliRunner().invoke(cli, json.loads(line))
        unexpected = ended.exception if not isinstance(ended.exception, SystemExit) else None
        told = {
            "status": 4 if unexpected else ended.exit_code,  # as the command ends
            "seconds": round(time.monotonic() - began, 2),
            "megabytes": round(peak()),
            "said": ended.output + "".join(traceback.format_exception(unexpected) if unexpected else ()),
        }
        sys.stdout.write(json.dumps(told) + "\n")
        sys.stdout.flush()


if __name__ == "__main__":
    main()
