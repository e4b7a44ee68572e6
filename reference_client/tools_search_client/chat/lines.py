"""What is shown of searches, calls and savings: one line each.

Arguments are shown with every character that a terminal would not: a user who is asked has to see what is meant.
"""

from __future__ import annotations

import json
from typing import Final

from mcp_types import CallToolResult, TextContent
from rich.cells import cell_len

from tools_search_client.chat.results import text_length
from tools_search_client.conversation.messages import Forward, Reply, ToolCall
from tools_search_client.conversation.statistics import Statistics
from tools_search_client.text import one_line, printable, shorten

__all__ = ["arguments_of", "call_line", "outcome_line", "question_lines", "reply_line", "savings_line"]

_MOST_CHARS: Final = 300
"""Of a line: more than any terminal is wide."""
_MOST_ARGUMENT_CHARS: Final = 5_000
_MOST_NAMES: Final = 8


def arguments_of(call: ToolCall) -> str:
    """Return the arguments of a call as JSON on one line, whole."""
    text = json.dumps(dict(call.arguments), ensure_ascii=False)
    return "".join(char if printable(char) else char.encode("unicode_escape").decode() for char in text)


def call_line(forward: Forward) -> str:
    """Return what is shown when a tool is called."""
    return shorten(f"→ {forward.tool.name} {arguments_of(forward.call)}", _MOST_CHARS)


def outcome_line(forward: Forward, outcome: CallToolResult | Reply, seconds: float) -> str:
    """Return what is shown of what came of a call."""
    if isinstance(outcome, Reply):
        return shorten(f"✗ {outcome.text}", _MOST_CHARS)
    first = next((part.text for part in outcome.content if isinstance(part, TextContent)), "")
    head = f"{'✗ ' if outcome.is_error else '← '}{seconds:.1f} s, {text_length(outcome):,} characters"
    return shorten(f"{head}: {first}" if first.strip() else head, _MOST_CHARS)


def reply_line(reply: Reply, *, is_search: bool) -> str:
    """Return what is shown of a call that no server's tool was needed for."""
    if not is_search or reply.is_error:
        return shorten(f"✗ {reply.call.name}: {reply.text}", _MOST_CHARS)
    names = ", ".join(reply.loaded[:_MOST_NAMES])
    more = f" and {len(reply.loaded) - _MOST_NAMES} more" if len(reply.loaded) > _MOST_NAMES else ""
    return shorten(f"? {_sought(reply.call)} → {names or 'nothing new'}{more}", _MOST_CHARS)


def question_lines(forward: Forward, width: int) -> list[str]:
    """Return what a user reads before being asked whether a tool may be called.

    Args:
        forward: The call.
        width: Columns in which its own line was shown; what did not fit there is shown now.
    """
    described = forward.tool.tool.description
    lines = [shorten(f"It says of itself: {described}" if described else "It says nothing of itself.", _MOST_CHARS)]
    arguments = arguments_of(forward.call)
    whole = f"→ {forward.tool.name} {arguments}"
    if cell_len(whole) > min(width, _MOST_CHARS) or one_line(whole) != whole:
        left = len(arguments) - _MOST_ARGUMENT_CHARS
        lines.append(arguments[:_MOST_ARGUMENT_CHARS] + (f" … and {left:,} more characters" if left > 0 else ""))
    return lines


def savings_line(counts: Statistics) -> str:
    """Return what a conversation took, and what was saved against listing everything."""
    calls = sum(number for server, number in counts.calls_by_server.items() if server != "_synthetic")
    parts = [_number(counts.requests, "request"), _number(calls, "call")]
    if counts.discovery is not None:
        found = _number(counts.discovery.tools_discovered, "tool")
        parts.insert(1, f"{_number(counts.discovery.search_calls, 'search', 'searches')} found {found}")
    sent, listed = counts.definition_tokens_sent, counts.definition_tokens_listed
    share = counts.saved_share
    saved = f" ({abs(share):.0%} {'saved' if share > 0 else 'more than that'})" if share else ""
    parts.append(f"about {sent:,} tokens of definitions sent, {listed:,} if all were listed{saved}")
    if counts.total_tokens:
        parts.append(f"{counts.prompt_tokens:,} tokens read and {counts.completion_tokens:,} written in all")
    return "; ".join(parts)


def _sought(call: ToolCall) -> str:
    """Return what a model looked for."""
    words = [value if isinstance(value, str) else json.dumps(value) for value in call.arguments.values()]
    return f"{call.name} {' '.join(words)}"


def _number(count: int, what: str, several: str | None = None) -> str:
    return f"{count:,} {what if count == 1 else several or what + 's'}"
