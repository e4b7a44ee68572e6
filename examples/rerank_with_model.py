"""Let a model re-rank a search of your servers: `python rerank_with_model.py mcp.json "a query"`.

Set OPENAI_BASE_URL and OPENAI_API_KEY for any chat completions endpoint, and MODEL for the model.
"""

from __future__ import annotations

import os
import sys
from collections.abc import Sequence
from pathlib import Path

import anyio
from openai import AsyncOpenAI
from tools_search_client import FederationOptions, FoundTool, Reranking, load_configuration, open_federation

client = AsyncOpenAI()


async def by_model(query: str, tools: Sequence[FoundTool]) -> list[str]:
    """Return the names of the tools that fit, best first. Servers write descriptions; they only affect the order."""
    choices = "\n".join(f"{tool.name}: {' '.join((tool.tool.description or '').split())[:300]}" for tool in tools)
    ask = f"Which tools serve this request?\n{query}\n\n{choices}\n\nAnswer with names alone, best first, one per line."
    answer = await client.chat.completions.create(
        model=os.environ["MODEL"], messages=[{"role": "user", "content": ask}], temperature=0
    )
    return (answer.choices[0].message.content or "").split()


async def main(path: str, query: str) -> None:
    """Print the five best tools, and if the order is not the model's, the reason."""
    options = FederationOptions(reranking=Reranking(by_model, pool=4, deadline=5.0))
    async with open_federation(load_configuration(Path(path)), options) as servers:
        found = await servers.search(query, limit=5)
    sys.stdout.writelines(f"{tool.name}\n" for tool in found.tools)
    if found.fault is not None:
        sys.stderr.write(f"not in the model's order: {found.fault}\n")


if __name__ == "__main__":
    anyio.run(main, sys.argv[1], sys.argv[2])
