"""Which variables of its own a program hands down to the servers that it starts."""

from __future__ import annotations

import os
from typing import Final

__all__ = ["handed_down"]

_HANDED_DOWN: Final = (
    *("LANG", "LC_ALL", "LC_CTYPE", "TMPDIR", "TZ", "XDG_CACHE_HOME", "XDG_CONFIG_HOME", "XDG_DATA_HOME"),
    *("HTTP_PROXY", "HTTPS_PROXY", "NO_PROXY", "http_proxy", "https_proxy", "no_proxy"),
    *("NODE_EXTRA_CA_CERTS", "SSL_CERT_DIR", "SSL_CERT_FILE"),
)
"""Where a server is and how it reaches the network; anything else, and so every key, is named in the configuration."""


def handed_down() -> dict[str, str]:
    """Return the variables that a started server gets beside the SDK's own short list."""
    return {name: os.environ[name] for name in _HANDED_DOWN if name in os.environ}
