"""A prompt's content as text for the model: what cannot be sent leaves a marker, and nothing is blank."""

from __future__ import annotations

from typing import Any

import pytest

from shared.content import to_model


@pytest.mark.parametrize(
    ("block", "text"),
    [
        ({"type": "text", "text": "  as it is\n"}, "  as it is\n"),
        ({"type": "image", "mimeType": "image/png"}, "[image: image/png]"),
        ({"type": "audio", "mimeType": "audio/wav"}, "[audio: audio/wav]"),
        ({"type": "image"}, "[image: unknown]"),
        (
            {"type": "resource", "resource": {"uri": "file:///a.py", "text": "x = 1"}},
            '<resource uri="file:///a.py">\nx = 1\n</resource>',
        ),
        (
            {"type": "resource", "resource": {"uri": "file:///a", "blob": "AAAA", "mimeType": "image/png"}},
            "[resource: file:///a image/png, 3 octets, not shown]",
        ),
        (
            {"type": "resource", "resource": {"uri": "file:///a", "blob": "AAAA"}},
            "[resource: file:///a application/octet-stream, 3 octets, not shown]",
        ),
        ({"type": "resource_link", "uri": "file:///a", "name": "a"}, "[link: a file:///a]"),
        (
            {"type": "resource_link", "uri": "file:///a", "name": "a", "title": "The A"},
            "[link: The A file:///a]",
        ),
    ],
)
def test_every_kind_of_block_is_text(block: dict[str, Any], text: str) -> None:
    assert to_model([block]) == [{"type": "text", "text": text}]


def test_blocks_keep_their_order_and_blank_ones_are_left_out() -> None:
    blocks = [
        {"type": "text", "text": "one"},
        {"type": "text", "text": " \n"},
        {"type": "image", "mimeType": "a/b"},
        {"type": "text", "text": ""},
        {"type": "text", "text": "two"},
    ]
    assert [block["text"] for block in to_model(blocks)] == ["one", "[image: a/b]", "two"]


def test_an_empty_file_is_told_as_one() -> None:
    (block,) = to_model([{"type": "resource", "resource": {"uri": "file:///empty", "text": ""}}])
    assert "file:///empty" in block["text"]
