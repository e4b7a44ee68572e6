"""The version of this program, as installed."""

from importlib.metadata import version
from typing import Final

VERSION: Final = version("mcp-ext-tools-search")
