"""A prompt's content blocks as text for the model: what cannot be sent as it is leaves a marker."""

from __future__ import annotations

from typing import Any


def to_model(blocks: list[dict[str, Any]]) -> list[dict[str, Any]]:
    """ACP content blocks as the API's text blocks; blank ones are left out."""
    texts = (_text(block) for block in blocks)
    return [{"type": "text", "text": text} for text in texts if text.strip()]


def _text(block: dict[str, Any]) -> str:
    match block.get("type"):
        case "text":
            return str(block["text"])
        case "resource":
            resource = block["resource"]
            uri = resource.get("uri", "")
            if "text" in resource:
                return f'<resource uri="{uri}">\n{resource["text"]}\n</resource>'
            mime = resource.get("mimeType") or "application/octet-stream"
            return f"[resource: {uri} {mime}, {len(resource.get('blob', '')) * 3 // 4} octets, not shown]"
        case "resource_link":
            title = block.get("title") or block.get("name") or ""
            return f"[link: {title} {block['uri']}]"
        case "image" | "audio" as kind:
            return f"[{kind}: {block.get('mimeType') or 'unknown'}]"
        case other:
            return f"[{other}]"
