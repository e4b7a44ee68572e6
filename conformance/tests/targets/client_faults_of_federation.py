"""Several servers: which are asked, how results are merged and named, which failures are reported."""

from __future__ import annotations

import time
from collections.abc import Callable

from .client_faults_of_paging import score_of
from .client_library import Client, Federation
from .miniature_transports import Json, SilentError, TransportError


class SearchingServersOnly(Federation):
    def asked(self) -> list[str]:
        return [name for name, client in self.clients.items() if client.searches()]


class AsksUntilItHasEnough(Federation):
    pause = 0.0

    def ask_each(
        self, names: list[str], ask: Callable[[str], None], answers: dict[str, list[Json]], limit: int
    ) -> None:
        for name in names:
            if sum(map(len, answers.values())) < limit:
                super().ask_each([name], ask, answers, limit)
                time.sleep(0 if name in answers else self.pause)


class NextServerAfterAPause(AsksUntilItHasEnough):
    """Where a server failed, it waits a moment before it asks the next one."""

    pause = 0.5


class MergedByScore(Federation):
    def merged(self, found: list[tuple[int, str, Json]]) -> list[tuple[int, str, Json]]:
        return sorted(found, key=lambda hit: -score_of(hit[2]))


class EqualRanksByScore(Federation):
    def merged(self, found: list[tuple[int, str, Json]]) -> list[tuple[int, str, Json]]:
        return sorted(found, key=lambda hit: (hit[0], -score_of(hit[2])))


class LowScoresLeftOut(Federation):
    def merged(self, found: list[tuple[int, str, Json]]) -> list[tuple[int, str, Json]]:
        best = max((score_of(tool) for _, _, tool in found), default=0)
        return super().merged([hit for hit in found if score_of(hit[2]) >= best / 2])


class CutByScoreOfAll(Federation):
    """Those that are left out where there is a limit are the ones with the lowest scores."""

    most = 0

    def search(self, query: str, limit: int) -> Json:
        self.most = limit
        return super().search(query, limit)

    def merged(self, found: list[tuple[int, str, Json]]) -> list[tuple[int, str, Json]]:
        best = sorted(found, key=lambda hit: -score_of(hit[2]))[: self.most]
        return [hit for hit in super().merged(found) if hit in best]


class LowestScoresLeftOut(Federation):
    def merged(self, found: list[tuple[int, str, Json]]) -> list[tuple[int, str, Json]]:
        best = max((score_of(tool) for _, _, tool in found), default=0)
        return super().merged([hit for hit in found if score_of(hit[2]) >= best / 10])


class BareNames(Federation):
    def full_name(self, server: str, tool: Json) -> str:
        return tool["name"]


class NamesJoined(Federation):
    def full_name(self, server: str, tool: Json) -> str:
        return f"{server}__{tool['name']}"


class NamesByResult(Federation):
    """The first tool of a name in each result has it bare."""

    def __init__(self, clients: dict[str, Client]) -> None:
        super().__init__(clients)
        self.taken: set[str] = set()

    def search(self, query: str, limit: int) -> Json:
        self.taken.clear()
        return super().search(query, limit)

    def full_name(self, server: str, tool: Json) -> str:
        name = super().full_name(server, tool) if tool["name"] in self.taken else tool["name"]
        self.taken.add(tool["name"])
        return name


class CallsTheFirstServer(Federation):
    def call(self, name: str, arguments: Json) -> Json:
        return next(iter(self.clients.values())).call(self.named[name][1], arguments)


class CancelledAtTheFirstServer(Federation):
    def cancel(self, search: int) -> None:
        self.under_way[search] = dict(list(self.under_way[search].items())[:1])
        super().cancel(search)


class FailuresUnreported(Federation):
    def outcome(self, tools: list[Json], failed: list[str]) -> Json:
        return {"tools": tools, "failed": []}


class LostServerUnreported(Federation):
    def failed_servers(self, name: str, error: Exception) -> list[str]:
        lost = isinstance(error, TransportError) and not isinstance(error, SilentError)
        return [] if lost else super().failed_servers(name, error)


class SilenceUnreported(Federation):
    def failed_servers(self, name: str, error: Exception) -> list[str]:
        return [] if isinstance(error, SilentError) else super().failed_servers(name, error)


class WaitsForAllAtFirst(Federation):
    def cannot_open(self, name: str, error: TransportError) -> None:
        raise error


class OneFailureFailsAll(Federation):
    def outcome(self, tools: list[Json], failed: list[str]) -> Json:
        return {"tools": [] if failed else tools, "failed": failed}


class NormalizedScoresCompared(Federation):
    """The best tool of each server counts as much, and others by their share of its score."""

    def merged(self, found: list[tuple[int, str, Json]]) -> list[tuple[int, str, Json]]:
        best = {server: score_of(tool) or 1 for rank, server, tool in found if rank == 0}
        return sorted(found, key=lambda hit: -score_of(hit[2]) / best[hit[1]])


class SameNamesByScore(Federation):
    """Of tools that have the same name on several servers, it keeps the one with the highest score."""

    def merged(self, found: list[tuple[int, str, Json]]) -> list[tuple[int, str, Json]]:
        best: dict[str, tuple[int, str, Json]] = {}
        for hit in sorted(found, key=lambda hit: -score_of(hit[2])):
            best.setdefault(hit[2]["name"], hit)
        return super().merged([hit for hit in found if best[hit[2]["name"]] is hit])
