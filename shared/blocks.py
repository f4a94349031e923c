"""Which content blocks the Messages API takes back, and how its calls are told apart.

Blocks are dicts in the API's shape. Functions here are pure and return what they were given where
nothing is wrong with it, so that a sound history is neither copied nor changed.
"""

from __future__ import annotations

import re
from typing import TYPE_CHECKING, Any, Final

from shared.plain import is_plain, is_text, plain

if TYPE_CHECKING:
    from collections.abc import Callable

    from shared.records import Block

_NOT_IN_NAMES: Final = re.compile(r"[^a-zA-Z0-9_-]")
_LONGEST_NAME: Final = 128
_NAME: Final = re.compile(r"[a-zA-Z0-9_-]{1,128}")
THINKING: Final = frozenset({"thinking", "redacted_thinking"})
_MEMBERS: Final = {
    "text": frozenset({"type", "text", "citations"}),
    "tool_use": frozenset({"type", "id", "name", "input", "caller"}),
    "thinking": frozenset({"type", "thinking", "signature"}),
    "redacted_thinking": frozenset({"type", "data"}),
}
"""What the API takes of a reply's blocks; it refuses the whole conversation for any other member."""


def usable_prompt(blocks: list[Block]) -> list[Block]:
    """What of a user's blocks the API takes: text that is not blank, images and documents."""
    return _mapped(blocks, _prompt_block)


def usable_reply(blocks: list[Block]) -> list[Block]:
    """What of a model's blocks the API takes back.

    Text that is not blank, thinking with its signature, calls with a name and an object as input
    (anything else becomes `{}`), each without the members that some servers add. Ids are left: see
    `unique_ids`.
    """
    return _mapped(blocks, _reply_block)


def unique_ids(
    blocks: list[Block], taken: set[str], avoided: Callable[[str], bool] = lambda _: False
) -> list[Block]:
    """The blocks with an id for each call that the API takes and that is not in `taken`; adds them to it.

    Some servers number the calls of each reply anew; the API refuses a conversation in which an id
    comes twice. An id that is made up is none that is `avoided` either. One block for each, in order.
    """

    made = blocks
    for index, block in enumerate(blocks):
        if block.get("type") != "tool_use":
            continue
        given = block.get("id")
        unique = name = clean_name(given) or "call"
        number = len(taken)
        while unique in taken or (unique != given and avoided(unique)):
            number += 1
            unique = f"{name[:100]}_{number}"
        taken.add(unique)
        if unique != given:
            if made is blocks:
                made = list(blocks)
            made[index] = {**block, "id": unique}
    return made


def clean_name(name: Any) -> str:
    """An id or a tool's name in the API's alphabet; empty if there is none."""
    if not isinstance(name, str):
        return ""
    return name if _NAME.fullmatch(name) else _NOT_IN_NAMES.sub("_", name)[:_LONGEST_NAME]


def _mapped(blocks: list[Block], change: Callable[[Block], Block | None]) -> list[Block]:
    for index, block in enumerate(blocks):
        if (new := change(block)) is not block:
            rest = [new, *map(change, blocks[index + 1 :])]
            return [*blocks[:index], *(block for block in rest if block is not None)]
    return blocks


def _text_block(block: Block) -> Block | None:
    text = block.get("text")
    if not isinstance(text, str) or not text or text.isspace():
        return None
    return block if is_text(text) else {**block, "text": plain(text)}


def _prompt_block(block: Block) -> Block | None:
    match block.get("type"):
        case "text":
            return _text_block(block)
        case "image" | "document":
            return block if isinstance(block.get("source"), dict) and is_plain(block) else None
    return None


def _reply_block(block: Block) -> Block | None:
    kind = block.get("type")
    if not isinstance(kind, str) or (known := _MEMBERS.get(kind)) is None:
        return None
    if not block.keys() <= known:
        block = {name: value for name, value in block.items() if name in known}
    if kind == "text":
        return _text_block(block)
    if kind == "tool_use":
        return _call(block)
    if kind == "thinking":
        # Signed as it is: changed by a letter, it is refused.
        signed = _filled(block.get("signature")) and isinstance(block.get("thinking"), str)
        return block if signed and is_plain(block) else None
    if kind == "redacted_thinking":
        return block if _filled(block.get("data")) else None
    return None


def _filled(value: Any) -> bool:
    return isinstance(value, str) and value != "" and is_text(value)


def _call(block: Block) -> Block | None:
    name, given = clean_name(block.get("name")), block.get("input")
    if not name:
        return None
    if name == block["name"] and isinstance(given, dict) and is_plain(given):
        return block
    return {**block, "name": name, "input": plain(given) if isinstance(given, dict) else {}}
