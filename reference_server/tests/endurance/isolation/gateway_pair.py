"""Random requests of a caller to a gateway with more than it sees, and to one with nothing else."""

from __future__ import annotations

import json
import time
from collections import Counter
from collections.abc import Callable, Mapping, Sequence
from contextlib import ExitStack, closing
from dataclasses import dataclass, field
from itertools import chain
from pathlib import Path
from random import Random
from tempfile import TemporaryDirectory
from typing import Any, Final, TypeAlias

from gateways import running_gateway
from isolation.callers import Connection, Era
from isolation.configurations import CALLER, OWNER, Configuration, random_configuration
from tools_search_hosts import qualified_name
from tools_search_server.access.principals import new_token
from tools_search_server.gateway.public_names import public_uri

_PLAIN: Final = ""
_MODES: Final = (_PLAIN, "/meta-tools", "/list-changed")
_META_TOOLS: Final = ("search_tools", "list_tools", "find_by_tags", "get_related_tools", "describe_tools", "call_tool")
_CASES_OF_A_PAIR: Final = 500
_SETTLE_SECONDS: Final = 60
_QUIET_SECONDS: Final = 1
"""Seconds after which no more notifications of a change come; a gateway gathers changes for 0.05 s."""

_SHARE_OF_CHANGES: Final = 0.01
_SHARE_OF_HIDDEN_EVENTS: Final = 0.04
_OPTIONS: Final = (
    "--compat", "meta-tools", "--compat", "list-changed", "--page-size", "3",
    "--default-limit", "3", "--max-limit", "9",
)  # fmt: skip

Request: TypeAlias = tuple[Era, str, str, dict[str, Any]]
"""Era, endpoint, method, parameters."""


@dataclass
class Figures:
    """Outcome."""

    pairs: int = 0
    cases: Counter[str] = field(default_factory=Counter[str])
    """Requests whose answers were compared, by method; `notifications` are looks at all streams."""
    errors: int = 0
    """Answers among them that are errors."""
    hidden_events: int = 0
    """Crashes, changes and requests of others, of which the caller must notice nothing."""
    differences: list[dict[str, Any]] = field(default_factory=list[dict[str, Any]])

    def compare(self, what: str, request: Any, seen: Any, alone: Any) -> None:
        """Count one case, and keep what differs."""
        self.cases[what] += 1
        if seen != alone:
            place = {"pair": self.pairs, "case": self.cases.total()}
            self.differences.append({**place, "request": request, "with others": str(seen), "alone": str(alone)})


def measure(cases: int, seed: int, say: Callable[[str], None], *, seconds: float = 0) -> Figures:
    """Compare the answers to random requests.

    Args:
        cases: At least so many.
        seed: Repeats configurations and requests.
        say: Called with progress and with differences.
        seconds: At least so long.
    """
    figures = Figures()
    until = time.monotonic() + seconds
    while (left := cases - figures.cases.total()) > 0 or time.monotonic() < until:
        rng = Random(f"{seed} {figures.pairs}")  # noqa: S311 - to be repeated, not to be secret
        known = len(figures.differences)
        with TemporaryDirectory() as folder, GatewayPair(random_configuration(rng), Path(folder), rng, figures) as pair:
            pair.compare(min(_CASES_OF_A_PAIR, left) if left > 0 else _CASES_OF_A_PAIR)
        figures.pairs += 1
        say(f"{figures.cases.total():,} cases, {len(figures.differences)} differences")
        for difference in figures.differences[known:]:
            say(json.dumps(difference, indent=1))
    return figures


class GatewayPair:
    """A gateway over a configuration, and one over the part of it that the caller sees.

    Args:
        full: Of the first.
        folder: For files.
        rng: Chooses.
        figures: Where cases are counted, and differences kept.
        alone: Of the second, where that is not the part that the caller sees.
    """

    def __init__(
        self, full: Configuration, folder: Path, rng: Random, figures: Figures, *, alone: Configuration | None = None
    ) -> None:
        self._full, self._rng, self._figures = full, rng, figures
        self._alone = alone or full.part
        self._folder = folder
        self._running = ExitStack()
        self._words = sorted({word for server in full.servers.values() for word in _words_of(server)})
        self._hidden = [name for name in full.servers if full.rule(name) is None and not full.servers[name]["is_down"]]
        self._added: Counter[str] = Counter()
        self._cursors: list[str] = ["after-0123", "junk"]

    def __enter__(self) -> GatewayPair:
        """Start both, and wait until both know their servers."""
        key = self._folder / "key"
        key.write_text(self._rng.randbytes(32).hex(), encoding="ascii")
        tokens = {name: new_token() for name in (CALLER, OWNER)}
        with ExitStack() as starting:
            self._running = starting
            files = (
                self._full.write(self._folder / "full", tokens),
                self._alone.write(self._folder / "part", {CALLER: tokens[CALLER]}),
            )
            options = (*_OPTIONS, "--cursor-key-file", str(key))
            urls = [starting.enter_context(running_gateway(file, *options)).url for file in files]
            self._callers = [starting.enter_context(closing(Connection(url, tokens[CALLER]))) for url in urls]
            self._owner = starting.enter_context(closing(Connection(urls[0], tokens[OWNER])))
            self._settle()
            uris = [public_uri(name, f"note://{word}") for name in self._full.servers for word in ("read", "slow")]
            for mode in _MODES:
                self._figures.compare("initialize", mode, *(caller.open_session(mode) for caller in self._callers))
                self._owner.open_session(mode)
            self._streams = [
                [starting.enter_context(closing(caller.listen(era, mode, uris))) for caller in self._callers]
                for era in ("modern", "legacy")
                for mode in _MODES
            ]
            self._of_owner = starting.enter_context(closing(self._owner.listen("modern", _PLAIN)))
            for stream in (*chain.from_iterable(self._streams), self._of_owner):
                if not stream.began.wait(_SETTLE_SECONDS):
                    raise TimeoutError("a stream of notifications does not begin")
            self._of_owner.forget()
            self._compare_notifications("acknowledged")
            self._running = starting.pop_all()
        return self

    def __exit__(self, *_: object) -> None:
        """Stop both."""
        self._running.close()

    def compare(self, cases: int) -> None:
        """Compare the answers to so many random requests, while things happen that the caller does not see."""
        for _ in range(cases):
            chance = self._rng.random()
            if chance < _SHARE_OF_CHANGES:
                self._change_what_is_seen()
            elif chance < _SHARE_OF_CHANGES + _SHARE_OF_HIDDEN_EVENTS:
                self._happen_unseen()
            self._ask(self._request())
        if self._hidden:
            name = self._hidden[0]
            self._of_owner.forget()
            self._call_as_owner(name, "change")
            _until(lambda: any("tools/list_changed" in notification for notification in self._of_owner.notifications()))
        self._ask(("modern", _PLAIN, "tools/list", {}))
        self._compare_notifications("after what is hidden has changed")

    def _ask(self, request: Request) -> None:
        era, mode, method, params = request
        for caller in self._callers:
            if method == "/healthz":
                caller.send_get(method)
            else:
                caller.send(era, mode, method, params)
        answers = [caller.received() for caller in self._callers]
        self._figures.compare(method, request, *answers)
        self._figures.errors += b'"error":' in answers[0].body or b'"isError":true' in answers[0].body
        if method != "/healthz" and isinstance(cursor := answers[0].result.get("nextCursor"), str):
            self._cursors.append(cursor)

    def _compare_notifications(self, when: str) -> None:
        for streams in self._streams:
            seen, alone = (stream.notifications() for stream in streams)
            self._figures.compare("notifications", when, sorted(seen), sorted(alone))
            for stream in streams:
                stream.forget()

    def _request(self) -> Request:
        rng = self._rng
        era: Era = rng.choice(["modern", "legacy"])
        mode = rng.choices(_MODES, (5, 3, 2))[0]
        kind = rng.choices(
            ["tools/list", "tools/search", "tools/call", "meta", "other", "/healthz"], (3, 5, 4, 4, 5, 1)
        )
        match kind[0]:
            case "tools/list":
                return (era, mode, "tools/list", self._page())
            case "tools/search":
                limit = {"limit": rng.randint(1, 9)} if rng.random() < 0.5 else {}
                return (era, _PLAIN, "tools/search", {"query": self._query(), **limit, **self._page()})
            case "tools/call":
                return (era, mode, "tools/call", {"name": self._tool(), "arguments": self._arguments()})
            case "meta":
                name = rng.choice([*_META_TOOLS, "list_tool_categories"])
                mode = rng.choice(_MODES[1:])
                return (era, mode, "tools/call", {"name": name, "arguments": self._meta_arguments(name)})
            case "other":
                return (era, mode, *self._other_request())
            case other:
                return (era, mode, other, {})

    def _page(self) -> dict[str, Any]:
        return {"cursor": self._rng.choice(self._cursors[-6:])} if self._rng.random() < 0.5 else {}

    def _query(self) -> str:
        if self._rng.random() < 0.1:
            return self._tool()
        return " ".join(self._rng.sample(self._words, self._rng.randint(1, 4)))

    def _server(self) -> str:
        return self._rng.choice(list(self._full.servers))

    def _tool(self) -> str:
        server = self._server()
        tools = [
            tool["name"] for tool in self._full.servers[server]["tools"] if tool["name"] not in ("change", "crash")
        ]
        own = self._rng.choice([*tools, "added_0", "unheard_of"])
        name = qualified_name(server, own)
        if self._rng.random() < 0.2:  # misspelt
            place = self._rng.randrange(len(name))
            name = name[:place] + self._rng.choice("aeiou_") + name[place + 1 :]
        return self._rng.choices([name, own], (9, 1))[0]

    def _arguments(self) -> dict[str, Any]:
        return self._rng.choice([{}, {"path": "a.txt"}, {"query": "x", "limit": 3}])

    def _meta_arguments(self, name: str) -> dict[str, Any]:
        rng = self._rng
        level = {"detail_level": rng.choice(["minimal", "brief", "full"])}
        filters: dict[str, Any] = {
            "category": rng.choice(["history", "secret affairs", "travel", "hystory", "storage"])
        }
        filters |= {"server": self._server(), "tags": rng.sample(["read", "private", f"of {self._server()}"], 2)}
        filters |= {"match_mode": rng.choice(["any", "all"])}
        some = {key: filters[key] for key in rng.sample(sorted(filters), rng.randint(0, 2))}
        match name:
            case "search_tools":
                return {"query": self._query(), **level, **some}
            case "list_tools":
                return level | {key: filters[key] for key in rng.sample(("category", "server"), rng.randint(0, 2))}
            case "find_by_tags":
                return {"tags": filters["tags"], "match_mode": filters["match_mode"]}
            case "describe_tools":
                return {"names": [self._tool() for _ in range(rng.randint(1, 3))]}
            case "get_related_tools":
                return {"name": self._tool()}
            case "call_tool":
                return {"name": self._tool(), "arguments": self._arguments()}
            case _:
                return {}

    def _other_request(self) -> tuple[str, dict[str, Any]]:
        rng, server = self._rng, self._server()
        word = rng.choice(["read", "write", "slow", "private", "beta", "added_0", "rea"])
        own = rng.choice([f"note://{word}", f"{server.replace(' ', '-')}://{word}"])
        uri = rng.choice([public_uri(server, own), own])
        prompt = qualified_name(server, word)
        template = rng.choice([f"{server.replace(' ', '-')}://{{path}}", public_uri(server, own)])
        ref = rng.choice([{"type": "ref/prompt", "name": prompt}, {"type": "ref/resource", "uri": template}])
        choices: Sequence[tuple[str, dict[str, Any]]] = (
            ("prompts/list", self._page()),
            ("resources/list", self._page()),
            ("resources/templates/list", self._page()),
            ("prompts/get", {"name": prompt, "arguments": {"topic": word}}),
            ("resources/read", {"uri": uri}),
            ("completion/complete", {"ref": ref, "argument": {"name": "topic", "value": word}}),
            ("server/discover", {}),
            ("resources/subscribe", {"uri": uri}),
            ("no/such/method", {}),
        )
        return rng.choice(choices)

    def _happen_unseen(self) -> None:
        """Let servers that the caller does not see crash and change, and others search and leave their cursors."""
        self._figures.hidden_events += 1
        if self._hidden and self._rng.random() < 0.6:
            self._call_as_owner(self._rng.choice(self._hidden), self._rng.choice(["crash", "change"]))
            return
        params = {"query": self._query(), "limit": 1}
        for method, own in (("tools/search", params), ("tools/list", {}), ("resources/list", {})):
            cursor = self._owner.asked("modern", _PLAIN, method, own).result.get("nextCursor")
            if isinstance(cursor, str):
                self._cursors.append(cursor)
                if method == "tools/search":
                    self._ask(("modern", _PLAIN, method, {**own, "cursor": cursor}))

    def _call_as_owner(self, server: str, tool: str) -> None:
        self._owner.asked("modern", _PLAIN, "tools/call", {"name": qualified_name(server, tool), "arguments": {}})

    def _change_what_is_seen(self) -> None:
        """Let a server that the caller sees crash or change, and wait until both gateways know."""
        action = self._rng.choice(["crash", "change"])
        rules = {name: rule for name in self._full.servers if (rule := self._full.rule(name)) is not None}
        able = [n for n, rule in rules.items() if rule.shows(action) and not self._full.servers[n]["is_down"]]
        if not able:
            return
        name = self._rng.choice(able)
        self._ask(("modern", _PLAIN, "tools/call", {"name": qualified_name(name, action), "arguments": {}}))
        self._added[name] = self._added[name] + 1 if action == "change" else 0
        self._settle()
        _until(self._are_equal, patient=False)
        self._compare_notifications(f"{action} of {name}")

    def _are_equal(self) -> bool:
        """Return whether the streams hold the same, and nothing is on its way."""
        latest = max(stream.heard for stream in chain.from_iterable(self._streams))
        is_quiet = time.monotonic() - latest > _QUIET_SECONDS
        return is_quiet and all(seen.notifications() == alone.notifications() for seen, alone in self._streams)

    def _settle(self) -> None:
        """Wait until both gateways show every server as it is now."""
        expected = self._expected()
        for caller in self._callers:
            _until(
                lambda caller=caller: (
                    _is_settled(caller) and {kind: _listed(caller, kind) for kind in expected} == expected
                )
            )

    def _expected(self) -> dict[str, set[str]]:
        """Return what the caller is to see, by method and the entries' keys."""
        lists: dict[str, set[str]] = {"tools/list": set(), "prompts/list": set(), "resources/list": set()}
        for name, definition in self._full.part.servers.items():
            rule = self._full.rule(name)
            if definition["is_down"] or rule is None:
                continue
            added = [f"added_{number}" for number in range(self._added[name])]
            tools = [tool["name"] for tool in definition["tools"]] + [name for name in added if rule.shows(name)]
            lists["tools/list"] |= {qualified_name(name, tool) for tool in tools}
            if definition["has_more"]:
                prompts = [prompt["name"] for prompt in definition["prompts"]] + added
                uris = [resource["uri"] for resource in definition["resources"]] + [f"note://{name}" for name in added]
                lists["prompts/list"] |= {qualified_name(name, prompt) for prompt in prompts}
                lists["resources/list"] |= {public_uri(name, uri) for uri in uris}
        return lists


def _is_settled(caller: Connection) -> bool:
    caller.send_get("/healthz")
    return caller.received().messages[0]["starting"] == 0


def _listed(caller: Connection, method: str) -> set[str]:
    member, key = {"tools/list": ("tools", "name"), "prompts/list": ("prompts", "name")}.get(
        method, ("resources", "uri")
    )
    names: set[str] = set()
    params: dict[str, Any] = {}
    while True:
        page = caller.asked("modern", _PLAIN, method, params).result
        names |= {entry[key] for entry in page.get(member, [])}
        if "nextCursor" not in page:
            return names
        params = {"cursor": page["nextCursor"]}


def _until(happened: Callable[[], bool], *, patient: bool = True) -> None:
    """Wait until something has happened in another process.

    Raises:
        TimeoutError: It takes too long, and `patient` is set: what comes next is not worth comparing.
    """
    deadline = time.monotonic() + _SETTLE_SECONDS
    while not happened():
        if time.monotonic() > deadline:
            if patient:
                raise TimeoutError("a gateway does not show its servers as they are")
            return
        time.sleep(0.05)


def _words_of(definition: Mapping[str, Any]) -> Sequence[str]:
    texts = [definition["name"], *(f"{tool['name']} {tool['description']}" for tool in definition["tools"])]
    return [word for text in texts for word in text.replace("_", " ").replace(".", " ").split()]
