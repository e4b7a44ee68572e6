"""The client example finds and calls a tool of the server example."""

from __future__ import annotations

import subprocess
import sys
from pathlib import Path

EXAMPLE = Path(__file__).parents[1] / "client_search.py"


def test_the_client_finds_the_tool_that_bills_a_customer_and_calls_it():
    done = subprocess.run([sys.executable, str(EXAMPLE)], capture_output=True, text=True, timeout=60, check=True)

    assert done.stdout == "send_invoice {'result': 'sent 3 to Ada'}\n"
