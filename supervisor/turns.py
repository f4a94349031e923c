"""What clients have asked of a session and is not answered yet: prompts, and replays."""

from __future__ import annotations

from dataclasses import dataclass, field
from typing import Any

from shared.frames import Prompt
from supervisor import effects as fx


@dataclass(slots=True)
class OpenReplay:
    """A load that is not answered yet: how many updates its client was sent."""

    ticket: fx.Ticket
    sent: int = 0


@dataclass(slots=True)
class OpenTurn:
    """A prompt that is not answered yet."""

    turn_id: str
    ticket: fx.Ticket
    blocks: list[dict[str, Any]]
    capabilities: dict[str, Any]
    cancelled: bool = False
    delivered: bool = False
    """A worker was given it, so that its death interrupts this turn."""
    calls: dict[str, str] = field(default_factory=dict)
    """Status by id of the calls that clients were told of."""
    shown: dict[str, int] = field(default_factory=dict)
    """Characters by chunk key that clients were sent."""

    def deliver(self) -> fx.SendData:
        """Give it to the worker."""
        self.delivered = True
        return fx.SendData(Prompt(turn_id=self.turn_id, blocks=self.blocks, capabilities=self.capabilities))

    def end_calls(self, why: str) -> list[fx.Effect]:
        """Every call that was announced ends, though its worker cannot say so any more."""
        return [
            fx.Say(
                {
                    "sessionUpdate": "tool_call_update",
                    "toolCallId": call_id,
                    "status": "failed",
                    "rawOutput": {"error": why},
                }
            )
            for call_id, status in self.calls.items()
            if status in ("pending", "in_progress")
        ]
