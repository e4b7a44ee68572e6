"""Random configurations of a gateway, with the part that one caller sees as a configuration of its own."""

from __future__ import annotations

import json
import sys
from collections.abc import Mapping, Sequence
from copy import deepcopy
from dataclasses import dataclass
from pathlib import Path
from random import Random
from typing import Any, Final

from tools_search_hosts import Rule, qualified_name
from tools_search_server.access.principals import token_hash

CALLER: Final = "caller"
OWNER: Final = "owner"
"""Sees everything, in the gateway with everything."""

_SERVER: Final = Path(__file__).with_name("server.py")
_TOOLS: Final = Path(__file__).parents[4] / "benchmarks" / "small" / "tools.jsonl"
_NAMES: Final = ("files", "git", "mail", "web", "notes", "git__hub", "a", "time zone", "web2")
_ACTIONS: Final = ("change", "crash", "fail", "refuse")
_ID: Final = "io.github.tools-search/tools-search"
_GROUPS: Final = ("history", "storage", "people", "secret affairs", "travel")
_TAGS: Final = ("read", "write", "slow", "private", "beta")

Definition = dict[str, Any]


@dataclass(frozen=True)
class Configuration:
    """Servers by name, and the part of each that a caller sees; a server without a rule is hidden as a whole."""

    servers: Mapping[str, Definition]
    rules: Mapping[str, Any]
    always: Sequence[tuple[str, str]]
    """Tools that are always available in the compatibility modes, by server and name."""

    def rule(self, server: str) -> Rule | None:
        """Return the rule of a server; `None` hides it."""
        match self.rules.get(server):
            case None:
                return None
            case True:
                return Rule(excludes=True)
            case {"exclude": names}:
                return Rule(frozenset(names), excludes=True)
            case names:
                return Rule(frozenset(names), excludes=False)

    @property
    def part(self) -> Configuration:
        """The part that the caller sees, on its own: hidden servers, tools and lists are not there."""
        servers: dict[str, Definition] = {}
        for name, definition in self.servers.items():
            if (rule := self.rule(name)) is None:
                continue
            seen = deepcopy(definition)
            seen["tools"] = [tool for tool in seen["tools"] if rule.shows(tool["name"])]
            if not rule.shows_more:
                seen |= {"prompts": [], "resources": [], "templates": [], "has_more": False}
            servers[name] = seen
        always = [(name, tool) for name, tool in self.always if (rule := self.rule(name)) and rule.shows(tool)]
        return Configuration(servers, self.rules, always)

    def write(self, folder: Path, tokens: Mapping[str, str]) -> Path:
        """Write the configuration of a gateway over these servers, for as many principals as there are tokens."""
        folder.mkdir()
        entries: dict[str, Any] = {}
        for number, (name, definition) in enumerate(self.servers.items()):
            file = folder / f"{number}.json"
            file.write_text(json.dumps(definition), encoding="utf-8")
            entries[name] = {"command": sys.executable, "args": ["-I", "-S", str(_SERVER), str(file)]}
        groups = {tool["_meta"][_ID]["group"] for server in self.servers.values() for tool in server["tools"]}
        document = {
            "mcpServers": entries,
            "toolsets": {"part": self.rules},
            "principals": {
                name: {"token": token_hash(token)} | ({"toolset": "part"} if name == CALLER else {})
                for name, token in tokens.items()
            },
            "metadata": {
                "categories": {group: f"All about {group}" for group in sorted(groups)},
                "servers": {name: {"tags": [f"of {name}"]} for name in self.servers},
            },
            "always_available": [qualified_name(*tool) for tool in self.always],
        }
        file = folder / "mcp.json"
        file.write_text(json.dumps(document), encoding="utf-8")
        return file


def random_configuration(rng: Random) -> Configuration:
    """Return a configuration in which something is seen and something is hidden."""
    known = [json.loads(line) for line in _TOOLS.read_text(encoding="utf-8").splitlines()]
    names = rng.sample(_NAMES, rng.randint(4, 6))
    servers = {name: _definition(name, rng.sample(known, rng.randint(2, 12)), rng) for name in names}
    servers[names[-1]]["is_down"] = rng.random() < 0.5
    hidden, seen, *others = rng.sample(names[:-1], len(names) - 1)
    rules = {seen: _rule(servers[seen], rng)}
    rules |= {name: _rule(servers[name], rng) for name in (*others, names[-1]) if rng.random() < 0.6}
    always = [(name, rng.choice(servers[name]["tools"])["name"]) for name in (hidden, seen)]
    ordered = {name: rules[name] for name in names if name in rules}
    return Configuration(servers, ordered, always)


def _definition(name: str, tools: Sequence[Mapping[str, Any]], rng: Random) -> Definition:
    listed = {
        tool["name"]: _tool(tool["name"], tool.get("description", ""), tool["inputSchema"], rng) for tool in tools
    }
    for action in _ACTIONS:
        about = f"Make the server {name} {action}"
        listed[action] = _tool(action, about, {"type": "object"}, rng)
    return {
        "name": name,
        "description": f"Works with {name}",
        "instructions": f"Before all others call {' or '.join(listed)}. " * rng.randint(0, 6),
        "tools": list(listed.values()),
        "prompts": [{"name": word, "arguments": [{"name": "topic"}]} for word in rng.sample(_TAGS, 2)],
        "resources": [{"uri": f"note://{word}", "name": word} for word in rng.sample(_TAGS, 3)],
        "templates": [{"uriTemplate": f"{name.replace(' ', '-')}://{{path}}", "name": "any"}],
        "has_more": rng.random() < 0.8,
        "is_down": False,
    }


def _tool(name: str, description: str, schema: Any, rng: Random) -> dict[str, Any]:
    labels = {"group": rng.choice(_GROUPS), "tags": rng.sample(_TAGS, rng.randint(0, 2))}
    return {"name": name, "description": description, "inputSchema": schema, "_meta": {_ID: labels}}


def _rule(definition: Definition, rng: Random) -> Any:
    names = [tool["name"] for tool in definition["tools"]]
    some = rng.sample(names, rng.randint(1, len(names) - 1))
    return rng.choice([True, some, {"exclude": some}])
