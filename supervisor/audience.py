"""The clients that have a session: who is sent what, and who is asked.

A client that loads the session is sent its replay alone until that is over; what was prompted meanwhile and
is in no history yet is shown to it then, so it misses nothing and sees nothing twice.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Any, Final

from shared import content
from shared.updates import chunks, update_line

if TYPE_CHECKING:
    from collections.abc import Callable, Iterable, Iterator

    from shared.updates import Dialect
    from supervisor.connection import Connection
    from supervisor.effects import AskClient, Ticket
    from supervisor.turns import OpenTurn

PERMISSION: Final = "session/request_permission"
"""Asked of every client; all else (fs, terminal) of the one whose prompt runs, since it alone offered it."""


class Audience:
    """Of one session."""

    def __init__(self, session_id: str, dialect: Dialect) -> None:
        self._session_id = session_id
        self._dialect = dialect
        self.clients: set[Connection] = set()
        self.loading: dict[Ticket, Callable[[], dict[str, Any]]] = {}
        """What a load answers once its replay is over."""
        self._replayed: dict[Ticket, set[str]] = {}
        """Turns whose prompt a replay has shown."""

    def client_of(self, ticket: Ticket) -> Connection | None:
        """Who asked, if it still has the session."""
        return next((client for client in self.clients if client.number == ticket.connection), None)

    def receivers(self) -> list[Connection]:
        """Who gets live updates: a load's replay holds all that came before its end."""
        loading = {ticket.connection for ticket in self.loading}
        return [client for client in self.clients if client.number not in loading]

    def begin_load(self, ticket: Ticket, answer: Callable[[], dict[str, Any]]) -> None:
        """A replay begins; `answer` makes the load's answer at its end."""
        self.loading[ticket] = answer
        self._replayed[ticket] = set()

    def end_load(self, ticket: Ticket) -> Callable[[], dict[str, Any]] | None:
        """The replay is over; what `begin_load` was given, or None where no such load is known."""
        return self.loading.pop(ticket, None)

    def replays(self, ticket: Ticket, line: bytes, turns: Iterable[OpenTurn]) -> None:
        """A line of a replay is sent."""
        seen = self._replayed.get(ticket)
        if seen is not None:
            seen.update(turn.turn_id for turn in turns if turn.turn_id.encode() in line)

    def catch_up(self, ticket: Ticket, client: Connection, turns: Iterable[OpenTurn]) -> None:
        """After a load: the prompts that run or wait and that no history had for the replay to show."""
        seen = self._replayed.pop(ticket, set())
        for turn in turns:
            if turn.turn_id not in seen:
                for line in self._shown(turn):
                    client.send(line)

    def echo(self, sender: Connection, turn: OpenTurn) -> None:
        """Show what one client prompted to the others."""
        others = [client for client in self.receivers() if client is not sender]
        for line in self._shown(turn) if others else ():
            for client in others:
                client.send(line)

    def _shown(self, turn: OpenTurn) -> Iterator[bytes]:
        for block in content.to_model(turn.blocks):
            for update in chunks("user_message_chunk", block["text"], turn.turn_id):
                yield update_line(self._session_id, update, self._dialect)

    def ask(self, ask: AskClient, turn: OpenTurn | None) -> bool:
        """Send a request of the session on; False where nobody is there whom it is for."""
        if ask.method == PERMISSION:
            asked = list(self.clients)
        else:
            prompter = self.client_of(turn.ticket) if turn is not None else None
            asked = [prompter] if prompter is not None else []
        for client in asked:
            client.ask(self._session_id, ask.key, ask.method, ask.params)
        return bool(asked)

    def ask_again(self, client: Connection, asks: Iterable[AskClient]) -> None:
        """A client has come that may answer what is open."""
        for ask in asks:
            if ask.method == PERMISSION and not client.was_asked(self._session_id, ask.key):
                client.ask(self._session_id, ask.key, ask.method, ask.params)

    def withdraw(self, key: str, *, but: Connection | None = None) -> None:
        """A request is void, or was answered by the client `but`."""
        for client in self.clients:
            if client is not but:
                client.withdraw(self._session_id, key)

    def remove(self, client: Connection) -> None:
        """It has left."""
        self.clients.discard(client)
        for ticket in [ticket for ticket in self._replayed if ticket.connection == client.number]:
            self.loading.pop(ticket, None)
            del self._replayed[ticket]
