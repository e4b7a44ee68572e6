"""Step: what client and gateway tell each other about the extension, in both eras, read off the wire."""

from __future__ import annotations

import json
from typing import Any

from mcp_ext_tools_search.types import EXTENSION_ID

from tools_search_client.demo.meter import Exchange, WireMeter
from tools_search_client.demo.stage import PATIENCE_SECONDS, Stage, over_gateway
from tools_search_client.demo.step import Shown, StepFailed
from tools_search_client.federation.federation import Federation

__all__ = ["negotiate"]

_CAPABILITIES = "io.modelcontextprotocol/clientCapabilities"


async def negotiate(stage: Stage) -> Shown:
    """Connect as a modern and as a legacy client, and show both sides' words."""
    modern = await _era(stage.gateway, stage.meter, "server/discover")
    async with over_gateway(stage.url, "legacy") as (gateway, meter):
        legacy = await _era(gateway, meter, "initialize")
    lines = [f"extension  {EXTENSION_ID}", *_lines("modern", modern), *_lines("legacy", legacy)]
    return Shown({"extension": EXTENSION_ID, "modern": modern, "legacy": legacy}, lines)


async def _era(gateway: Federation, meter: WireMeter, method: str) -> dict[str, Any]:
    (described,) = await gateway.describe(deadline=PATIENCE_SECONDS)
    exchange = next(meter.exchanges(method), None)
    if described.report.failure is not None or exchange is None:
        failure = described.report.failure
        raise StepFailed(f"no {method}: {failure.message if failure else 'the gateway speaks another era'}")
    advertised = exchange.result.get("capabilities", {})
    places = ("extensions", "experimental")
    said = {place: advertised[place][EXTENSION_ID] for place in places if EXTENSION_ID in advertised.get(place, {})}
    if not said:
        raise StepFailed(f"the gateway does not advertise the extension in its answer to {method}")
    return {
        "protocolVersion": described.protocol_version,
        "request": method,
        "clientDeclares": _declared(exchange),
        "serverAdvertises": said,
    }


def _declared(exchange: Exchange) -> dict[str, Any]:
    own = exchange.params.get("capabilities") or exchange.params.get("_meta", {}).get(_CAPABILITIES, {})
    extensions: dict[str, Any] = own.get("extensions", {})
    return {name: settings for name, settings in extensions.items() if name == EXTENSION_ID}


def _lines(era: str, facts: dict[str, Any]) -> list[str]:
    settings = next(iter(facts["serverAdvertises"].values()))
    return [
        f"{era}     {facts['request']} → {facts['protocolVersion']}",
        f"           the client declares   {json.dumps(facts['clientDeclares'][EXTENSION_ID])}"
        if facts["clientDeclares"]
        else "           the client declares   nothing",
        f"           the server advertises in {' and '.join(facts['serverAdvertises'])}",
        f"           {_size(settings)} on {', '.join(settings.get('topics', []))}",
    ]


def _size(settings: dict[str, Any]) -> str:
    # Left out as long as a server has not been heard from, or is searched where it is.
    return f"{settings['catalogSize']} tools" if "catalogSize" in settings else "tools"
