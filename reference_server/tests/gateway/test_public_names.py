"""Public URIs lead back to the server and URI that they stand for, and to no other."""

from __future__ import annotations

import re

from hypothesis import assume, given
from hypothesis import strategies as st
from tools_search_server.gateway.public_names import public_uri, split_uri

_servers = st.text(st.characters(exclude_categories=["Cs"]), min_size=1, max_size=12)
_uris = st.from_regex(r"[a-z][a-z0-9+.-]{0,8}:[!-~]{0,20}", fullmatch=True)


def is_web(uri: str) -> bool:
    return re.match(r"https?://", uri) is not None


@given(_servers, _uris, st.sets(_servers, max_size=3))
def test_a_public_uri_leads_back_whatever_else_is_configured(server: str, uri: str, others: set[str]) -> None:
    assume(not is_web(uri))
    public = public_uri(server, uri)
    assert split_uri(public, others | {server}) == (server, uri)
    assert split_uri(public, others - {server}) is None
    assert re.match(r"[a-z][a-z0-9+.-]*://[!-~]+\Z", public)


@given(_servers, _servers, _uris, _uris)
def test_no_two_resources_have_one_public_uri(server: str, other: str, uri: str, second: str) -> None:
    assume((server, uri) != (other, second) and not is_web(uri) and not is_web(second))
    assert public_uri(server, uri) != public_uri(other, second)


def test_web_addresses_stay_as_they_are_and_templates_stay_templates() -> None:
    for address in ("https://example.com/a", "http://example.com/a", "HTTP://example.com/a"):
        assert public_uri("git", address) == address
    assert public_uri("my server", "note://{topic}{?page}") == "gateway://my%20server/note://{topic}{?page}"


def test_what_only_resembles_a_public_uri_belongs_to_no_server() -> None:
    assert split_uri("elsewhere:git/note://a", {"git"}) is None
    assert split_uri("gateway://git", {"git"}) is None
