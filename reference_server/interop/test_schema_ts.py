"""`schema.ts` compiles as shipped, without any other file. The test installs the compiler."""

from __future__ import annotations

import shutil
import subprocess
from pathlib import Path

import tools_search_spec

SCHEMA = Path(tools_search_spec.__file__).with_name("schema.ts")
INSTALL = ["npm", "install", "--no-audit", "--no-fund", "--no-package-lock", "typescript@5.9.3"]
INSTALL_SECONDS = 300
COMPILE_SECONDS = 120


def test_schema_ts_compiles_strictly_without_any_other_file(tmp_path: Path) -> None:
    subprocess.run(INSTALL, cwd=tmp_path, check=True, capture_output=True, timeout=INSTALL_SECONDS)
    shutil.copy(SCHEMA, tmp_path)
    compiler = str(tmp_path / "node_modules" / ".bin" / "tsc")
    compiled = subprocess.run(
        [compiler, "--strict", "--noEmit", SCHEMA.name],
        cwd=tmp_path,
        capture_output=True,
        text=True,
        timeout=COMPILE_SECONDS,
        check=False,
    )
    assert (compiled.returncode, compiled.stdout) == (0, "")
