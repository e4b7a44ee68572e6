"""How texts are ranked by their words."""

from __future__ import annotations

import random
from typing import Any

import pytest
from mcp_ext_search_primitives import text_index
from mcp_ext_search_primitives.text_index import TextIndex, stems_of
from mcp_ext_tools_search.ranking.language import runs


def ranked(texts: dict[str, str], query: str) -> list[str]:
    scores = TextIndex(texts).search(query)
    return sorted(scores, key=lambda uri: (-scores[uri], uri))


def test_a_text_that_is_about_something_goes_before_one_that_mentions_it() -> None:
    filler = "soil and water and sun "
    texts = {"mentions": "caching " * 4 + filler * 100, "about": "caching " * 40 + filler * 90, "other": filler * 100}
    assert ranked(texts, "caching") == ["about", "mentions"]


def test_the_same_words_count_more_in_a_shorter_text() -> None:
    assert ranked({"long": "a parcel " + "of many words " * 200, "short": "a parcel"}, "parcel") == ["short", "long"]


def test_a_text_with_both_words_goes_before_one_of_average_length_that_repeats_one_of_them() -> None:
    texts = {"both": "parcel customer" + " soil" * 38, "one": "parcel " * 20 + "soil " * 20, "other": "soil " * 40}
    assert ranked(texts, "parcel customer")[0] == "both"
    assert ranked(texts, "parcel")[0] == "one"


def test_words_are_found_in_other_forms_and_those_as_written_go_first() -> None:
    assert ranked({"one": "deleting files", "two": "delete files", "three": "rename"}, "delete") == ["two", "one"]


def test_parts_of_compound_words_are_found() -> None:
    assert ranked({"code": "call getUserInfo here", "other": "call nothing"}, "user info") == ["code"]


def test_scripts_without_spaces_are_ranked() -> None:
    assert ranked({"zh": "如何退款给客户", "other": "天气预报"}, "退款")[0] == "zh"


@pytest.mark.parametrize("query", ["the of and", "zzz", "", "\ud800"])
def test_a_query_without_a_word_of_any_text_finds_nothing(query: str) -> None:
    assert TextIndex({"a": "the cat", "b": ""}).search(query) == {}


def test_texts_without_words_are_no_trouble() -> None:
    assert TextIndex({}).search("cat") == {}
    assert TextIndex({"a": "", "b": "the"}).search("cat") == {}


def test_shares_weigh_words_by_how_rare_they_are_in_the_texts() -> None:
    index = TextIndex({str(number): "common" for number in range(50)} | {"rare": "rare common"})
    shares = index.shares("rare common", {"a": stems_of(["rare"]), "b": stems_of(["common"]), "c": stems_of(["no"])})
    assert shares["a"] > 0.9 > 0.1 > shares["b"] > shares["c"] == 0


def test_texts_of_random_letters_are_bounded_and_what_came_before_is_found(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(text_index, "MAX_TERMS", 1_000)
    letters = random.Random(7)  # noqa: S311 - the same in every run
    noise: Any = [" ".join(f"{letters.getrandbits(40):x}" for _ in range(500)) for _ in range(5)]
    index = TextIndex({"0": "the parcel of a customer", **{str(number + 1): text for number, text in enumerate(noise)}})
    assert len(index.terms) == 1_000
    assert set(index.search("parcel")) == {"0"}


def test_an_index_built_from_the_previous_one_splits_new_texts_only_finds_the_same_and_leaves_it_as_it_was(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    rng = random.Random(1)  # noqa: S311 - the same in every run
    said = ["cat", "cats", "dog", "parcel", "customer", "the", "Zürich", "a_b"]
    split: list[str] = []

    def recorded(text: str) -> Any:
        split.append(text)
        return runs(text)

    texts: dict[str, str] = {}
    previous = TextIndex(texts)
    for _ in range(100):
        old = texts
        texts = {uri: text for uri, text in old.items() if rng.random() > 0.2}
        texts |= {str(rng.randrange(12)): " ".join(rng.choices(said, k=rng.randrange(8))) for _ in range(3)}
        split.clear()
        before = {word: previous.search(word) for word in said}
        with monkeypatch.context() as patched:
            patched.setattr(text_index, "runs", recorded)
            index = TextIndex(texts, previous)
        same, gone = old.items() & texts.items(), old.items() - texts.items()
        touched = old.items() ^ texts.items() if len(gone) < len(same) else texts.items()
        assert set(split) == {text for _, text in touched}
        assert {word: previous.search(word) for word in said} == before
        whole = TextIndex(texts)
        assert set(index.terms) == set(whole.terms)
        for query in (*said, "cat dog", "a parcel of the customer"):
            assert index.search(query) == pytest.approx(whole.search(query))
        previous = index


def test_an_index_that_ignores_terms_is_built_anew(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(text_index, "MAX_TERMS", 4)
    previous = TextIndex({"a": "cat dog", "b": "dog", "c": "parcel customer"})
    assert set(previous.search("customer")) == set()
    index = TextIndex({"b": "dog", "c": "parcel customer"}, previous)
    assert set(index.search("parcel")) == {"c"}
