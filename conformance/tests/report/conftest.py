"""Opens pages of reports in a browser, if there is one."""

from __future__ import annotations

import shutil
import subprocess
from collections.abc import Callable
from pathlib import Path

import pytest

BROWSER = shutil.which("chromium") or shutil.which("chromium-headless-shell")


@pytest.fixture
def measured() -> Callable[[Path, int, str], str]:
    """Return a function that returns the document after a script has run beside a page in a frame of some width.

    A window can be too narrow for the browser. A frame cannot.
    """
    if BROWSER is None:
        pytest.skip("needs chromium")
    command = [BROWSER, "--headless", "--no-sandbox", "--disable-gpu", "--allow-file-access-from-files", "--dump-dom"]

    def measure(page: Path, width: int, script: str) -> str:
        page.write_text(page.read_text(encoding="utf-8").replace("default-src 'none'; ", ""), encoding="utf-8")
        around = page.with_name("measured.html")
        frame = f"<iframe src={page.name} style='width: {width}px; height: 900px'></iframe>"
        around.write_text(f"{frame}<script>{script}</script>", encoding="utf-8")
        shown = subprocess.run([*command, around.as_uri()], capture_output=True, text=True, timeout=60, check=True)
        return shown.stdout

    return measure
