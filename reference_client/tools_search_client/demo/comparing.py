"""Step: what listing everything and searching put on the wire and in front of a model, measured on the same gateway."""

from __future__ import annotations

from typing import Any

from tools_search_client.demo.meter import Traffic
from tools_search_client.demo.stage import LIMIT, Stage
from tools_search_client.demo.step import Shown, StepFailed
from tools_search_client.demo.tokens import ENCODING, definition_tokens

__all__ = ["compare"]


async def compare(stage: Stage) -> Shown:
    """List everything once, and set it against the mean of the searches."""
    stage.gateway.forget()  # it may have been listed before, to count the tools of a gateway that had just started
    before = stage.meter.traffic
    listing = await stage.gateway.list()
    if not listing.tools or not stage.answers:
        raise StepFailed("there is nothing to compare")
    everything = [tool.tool for tool in listing.tools]
    listed = _way(stage.meter.traffic.since(before), len(everything), definition_tokens(everything))
    searched = _mean(
        [
            _way(traffic, len(answer.tools), definition_tokens(tool.tool for tool in answer.tools))
            for traffic, answer in zip(stage.searching, stage.answers.values(), strict=True)
        ]
    )
    saved = {unit: round(100 * (1 - searched[unit] / listed[unit]), 1) for unit in ("bytes", "tokens")}
    facts = {"tokenizer": ENCODING, "limit": LIMIT, "listing": listed, "search": searched, "savedPercent": saved}
    return Shown(facts, _lines(listed, searched, saved, len(stage.searching)))


def _way(traffic: Traffic, tools: int, tokens: int) -> dict[str, float]:
    return {"messages": traffic.messages, "bytes": traffic.bytes, "tools": tools, "tokens": tokens}


def _mean(ways: list[dict[str, float]]) -> dict[str, float]:
    return {unit: round(sum(way[unit] for way in ways) / len(ways), 1) for unit in ways[0]}


def _lines(listed: dict[str, Any], searched: dict[str, Any], saved: dict[str, float], searches: int) -> list[str]:
    rows = [("list everything", listed), (f"search (mean of {searches})", searched)]
    lines = [f"{'':<19} {'messages':>8} {'bytes':>8} {'tools':>6} {'tokens':>8}"]
    lines += [
        f"{way:<19} {row['messages']:>8,.0f} {row['bytes']:>8,.0f} {row['tools']:>6,.0f} {row['tokens']:>8,.0f}"
        for way, row in rows
    ]
    percent = f"{saved['bytes']:.0f} %"
    lines.append(f"{'saved':<19} {'':>8} {percent:>8} {'':>6} {saved['tokens']:>6.0f} %")
    lines.append("bytes on the wire, both ways; tokens of definitions in front of a model (o200k)")
    return lines
