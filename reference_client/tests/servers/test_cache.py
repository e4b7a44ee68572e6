"""The cache: how long, for whom, and how much."""

from __future__ import annotations

import pytest
from tools_search_client.servers import cache as cache_module
from tools_search_client.servers.cache import MAX_TTL_SECONDS, ExpiringCache


class Clock:
    def __init__(self) -> None:
        self.now = 100.0

    def __call__(self) -> float:
        return self.now


@pytest.fixture
def clock(monkeypatch: pytest.MonkeyPatch) -> Clock:
    clock = Clock()
    monkeypatch.setattr(cache_module, "monotonic", clock)
    return clock


def test_an_answer_is_fresh_until_its_time_is_over(clock: Clock):
    cache = ExpiringCache[str](1)
    cache.put("key", "answer", ttl_seconds=1, scope="public")
    clock.now += 0.9
    assert cache.get("key") == "answer"
    clock.now += 0.1
    assert cache.get("key") is None


def test_no_server_is_believed_for_longer_than_a_day(clock: Clock):
    cache = ExpiringCache[str](1)
    cache.put("key", "answer", ttl_seconds=float("inf"), scope="public")
    clock.now += MAX_TTL_SECONDS
    assert cache.get("key") is None


def test_an_answer_without_a_lifetime_is_not_kept_in_place_of_another():
    cache = ExpiringCache[str](1)
    cache.put("kept", "answer", ttl_seconds=10, scope="public")
    cache.put("key", "answer", ttl_seconds=0, scope="public")
    assert (cache.get("kept"), cache.get("key")) == ("answer", None)


def test_a_private_answer_is_for_its_own_authorization_only():
    cache = ExpiringCache[str](1)
    cache.put("key", "ada's", ttl_seconds=10, scope="private", partition="ada")
    assert (cache.get("key", partition="ada"), cache.get("key", partition="grace")) == ("ada's", None)


def test_a_public_answer_is_for_every_authorization():
    cache = ExpiringCache[str](1)
    cache.put("key", "everybody's", ttl_seconds=10, scope="public", partition="ada")
    assert cache.get("key", partition="grace") == "everybody's"


@pytest.mark.parametrize("is_renewed", [False, True], ids=["read", "renewed"])
def test_the_least_recently_used_answer_goes_first(is_renewed: bool):
    cache = ExpiringCache[int](2)
    for number, key in enumerate(("a", "b")):
        cache.put(key, number, ttl_seconds=10, scope="public")
    if is_renewed:
        cache.put("a", 0, ttl_seconds=10, scope="public")
    else:
        cache.get("a")
    cache.put("c", 2, ttl_seconds=10, scope="public")
    assert [cache.get(key) for key in ("a", "b", "c")] == [0, None, 2]
