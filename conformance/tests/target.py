"""Starts one of the programs that the suite is tried on: `target.py NAME ARGUMENTS…` runs `targets/NAME.py`."""

from __future__ import annotations

import importlib
import sys

if __name__ == "__main__":
    name = sys.argv.pop(1)
    importlib.import_module(f"targets.{name}").main()
