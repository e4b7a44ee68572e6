"""Names of tools as a provider is sent them, and back."""

from __future__ import annotations

import re

from hypothesis import given
from hypothesis import strategies as st
from tools_search_client import Definition
from tools_search_client.providers.sent_tools import ProviderLimits, SentTools

odd_names = st.one_of(st.text(), st.sampled_from(("a b", "a_b", "a.b", "search_tools", "a_b_5d5c3b32d9a7", "9lives")))


@given(st.lists(odd_names, max_size=12))
def test_every_name_is_valid_and_leads_back_to_its_original(originals: list[str]):
    tools = SentTools(ProviderLimits())
    sent = [tools.sent_form(Definition(name, "", {"type": "object"})).name for name in originals]
    assert all(re.fullmatch(r"[A-Za-z_][A-Za-z0-9_-]{0,63}", name) for name in sent)
    assert len(set(sent)) == len(set(originals))
    assert [tools.in_conversation_names(name, {})[0] for name in sent] == originals
    assert [tools.sent_form(Definition(name, "", {"type": "object"})).name for name in originals] == sent
