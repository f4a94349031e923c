"""What a session has asked its clients and has no answer to yet. Pure, like the session that it belongs to.

A request outlives the worker that asked: the next one asks under the same key and joins the dialog that
the user still sees. An answer is kept until the turn ends, since who was to get it may be dead already.
"""

from __future__ import annotations

from dataclasses import dataclass, field
from typing import TYPE_CHECKING, Any

from shared.frames import Reply
from supervisor import effects as fx

if TYPE_CHECKING:
    from shared.frames import Header


@dataclass(slots=True)
class _Dialog:
    asked_by: int
    ask: fx.AskClient
    reply: Reply | None = None


@dataclass
class Dialogs:
    """The open requests of one session, by key."""

    _open: dict[str, _Dialog] = field(default_factory=dict)

    def asked(self, header: Header, params: bytes, epoch: int) -> list[fx.Effect]:
        """The worker of `epoch` asks: a new dialog, or the one of an earlier epoch."""
        dialog = self._open.get(header.key)
        if dialog is None or dialog.asked_by == epoch:
            ask = fx.AskClient(header.key, header.status, params)
            self._open[header.key] = _Dialog(epoch, ask)
            return [ask]
        dialog.asked_by = epoch
        return [fx.SendData(dialog.reply)] if dialog.reply is not None else []

    def answered(
        self, key: str, result: Any, error: dict[str, Any] | None, ready_epoch: int | None
    ) -> list[fx.Effect]:
        """A client's answer; ignored if it was withdrawn. `ready_epoch` is that of a worker that is ready."""
        dialog = self._open.get(key)
        if dialog is None or dialog.reply is not None:
            return []
        dialog.reply = Reply(key=key, result=result, error=error)
        return [fx.SendData(dialog.reply)] if dialog.asked_by == ready_epoch else []

    def withdrawn(self, key: str) -> list[fx.Effect]:
        """The worker does not want the answer any more."""
        dialog = self._open.pop(key, None)
        return [fx.WithdrawFromClient(key)] if dialog is not None and dialog.reply is None else []

    def unanswered(self) -> list[fx.AskClient]:
        """Requests that a client may still answer, as they were asked."""
        return [dialog.ask for dialog in self._open.values() if dialog.reply is None]

    def void(self) -> list[fx.Effect]:
        """All of them are over."""
        effects: list[fx.Effect] = [fx.WithdrawFromClient(ask.key) for ask in self.unanswered()]
        self._open.clear()
        return effects
