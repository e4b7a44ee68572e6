"""FastMCP's proxy in front of the servers of a configuration: `python -m benchmarks.overhead.fastmcp_proxy FILE`."""

from __future__ import annotations

import json
import sys
from pathlib import Path
from typing import Any

from fastmcp.server import create_proxy

if __name__ == "__main__":
    proxy: Any = create_proxy(json.loads(Path(sys.argv[1]).read_text(encoding="utf-8")))
    if sys.argv[2:]:
        proxy.run("streamable-http", host="127.0.0.1", port=int(sys.argv[2]), show_banner=False, log_level="ERROR")
    else:
        proxy.run(show_banner=False, log_level="ERROR")
