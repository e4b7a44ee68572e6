"""What a started server inherits: how to reach the network, and no key that the configuration does not name."""

from __future__ import annotations

import pytest
from tools_search_hosts.environment import handed_down


def test_a_proxy_is_handed_down_and_a_key_is_not(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("HTTPS_PROXY", "http://proxy:1")
    monkeypatch.setenv("SOME_API_KEY", "s3cret")
    assert handed_down()["HTTPS_PROXY"] == "http://proxy:1"
    assert "s3cret" not in handed_down().values()
