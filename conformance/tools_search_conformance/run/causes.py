"""Which failures of a cell probably have one cause, so that reports can show it first and fold the rest under it.

A check may name its cause itself. Beyond that, checks that come to the same message, or whose requests, different as
they are, get the same error, are taken to have one. So are those that see the target end by itself as it does after
the very request of another check, and those that find it gone. It changes no status and no verdict.
"""

from __future__ import annotations

from collections.abc import Callable, Hashable, Sequence
from dataclasses import replace
from typing import Final

from tools_search_conformance.model import CLIENT_PREFIX, SERVER_PREFIX, Result
from tools_search_conformance.run.rows import is_base, place_in_order

ENDED: Final = "the target ended in the middle of this check"
"""Beginning of the message of a check during which the target ended by itself."""

GONE: Final = "the target could not be reached again"
"""Beginning of the message of a check that found no target any more."""

_CAUSED: Final = frozenset({"fail", "warn", "unverified"})
_ALIKE: Final = 3
"""How many checks must come to the same end for it to have one cause."""
_REFUSED_ALIKE: Final = 6
"""The same, where the end is a refusal that the draft knows, which servers often word alike for different reasons."""
_REFUSALS: Final = frozenset({-32602, -32021})
_RULES_OF_ERRORS: Final = {-32020: f"{SERVER_PREFIX}http-name-not-required"}
"""The check whose rule an error is about: where it fails, others that get this error fail because of it."""


def with_causes(results: Sequence[Result]) -> tuple[Result, ...]:
    """Return the results of a run, in their order, with the check that each is probably a consequence of."""
    causes: dict[int, str] = {}
    for cell in dict.fromkeys(result.cell for result in results):
        open_ = [place for place, result in enumerate(results) if result.cell == cell and result.status in _CAUSED]
        causes |= _causes_in_cell(results, open_)
    return tuple(replace(result, consequence_of=causes.get(place)) for place, result in enumerate(results))


def _causes_in_cell(results: Sequence[Result], open_: Sequence[int]) -> dict[int, str]:
    """Return the cause of each of the results at the places `open_`, where it has one."""
    by_check = {results[place].check: place for place in open_}
    causes: dict[int, int] = {}
    for place in open_:
        named = results[place].consequence_of
        if named is not None and by_check.get(named, place) != place:
            causes[place] = by_check[named]
    causes = _causes_of_ends(results, open_) | causes
    for end_of in (_error_of, _message_of):
        for group in _alike(results, open_, end_of):
            first = min(group, key=lambda place: _rank(results[place]))
            for place in group:
                if place != first and first not in causes:
                    causes.setdefault(place, first)
    return {place: results[_root(place, causes)].check for place in causes if _root(place, causes) != place}


def _causes_of_ends(results: Sequence[Result], open_: Sequence[int]) -> dict[int, int]:
    """Return the cause of results that saw the target end, or found it gone."""
    causes: dict[int, int] = {}
    ended = [place for place in open_ if results[place].message.startswith(ENDED)]
    for place in ended:
        how = f"({results[place].message.removeprefix(f'{ENDED}: ')})"
        found = [other for other in open_ if results[other].status == "fail" and how in results[other].message]
        if found:
            causes[place] = min(found, key=lambda each: _rank(results[each]))
    for place in open_:
        if ended and place > ended[0] and results[place].message.startswith(GONE):
            causes[place] = ended[0]
    return causes


def _rank(result: Result) -> tuple[bool, bool, bool, int]:
    """Return what makes a result the cause of alike ones: it is about the error, the extension's, red, asked first."""
    error = result.evidence.decisive.error if result.evidence.decisive else None
    about = error is not None and _RULES_OF_ERRORS.get(error.code) == result.check
    return not about, is_base(result.check), result.status != "fail", place_in_order(result.check)


def _alike(
    results: Sequence[Result], open_: Sequence[int], end_of: Callable[[Result], tuple[Hashable, ...] | None]
) -> list[list[int]]:
    groups: dict[tuple[Hashable, ...], list[int]] = {}
    for place in open_:
        if (end := end_of(results[place])) is not None:
            groups.setdefault(end, []).append(place)
    return [group for end, group in groups.items() if len(group) >= (_REFUSED_ALIKE if end[0] in _REFUSALS else _ALIKE)]


def _error_of(result: Result) -> tuple[Hashable, ...] | None:
    error = result.evidence.decisive.error if result.evidence.decisive else None
    return None if error is None else (error.code, error.message)


def _message_of(result: Result) -> tuple[Hashable, ...] | None:
    return (result.message,)


def _root(place: int, causes: dict[int, int]) -> int:
    seen = {place}
    while (cause := causes.get(place)) is not None and cause not in seen:
        seen.add(place := cause)
    return place


def named(check: str, rule: str) -> str:
    """Return the id of the check with a `rule` that a check of the same party names; an id stays as it is."""
    if rule.startswith((SERVER_PREFIX, CLIENT_PREFIX)):
        return rule
    return (CLIENT_PREFIX if check.startswith(CLIENT_PREFIX) else SERVER_PREFIX) + rule
