"""The verdict of a run: a word, what it covers, how many checks were shown to pass, the exit status, and problems."""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterable, Iterator, Mapping, Sequence
from typing import Any, Final, Literal, get_args

from tools_search_conformance.model import CELLS, Cell, Result, Run, SkipReason, Status, UnavailableCell, grouped
from tools_search_conformance.run.causes import NOT_FINISHED, TIME_OVER
from tools_search_conformance.run.rows import is_base, place_in_order
from tools_search_conformance.wire.codec import JsonObject
from tools_search_conformance.wire.display import number_of
from tools_search_conformance.wire.eras import ERAS, TransportName

Group = Literal["MUST", "SHOULD", "ADVICE", "BASE"]
"""Groups of checks in reports: by level, with a separate group for all checks of the base protocol.

Servers and clients usually leave the base protocol to an SDK, so its rules decide nothing about the extension, not even
with `--strict`."""

GROUPS: Final[tuple[Group, ...]] = get_args(Group)

BASE_HEADING: Final = "Base protocol: probably your SDK, not your extension"

PROBLEMS: Final[tuple[Status, ...]] = ("error", "fail", "unverified", "warn")
"""The statuses that every report shows first and in full, worst first; advice is separate."""

EXIT_SUITE: Final = 4
"""The exit status for a fault of the suite itself."""

EXIT_SIGNAL: Final = 128
"""Added to the number of the signal that ended a run."""

_MOST_UNVERIFIED: Final = 0.05
"""Maximum share of a cell's MUST checks that may be unverified in a conclusive verdict on a server."""
_MOST_UNREACHED: Final = 2 / 3
"""Maximum share of them that may need features that the driver lacks."""

_CONFORMANT: Final = "CONFORMANT"
_AS_SHOWN: Final = "CONFORMANT AS FAR AS ITS OWN TOOLS SHOW"
_INCONCLUSIVE: Final = "INCONCLUSIVE"
_STALE: Final = "STALE BASELINE"
_REASONS: Final = 3
"""Maximum number of reasons to show for an inconclusive verdict."""
_IN_PARTS: Final = "Test it in parts, with --cell and --section or --only, or with --effort quick."
_TRANSPORTS: Final[Mapping[TransportName, str]] = {"stdio": "stdio", "http": "HTTP"}
_UNREACHED: Final[Mapping[SkipReason, str]] = {
    "profile": "need the fixture profile",
    "fixture-feature": "need --fixture-features",
    "driver-feature": "need a driver that does more",
    "effort": "need more effort",
}
"""Why a rule that binds the target was not judged, by the reason for skipping. For other reasons, it does not bind."""
_TALLIED: Final[tuple[Status, ...]] = ("pass", "error", "fail", "unverified", "warn", "advice", "skip")


def group_of(result: Result) -> Group:
    """Return the group of a result's check."""
    return "BASE" if is_base(result.check) else result.level


def problems_of(run: Run) -> list[JsonObject]:
    """Return the unexpected problems, without advice, as in `report.json`: each with its consequences.

    Faults of the suite come first, then failed, unverified and unfollowed checks; among these, the ones with the most
    consequences, and then those of earlier rows. A result is only a consequence if its cause is shown too, so that an
    expected failure does not hide other problems.
    """
    shown = [
        result
        for result in run.of(*PROBLEMS)
        if result.expected is None and (result.level != "ADVICE" or result.status == "error")
    ]
    there = {(result.check, result.cell) for result in shown}
    own: dict[str, list[Result]] = {}
    consequences: dict[str, dict[str, list[str]]] = {}
    for result in shown:
        cause = result.consequence_of
        if cause is not None and (cause, result.cell) in there:
            consequences.setdefault(cause, {}).setdefault(result.check, []).append(result.cell.name)
        else:
            own.setdefault(result.check, []).append(result)
    problems: list[JsonObject] = []
    for check, results in own.items():
        following = [{"check": other, "cells": cells} for other, cells in consequences.get(check, {}).items()]
        worst = min((result.status for result in results), key=PROBLEMS.index)
        base = is_base(check) and worst != "error"  # faults of the suite are not shown among those of the SDK
        cells = [result.cell.name for result in results]
        problems.append({"check": check, "status": worst, "base": base, "cells": cells, "consequences": following})

    def place(problem: JsonObject) -> tuple[int, int, int]:
        kind = PROBLEMS.index(problem["status"])
        return kind, -len(problem["consequences"]), place_in_order(problem["check"])

    return sorted(problems, key=place)


def only_base(run: Run) -> bool:
    """Return whether only checks of the base protocol were chosen, so that they decide the verdict."""
    return all(is_base(check.id) for check in run.checks)


def of_client(run: Run) -> bool:
    """Return whether the target is a client."""
    return "clients" in run.target


def _binds(run: Run, result: Result) -> bool:
    """Return whether a result is that of a MUST check among those that decide the verdict."""
    return group_of(result) == ("BASE" if only_base(run) else "MUST") and result.level == "MUST"


def counts_against(run: Run, result: Result) -> bool:
    """Return whether a result, not expected by a baseline, prevents the target from being conformant."""
    if result.expected is not None or (is_base(result.check) and not only_base(run)):
        return False
    if result.status == "unverified":
        # A fixture serves the catalogs that the checks need, so it is to blame for rules that it does not exercise,
        # unless a rate limit blocked the requests, or the run took too long. A client decides for itself when it
        # searches.
        kept_from_it = _is_cut_off(run, result.cell) or _is_not_finished(result)
        to_blame = run.profile == "fixture" and not of_client(run) and not kept_from_it
        counts = to_blame or run.strict
        return counts and (result.level == "MUST" or (result.level == "SHOULD" and run.strict))
    return result.status == "fail" or (result.status == "warn" and run.strict)


def _is_not_finished(result: Result) -> bool:
    return result.status == "unverified" and result.message == NOT_FINISHED


def _is_cut_off(run: Run, cell: Cell) -> bool:
    """Return whether a rate limit refused requests of the cell permanently, or delayed checks."""
    servers = (server for server in run.target.get("servers", ()) if server["transport"] == cell.transport)
    limits = (server["rateLimit"] for server in servers if "rateLimit" in server)
    return any(limit["lasting"] or limit["secondsWaited"] for limit in limits)


def exit_status(run: Run) -> int:
    """Return the exit status of a run.

    0 means conformant, 1 not conformant, 3 that an expected cell could not be run or was inconclusive, 4 that the suite
    itself failed. If a signal interrupted the run, the status is 128 plus its number.
    """
    if run.interrupted is not None:
        return EXIT_SIGNAL + run.interrupted
    if run.of("error"):
        return EXIT_SUITE
    if run.stale or any(counts_against(run, result) for result in run.results):
        return 1
    return 3 if any(entry.expected for entry in run.unavailable) or inconclusive_cells(run) else 0


def inconclusive_cells(run: Run) -> dict[Cell, tuple[int, int]]:
    """Return the inconclusive cells, each with how many of how many MUST checks are open.

    A cell is inconclusive if more than a twentieth of the checks that apply could not be verified, for a client if any
    could not, if the time for the run was over before all were finished, or if more than two thirds need features that
    the driver lacks. An ordinary server with its own tools leaves none open. A list that changes during comparisons
    leaves about a seventh, and a server that finds at most one tool, or only exact names, a fifth or more. A client
    that searches leaves none open, with any catalog.
    """
    cells: dict[Cell, tuple[int, int]] = {}
    for cell in run.cells:
        binding = [result for result in run.results if result.cell == cell and _binds(run, result)]
        applied = [result for result in binding if result.status != "skip" and result.expected is None]
        unverified = sum(result.status == "unverified" for result in applied)
        unreached = sum(result.skip == "driver-feature" for result in binding)
        allows_none = of_client(run) or any(map(_is_not_finished, applied))
        both = len(applied) + unreached
        if unreached > _MOST_UNREACHED * both and not run.partial:
            cells[cell] = unverified + unreached, both
        elif unverified > (0 if allows_none else _MOST_UNVERIFIED * len(applied)):
            cells[cell] = unverified, len(applied)
    return cells


def tally(run: Run, cell: Cell, group: Group) -> Counter[Status]:
    """Count the statuses of one group in one cell, in the order in which reports show them."""
    counts = Counter(result.status for result in run.results if result.cell == cell and group_of(result) == group)
    return Counter({status: counts[status] for status in _TALLIED if counts[status]})


def target_text(target: Mapping[str, Any]) -> str:
    """Return the addresses or commands of a run's target, and how its rate limit affected the run."""
    targets: list[dict[str, Any]] = target.get("servers") or target["clients"]
    return "; ".join(map(_target_text, targets))


def _target_text(target: Mapping[str, Any]) -> str:
    text, limit = str(target.get("url") or " ".join(target["argv"])), target.get("rateLimit")
    if limit is None:
        return text
    refused = number_of(limit["refused"], "request")
    return f"{text} (it refused {refused} with HTTP 429 or 503, and the run waited {limit['secondsWaited']:g} s for it)"


def verdict_of(run: Run) -> JsonObject:
    """Return the verdict of a run as in `report.json`. Every report shows these facts and no others."""
    status, binding = exit_status(run), _binding(run)
    refused = [entry for entry in run.unavailable if not entry.expected]
    missing = [entry for entry in run.unavailable if entry.expected]
    tried = {cell.transport for cell in (*run.cells, *(entry.cell for entry in run.unavailable))}
    unchosen = [cell for cell in CELLS if cell.transport in tried and cell not in run.asked]
    spoken = {cell.era for cell in run.cells}
    eras = [era for era in ERAS if era in spoken]
    word = _word(run, status)
    only = f" for {eras[0]} only" if len(eras) == 1 and word in (_CONFORMANT, _AS_SHOWN) else ""
    scope = _scope(run, {"not offered": [entry.cell for entry in refused], "not chosen": unchosen})
    headline = f"{word}{only} ({'; '.join(scope)})"
    reasons = [] if run.interrupted is None else [f"signal {run.interrupted} ended the run"]
    if word == _STALE:
        reasons += run.stale
    elif word == _INCONCLUSIVE:
        found = ", ".join(f"{some} of {all_} in {cell.name}" for cell, (some, all_) in inconclusive_cells(run).items())
        too_many = "" if of_client(run) or any(map(_is_not_finished, run.results)) else "too many "
        kind = "base-protocol" if only_base(run) else "MUST"
        reasons.append(f"{too_many}{kind} checks could not be verified ({found})")
    if missing:
        reasons.append(f"{', '.join(entry.cell.name for entry in missing)} could not be run")
    left_out = [{"cell": cell.name, "reason": "not chosen", "chosen": False} for cell in unchosen]
    return {
        "word": word,
        "headline": headline,
        "sentence": f"{headline}: {'; '.join([*reasons, _counts(run, binding)])}",
        "exitStatus": status,
        "profile": run.profile,
        "transports": [name for name in _TRANSPORTS if any(cell.transport == name for cell in run.cells)],
        "eras": eras,
        "methods": list(run.methods),
        "leftOut": [*map(_unavailable, refused), *left_out],
        "missing": [*map(_unavailable, missing)],
        "binding": binding,
        "baseFailed": 0 if only_base(run) else len({r.check for r in run.of("fail", "warn") if group_of(r) == "BASE"}),
        "next": [*_next(run, word, missing)],
        "partial": run.partial,
        "baseDecides": only_base(run),
        "strict": run.strict,
    }


def _unavailable(entry: UnavailableCell) -> JsonObject:
    return {"cell": entry.cell.name, "reason": entry.reason, "chosen": True}


def _word(run: Run, status: int) -> str:
    match status:
        case 0:
            return _success(run)
        case 1 if run.stale and not any(counts_against(run, result) for result in run.results):
            return _STALE
        case 1:
            return "BASE PROTOCOL NOT FOLLOWED" if only_base(run) else "NOT CONFORMANT"
        case 3 if not any(entry.expected for entry in run.unavailable):
            return _INCONCLUSIVE
        case _:
            return "NO VERDICT" if run.interrupted is None else "INTERRUPTED, NO VERDICT"


def _success(run: Run) -> str:
    excused = [result for result in run.results if result.expected is not None and group_of(result) != "BASE"]
    if any(result.level == "MUST" or run.strict for result in excused):
        return "NO WORSE THAN THE BASELINE"
    if run.partial:
        return "PASSED, BUT NOT EVERY CHECK WAS CHOSEN"
    if run.effort == "quick" and any(result.skip == "effort" for result in run.results):
        return "PASSED, BUT --effort quick LEAVES CHECKS OUT"
    return _AS_SHOWN if run.profile == "live" else _CONFORMANT


def _scope(run: Run, without: Mapping[str, Sequence[Cell]]) -> list[str]:
    """Return what a verdict covers: profile, transports and eras, which eras it is `without` and why, and the methods.

    Methods are named unless `tools/search` is the only one.
    """
    how = f"{run.profile} profile"
    if clients := run.target.get("clients"):
        how = "one-shot" if clients[0].get("oneShot") else "through its driver"
    eras: dict[str, list[str]] = {}
    for transport, name in _TRANSPORTS.items():
        spoken = [cell.era for cell in run.cells if cell.transport == transport]
        if spoken:
            eras.setdefault(" and ".join(sorted(spoken, reverse=True)), []).append(name)
    if len(eras) == 1:
        ((both, transports),) = eras.items()
        covered = [" and ".join(transports), both]
    else:
        covered = [f"{' and '.join(names)} {both}" for both, names in eras.items()]
    judged = {cell.era for cell in run.cells}
    for why, cells in without.items():
        whole = [era for era in ERAS if era not in judged and any(cell.era == era for cell in cells)]
        some = [f"{cell.era} over {_TRANSPORTS[cell.transport]}" for cell in cells if cell.era in judged]
        if cells:
            covered.append(f"{' and '.join([*whole, *some])} {why}")
    if len(run.methods) > 1:
        covered.append(", ".join(run.methods))
    return [*(["--strict"] if run.strict else []), how, *(covered or ["nothing was run"])]


def _binding(run: Run) -> JsonObject:
    """Count the extension's MUST checks by their worst outcome in any cell.

    A check counts as shown if it passed in every cell where it applies, and as a consequence if it failed because of
    another check in every cell where it failed.
    """
    by_check = grouped((result.check, result) for result in run.results if _binds(run, result))
    counts, why = Counter[str](), Counter[str]()
    for results in by_check.values():
        statuses = {result.status for result in results if result.expected is None}
        # If the target does not offer the optional part in one cell, the rule binds in none.
        offered = all(result.skip != "not-offered" for result in results)
        reasons = [_UNREACHED[result.skip] for result in results if offered and result.skip in _UNREACHED]
        if "error" in statuses:
            why["hit a fault of the suite"] += 1
        elif "fail" in statuses:
            counts["failed"] += 1
            failed = [result for result in results if result.status == "fail" and result.expected is None]
            counts["consequences"] += all(result.consequence_of is not None for result in failed)
        elif "unverified" in statuses:
            why["could not be verified"] += 1
        elif any(result.expected is not None for result in results):
            counts["expected"] += 1
        elif "pass" in statuses:
            counts["shown"] += 1
        elif reasons:
            why[reasons[0]] += 1
    total = counts["shown"] + counts["failed"] + counts["expected"] + why.total()
    counted = {name: counts[name] for name in ("shown", "failed", "consequences", "expected")}
    return {**counted, "notShown": why.total(), "whyNotShown": dict(why.most_common()), "total": total}


def _counts(run: Run, binding: Mapping[str, Any]) -> str:
    """Return the numbers of checks in words, counting each check by its worst result in any cell."""
    alone = only_base(run)
    own = [result for result in run.results if alone or group_of(result) != "BASE"]
    base = [result for result in run.results if not alone and group_of(result) == "BASE"]

    def checks(results: Iterable[Result], status: Status) -> set[str]:
        return {result.check for result in results if result.status == status and result.expected is None}

    def texts(*counted: tuple[int, str, str]) -> list[str]:
        return [f"{number_of(number, thing)} {outcome}" for number, thing, outcome in counted if number]

    failed, consequences, shown = binding["failed"], binding["consequences"], binding["shown"]
    kind = "base-protocol check" if alone else "MUST check"
    following = f", {consequences} of them probably because of others" if consequences else ""
    errors = len({result.check for result in run.of("error")})
    parts = texts((errors, "check", "hit a fault of the suite"), (failed, kind, f"failed{following}"))
    if binding["total"]:
        why = ", ".join(f"{number} {reason}" for reason, number in binding["whyNotShown"].items())
        parts.append(f"{shown if failed else number_of(shown, kind)} shown")
        parts.append(f"{binding['notShown']} not shown{f' ({why})' if why else ''}")
    else:
        parts += texts((len(checks(own, "pass")), "check", "passed"))
    recommended = [result for result in own if result.level == "SHOULD" and run.strict]
    excused = {result.check for result in own if result.expected is not None}
    broken, warned = checks(base, "fail"), checks(base, "warn")
    parts += texts(
        (len(checks(own, "warn")), "recommendation", "not followed"),
        (len(checks(recommended, "unverified")), "recommendation", "could not be verified"),
        (len(excused), "check", "did not pass, as the baseline expects"),
        (len(checks(own, "advice")), "piece", "of advice not taken"),
        (len(broken), "base-protocol check", "failed, which does not count"),
        (len(warned - broken), "base-protocol recommendation", "not followed, which does not count"),
    )
    return ", ".join(parts) or "no check applies"


def _next(run: Run, word: str, missing: Iterable[UnavailableCell]) -> Iterator[str]:
    """Yield sentences on what to do about problems."""
    if run.interrupted is not None:
        yield "Run it again. --effort quick, or --only with fewer checks, takes less time."
        return
    for result in run.of("error")[:1]:
        yield f"Please report this fault of the suite, with what wire/{result.cell.name}.jsonl has for {result.check}."
    yield from _next_of_missing(run, missing)
    if word == _INCONCLUSIVE:
        yield from _next_of_unverified(run)
    first = next(iter(problems_of(run)), None)
    is_explained = word == _INCONCLUSIVE or any(entry.reason == TIME_OVER for entry in missing)
    if first is not None and first["consequences"] and not is_explained:
        follow = number_of(len(first["consequences"]), "other check")
        yield f"Start with {first['check']}. It is probably why {follow} did not pass."
    if word == _STALE:
        yield "Remove these entries from the baseline, or give them a later date."


def _next_of_missing(run: Run, missing: Iterable[UnavailableCell]) -> Iterator[str]:
    by_reason = grouped((entry.reason, entry.cell) for entry in missing)
    for reason, cells in by_reason.items():
        logs = ", ".join(f"wire/{cell.name}.jsonl" for cell in cells)
        what = _IN_PARTS if reason == TIME_OVER else f"For the messages, see {logs}."
        yield f"{', '.join(cell.name for cell in cells)}: {reason}. {what}"
    broken = {cell.era for cells in by_reason.values() for cell in cells}
    for era in ERAS if broken else ():
        if era not in broken and any(cell.era == era for cell in run.cells):
            yield f"To test {era} alone, pass --era {era}. The verdict then says so."


def _next_of_unverified(run: Run) -> Iterator[str]:
    open_ = ((result.message, result.check) for result in run.of("unverified") if _binds(run, result))
    messages = grouped(dict.fromkeys(open_))
    for message, checks in sorted(messages.items(), key=lambda entry: -len(entry[1]))[:_REASONS]:
        yield f"{number_of(len(checks), 'check')}: {message}"
    if NOT_FINISHED in messages:
        yield _IN_PARTS
        return
    if any(_is_cut_off(run, cell) for cell in run.cells):
        return
    if of_client(run):
        yield (
            "Have the client search whenever it is asked to find tools, even if it could list them instead, and"
            " implement every operation of the driver. To read how: tools-search-conformance docs driver."
        )
        return
    yield (
        "Give the server tools that searches can find and that do not change, or have it serve the suite's catalogs"
        " without --profile live. To read how: tools-search-conformance docs suite."
    )
