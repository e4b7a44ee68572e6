"""Prints, as constraints for pip, the lowest version that pyproject.toml allows of each package that users install.

Run from anywhere.
"""

from __future__ import annotations

import tomllib
from pathlib import Path

from packaging.requirements import Requirement
from packaging.version import Version

ROOT = Path(__file__).resolve().parent.parent
OF_DEVELOPERS = {"benchmark", "demo", "dev"}

project = tomllib.loads((ROOT / "pyproject.toml").read_text(encoding="utf-8"))["project"]
extras = {"": project["dependencies"], **project["optional-dependencies"]}
needed = [Requirement(line) for name, lines in extras.items() if name not in OF_DEVELOPERS for line in lines]
lowest = [
    (each.name, Version(specifier.version))
    for each in needed
    for specifier in each.specifier
    if specifier.operator in {">=", "=="}
]
for name, version in dict(sorted(lowest)).items():  # the highest, if extras differ
    print(f"{name}=={version}")
