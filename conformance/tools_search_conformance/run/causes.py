"""Finds failures in a cell that probably share a cause, so that reports can show it first and group the rest under it.

A check can name its cause itself, or in its message. Otherwise, checks share a cause if they produce the same message,
if their requests, although different, get the same error or for the same reason no response, or if invalid requests are
refused in the same wrong way, in any words; a request that is served is another fault. The same applies to checks
during which the target exits as it does after another check's request, and to checks that find it gone. If earlier
requests change later answers, that is why several checks that name no cause could not be verified. This changes no
status and no verdict.
"""

from __future__ import annotations

import re
from collections.abc import Callable, Hashable, Mapping, Sequence
from dataclasses import replace
from typing import Final

from tools_search_conformance.model import CLIENT_PREFIX, SERVER_PREFIX, Result, grouped
from tools_search_conformance.run.rows import is_base, place_in_order
from tools_search_conformance.wire.record import NO_MESSAGE, OTHER_ID

ENDED: Final = "the target ended in the middle of this check"
"""Start of the message of a check during which the target exited."""

GONE: Final = "the target could not be reached again"
"""Start of the message of a check that could not reach the target any more."""

TIME_OVER: Final = "the time for the whole run was over"
"""Why a cell was not begun."""
NOT_FINISHED: Final = f"not finished when {TIME_OVER}"
"""The whole message of a check for which there was no time, so that no text of a target can be taken for it."""

_CAUSED: Final = ("fail", "warn", "unverified")
"""The likelier causes first: a check that has decided says more than one that could not."""
_ALIKE: Final = 3
"""How many checks must have the same outcome for it to count as one cause."""
_REFUSED_ALIKE: Final = 6
"""The same for refusals defined in the draft, which servers often word alike for different reasons."""
_CURSOR_REFUSED: Final = -32602
_REFUSALS: Final = frozenset({_CURSOR_REFUSED, -32021})
_RULES_OF_ERRORS: Final = {-32020: f"{SERVER_PREFIX}http-name-not-required"}
"""The check whose rule covers an error: if it fails, other checks with this error fail because of it."""

_INSTEAD: Final = f"error {_CURSOR_REFUSED}"
"""End of the message of a check whose invalid request was not refused with this error."""
_PLAINLY_INVALID: Final = f"{SERVER_PREFIX}query-missing"
"""Of the checks of such requests, the one to start with."""

_SEE: Final = re.compile("; see ([a-z-]+)$")
"""End of the message of a check that could not be verified, with the rule of the check that judges why."""

_RULE_OF_LOAD: Final = f"{SERVER_PREFIX}busy-refusal"
"""The check whose rule an error breaks that means that a server is busy, with any code."""

_RULE_OF_IDS: Final = f"{SERVER_PREFIX}id-echoed"
"""The check whose rule responses with the id of another request break."""

_RULE_OF_MESSAGES: Final = f"{SERVER_PREFIX}stdout-messages-only"
_RULE_OF_JSON: Final = f"{SERVER_PREFIX}valid-json"
"""The checks whose rules output that is no message breaks, the likelier cause first."""

_RULES_OF_STATE: Final = (f"{SERVER_PREFIX}refusal-changes-nothing", f"{SERVER_PREFIX}any-sequence")
"""The checks of what a search may change: if one fails, others may have met a server that earlier requests changed."""

_RULE_OF_LIMITS: Final = f"{SERVER_PREFIX}limit-honored"
_TOO_MANY: Final = re.compile(r" limit .* contains \d+ ")
"""The check whose rule a page that is larger than its limit breaks, however the limit was sent, and its message."""

_RULE_OF_PROCESSES: Final = f"{SERVER_PREFIX}cursor-at-every-request"
"""The check that finds several processes that refuse each other's cursors, as if requests changed the server."""
_RULES_BROKEN_AS_WELL: Final = frozenset(
    {*_RULES_OF_STATE, f"{SERVER_PREFIX}concurrent-searches", f"{SERVER_PREFIX}cursor-repeated"}
)
"""The checks that such a server fails for the same reason."""


def with_causes(results: Sequence[Result]) -> tuple[Result, ...]:
    """Return a run's results, in order, each with the check that it is probably a consequence of."""
    causes: dict[int, str] = {}
    for cell in dict.fromkeys(result.cell for result in results):
        open_ = [place for place, result in enumerate(results) if result.cell == cell and result.status in _CAUSED]
        causes |= _causes_in_cell(results, open_)
    return tuple(replace(result, consequence_of=causes.get(place)) for place, result in enumerate(results))


def _causes_in_cell(results: Sequence[Result], open_: Sequence[int]) -> dict[int, str]:
    """Return the causes of the results at the indexes `open_`, for those that have one."""
    by_check = {results[place].check: place for place in open_}
    causes: dict[int, int] = {}
    for place in open_:
        cause = _named_by(results[place])
        if cause is not None and by_check.get(cause, place) != place:
            causes[place] = by_check[cause]
    causes = _causes_of_ends(results, open_) | causes
    for rule, explains in _EXPLAINING.items():
        if (cause := by_check.get(rule)) is not None:
            others = (place for place in open_ if place != cause and explains(results[place], results[cause]))
            causes = dict.fromkeys(others, cause) | causes
    for end_of in (_wrong_refusal_of, _error_of, _message_of):
        for group in _alike(results, open_, end_of):
            plain = [place for place in group if results[place].check == _PLAINLY_INVALID]
            among = plain if plain and end_of is _wrong_refusal_of else group
            first = min(among, key=lambda place: _rank(results[place]))
            for place in group:
                if place != first and first not in causes:
                    causes.setdefault(place, first)
    changed = [by_check[rule] for rule in _RULES_OF_STATE if rule in by_check]
    lost = [place for place in open_ if place not in causes and results[place].status == "unverified"]
    if len(lost) >= _ALIKE and changed and results[changed[0]].status == "fail" and changed[0] not in causes:
        causes |= dict.fromkeys(lost, changed[0])
    return {place: results[_root(place, causes)].check for place in causes if _root(place, causes) != place}


def _named_by(result: Result) -> str | None:
    """Return the check that a result names as its cause, or that the end of its message refers to."""
    referred = _SEE.search(result.message) if result.status == "unverified" else None
    return result.consequence_of or (named(result.check, referred[1]) if referred else None)


def _may_be_of_load(result: Result, cause: Result) -> bool:
    """Return whether a check met the error of a busy server where nobody tried again a little later."""
    error, other = _error_of(result) or (), _error_of(cause) or ()
    untried = result.evidence.catalog is not None or result.check in _RULES_OF_STATE
    return untried and cause.status == "fail" and bool(error) and error[:1] == other[:1]


def _may_be_of_processes(result: Result, cause: Result) -> bool:
    refused = (_error_of(result) or (0,))[0] == _CURSOR_REFUSED and result.status == "unverified"
    return cause.status == "fail" and (refused or result.check in _RULES_BROKEN_AS_WELL)


_EXPLAINING: Final[Mapping[str, Callable[[Result, Result], bool]]] = {
    _RULE_OF_IDS: lambda result, _: OTHER_ID in result.message,
    _RULE_OF_PROCESSES: _may_be_of_processes,
    _RULE_OF_LOAD: _may_be_of_load,
    _RULE_OF_LIMITS: lambda result, cause: cause.status == "fail" and bool(_TOO_MANY.search(result.message)),
    _RULE_OF_MESSAGES: lambda result, _: NO_MESSAGE in result.message,
    _RULE_OF_JSON: lambda result, _: NO_MESSAGE in result.message and result.check != _RULE_OF_MESSAGES,
}
"""The checks whose outcome explains others, and whether it explains one; earlier ones come first."""


def _causes_of_ends(results: Sequence[Result], open_: Sequence[int]) -> dict[int, int]:
    """Return the causes of results that saw the target exit or found it gone."""
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


def _rank(result: Result) -> tuple[float, bool, bool, int, int]:
    """Return the sort key for the cause among similar results: about it, the extension's, worst, earliest.

    If the same request is answered at other times, no request is the reason why some get no response. If the time for
    the run was over, it is the check that was under way.
    """
    under_way = result.milliseconds if result.message == NOT_FINISHED else 0
    error = result.evidence.decisive.error if result.evidence.decisive else None
    rules = _RULES_OF_STATE if error is None else (_RULES_OF_ERRORS.get(error.code), _RULE_OF_LOAD)
    about = result.check in rules
    return -under_way, not about, is_base(result.check), _CAUSED.index(result.status), place_in_order(result.check)


def _alike(
    results: Sequence[Result], open_: Sequence[int], end_of: Callable[[Result], tuple[Hashable, ...] | None]
) -> list[list[int]]:
    groups = grouped((end, place) for place in open_ if (end := end_of(results[place])) is not None)
    return [group for end, group in groups.items() if len(group) >= (_REFUSED_ALIKE if end[0] in _REFUSALS else _ALIKE)]


def _wrong_refusal_of(result: Result) -> tuple[Hashable, ...] | None:
    """Return in which way an invalid request was refused, if not with the error for that."""
    found = result.evidence.decisive
    if found is None or found.result is not None or not result.message.endswith(_INSTEAD):
        return None
    return found.error_code, found.answer.status or found.answer.fault


def _error_of(result: Result) -> tuple[Hashable, ...] | None:
    """Return the error that a request got, or why it got no response."""
    found = result.evidence.decisive
    if found is None or found.error is None:
        return None if found is None or found.replied or not found.answer.fault else (found.answer.fault,)
    return found.error.code, found.error.message


def _message_of(result: Result) -> tuple[Hashable, ...] | None:
    return (result.message,)


def _root(place: int, causes: dict[int, int]) -> int:
    seen = {place}
    while (cause := causes.get(place)) is not None and cause not in seen:
        seen.add(cause)
        place = cause
    return place


def named(check: str, rule: str) -> str:
    """Return the id of the check with a `rule`, for the same party as `check`; an id is returned unchanged."""
    if rule.startswith((SERVER_PREFIX, CLIENT_PREFIX)):
        return rule
    return (CLIENT_PREFIX if check.startswith(CLIENT_PREFIX) else SERVER_PREFIX) + rule
