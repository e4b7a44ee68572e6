"""The postings of an index say of every tool what its definition says, though most are those of two terms at once."""

from __future__ import annotations

from collections import Counter
from collections.abc import Callable, Collection, Mapping, Sequence
from itertools import chain, product

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from mcp_ext_tools_search.ranking.fields import MEMBERS, STEPS, fields
from mcp_ext_tools_search.ranking.language import stem, words
from mcp_ext_tools_search.ranking.query import WRITTEN, index_terms
from mcp_types import Tool
from tools_search_ranking import index
from tools_search_ranking.floor import hits_over_floor
from tools_search_ranking.index import Documents
from tools_search_ranking.postings import members_in, members_of, slots_of, steps_of
from tools_search_ranking.query import Weigher
from tools_search_ranking.statistics import Statistics
from tools_search_ranking.vocabulary import term_key

_Postings = Mapping[str, tuple[int, int]]
"""By key of a term, how often a tool has it and in which members."""

_Changes = Sequence[tuple[Mapping[str, str], Collection[str]]]
"""Tools that are added or changed, and names of tools that are removed."""

_IN_FLOOR = sum(1 << MEMBERS.index(member) for member in ("name", "title", "description"))
_SAID = ["file", "files", "filed", "filing", "send", "sends", "sending", "the", "天气", "天气 files", "v2", "getFiles"]
_TEXT = st.lists(st.sampled_from(_SAID), max_size=8).map(" ".join)
_NAME = st.sampled_from(["a", "b", "c", "files", "send_file"])
_TOOLS = st.dictionaries(_NAME, _TEXT, max_size=4)
_CHANGES = st.lists(st.tuples(_TOOLS, st.sets(_NAME, max_size=2)), min_size=1, max_size=4)


def _tool(name: str, description: str) -> Tool:
    return Tool(name=name, description=description, input_schema={"properties": {"sent": {}}})


def _said(tool: Tool) -> _Postings:
    """Return what the definition of a tool says, counted word by word."""
    steps, bits = Counter[str](), Counter[str]()
    for own in fields(tool):
        for word, count in Counter(chain.from_iterable(map(words, own.texts))).items():
            for key in index_terms(word):
                steps[key] += int(min(count, 4) * own.weight * STEPS)
                bits[key] |= 1 << MEMBERS.index(own.member)
    return {key: (min(own, 255), bits[key]) for key, own in steps.items()}


def _held(documents: Documents) -> Mapping[str, _Postings]:
    """Return by name what an index holds of its tools, apart from terms that are no words."""
    vocabulary = documents.vocabulary
    held: dict[str, dict[str, tuple[int, int]]] = {name: {} for name in documents.names}
    for key, number in _words_in(documents).items():
        parts = documents.postings.parts_of(number, vocabulary.stems[number])
        entries = np.concatenate([np.zeros(0, dtype=np.uint32), *parts])
        slots: list[int] = slots_of(entries).tolist()
        assert len(slots) == len(set(slots))
        values = zip(steps_of(entries).tolist(), members_of(entries).tolist(), strict=True)
        for slot, value in zip(slots, values, strict=True):
            held[documents.names[slot]][key] = value
    return held


def _containing(documents: Documents, counts: Sequence[int]) -> Mapping[str, int]:
    return {key: counts[number] for key, number in _words_in(documents).items() if counts[number]}


def _words_in(documents: Documents) -> Mapping[str, int]:
    known = documents.vocabulary.numbers.items()
    return {key: number for key, number in known if number < len(documents.containing) and key[0] != term_key("")}


def _counted(held: Mapping[str, _Postings], names: Collection[str]) -> Mapping[str, int]:
    return Counter(chain.from_iterable(held[name] for name in names))


def _changed(tools: Mapping[str, str], changes: _Changes) -> tuple[Documents, Mapping[str, _Postings]]:
    """Return an index of `tools` after the changes, and by name what the definitions of its tools say."""
    left = dict(tools)
    documents = Documents.of([_tool(*tool) for tool in tools.items()])
    for added, removed in changes:
        gone = {name for name in (*removed, *added) if name in left}
        documents = documents.updated(gone, [_tool(*tool) for tool in added.items()])
        left = {name: text for name, text in left.items() if name not in gone} | dict(added)
    return documents, {name: _said(_tool(name, text)) for name, text in left.items()}


@settings(max_examples=60)
@given(tools=_TOOLS, changes=_CHANGES, seen=st.sets(_NAME))
def test_an_index_holds_what_its_tools_say_after_any_change(
    tools: Mapping[str, str], changes: _Changes, seen: Collection[str]
):
    documents, said = _changed(tools, changes)
    assert _held(documents) == said
    assert _containing(documents, documents.containing.tolist()) == _counted(said, said)
    counts = documents.postings.containing(len(documents.containing), documents.mask(seen)).tolist()
    assert _containing(documents, counts) == _counted(said, said.keys() & set(seen))


@settings(max_examples=60)
@given(tools=_TOOLS, changes=_CHANGES, asked=st.sets(st.sampled_from(["file", "files", "send", "the"]), min_size=1))
def test_tools_with_all_of_some_words_are_found_with_the_members_that_have_them(
    tools: Mapping[str, str], changes: _Changes, asked: Collection[str]
):
    documents, said = _changed(tools, changes)
    query = " ".join([*asked, *asked])  # which is no tool's name
    weigher = Weigher(documents, Statistics.of(documents, None))
    found = {hit.name: hit.matched for hit in hits_over_floor(query, None, weigher)}
    having = {name: [own.get(WRITTEN + word, (0, 0))[1] & _IN_FLOOR for word in asked] for name, own in said.items()}
    united = {name: int(np.bitwise_or.reduce(own)) for name, own in having.items() if all(own)}
    assert found == {name: members_in(bits) for name, bits in united.items()}


def test_what_is_left_after_tidying_up_is_what_the_tools_say(make_tool: Callable[..., Tool]):
    kept = [make_tool(f"keep_{place}", "Files and the filing of a file: 天气.") for place in range(5)]
    documents = Documents.of([make_tool("gone", "Temporary."), *kept])
    tidied = 0
    for ending in map("".join, product("abcdefghijklmnop", "bcdfghjklmnpqrtv")):
        changing = make_tool("changing", f"walk{ending}s the talk{ending}ing talk{ending} files")
        before, documents = documents, documents.updated(["gone", "changing"], [changing])
        if documents.vocabulary is not before.vocabulary:
            tidied += 1
            assert _held(documents) == {tool.name: _said(tool) for tool in [*kept, changing]}
            without = documents.updated(["keep_0"], [])
            assert _held(without) == {tool.name: _said(tool) for tool in [*kept[1:], changing]}
    assert tidied


@pytest.mark.parametrize(
    ("description", "count"),
    [
        ("files", 1),
        ("filing filing", 1),
        ("the", 1),
        ("天气", 4),
        ("file files", 3),
        ("file files filing sends", 5),
    ],
)
def test_only_a_tool_with_several_forms_of_a_word_has_a_posting_of_its_stem_beside_them(description: str, count: int):
    documents = Documents.of([Tool(name="_", description=description, input_schema={})])
    assert len(documents.postings.entries) == count


def test_all_postings_of_a_stem_lie_side_by_side(make_tool: Callable[..., Tool]):
    texts = ["filing", "send", "file", "sends files", "filed filing", "files"]
    documents = Documents.of([make_tool(f"t{place}", text) for place, text in enumerate(texts)])
    number = documents.vocabulary.numbers[stem("file")]
    assert list(map(len, documents.postings.parts_of(number, number))) == [5]


def test_tools_that_leave_make_room_in_a_full_index(make_tool: Callable[..., Tool], monkeypatch: pytest.MonkeyPatch):
    monkeypatch.setattr(index, "MAX_SLOTS", 4)
    kept = [make_tool(f"keep_{place}", "Files.") for place in range(3)]
    documents = Documents.of([*kept, make_tool("gone", "Temporary.")])
    new = make_tool("new", "Filing.")
    assert _held(documents.updated(["gone"], [new])) == {tool.name: _said(tool) for tool in [*kept, new]}
    with pytest.raises(ValueError, match="at most 4 tools"):
        documents.updated([], [new])
