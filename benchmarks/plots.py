"""How pictures look."""

from __future__ import annotations

from typing import Final

__all__ = ["STYLE"]

STYLE: Final = {"svg.hashsalt": "tools/search", "svg.fonttype": "none", "font.size": 9, "legend.frameon": False}
"""For matplotlib; the same figures give the same file."""
