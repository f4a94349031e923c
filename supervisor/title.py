"""A session's title: the first words that the user typed."""

from __future__ import annotations

from typing import Any, Final

LONGEST: Final = 80


def title_of(blocks: list[dict[str, Any]]) -> str | None:
    """The first line of text in a prompt, shortened at a word; None where there is none, or a command."""
    for block in blocks:
        if block.get("type") != "text":
            continue
        for line in block["text"].splitlines():
            words = " ".join(line.split())
            if words.startswith("/") and not words.startswith("//"):
                return None
            if words:
                return words if len(words) <= LONGEST else words[: LONGEST - 1].rsplit(" ", 1)[0] + "…"
    return None
