"""Vectors are kept for the next start, and nothing of a file is taken on trust."""

from __future__ import annotations

import json
import logging
import re
from collections.abc import Callable
from pathlib import Path

import numpy as np
import pytest
from mcp_types import Tool
from tools_search_ranking.semantic import Embedder, SemanticRanker, vectors
from tools_search_ranking.semantic.vectors import VectorFile, VectorStore

from .conftest import SECONDS, Meanings


@pytest.fixture
def tools(make_tool: Callable[..., Tool]) -> list[Tool]:
    return [make_tool("rent_car"), make_tool("send_mail"), make_tool("look")]


def embedded(embedder: Embedder, tools: list[Tool], folder: Path) -> list[str]:
    """Index `tools` in a process that has just started, and return what "limousine" finds."""
    ranker = SemanticRanker(embedder, folder=folder)
    index = ranker(tools)
    assert ranker.settle(SECONDS)
    return [hit.name for hit in index.search("limousine")]


@pytest.fixture
def file(embedder: Embedder, tools: list[Tool], tmp_path: Path) -> Path:
    embedded(embedder, tools, tmp_path / "cache")
    return VectorFile(embedder.name, tmp_path / "cache").path


def test_a_second_start_embeds_one_tool_to_prove_the_file_and_the_query(
    file: Path, meanings: Meanings, embedder: Embedder, tools: list[Tool]
) -> None:
    meanings.texts.clear()
    assert embedded(embedder, tools, file.parent) == ["rent_car"]
    assert meanings.texts == ["rent car", "limousine"]


def test_the_file_is_of_this_user_alone(file: Path) -> None:
    assert file.stat().st_mode & 0o777 == 0o600
    assert [*file.parent.iterdir()] == [file]


def test_what_another_process_kept_meanwhile_stays(
    file: Path, meanings: Meanings, embedder: Embedder, make_tool: Callable[..., Tool], tools: list[Tool]
) -> None:
    embedded(embedder, [make_tool("forecast")], file.parent)
    meanings.texts.clear()
    embedded(embedder, [*tools, make_tool("forecast")], file.parent)
    assert meanings.texts == ["rent car", "limousine"]


def _without_end(content: bytes) -> bytes:
    return content[:-1]


def _with_a_changed_byte(content: bytes) -> bytes:
    return content[:-1] + bytes([content[-1] ^ 1])


def _of_another_embedder(content: bytes) -> bytes:
    return content.replace(b"meanings 1", b"meanings 2")


def _emptied(_content: bytes) -> bytes:
    return b""


def _of_noise(_content: bytes) -> bytes:
    return b"\xff" * 9


def _with_a_huge_count(content: bytes) -> bytes:
    header, _, body = content.partition(b"\n")
    return json.dumps(json.loads(header) | {"count": 10**9}).encode() + b"\n" + body


@pytest.mark.parametrize(
    "spoil",
    [
        _without_end,
        _with_a_changed_byte,
        _of_another_embedder,
        _with_a_huge_count,
        _emptied,
        _of_noise,
    ],
)
def test_a_damaged_or_foreign_file_is_passed_over_and_replaced(
    file: Path,
    spoil: Callable[[bytes], bytes],
    meanings: Meanings,
    embedder: Embedder,
    tools: list[Tool],
    caplog: pytest.LogCaptureFixture,
) -> None:
    good = file.read_bytes()
    file.write_bytes(spoil(good))
    meanings.texts.clear()
    assert embedded(embedder, tools, file.parent) == ["rent_car"]
    assert meanings.texts == ["rent car", "send mail", "look", "limousine"]
    assert "ignoring " in caplog.text
    assert len(VectorFile(embedder.name, file.parent).load()) == 3


def test_a_file_that_others_may_write_is_passed_over(file: Path, caplog: pytest.LogCaptureFixture) -> None:
    file.chmod(0o622)
    with caplog.at_level(logging.WARNING):
        assert VectorFile("meanings 1", file.parent).load() == {}
    assert "others may have written it" in caplog.text


def test_vectors_that_the_embedder_would_not_make_are_not_believed(
    file: Path, meanings: Meanings, embedder: Embedder, tools: list[Tool]
) -> None:
    kept = VectorFile(embedder.name, file.parent)
    kept.save({digest: np.roll(row, 1) for digest, row in kept.load().items()})
    meanings.texts.clear()
    assert embedded(embedder, tools, file.parent) == ["rent_car"]
    assert meanings.texts == ["rent car", "rent car", "send mail", "look", "limousine"]
    meanings.texts.clear()
    embedded(embedder, tools, file.parent)
    assert meanings.texts == ["rent car", "limousine"]


def test_a_folder_that_cannot_be_written_is_done_without_and_logged_once(
    embedder: Embedder, tools: list[Tool], tmp_path: Path, caplog: pytest.LogCaptureFixture
) -> None:
    folder = tmp_path / "taken"
    folder.write_text("a file")
    ranker = SemanticRanker(embedder, folder=folder)
    few = ranker(tools[:1])
    assert ranker.settle(SECONDS)
    all_tools = ranker(tools)  # with more vectors to store
    assert ranker.settle(SECONDS)
    assert [hit.name for hit in few.search("rent car")] == ["rent_car"]
    assert [hit.name for hit in all_tools.search("limousine")] == ["rent_car"]
    [logged] = [record.getMessage() for record in caplog.records]
    assert logged.startswith(f"cannot store vectors in {folder}, so each start makes them again: ")


def test_work_that_takes_long_is_logged_with_what_is_left(
    embedder: Embedder, monkeypatch: pytest.MonkeyPatch, caplog: pytest.LogCaptureFixture
) -> None:
    monkeypatch.setattr(vectors, "_PROGRESS_SECONDS", 0.0)
    store = VectorStore(embedder, None)
    with caplog.at_level(logging.INFO):
        kept = store.entries([f"text {number}" for number in range(20)])
        assert store.settle(SECONDS)
    assert all(entry.row is not None for entry in kept)
    said = [re.sub(r"\d+ s\b", "N s", message) for message in caplog.messages]
    assert said == [
        "embedded 8 of 20 texts; about N s remaining",
        "embedded 16 of 20 texts; about N s remaining",
        "embedded 20 texts in N s: now ranking tools by meaning",
    ]


def test_work_that_takes_a_moment_is_not_logged(embedder: Embedder, caplog: pytest.LogCaptureFixture) -> None:
    store = VectorStore(embedder, None)
    with caplog.at_level(logging.INFO):
        kept = store.entries(["one", "two"])
        assert store.settle(SECONDS)
    assert (len(kept), caplog.messages) == (2, [])
