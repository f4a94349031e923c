"""What every line of the agent must hold to, whoever the client is: the standard's schema, and our own rules.

The schema is the one that the installed SDKs carry: the pydantic models of the Python one, and where
ops/setup-clients has been, the JSON schema of the TypeScript one. The pydantic models forgive (a bad
optional value is dropped); so what they read must be, written out again, what came.
"""

from __future__ import annotations

import json
from functools import cache
from pathlib import Path
from typing import TYPE_CHECKING, Any, Final

from acp import schema
from jsonschema import Draft202012Validator
from pydantic import BaseModel, ValidationError

from shared import errors

if TYPE_CHECKING:
    from collections.abc import Iterable, Iterator

UPDATES: Final = {
    "user_message_chunk",
    "agent_message_chunk",
    "agent_thought_chunk",
    "tool_call",
    "tool_call_update",
    "plan",
    "available_commands_update",
    "current_mode_update",
    "config_option_update",
    "session_info_update",
    "usage_update",
}
"""The kinds that all clients know; another one makes some drop the connection."""
STOP_REASONS: Final = {"end_turn", "max_turn_requests", "max_tokens", "cancelled", "refusal"}
CODES: Final = {value for name, value in vars(errors).items() if name.isupper() and isinstance(value, int)}
STANDARD_NAMES: Final = {"sessions/list": "session/list", "config/set": "session/set_config_option"}
LONGEST: Final = 10_000_000
"""Octets of a line."""

_ANSWERS: Final[dict[str, type[BaseModel]]] = {
    "initialize": schema.InitializeResponse,
    "authenticate": schema.AuthenticateResponse,
    "logout": schema.LogoutResponse,
    "session/new": schema.NewSessionResponse,
    "session/load": schema.LoadSessionResponse,
    "session/resume": schema.ResumeSessionResponse,
    "session/fork": schema.ForkSessionResponse,
    "session/prompt": schema.PromptResponse,
    "session/close": schema.CloseSessionResponse,
    "session/delete": schema.DeleteSessionResponse,
    "session/list": schema.ListSessionsResponse,
    "session/set_mode": schema.SetSessionModeResponse,
    "session/set_config_option": schema.SetSessionConfigOptionResponse,
}
_REQUESTS: Final[dict[str, type[BaseModel]]] = {
    "session/request_permission": schema.RequestPermissionRequest,
    "fs/read_text_file": schema.ReadTextFileRequest,
    "fs/write_text_file": schema.WriteTextFileRequest,
    "terminal/create": schema.CreateTerminalRequest,
    "terminal/output": schema.TerminalOutputRequest,
    "terminal/wait_for_exit": schema.WaitForTerminalExitRequest,
    "terminal/kill": schema.KillTerminalRequest,
    "terminal/release": schema.ReleaseTerminalRequest,
}
_FREE: Final = {"rawInput", "rawOutput", "raw_input", "raw_output", "data", "_meta"}
"""Members whose content is anybody's JSON."""
_SCHEMA_FILE: Final = (
    Path(__file__)
    .parents[2]
    .joinpath(".clients", "node_modules", "@agentclientprotocol", "sdk", "schema", "v1", "schema.json")
)


class Wire:
    """One connection's lines, in the order in which they were seen. `faults` says what is wrong with them."""

    def __init__(self, dialect: str = "both") -> None:
        self._bare = dialect == "acp"
        self.faults: list[str] = []
        self._asked: dict[tuple[type, Any], tuple[str, Any]] = {}
        """Method and params by id, of requests of the client that are not answered."""
        self._prompts: dict[str, int] = {}
        """Open prompts by session."""
        self._open_calls: dict[str, set[str]] = {}
        """Calls by session that were announced and have not ended."""
        self._named: set[str] = set()
        """Sessions that the client knows of."""
        self.unknown = False
        """The client sent what `sent` was not told of, so that there may be answers to anything."""

    def sent(self, message: Any) -> None:
        """The client sent this."""
        if not (isinstance(message, dict) and "id" in message and isinstance(message.get("method"), str)):
            return
        method = STANDARD_NAMES.get(str(message["method"]), str(message["method"]))
        params = message.get("params")
        self._asked[type(message["id"]), message["id"]] = method, params
        session = params.get("sessionId") if isinstance(params, dict) else None
        if isinstance(session, str):
            if method != "session/fork":
                self._named.add(session)
            if method == "session/prompt":
                self._prompts[session] = self._prompts.get(session, 0) + 1

    def received(self, line: bytes) -> None:
        """The agent wrote this line (without its end)."""
        for fault in self._faults_of(line):
            self.faults.append(f"{fault}: {line[:600]!r}")

    def finished(self) -> list[str]:
        """All faults, once the agent says no more."""
        for session, calls in self._open_calls.items():
            if calls and not self._prompts.get(session):
                self.faults.append(f"calls of session {session} never ended: {calls}")
        return self.faults

    def _faults_of(self, line: bytes) -> Iterator[str]:
        if len(line) >= LONGEST:
            yield f"{len(line)} octets"
        try:
            text = line.decode()
            message = json.loads(text)
        except ValueError as e:
            yield f"not JSON in UTF-8 ({e})"
            return
        if not isinstance(message, dict) or message.get("jsonrpc") != "2.0":
            yield "no JSON-RPC object"
            return
        if "\\ud" in text.lower() and _surrogates(message):
            yield "a lone surrogate"
        if message.keys() == {"jsonrpc", "method", "params"}:
            yield from self._notification(message["method"], message["params"])
        elif message.keys() == {"jsonrpc", "id", "method", "params"}:
            yield from self._request(message["id"], message["method"], message["params"])
        elif message.keys() in ({"jsonrpc", "id", "result"}, {"jsonrpc", "id", "error"}):
            yield from self._answer(message)
        else:
            yield f"a message of {sorted(message)}"

    # The agent's own

    def _notification(self, method: str, params: Any) -> Iterator[str]:
        if method == "$/cancel_request":
            if not isinstance(params.get("requestId"), str):
                yield "no requestId"
            return
        if method != "session/update":
            yield "a notification that clients do not know"
            return
        update, session = params["update"], params["sessionId"]
        yield from _nulls(params)
        if session not in self._named:
            yield "an update of a session that no answer has named yet"
        if update.get("sessionUpdate") not in UPDATES:
            yield "a kind of update that clients do not know"
            return
        yield from self._reference_keys(update)
        bare = {k: v for k, v in update.items() if k not in ("type", "text", "raw_input", "raw_output")}
        yield from _unlike(schema.SessionNotification, "SessionNotification", {**params, "update": bare})
        yield from self._call(session, update)

    def _reference_keys(self, update: dict[str, Any]) -> Iterator[str]:
        for name in ("rawInput", "rawOutput"):
            if name in update and not isinstance(update[name], dict):
                yield f"{name} is no object"
        content = update.get("content")
        expected: dict[str, Any] = {"type": update["sessionUpdate"]}
        if isinstance(content, dict):
            expected["text"] = content["text"]
        for standard, reference in (("rawInput", "raw_input"), ("rawOutput", "raw_output")):
            if standard in update:
                expected[reference] = update[standard]
        if self._bare:
            expected = {}
        found = {k: v for k, v in update.items() if k in ("type", "text", "raw_input", "raw_output")}
        if found != expected:
            yield f"the reference's keys are {found}, not {expected}"

    def _call(self, session: str, update: dict[str, Any]) -> Iterator[str]:
        open_calls = self._open_calls.setdefault(session, set())
        if update["sessionUpdate"] == "tool_call":
            open_calls.add(update["toolCallId"])
        elif update["sessionUpdate"] == "tool_call_update" and update["toolCallId"] not in open_calls:
            yield "an update of a call that is not open"
        if update.get("status") in ("completed", "failed"):
            open_calls.discard(update["toolCallId"])

    def _request(self, id_: Any, method: str, params: Any) -> Iterator[str]:
        if not (isinstance(id_, str) or (type(id_) is int and 0 <= id_ < 2**31)):
            yield "an id that not all clients can send back"
        model = _REQUESTS.get(method)
        if model is None:
            yield "a request that clients do not know"
            return
        yield from _nulls(params)
        yield from _unlike(model, model.__name__, params)
        if method == "session/request_permission":
            call = params["toolCall"]
            if call["toolCallId"] not in self._open_calls.get(params["sessionId"], ()):
                yield "a permission for a call that is not open"
            if {option["optionId"] for option in params["options"]} != {
                option["kind"] for option in params["options"]
            }:
                yield "options whose ids are not their kinds"

    # Answers

    def _answer(self, message: dict[str, Any]) -> Iterator[str]:
        id_ = message["id"]
        if "error" in message:
            yield from _error_faults(message["error"])
            if id_ is None:
                return
        asked = self._asked.pop((type(id_), id_), None)
        if asked is None:
            if not self.unknown:
                yield "an answer to nothing that was asked"
            return
        method, params = asked
        if method == "session/prompt" and isinstance(params, dict):
            yield from self._end_prompt(str(params.get("sessionId")))
        if "error" in message:
            return
        result = message["result"]
        yield from _nulls(result)
        if isinstance(result, dict) and isinstance(result.get("sessionId"), str):
            self._named.add(result["sessionId"])
        yield from self._result(method, result)

    def _end_prompt(self, session: str) -> Iterator[str]:
        self._prompts[session] = self._prompts.get(session, 1) - 1
        if self._prompts[session] == 0 and self._open_calls.get(session):
            yield f"the turn was answered before its calls ended: {self._open_calls[session]}"

    def _result(self, method: str, result: Any) -> Iterator[str]:
        beside = {"models"} if "modes" in result else {"usage"} if method == "session/prompt" else set()
        has = beside & result.keys()
        if beside and (has if self._bare else has != beside):
            yield f"the reference's keys {beside} are {'there' if has else 'missing'}"
        if method == "session/prompt" and result.get("stopReason") not in STOP_REASONS:
            yield "an unknown stop reason"
        model = _ANSWERS.get(method)
        if model is None:
            if result != {}:
                yield "an answer that should be empty"
            return
        bare = {k: v for k, v in result.items() if k not in beside}
        yield from _unlike(model, model.__name__, bare)


def _error_faults(error: Any) -> Iterator[str]:
    if not isinstance(error, dict) or error.get("code") not in CODES or not isinstance(error["message"], str):
        yield "an error that is none"
    elif not isinstance(error.get("data", {}), dict):
        yield "error data that is no object"


def _unlike(model: type[BaseModel], name: str, value: Any) -> Iterator[str]:
    try:
        read = model.model_validate(value)
    except ValidationError as e:
        yield f"not {name}: {e.errors(include_url=False)[:3]}"
        return
    written = read.model_dump(mode="json", by_alias=True, exclude_unset=True)
    if written != value:
        yield f"{name} reads this as {written}"
    validator = _validators().get(name)
    # 2 ms a message against 40 µs for all else, so it sees each shape of a message once.
    shape = (name, _shape(value))
    if validator is not None and shape not in _seen:
        problems = [f"not {name} at {e.json_path}: {e.message[:200]}" for e in validator.iter_errors(value)]
        yield from problems
        if not problems:
            _seen.add(shape)


_seen: set[Any] = set()


def _shape(value: Any) -> Any:
    """A value without its texts and numbers, but with the words that a schema may know."""
    if isinstance(value, dict):
        return tuple((key, _shape(item) if key not in _FREE else "") for key, item in value.items())
    if isinstance(value, list):
        return tuple(map(_shape, value[:20]))
    word = isinstance(value, str) and len(value) < 30 and value.isidentifier()
    return value if word else type(value).__name__


@cache
def _validators() -> dict[str, Draft202012Validator]:
    """By the name of the definition; empty where the TypeScript SDK is not installed."""
    if not _SCHEMA_FILE.exists():
        return {}
    whole = json.loads(_SCHEMA_FILE.read_bytes())
    return {
        name: Draft202012Validator({"$ref": f"#/$defs/{name}", "$defs": whole["$defs"]})
        for name in whole["$defs"]
    }


def _nulls(value: Any, path: str = "") -> Iterator[str]:
    items: Iterable[tuple[Any, Any]] = ()
    if isinstance(value, dict):
        items = value.items()
    elif isinstance(value, list):
        items = enumerate(value)
    for key, item in items:
        if key in _FREE:
            continue
        if item is None:
            yield f"an explicit null at {path}.{key}"
        yield from _nulls(item, f"{path}.{key}")


def _surrogates(value: Any) -> bool:
    if isinstance(value, str):
        return any("\ud800" <= character <= "\udfff" for character in value)
    if isinstance(value, dict):
        return any(_surrogates(part) for item in value.items() for part in item)
    return isinstance(value, list) and any(map(_surrogates, value))
