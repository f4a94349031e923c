"""What servers answer, as text for the model and the client. Pure but for the spill file of a long one."""

from __future__ import annotations

import json
from typing import TYPE_CHECKING, Any, Final

from worker.capture import HEAD, TAIL, Capture, spill_path
from worker.off_loop import off_loop
from worker.tools.base import ToolOutput

if TYPE_CHECKING:
    from pathlib import Path

    from mcp_types import CallToolResult, GetPromptResult

_PIECE: Final = 1 << 20
_LONGEST_PROMPT: Final = 100_000


async def tool_output(result: CallToolResult, session_dir: Path, call_id: str) -> ToolOutput:
    """The output of a call, bounded; a long one is whole in the session's `spill/`."""
    text = await off_loop(as_text, result)
    if len(text) > HEAD + TAIL:
        capture = Capture(spill_path(session_dir, call_id))
        for start in range(0, len(text), _PIECE):
            await capture.feed(text[start : start + _PIECE].encode("utf-8", "replace"))
        await capture.finish()
        text = capture.text()
    failed = bool(result.is_error)
    return ToolOutput(text or ("The tool failed and said no more." if failed else ""), is_error=failed)


def as_text(result: CallToolResult) -> str:
    """All blocks of a result; what is no text leaves a marker."""
    texts = [_block(block) for block in result.content]
    if result.structured_content is not None and not _repeats(result):
        texts.append(json.dumps(result.structured_content, ensure_ascii=False, default=str))
    return "\n".join(text for text in texts if text)


def prompt_text(result: GetPromptResult) -> str:
    """A prompt's messages as one message of the user."""
    texts = [
        _block(message.content) if message.role == "user" else f"{message.role}: {_block(message.content)}"
        for message in result.messages
    ]
    text = "\n\n".join(text for text in texts if text)
    return text if len(text) <= _LONGEST_PROMPT else text[:_LONGEST_PROMPT] + "\n[cut here]"


def _block(block: Any) -> str:
    match block.type:
        case "text":
            return str(block.text)
        case "image" | "audio":
            return f"[{block.type}: {block.mime_type}]"
        case "resource_link":
            return f"[link: {block.title or block.name} {block.uri}]"
        case "resource":
            resource = block.resource
            text = getattr(resource, "text", None)
            if text is not None:
                return f'<resource uri="{resource.uri}">\n{text}\n</resource>'
            return f"[resource: {resource.uri} {resource.mime_type or 'application/octet-stream'}]"
        case other:
            return f"[{other}]"


def _repeats(result: CallToolResult) -> bool:
    """Whether the text says all that the structured content does: the protocol asks servers to write both."""
    texts = [block.text for block in result.content if block.type == "text"]
    if not texts:
        return False
    structured = result.structured_content
    if isinstance(structured, dict) and list(structured) == ["result"]:
        return True  # how the Python SDK wraps a value that is no object
    try:
        return len(texts) == 1 and json.loads(texts[0]) == structured
    except (ValueError, RecursionError):
        return False
