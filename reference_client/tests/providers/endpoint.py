"""The endpoint of a model's provider, scripted: it answers requests one after the other, and refuses what is wrong.

It speaks chat completions (also streamed), Anthropic's Messages (also streamed), OpenAI's Responses and Gemini's
generateContent, each at its own path, chosen by the path.
"""

from __future__ import annotations

import base64
import json
import threading
from collections.abc import Generator, Iterator, Mapping, Sequence
from contextlib import contextmanager
from dataclasses import dataclass, field
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from typing import Any

from .rules import RULES

Json = dict[str, Any]

SIGNATURE = base64.urlsafe_b64encode(b"\xff\xfe what the model thought").decode()
"""Opaque to a client, and to be sent back as it is."""

_PROVIDERS = {
    "/chat/completions": "ChatCompletions",
    "/messages": "AnthropicMessages",
    "/responses": "OpenAIResponses",
    ":generateContent": "Gemini",
}


@dataclass(frozen=True)
class Step:
    """What the model answers to one request."""

    text: str = ""
    calls: Sequence[tuple[str, Any]] = ()
    """Names and arguments, in the provider's names; arguments that are a text are sent as they are."""
    stop: str | None = None
    """In place of the provider's usual word."""
    status: int = 200


@dataclass
class ScriptedModel:
    """An endpoint and what came to it."""

    steps: Sequence[Step]
    requests: list[Json] = field(default_factory=list[Json])
    """The body of every request, in order."""
    headers: list[Mapping[str, str]] = field(default_factory=list[Mapping[str, str]])
    faults: list[str] = field(default_factory=list[str])
    """What was wrong with them: each was refused."""
    url: str = ""

    def answer(self, path: str, body: Json) -> tuple[int, Json]:
        """Return the status and the answer to one request."""
        provider = next((name for ending, name in _PROVIDERS.items() if path.partition("?")[0].endswith(ending)), None)
        if provider is None:
            return 404, {"error": {"message": f"nothing is at {path}"}}
        number = len(self.requests)
        self.requests.append(body)
        faults = RULES[provider](body)
        self.faults += faults
        if faults:
            return 400, {"type": "error", "error": {"type": "invalid_request_error", "message": "; ".join(faults)}}
        step = self.steps[number] if number < len(self.steps) else Step("There is nothing more to say.")
        if step.status != 200:
            return step.status, {"type": "error", "error": {"type": "api_error", "message": "as the script says"}}
        return 200, RENDERERS[provider](step, number, body)


@contextmanager
def scripted_model(*steps: Step) -> Generator[ScriptedModel]:
    """Serve the steps on a port of this machine; `url` is without a path."""
    model = ScriptedModel(steps)

    class Handler(BaseHTTPRequestHandler):
        def do_POST(self) -> None:
            body = json.loads(self.rfile.read(int(self.headers["content-length"])))
            model.headers.append(dict(self.headers))
            status, answer = model.answer(self.path, body)
            if status == 200 and body.get("stream"):
                events = streamed_chat(answer) if "choices" in answer else streamed_messages(answer)
                self._send(status, "text/event-stream", "".join(events).encode())
            else:
                self._send(status, "application/json", json.dumps(answer).encode())

        def _send(self, status: int, kind: str, data: bytes) -> None:
            self.send_response(status)
            self.send_header("content-type", kind)
            self.send_header("content-length", str(len(data)))
            self.end_headers()
            self.wfile.write(data)

        def log_message(self, format: str, *args: object) -> None:  # noqa: A002 - named by the base class
            """Write nothing."""

    server = ThreadingHTTPServer(("127.0.0.1", 0), Handler)
    model.url = f"http://127.0.0.1:{server.server_port}"
    thread = threading.Thread(target=server.serve_forever, kwargs={"poll_interval": 0.01})
    thread.start()
    try:
        yield model
    finally:
        server.shutdown()
        thread.join()
        server.server_close()


def chat_completion(step: Step, number: int, body: Json) -> Json:
    """Return what chat completions answer, with reasoning as some services add it."""
    calls = [
        {
            "id": f"call_{number}_{place}",
            "type": "function",
            "function": {"name": name, "arguments": _as_text(arguments)},
        }
        for place, (name, arguments) in enumerate(step.calls)
    ]
    message: Json = {"role": "assistant", "content": step.text or None, "refusal": None, "annotations": []}
    message |= {"reasoning_content": SIGNATURE} | ({"tool_calls": calls} if calls else {})
    stop = step.stop or ("tool_calls" if calls else "stop")
    choice = {"index": 0, "finish_reason": stop, "logprobs": None, "message": message}
    usage = {"prompt_tokens": 1, "completion_tokens": 1, "total_tokens": 2}
    whole = {"id": f"chatcmpl-{number}", "object": "chat.completion", "created": 1, "model": body["model"]}
    return whole | {"choices": [choice], "usage": usage}


def anthropic_message(step: Step, number: int, body: Json) -> Json:
    """Return what Messages answer, with what the model thought."""
    blocks: list[Json] = [{"type": "thinking", "thinking": "Hm.", "signature": SIGNATURE}]
    blocks += [{"type": "text", "text": step.text}] if step.text else []
    blocks += [
        {"type": "tool_use", "id": f"toolu_{number}_{place}", "name": name, "input": arguments}
        for place, (name, arguments) in enumerate(step.calls)
    ]
    stop = step.stop or ("tool_use" if step.calls else "end_turn")
    message = {"id": f"msg_{number}", "type": "message", "role": "assistant", "model": body["model"], "content": blocks}
    return message | {"stop_reason": stop, "stop_sequence": None, "usage": {"input_tokens": 1, "output_tokens": 1}}


def openai_response(step: Step, number: int, body: Json) -> Json:
    """Return what Responses answer, with reasoning; a call of `tool_search` is one of the provider's own."""
    items: list[Json] = [
        {"type": "reasoning", "id": f"rs_{number}", "summary": [], "encrypted_content": SIGNATURE, "status": None}
    ]
    if step.text:
        part: Json = {"type": "output_text", "text": step.text, "annotations": [], "logprobs": []}
        message = {"type": "message", "id": f"msg_{number}", "role": "assistant", "status": "completed"}
        items.append(message | {"content": [part]})
    for place, (name, arguments) in enumerate(step.calls):
        call: Json = {"call_id": f"call_{number}_{place}", "status": "completed"}
        if name == "tool_search":
            call |= {"type": "tool_search_call", "id": f"tsc_{number}_{place}", "execution": "client"}
            items.append(call | {"arguments": arguments, "created_by": "model"})
        else:
            call |= {"type": "function_call", "id": f"fc_{number}_{place}", "name": name}
            items.append(call | {"arguments": _as_text(arguments)})
    response = {"id": f"resp_{number}", "object": "response", "created_at": 1, "model": body["model"], "output": items}
    details = {"reason": step.stop} if step.stop else None
    response |= {"status": "incomplete" if details else "completed", "incomplete_details": details, "error": None}
    return response | {"parallel_tool_calls": True, "tool_choice": "auto", "tools": body.get("tools", [])}


def gemini_response(step: Step, number: int, body: Json) -> Json:
    """Return what generateContent answers, with a thought signature; every second call has no id."""
    parts: list[Json] = [{"text": "Hm.", "thought": True}]
    parts += [{"text": step.text}] if step.text else []
    for place, (name, arguments) in enumerate(step.calls):
        call: Json = {"name": name, "args": arguments}
        call |= {"id": f"id{number}{place}"} if place % 2 == 0 else {}
        parts.append({"functionCall": call})
    parts[-1]["thoughtSignature"] = SIGNATURE
    candidate = {"content": {"role": "model", "parts": parts}, "finishReason": step.stop or "STOP", "index": 0}
    return {"candidates": [candidate], "modelVersion": "scripted", "responseId": str(number)}


RENDERERS = {
    "ChatCompletions": chat_completion,
    "AnthropicMessages": anthropic_message,
    "OpenAIResponses": openai_response,
    "Gemini": gemini_response,
}


def _as_text(arguments: Any) -> str:
    return arguments if isinstance(arguments, str) else json.dumps(arguments)


def streamed_chat(answer: Json) -> Iterator[str]:
    choice = answer["choices"][0]
    message = choice["message"]
    deltas: list[Json] = [{"role": "assistant", "content": ""}]
    deltas += [{"content": word} for word in _pieces(message["content"] or "")]
    for place, call in enumerate(message.get("tool_calls", ())):
        named = {"name": call["function"]["name"], "arguments": ""}
        deltas.append({"tool_calls": [{"index": place, "id": call["id"], "type": "function", "function": named}]})
        for piece in _pieces(call["function"]["arguments"]):
            deltas.append({"tool_calls": [{"index": place, "function": {"arguments": piece}}]})
    whole = {key: answer[key] for key in ("id", "created", "model")} | {"object": "chat.completion.chunk"}
    for delta in deltas:
        yield _event(whole | {"choices": [{"index": 0, "delta": delta, "finish_reason": None}]})
    yield _event(whole | {"choices": [{"index": 0, "delta": {}, "finish_reason": choice["finish_reason"]}]})
    yield "data: [DONE]\n\n"


def streamed_messages(answer: Json) -> Iterator[str]:
    start: Json = answer | {"content": [], "stop_reason": None}
    yield _named({"type": "message_start", "message": start})
    for place, block in enumerate(answer["content"]):
        kind = block["type"]
        nothing: dict[str, Json] = {"thinking": {"thinking": "", "signature": ""}, "text": {"text": ""}}
        start = block | nothing.get(kind, {"input": {}})
        yield _named({"type": "content_block_start", "index": place, "content_block": start})
        deltas: list[Json] = []
        if kind == "thinking":
            deltas = [{"type": "thinking_delta", "thinking": block["thinking"]}]
            deltas.append({"type": "signature_delta", "signature": block["signature"]})
        elif kind == "text":
            deltas = [{"type": "text_delta", "text": piece} for piece in _pieces(block["text"])]
        else:
            deltas = [
                {"type": "input_json_delta", "partial_json": piece} for piece in _pieces(json.dumps(block["input"]))
            ]
        for delta in deltas:
            yield _named({"type": "content_block_delta", "index": place, "delta": delta})
        yield _named({"type": "content_block_stop", "index": place})
    stopped = {"stop_reason": answer["stop_reason"], "stop_sequence": None}
    yield _named({"type": "message_delta", "delta": stopped, "usage": {"output_tokens": 1}})
    yield _named({"type": "message_stop"})


def _pieces(text: str) -> list[str]:
    return [text[start : start + 7] for start in range(0, len(text), 7)]


def _event(data: Json) -> str:
    return f"data: {json.dumps(data)}\n\n"


def _named(data: Json) -> str:
    return f"event: {data['type']}\n{_event(data)}"
