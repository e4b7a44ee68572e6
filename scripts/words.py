"""Words that are easy to count: one spelling, one name for one thing, plain English, and pages that can be read.

Prints what it finds, file and line, and exits with 1 if there is any beyond what is allowed. Run from anywhere.
"""

from __future__ import annotations

import ast
import re
import subprocess
import sys
from collections import defaultdict
from collections.abc import Iterator
from pathlib import Path

ROOT = Path(__file__).resolve().parent.parent
PACKAGES = (
    "spec/tools_search_spec",
    "sdk_ext/mcp_ext_tools_search",
    "sdk_ext/mcp_ext_search_primitives",
    "sdk_ext/tools_search_ranking",
    "sdk_ext/tools_search_hosts",
    "reference_server/tools_search_server",
    "reference_client/tools_search_client",
    "conformance/tools_search_conformance",
)
DIALECT = re.compile(
    r"\b(tells?|told|beside|mend(?:s|ed)?|anew|whoever|whatever|lately|becomes of|came of)\b", re.IGNORECASE
)
"""Words that native engineers write once in several thousand, if at all."""

ALLOWED_PER_10_000 = 2.0
"""How many of these words docstrings and comments may have, all forms together."""

BRITISH = re.compile(
    r"\b\w*(?:catalogue|behaviour|favour|honour|colour|neighbour|licence|labell|modell|analys(?:ed|ing)|serialis"
    r"|normalis|recognis|initialis|organis|optimis|summaris|categoris|synchronis|capitalis|prioritis|customis)\w*",
    re.IGNORECASE,
)


README_LINES = 250
"""A README is read from top to bottom, so it is shorter than this. What only some readers need has a page elsewhere."""


def main() -> int:
    problems = [*dialect(), *british(), *twice_named(), *long_pages()]
    print(*problems, sep="\n", end="\n" if problems else "")
    return 1 if problems else 0


def dialect() -> Iterator[str]:
    """Yield each word of the dialect if they are more than what is allowed."""
    words, places = 0, list[str]()
    for path in tracked("*.py"):
        for number, line in prose_of(path.read_text(encoding="utf-8")):
            words += len(line.split())
            places += [f"{path.relative_to(ROOT)}:{number}: dialect: {found}" for found in DIALECT.findall(line)]
    rate = len(places) / max(words, 1) * 10_000
    if rate > ALLOWED_PER_10_000:
        yield from places
        yield f"{rate:.1f} of 10,000 words of docstrings and comments are dialect; {ALLOWED_PER_10_000} are allowed"


def tracked(*patterns: str) -> list[Path]:
    listed = subprocess.run(["git", "ls-files", "-z", *patterns], cwd=ROOT, capture_output=True, text=True, check=True)
    return [ROOT / name for name in listed.stdout.split("\0") if name and (ROOT / name).is_file()]


def prose_of(text: str) -> Iterator[tuple[int, str]]:
    """Yield the lines of docstrings and comments with their numbers."""
    for node in ast.walk(ast.parse(text)):
        if isinstance(node, ast.Expr) and isinstance(node.value, ast.Constant) and isinstance(node.value.value, str):
            yield from enumerate(node.value.value.splitlines(), start=node.lineno)
    for number, line in enumerate(text.splitlines(), start=1):
        if comment := re.search(r"(?:^|\s)# (.*)", line):
            yield number, comment[1]


def british() -> Iterator[str]:
    """Yield each British spelling; catalogs of tools are data, and quote what others wrote."""
    for path in tracked("*.py", "*.md", "*.mjs", "*.toml", "*.yaml"):
        if path.name in ("words.py", "migration.md", "test_fields.py"):  # retired ids, and words of real definitions
            continue
        for number, line in enumerate(path.read_text(encoding="utf-8").splitlines(), start=1):
            for found in BRITISH.finditer(line):
                yield f"{path.relative_to(ROOT)}:{number}: British spelling: {found[0]}"


def twice_named() -> Iterator[str]:
    """Yield each name that two public classes of one package have."""
    for package in PACKAGES:
        homes: defaultdict[str, list[str]] = defaultdict(list)
        for path in tracked(f"{package}/**.py", f"{package}/*.py"):
            for node in ast.parse(path.read_text(encoding="utf-8")).body:
                if isinstance(node, ast.ClassDef) and not node.name.startswith("_"):
                    homes[node.name].append(str(path.relative_to(ROOT / package)))
        for name, modules in homes.items():
            if len(set(modules)) > 1:
                yield f"{package}: {name} is a class of {', '.join(sorted(set(modules)))}"


def long_pages() -> Iterator[str]:
    """Yield each README that is too long to be read whole."""
    for path in tracked("README.md", "**/README.md"):
        lines = len(path.read_text(encoding="utf-8").splitlines())
        if lines >= README_LINES:
            yield f"{path.relative_to(ROOT)}: {lines} lines; a README has fewer than {README_LINES}"


if __name__ == "__main__":
    sys.exit(main())
