"""What figures were taken with: versions, and the machine."""

from __future__ import annotations

import os
import platform
from collections.abc import Iterable
from datetime import UTC, datetime
from importlib.metadata import PackageNotFoundError, version
from pathlib import Path
from typing import Any

__all__ = ["provenance", "versions"]


def provenance() -> dict[str, Any]:
    """Return the day, the version of Python, and how large and how busy the machine is now."""
    return {
        "date": datetime.now(UTC).date().isoformat(),
        "python": platform.python_version(),
        "machine": {"cores": os.cpu_count(), "processor": _processor(), "load": round(os.getloadavg()[0], 1)},
    }


def versions(distributions: Iterable[str]) -> dict[str, str]:
    """Return the versions of those that are installed."""
    found: dict[str, str] = {}
    for name in distributions:
        try:
            found[name] = version(name)
        except PackageNotFoundError:
            continue
    return found


def _processor() -> str:
    """Return what the processor calls itself, or what architecture it has where that is unknown."""
    try:
        lines = Path("/proc/cpuinfo").read_text(encoding="utf-8").splitlines()
    except OSError:
        return platform.machine()
    named = (line.partition(":")[2].strip() for line in lines if line.startswith("model name"))
    return next(named, platform.machine())
