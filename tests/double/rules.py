"""What the Messages API refuses in a request, as one function from body to message. Pure.

Wordings follow the service's own where they are known, since products look for some of them.
"""

from __future__ import annotations

import hashlib
import json
import re
from typing import Any

Problem = str | None

_ID = re.compile(r"[a-zA-Z0-9_-]+")
_NAME = re.compile(r"[a-zA-Z0-9_-]{1,128}")
_TOP_LEVEL = {
    *("model", "max_tokens", "messages", "system", "tools", "tool_choice", "stream", "thinking"),
    *("output_config", "metadata", "stop_sequences", "service_tier", "cache_control", "container"),
    *("inference_geo", "temperature", "top_p", "top_k"),
}
_KEYS = {
    "text": {"type", "text", "cache_control", "citations"},
    "image": {"type", "source", "cache_control"},
    "document": {"type", "source", "title", "context", "citations", "cache_control"},
    "tool_use": {"type", "id", "name", "input", "cache_control", "caller"},
    "tool_result": {"type", "tool_use_id", "content", "is_error", "cache_control"},
    "thinking": {"type", "thinking", "signature"},
    "redacted_thinking": {"type", "data"},
}
_ROLES = {
    "tool_use": "assistant",
    "thinking": "assistant",
    "redacted_thinking": "assistant",
    "tool_result": "user",
    "image": "user",
    "document": "user",
}
_MOST_BREAKPOINTS = 4
SIGNED_HERE = "double-"


def signature(thinking: str) -> str:
    """The double's signature of a thinking text; any other text under it is refused."""
    return SIGNED_HERE + hashlib.sha256(thinking.encode()).hexdigest()


def problem(body: Any) -> Problem:
    """The first thing that is wrong with a request's body, or None."""
    if not isinstance(body, dict):
        return "The request body is not a JSON object."
    if unknown := sorted(set(body) - _TOP_LEVEL):
        return f"{unknown[0]}: Extra inputs are not permitted"
    if not isinstance(body.get("model"), str) or not body["model"]:
        return "model: Field required"
    if type(body.get("max_tokens")) is not int or body["max_tokens"] < 1:
        return "max_tokens: Input should be greater than or equal to 1"
    if body.get("stream") is not True:
        return "stream: this double only streams"
    return (
        _surrogates(body)
        or _breakpoints(body)
        or _thinking_option(body)
        or _system(body.get("system"))
        or _tools(body.get("tools"))
        or _messages(body.get("messages"))
    )


def _surrogates(body: dict[str, Any]) -> Problem:
    try:
        json.dumps(body, ensure_ascii=False).encode()
    except UnicodeEncodeError:
        return "The request body is not valid JSON: no low surrogate in string"
    return None


def _breakpoints(body: dict[str, Any]) -> Problem:
    marks = json.dumps(body).count('"cache_control": {"type": "ephemeral"')
    if marks > _MOST_BREAKPOINTS:
        return f"A maximum of {_MOST_BREAKPOINTS} blocks with cache_control may be provided. Found {marks}."
    return None


def _thinking_option(body: dict[str, Any]) -> Problem:
    option, model = body.get("thinking"), body["model"]
    effort = (body.get("output_config") or {}).get("effort")
    if effort not in (None, "low", "medium", "high", "xhigh", "max"):
        return f"output_config.effort: {effort!r} is not an effort"
    if option is None:
        return None
    kind = option.get("type") if isinstance(option, dict) else None
    if kind not in ("adaptive", "disabled", "between_tools", "enabled"):
        return f"thinking.type: Input tag {kind!r} is not expected"
    newest = bool(re.search(r"-5-\d$", model))
    refused = (
        (kind == "enabled" and newest)
        or (kind == "disabled" and newest and "haiku" not in model)
        or (kind == "between_tools" and "sonnet-5-5" not in model)
    )
    if refused:
        return f'"thinking.type.{kind}" is not supported for this model.'
    if kind == "enabled" and not 1024 <= option.get("budget_tokens", 0) < body["max_tokens"]:
        return "`max_tokens` must be greater than `thinking.budget_tokens`, which is at least 1024"
    return None


def _system(system: Any) -> Problem:
    if system is None or (isinstance(system, str) and system):
        return None
    if not isinstance(system, list):
        return "system: text content blocks must be non-empty"
    for index, block in enumerate(system):
        if block.get("type") != "text":
            return f"system.{index}: only text blocks are expected"
        if wrong := _text(block):
            return f"system.{index}: {wrong}"
    return None


def _tools(tools: Any) -> Problem:
    names: set[str] = set()
    for index, tool in enumerate(tools or []):
        name, schema = tool.get("name"), tool.get("input_schema")
        if not isinstance(name, str) or not _NAME.fullmatch(name):
            return f"tools.{index}.name: String should match pattern '^[a-zA-Z0-9_-]{{1,128}}$'"
        if name in names:
            return "tools: Tool names must be unique."
        if not isinstance(schema, dict) or schema.get("type") != "object":
            return f"tools.{index}.input_schema.type: Input should be 'object'"
        if extra := sorted(
            set(tool) - {"name", "description", "input_schema", "cache_control", "strict", "type"}
        ):
            return f"tools.{index}.{extra[0]}: Extra inputs are not permitted"
        names.add(name)
    return None


def _messages(messages: Any) -> Problem:
    if not isinstance(messages, list) or not messages:
        return "messages: at least one message is required"
    merged: list[tuple[str, list[dict[str, Any]], int]] = []
    for index, message in enumerate(messages):
        if wrong := _shape(message):
            return f"messages.{index}: {wrong}"
        role, content = message["role"], message["content"]
        blocks = [{"type": "text", "text": content}] if isinstance(content, str) else content
        for place, block in enumerate(blocks):
            if wrong := _block(block, role):
                return f"messages.{index}.content.{place}: {wrong}"
        if role == "assistant" and blocks[-1]["type"] in ("thinking", "redacted_thinking"):
            return f"messages.{index}: The final block in an assistant message cannot be `thinking`."
        # Consecutive messages of one role are one turn to the service.
        if merged and merged[-1][0] == role:
            merged[-1] = (role, merged[-1][1] + blocks, index)
        else:
            merged.append((role, blocks, index))
    if merged[0][0] != "user":
        return "messages: first message must use the `user` role"
    if merged[-1][0] != "user":
        return "This model does not support assistant message prefill: end with a user message."
    return _pairs(merged)


def _shape(message: Any) -> Problem:
    if not isinstance(message, dict) or message.get("role") not in ("user", "assistant"):
        return "role: Input should be 'user' or 'assistant'"
    if extra := sorted(set(message) - {"role", "content"}):
        return f"{extra[0]}: Extra inputs are not permitted"
    content = message.get("content")
    if not isinstance(content, (str, list)) or not content:
        return "all messages must have non-empty content"
    return None


def _block(block: Any, role: str) -> Problem:
    kind = block.get("type") if isinstance(block, dict) else None
    if kind not in _KEYS:
        return f"Input tag {kind!r} found using 'type' does not match any of the expected tags"
    if extra := sorted(set(block) - _KEYS[kind]):
        return f"{kind}.{extra[0]}: Extra inputs are not permitted"
    if _ROLES.get(kind, role) != role:
        return f"`{kind}` blocks can only be in `{_ROLES[kind]}` messages"
    return {"text": _text, "tool_use": _call, "tool_result": _result, "thinking": _thinking}.get(kind, _any)(
        block
    )


def _any(_: dict[str, Any]) -> Problem:
    return None


def _text(block: dict[str, Any]) -> Problem:
    text = block.get("text")
    if not isinstance(text, str) or not text:
        return "text content blocks must be non-empty"
    return None if text.strip() else "text content blocks must contain non-whitespace text"


def _call(block: dict[str, Any]) -> Problem:
    if not isinstance(block.get("id"), str) or not _ID.fullmatch(block["id"]):
        return "tool_use.id: String should match pattern '^[a-zA-Z0-9_-]+$'"
    if not isinstance(block.get("name"), str) or not _NAME.fullmatch(block["name"]):
        return "tool_use.name: String should match pattern '^[a-zA-Z0-9_-]{1,128}$'"
    return (
        None if isinstance(block.get("input"), dict) else "tool_use.input: Input should be a valid dictionary"
    )


def _result(block: dict[str, Any]) -> Problem:
    if not isinstance(block.get("tool_use_id"), str):
        return "tool_result.tool_use_id: Field required"
    content = block.get("content")
    if not isinstance(content, (str, list, type(None))):
        return "tool_result.content: Input should be a string or a list"
    if block.get("is_error") and not content:
        return "content cannot be empty if `is_error` is true"
    for part in content if isinstance(content, list) else []:
        if part.get("type") not in ("text", "image", "document"):
            return "tool_result.content: only text, image and document blocks are expected"
        if part["type"] == "text" and (wrong := _text(part)):
            return f"tool_result.content: {wrong}"
    return None


def _thinking(block: dict[str, Any]) -> Problem:
    if not isinstance(block.get("thinking"), str):
        return "thinking.thinking: Field required"
    signed = block.get("signature")
    if not isinstance(signed, str) or not signed:
        return "thinking.signature: Field required"
    if signed.startswith(SIGNED_HERE) and signed != signature(block["thinking"]):
        return "Invalid `signature` in `thinking` block"
    return None


def _pairs(turns: list[tuple[str, list[dict[str, Any]], int]]) -> Problem:
    """Each call has one result, at the start of the very next user turn, and nothing else has one."""
    every: set[str] = set()
    open_calls: list[str] = []
    for role, blocks, index in turns:
        if role == "assistant":
            open_calls = [block["id"] for block in blocks if block["type"] == "tool_use"]
            if len(set(open_calls)) < len(open_calls) or every & set(open_calls):
                return f"messages.{index}: `tool_use` ids must be unique"
            every |= set(open_calls)
            continue
        results = [block["tool_use_id"] for block in blocks if block["type"] == "tool_result"]
        for result in results:
            if result not in open_calls:
                return (
                    f"messages.{index}: unexpected `tool_use_id` found in `tool_result` blocks: {result}. "
                    "Each `tool_result` block must have its `tool_use` block in the previous message."
                )
        if len(set(results)) < len(results):
            return f"messages.{index}: each tool_use must have a single result"
        if missing := [call for call in open_calls if call not in results]:
            return (
                f"messages.{index}: `tool_use` ids were found without `tool_result` blocks immediately "
                f"after: {', '.join(missing)}."
            )
        if any(block["type"] != "tool_result" for block in blocks[: len(results)]):
            return f"messages.{index}: `tool_result` blocks must come first in the message"
        open_calls = []
    return None
