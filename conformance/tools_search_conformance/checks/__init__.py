"""Every server check; importing this package declares the checks of each of its modules."""

from __future__ import annotations

from importlib import import_module
from pkgutil import iter_modules

from tools_search_conformance.target.bench import SERVER_CHECKS

__all__ = ["SERVER_CHECKS"]

for _module in iter_modules(__path__, f"{__name__}."):
    import_module(_module.name)
