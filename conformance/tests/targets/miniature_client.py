"""The driver of the miniature client, on nothing but the standard library.

    target.py miniature_client [--fault NAME] [--without FEATURE]… [--unsearched LIST]…

With a fault, the client breaks exactly one rule.
"""

from __future__ import annotations

import argparse
import json
import sys
import threading
from collections.abc import Callable
from typing import Final

from .client_faults import find_client_fault
from .client_library import Client, Federation, InvalidError, RefusedError
from .miniature_transports import Json, TransportError

FEATURES: Final = ("stdio", "http", "authorization", "federation", "concurrent", "cancel", "primitives")


class Begun:
    """A search in a new thread."""

    def __init__(self, outcome: Callable[[Json], Json], request: Json) -> None:
        self.outcome: Json = {}
        self.thread = threading.Thread(target=self.run, args=(outcome, request), daemon=True)
        self.thread.start()

    def run(self, outcome: Callable[[Json], Json], request: Json) -> None:
        self.outcome = outcome(request)


class Driver:
    def __init__(
        self, client: type[Client], federation: type[Federation], features: list[str], unsearched: list[str]
    ) -> None:
        self.client_type, self.federation_type, self.features = client, federation, features
        self.unsearched = unsearched
        self.on: Client | Federation | None = None
        self.begun: dict[str, Begun] = {}

    def run(self) -> None:
        for line in sys.stdin:
            request = json.loads(line)
            sys.stdout.write(json.dumps({"id": request["id"], **self.outcome(request)}) + "\n")
            sys.stdout.flush()
            if request["op"] == "bye":
                return

    def outcome(self, request: Json) -> Json:
        if request["op"] == "await":
            begun = self.begun.pop(request["of"])
            begun.thread.join()
            return begun.outcome
        operation = getattr(self, f"do_{request['op']}", None)
        if operation is None or request.get("of") in self.unsearched:
            return {"unsupported": True}
        try:
            return {"ok": operation(request)}
        except (RefusedError, InvalidError, TransportError) as error:
            return {"error": {"message": str(error)}}

    def do_hello(self, request: Json) -> Json:
        return {"sdk": "miniature", "version": "1", "features": self.features}

    def do_connect(self, request: Json) -> Json:
        self.on = client = self.client_type(request["target"], request["era"])
        client.open()
        return {}

    def do_federate(self, request: Json) -> Json:
        clients = {name: self.client_type(target, request["era"]) for name, target in request["targets"].items()}
        self.on = federation = self.federation_type(clients)
        federation.open()
        return {}

    def do_search(self, request: Json) -> Json:
        if isinstance(self.on, Federation):
            return self.on.search(request["query"], request.get("limit", 10))
        member, client = self.list_of(request)
        return {member: client.search(request["query"], request.get("limit"))}

    def do_search_all(self, request: Json) -> Json:
        member, client = self.list_of(request)
        return {member: client.search_all(request["query"])}

    def list_of(self, request: Json) -> tuple[str, Client]:
        """Return the member of the answer, and the client that finds what stands there."""
        member: str = request.get("of", "tools")
        return member, self.client if member == "tools" else self.client.of(member)

    def do_list_tools(self, request: Json) -> Json:
        return {"tools": self.client.list_tools()}

    def do_call(self, request: Json) -> Json:
        on = self.on if isinstance(self.on, Federation) else self.client
        return {"result": on.call(request["name"], request["arguments"])}

    def do_authorize(self, request: Json) -> Json:
        clients = [*self.on.clients.values()] if isinstance(self.on, Federation) else [self.client]
        for client in clients:
            for each in (client, *client.others.values()):
                each.user = request["as"]
        return {}

    def do_begin(self, request: Json) -> Json:
        self.begun[request["as"]] = Begun(self.outcome, {"op": "search", "query": request["query"]})
        return {}

    def do_cancel(self, request: Json) -> Json:
        search = self.begun.pop(request["of"]).thread.ident or 0
        if isinstance(self.on, Federation):
            self.on.cancel(search)
        else:
            self.client.cancel(self.client.asked[search])
        return {}

    def do_close(self, request: Json) -> Json:
        if self.on is not None:
            self.on.close()
        self.on = None
        return {}

    def do_bye(self, request: Json) -> Json:
        return self.do_close(request)

    @property
    def client(self) -> Client:
        assert isinstance(self.on, Client)
        return self.on


def main() -> None:
    parser = argparse.ArgumentParser()
    parser.add_argument("--fault", default="none")
    parser.add_argument("--without", action="append", default=[])
    parser.add_argument("--unsearched", action="append", default=[])
    arguments = parser.parse_args()
    client, federation = Client, Federation
    if arguments.fault != "none":
        broken = find_client_fault(arguments.fault)
        client = broken if issubclass(broken, Client) else Client
        federation = broken if issubclass(broken, Federation) else Federation
    features = [each for each in FEATURES if each not in arguments.without]
    Driver(client, federation, features, arguments.unsearched).run()
