"""A driver to fill in: replace each `...` with a call to your client. See conformance/DRIVER.md for the answers.

tools-search-conformance client -- python skeleton.py
"""

from __future__ import annotations

import json
import sys
from typing import Any

Json = dict[str, Any]


class UnsupportedError(Exception):
    """The driver or its client does not support this operation."""


class Driver:
    """One method for each operation. Any other operation is unsupported."""

    def hello(self, suite: str, contract: int) -> Json:
        return {"sdk": "name of my client", "version": "0", "features": ["stdio", "http"]}

    def connect(self, target: Json, era: str) -> Json:
        raise UnsupportedError  # self.client = ...

    def search(self, query: str, limit: int | None = None) -> Json:
        return {"tools": ...}

    def search_all(self, query: str) -> Json:
        return {"tools": ...}

    def list_tools(self) -> Json:
        return {"tools": ...}

    def call(self, name: str, arguments: Json) -> Json:
        return {"result": ...}

    def close(self) -> Json:
        return {}


def answer(driver: Driver, op: str, members: Json) -> Json:
    try:
        if op.startswith("_") or not hasattr(driver, op):
            raise UnsupportedError
        return {"ok": getattr(driver, op)(**members)}
    except UnsupportedError:
        return {"unsupported": True}
    except Exception as error:  # noqa: BLE001, RUF100 - errors of the client are answers of the driver
        code = getattr(error, "code", None)
        return {"error": {"message": str(error)} | ({"code": code} if isinstance(code, int) else {})}


def main() -> None:
    driver = Driver()
    for line in sys.stdin:
        request: Json = json.loads(line)
        number, op = request.pop("id"), request.pop("op")
        outcome: Json = {"ok": {}} if op == "bye" else answer(driver, op, request)
        print(json.dumps({"id": number, **outcome}), flush=True)  # noqa: T201
        if op == "bye":
            return


if __name__ == "__main__":
    main()
