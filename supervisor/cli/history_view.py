"""A stored record as a person reads it; records that only the program needs are left out."""

from __future__ import annotations

import json
from typing import TYPE_CHECKING, Any

from rich.markdown import Markdown
from rich.text import Text

from shared.records import (
    AssistantRecord,
    ClearRecord,
    CompactionRecord,
    GrantRecord,
    ToolResultRecord,
    TurnEndRecord,
    UserRecord,
)
from supervisor.cli.terminal import harmless

if TYPE_CHECKING:
    from rich.console import Console

    from shared.records import Block, Record

_INPUT_LENGTH = 100


def show_record(record: Record, screen: Console) -> None:
    """Print one record, if it is part of the conversation."""
    match record:
        case UserRecord():
            for block in record.blocks:
                _say(f"› {_block_text(block)}", "bold", screen)
        case AssistantRecord():
            for block in record.blocks:
                _assistant(block, screen)
        case ToolResultRecord():
            failed = record.is_error or record.interrupted
            how = "interrupted" if record.interrupted else "failed" if failed else "completed"
            _say(f"{'✗' if failed else '✓'} {record.tool} {how}", "red" if failed else "green", screen)
        case TurnEndRecord(stop_reason="end_turn", error=None):
            screen.print()
        case TurnEndRecord():
            why = record.error.get("message", "error") if record.error else record.stop_reason
            _say(f"(turn ended: {why})\n", "dim", screen)
        case GrantRecord():
            _say(
                f"(from here on {record.tool} is {'allowed' if record.allow else 'rejected'})", "dim", screen
            )
        case CompactionRecord():
            _say("(compacted: the model knows what was before this by a summary)", "dim", screen)
        case ClearRecord():
            _say("(cleared: the model knows nothing of what was before this)", "dim", screen)
        case _:
            return


def _assistant(block: Block, screen: Console) -> None:
    match block:
        case {"type": "text", "text": text}:
            screen.print(Markdown(harmless(text)) if screen.is_terminal else Text(text))
        case {"type": "tool_use", "name": name, "input": given}:
            _say(f"→ {name} {_short(given)}", "cyan", screen)
        case _:
            return


def _block_text(block: Block) -> str:
    match block:
        case {"type": "text", "text": str(text)}:
            return text
        case {"type": "resource_link", "uri": uri}:
            return f"[{uri}]"
        case {"type": "resource", "resource": {"uri": uri}}:
            return f"[{uri}]"
        case _:
            return f"[{block.get('type', 'block')}]"


def _short(given: Any) -> str:
    text = json.dumps(given, ensure_ascii=False)
    return text if len(text) <= _INPUT_LENGTH else text[:_INPUT_LENGTH] + "…"


def _say(text: str, style: str, screen: Console) -> None:
    screen.print(Text(harmless(text), style=style))
