"""The index of the default ranking: raw frequencies and lengths, without statistics that hidden tools could influence.

    Documents    tools as bags of weighted words; immutable
    _Analysis    converts definitions to postings: the main cost of indexing

Adding and removing tools makes a new `Documents`, at the cost of these tools and a few passes over the arrays. It
answers exactly like an index made from all its tools at once.
"""

from __future__ import annotations

from array import array
from bisect import bisect_left
from collections.abc import Collection, Iterable, Sequence
from dataclasses import dataclass
from typing import Final, NamedTuple

import numpy as np
from mcp_ext_tools_search.ranking.fields import KINDS, MAX_TEXT_LENGTH, MEMBERS, STEPS, fields
from mcp_ext_tools_search.ranking.floor import terms
from mcp_ext_tools_search.ranking.language import MAX_WORD_LENGTH, runs, words, words_of
from mcp_ext_tools_search.ranking.query import WRITTEN, index_terms
from mcp_ext_tools_search.ranking.simple import MAX_COUNTED
from mcp_types import Tool
from numpy.typing import NDArray

from tools_search_ranking.postings import MAX_SLOTS, MAX_TERMS, TERM_BITS, Postings, entries_of, joined, ragged
from tools_search_ranking.vocabulary import NO_STEM, Vocabulary, term_key

_NAME_BIT: Final = 1 << MEMBERS.index("name")

_MIN_TIDIED: Final = 256
"""Minimum number of unused terms to remove."""

_BATCH: Final = 512
"""Number of tools to count at a time, so that their words fit in a processor's cache."""

_ALPHANUMERIC: Final = bytes(own if chr(own).isalnum() and own < 128 else ord(" ") for own in range(256))
"""Keeps the letters and digits of ASCII text. `split` then gives the same runs as `runs`, but much faster."""

_KIND_BITS: Final = (len(KINDS) - 1).bit_length()
_KIND_MEMBERS: Final = np.array([1 << MEMBERS.index(member) for member, _ in KINDS], dtype=np.int64)
_KIND_STEPS: Final = np.array([weight * STEPS for _, weight in KINDS], dtype=np.int64)


@dataclass(frozen=True, slots=True)
class Documents:
    """Tools as bags of weighted words. Each tool has a slot: its position in the order of names."""

    vocabulary: Vocabulary
    names: Sequence[str]
    """The tools' names, by slot."""

    postings: Postings
    lengths: NDArray[np.float64]
    """The total weight of a tool's words other than stop words, by slot."""

    name_slots: NDArray[np.int32]
    name_terms: NDArray[np.int32]
    """The stems in the names, and words without a stem, in the order of their numbers, each with the tool's slot."""

    containing: NDArray[np.int64]
    """The number of tools that have a term, by term number."""

    @classmethod
    def of(cls, tools: Sequence[Tool]) -> Documents:
        """Index `tools`, whose names must be unique. Their order does not matter.

        Raises:
            ValueError: There are more tools, or more words, than one index can hold.
        """
        none = np.zeros(0, dtype=np.int32)
        return cls(Vocabulary(), [], joined([]), np.zeros(0), none, none, none.astype(np.int64)).updated([], tools)

    def slot(self, name: str) -> int | None:
        """Return the slot of the tool named `name`, or `None`."""
        place = bisect_left(self.names, name)
        return place if place < len(self.names) and self.names[place] == name else None

    def mask(self, names: Collection[str]) -> NDArray[np.bool_]:
        """Return by slot whether the tool's name is in `names`."""
        return np.fromiter(map(names.__contains__, self.names), np.bool_, len(self.names))

    def updated(self, removed: Collection[str], added: Sequence[Tool]) -> Documents:
        """Return an index without the tools named in `removed` and with `added`, which may reuse the removed names.

        Raises:
            ValueError: There are more tools, or more words, than one index can hold.
        """
        gone = sorted({slot for name in removed if (slot := self.slot(name)) is not None}, reverse=True)
        names, count = list(self.names), len(self.names) - len(gone) + len(added)
        if count > MAX_SLOTS:
            raise ValueError(f"one index holds at most {MAX_SLOTS} tools")
        for slot in gone:
            del names[slot]
        added = sorted(added, key=lambda tool: tool.name)
        for tool in added:
            names.insert(bisect_left(names, tool.name), tool.name)
        own_slots = np.array([bisect_left(names, tool.name) for tool in added], dtype=np.int64)
        new_slots = np.full(len(self.names), -1, dtype=np.int64)
        new_slots[np.delete(np.arange(len(new_slots)), gone)] = np.delete(np.arange(count), own_slots)
        with self.vocabulary.lock:
            analysis = _Analysis(self.vocabulary)
            parts = [
                analysis.of(added[at : at + _BATCH], own_slots[at : at + _BATCH]) for at in range(0, len(added), _BATCH)
            ]
        new = joined([part.postings for part in parts])
        postings = self.postings.moved(new_slots).with_added(new) if len(self.names) else new
        new_stems = np.concatenate([self.name_terms[:0], *(part.name_terms for part in parts)])
        named = np.concatenate([self.name_slots[:0], *(part.name_slots for part in parts)])[new_stems.argsort()]
        new_stems.sort()
        moved, lengths = new_slots[self.name_slots], np.empty(count)
        stems = self.name_terms[moved >= 0]
        lengths[new_slots[new_slots >= 0]] = self.lengths[new_slots >= 0]
        lengths[own_slots] = np.concatenate([np.zeros(0), *(part.lengths for part in parts)])
        return Documents(
            vocabulary=self.vocabulary,
            names=names,
            postings=postings,
            lengths=lengths,
            name_slots=np.insert(moved[moved >= 0], stems.searchsorted(new_stems), named).astype(np.int32),
            name_terms=np.insert(stems, stems.searchsorted(new_stems), new_stems),
            containing=postings.containing(len(self.vocabulary)),
        )._tidied()

    def _tidied(self) -> Documents:
        """Return the index without unused terms, if there are many.

        This limits the wasted memory of a catalog that keeps changing, with new words each time.
        """
        is_used = self.containing > 0
        used = int(np.count_nonzero(is_used))
        if len(self.containing) - used <= max(_MIN_TIDIED, used // 2):
            return self
        new_terms = np.cumsum(is_used) - 1
        return Documents(
            vocabulary=self.vocabulary.subset(is_used),
            names=self.names,
            postings=self.postings.renumbered(new_terms),
            lengths=self.lengths,
            name_slots=self.name_slots,
            name_terms=new_terms[self.name_terms].astype(np.int32),
            containing=self.containing[is_used],
        )


class _Analyzed(NamedTuple):
    """A few tools, ready to be added to an index. The attributes are those of `Documents`."""

    postings: Postings
    lengths: NDArray[np.float64]
    name_slots: NDArray[np.int32]
    name_terms: NDArray[np.int32]


class _Analysis(dict[str | bytes, int]):
    """Numbers the distinct runs of letters and digits, so that each run's words are looked up once for many tools.

    The caller must hold the lock of the vocabulary, which receives the words.
    """

    def __init__(self, vocabulary: Vocabulary) -> None:
        super().__init__()
        self._vocabulary = vocabulary
        self._words = array("q")
        self._ends = array("q", [0])
        """The start of each run's words, and the end of the last run's."""

    def __missing__(self, key: str | bytes) -> int:
        number = self[key] = len(self)
        run = key if isinstance(key, str) else key.decode()
        if run.startswith(term_key("")):
            self._words.append(self._vocabulary.add_key(run))
        else:
            self._words.extend(map(self._vocabulary.add, words_of(run)))
            if len(run) > MAX_WORD_LENGTH and run.isascii():  # the draft's terms have no maximum length
                self._words.append(self._vocabulary.add_key(term_key(run.casefold())))
        self._ends.append(len(self._words))
        return number

    def of(self, tools: Sequence[Tool], slots: NDArray[np.int64]) -> _Analyzed:
        """Analyze a few tools with these slots.

        Raises:
            ValueError: There are more words than one index can hold.
        """
        found, texts = self._words_of(tools)
        places, kinds = np.divmod(texts, len(KINDS))
        stem_of = np.frombuffer(self._vocabulary.stems[:], dtype=np.int32)
        has_stem = stem_of[found] != NO_STEM
        # A word without a stem forms its own group.
        by_word = _Sums.of(places, np.where(has_stem, stem_of[found], found), found, kinds)
        by_stem = by_word.over(TERM_BITS)
        in_name = by_stem.members & _NAME_BIT > 0
        # One posting for each word of a tool, and one more for each stem with several words.
        several = by_stem.counts > 1
        owners = np.where(np.repeat(several, by_stem.counts), by_word.terms, np.repeat(by_stem.terms, by_stem.counts))
        stem_slots = slots[by_stem.keys >> TERM_BITS]
        of_words = entries_of(slots[by_word.keys >> 2 * TERM_BITS], by_word.steps, by_word.members)
        of_stems = entries_of(stem_slots, by_stem.steps, by_stem.members)
        united = by_stem.terms[several]
        return _Analyzed(
            postings=Postings.of(
                np.append(owners, united), np.append(by_word.terms, united), np.append(of_words, of_stems[several])
            ),
            lengths=np.bincount(places, has_stem * _KIND_STEPS[kinds], len(tools)) / STEPS,
            name_slots=stem_slots[in_name].astype(np.int32),
            name_terms=by_stem.terms[in_name].astype(np.int32),
        )

    def _words_of(self, tools: Sequence[Tool]) -> tuple[NDArray[np.int64], NDArray[np.int64]]:
        """Return the words of the tools, as written, each with a number for its tool and kind of text."""
        numbers, texts, counts = array("q"), array("q"), array("q")
        for place, tool in enumerate(tools):
            read: list[tuple[int, Iterable[str | bytes]]] = []
            for field in fields(tool):
                plain = " ".join(field.texts)
                if not plain.isascii():
                    # Non-ASCII text is slow to read, so ASCII texts in the same field are read separately.
                    read += [(field.kind, runs(text)) for text in field.texts if not text.isascii()]
                    plain = " ".join(filter(str.isascii, field.texts))
                read.append((field.kind, plain.encode().translate(_ALPHANUMERIC).split()))
            # The texts that the draft's matching floor applies to, each with its kind.
            for kind, text in (0, tool.name), (1, tool.title or ""), (2, tool.description or ""):
                if not text.isascii() or len(text) > MAX_TEXT_LENGTH:
                    read.append((kind, _unread_terms(text)))
            for kind, own in read:
                before = len(numbers)
                numbers.extend(map(self.__getitem__, own))
                texts.append(place * len(KINDS) + kind)
                counts.append(len(numbers) - before)
        all_runs, ends = np.array(numbers, dtype=np.int64), np.array(self._ends, dtype=np.int64)
        lengths = ends[all_runs + 1] - ends[all_runs]
        text_of_run = np.repeat(np.array(texts, dtype=np.int64), counts)
        found = np.array(self._words, dtype=np.int64)[ragged(ends[all_runs], lengths)]
        return found, np.repeat(text_of_run, lengths)


def _unread_terms(text: str) -> list[str]:
    """Return the keys of the draft's terms in `text` that the ranking does not store as written words."""
    read = frozenset(words(text[:MAX_TEXT_LENGTH]))
    unread = [
        term for term in dict.fromkeys(terms(text)) if term not in read or WRITTEN + term not in index_terms(term)
    ]
    return list(map(term_key, unread))


class _Sums(NamedTuple):
    """Frequencies and members of words, or of stems, in tools, sorted by key."""

    keys: NDArray[np.int64]
    """The position of a tool, the number of a stem, and, in sums over words, the number of a word with that stem."""

    counts: NDArray[np.int64]
    """The number of items in each sum."""

    steps: NDArray[np.int64]
    """Frequencies, in `STEPS`."""

    members: NDArray[np.int64]
    """The members, as bits."""

    @classmethod
    def of(
        cls, places: NDArray[np.int64], stems: NDArray[np.int64], words: NDArray[np.int64], kinds: NDArray[np.int64]
    ) -> _Sums:
        """Return the sums over words, given the position of each word's tool, its stem and its kind of text."""
        ordered = np.sort(((places << TERM_BITS | stems) << TERM_BITS | words) << _KIND_BITS | kinds)
        keys, _, counts = _distinct(ordered)
        own_kinds = keys & ((1 << _KIND_BITS) - 1)
        steps = np.minimum(counts, MAX_COUNTED) * _KIND_STEPS[own_kinds]
        return cls(keys, counts, steps, _KIND_MEMBERS[own_kinds]).over(_KIND_BITS)

    def over(self, bits: int) -> _Sums:
        """Combine the sums of all keys that differ only in their last `bits` bits."""
        keys, starts, counts = _distinct(self.keys >> bits)
        return _Sums(keys, counts, np.add.reduceat(self.steps, starts), np.bitwise_or.reduceat(self.members, starts))

    @property
    def terms(self) -> NDArray[np.int64]:
        """The numbers of the words, or of the stems."""
        return self.keys & (MAX_TERMS - 1)


def _distinct(ordered: NDArray[np.int64]) -> tuple[NDArray[np.int64], NDArray[np.intp], NDArray[np.int64]]:
    """Return the distinct values of sorted numbers, the start of each, and its number of occurrences."""
    starts = np.flatnonzero(np.diff(ordered, prepend=-1))
    return ordered[starts], starts, np.diff(starts, append=len(ordered))
