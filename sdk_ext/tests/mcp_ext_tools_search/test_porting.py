"""The list of files that a porter reads, and the packages that they import."""

from __future__ import annotations

import ast
import re
import sys
from pathlib import Path

SDK_EXT = Path(__file__).parents[2]
PACKAGE = SDK_EXT / "mcp_ext_tools_search"
ALLOWED = {
    "mcp",
    "mcp_types",
    "pydantic",
    "pydantic_core",
    "anyio",
    "rank_bm25",
    "mcp_ext_tools_search",
    "mcp_ext_search_primitives",
}


def _imported(file: Path) -> set[str]:
    """Return the dotted names that a file imports; `from a import b` counts as `a` and as `a.b`."""
    names: set[str] = set()
    for node in ast.walk(ast.parse(file.read_text(encoding="utf-8"))):
        if isinstance(node, ast.Import):
            names |= {alias.name for alias in node.names}
        elif isinstance(node, ast.ImportFrom) and node.module:
            names |= {node.module, *(f"{node.module}.{alias.name}" for alias in node.names)}
    return names


def _file_of(module: str) -> Path | None:
    path = SDK_EXT.joinpath(*module.split("."))
    found = [file for file in (path.with_suffix(".py"), path / "__init__.py") if file.is_file()]
    return found[0] if found else None


def _closure(*modules: str) -> set[Path]:
    """Return the files of the package that importing `modules` loads, packages above them included."""
    closure: set[Path] = set()
    waiting = list(modules)
    while waiting:
        module = waiting.pop()
        if not module.startswith("mcp_ext_tools_search"):
            continue
        waiting += [parent] if (parent := module.rpartition(".")[0]) else []
        file = _file_of(module)
        if file is not None and file not in closure:
            closure.add(file)
            waiting += _imported(file)
    return closure


def test_the_readme_lists_every_file_that_a_porter_reads_with_its_length() -> None:
    readme = (SDK_EXT / "README.md").read_text(encoding="utf-8")
    rows = {name: int(lines) for name, lines in re.findall(r"^\| `([a-z_/]+\.py)` \| (\d+) \|", readme, re.MULTILINE)}
    files = _closure("mcp_ext_tools_search.server", "mcp_ext_tools_search.client")
    assert rows == {
        str(file.relative_to(PACKAGE)): len(file.read_text(encoding="utf-8").splitlines()) for file in files
    }
    assert f"{len(rows)} files,\n{sum(rows.values()):,} lines" in readme


def test_the_package_imports_what_its_install_brings_and_nothing_else() -> None:
    imported = {name.partition(".")[0] for file in PACKAGE.rglob("*.py") for name in _imported(file)}
    assert imported - sys.stdlib_module_names <= ALLOWED
