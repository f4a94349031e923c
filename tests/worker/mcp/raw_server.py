# ruff: noqa: T201
"""A server without the SDK, which starts in 20 ms and misbehaves as its first argument says."""

from __future__ import annotations

import json
import os
import signal
import subprocess
import sys
import time
from typing import Any

MODE = sys.argv[1]
LOG = sys.argv[2] if len(sys.argv) > 2 else os.devnull
CALLS = 0


def note(text: str) -> None:
    with open(LOG, "a") as log:
        log.write(f"{text}\n")


def send(message: dict[str, Any]) -> None:
    sys.stdout.write(json.dumps({"jsonrpc": "2.0", **message}) + "\n")
    sys.stdout.flush()


def tool(name: str, schema: Any = None, **more: Any) -> dict[str, Any]:
    described = {"description": f"Does {name}.", "inputSchema": schema or {"type": "object"}}
    return {"name": name, "annotations": {"readOnlyHint": True}} | described | more


TOOLS: dict[str, list[dict[str, Any]]] = {
    "names": [
        tool("same", description="the first"),
        tool("same", description="the second"),
        tool("läuft!"),
        tool("日本"),
        tool("a b"),
        tool("a_b"),
        tool("x" * 200),
        {"description": "has no name", "inputSchema": {"type": "object"}},
        {"name": "bare", "inputSchema": 5, "annotations": "none"},
    ],
    "schemas": [
        tool("union", {"type": "object", "oneOf": [{"required": ["a"]}, {"required": ["b"]}]}),
        tool("no_type", {"properties": {"a": {"type": "string"}}}),
        tool("odd_key", {"type": "object", "properties": {"ä b": {"type": "string"}}}),
        tool("wrong", {"type": "object", "properties": {"a": {"type": "strnig"}}}),
        tool("good", {"type": "object", "properties": {"title": {"type": "string"}}, "required": ["title"]}),
        tool("surrogate", description="half a character: \ud800"),
        tool("huge", {"type": "object", "description": "d" * 200_000}),
    ],
}


def content(text: str) -> dict[str, Any]:
    return {"content": [{"type": "text", "text": text}]}


def answer(id_: Any, method: str, params: dict[str, Any]) -> None:
    match method:
        case "initialize":
            capabilities = {"tools": {"listChanged": True}}
            info = {"name": MODE, "version": "1"}
            result = {"protocolVersion": params["protocolVersion"], "capabilities": capabilities}
            send({"id": id_, "result": {**result, "serverInfo": info}})
        case "tools/list":
            tools = TOOLS.get(MODE, [tool("do"), *([tool("later")] if MODE == "changes" and CALLS else [])])
            send({"id": id_, "result": {"tools": tools}})
        case "tools/call":
            call(id_, params)
        case _:
            send({"id": id_, "error": {"code": -32601, "message": "no such method"}})


def call(id_: Any, params: dict[str, Any]) -> None:
    global CALLS
    CALLS += 1
    note(f"call {params['name']} {json.dumps(params.get('arguments'))}")
    match MODE:
        case "dies":
            print("out of ideas", file=sys.stderr, flush=True)
            os._exit(7)
        case "dies-once" if not os.path.exists(f"{LOG}.died"):
            open(f"{LOG}.died", "w").close()
            os._exit(7)
        case "closes":
            os.close(1)
            time.sleep(600)
        case "hangs":
            return
        case "deaf":
            send({"method": "notifications/message", "params": {"level": "info", "data": "deaf now"}})
            time.sleep(600)
        case "changes":
            send({"method": "notifications/tools/list_changed"})
            send({"id": id_, "result": content("changed")})
        case "big":
            send({"id": id_, "result": content("x" * (50 << 20))})
        case "many":
            send({"id": id_, "result": {"content": [{"type": "text", "text": "x"}] * 300_000}})
        case "nonsense":
            send({"id": id_, "result": {"content": "no list"}})
        case "asks":
            ask = {"messages": [], "maxTokens": 5}
            send({"id": "mine", "method": "sampling/createMessage", "params": ask})
            reply = json.loads(sys.stdin.readline())
            send({"id": id_, "result": content(json.dumps(reply))})
        case "blocks":
            blocks = [
                {"type": "text", "text": "see"},
                {"type": "image", "data": "aGk=", "mimeType": "image/png"},
                {"type": "audio", "data": "aGk=", "mimeType": "audio/wav"},
                {"type": "resource", "resource": {"uri": "a://t", "text": "inline"}},
                {"type": "resource", "resource": {"uri": "a://b", "blob": "aGk=", "mimeType": "x/y"}},
                {"type": "resource_link", "uri": "a://l", "name": "linked"},
            ]
            send({"id": id_, "result": {"content": blocks, "structuredContent": {"n": 1}}})
        case "pid":
            send({"id": id_, "result": content(str(os.getpid()))})
        case _:
            send({"id": id_, "result": content(f"done {params.get('arguments')}")})


def stubborn() -> None:
    """Nobody of this family heeds SIGTERM or the end of its stdin; one sets itself apart."""
    signal.signal(signal.SIGTERM, signal.SIG_IGN)
    signal.signal(signal.SIGHUP, signal.SIG_IGN)
    sleeper = "import signal, time; signal.signal(signal.SIGTERM, signal.SIG_IGN); time.sleep(600)"
    for apart in (False, True):
        child = subprocess.Popen([sys.executable, "-c", sleeper], start_new_session=apart)
        note(f"pid {child.pid}")
    note(f"pid {os.getpid()}")


def main() -> None:
    note("started")
    match MODE:
        case "exits":
            print("first line\nno config found", file=sys.stderr, flush=True)
            sys.exit(3)
        case "flood":
            while True:
                os.write(1, b"rubbish " * 8192 + b"\n")
        case "flood-line":
            while True:
                os.write(1, b"{" * 65536)
        case "flood-json":
            while True:
                os.write(1, b'{"jsonrpc":"2.0","method":"notifications/message","params":{}}\n' * 1000)
        case "rubbish":
            os.write(1, b"Listening...\n\x00\xff\xfe\n[1,2]\n{not json}\n{}\n\n")
        case "silent":
            time.sleep(600)
        case "stubborn":
            stubborn()
    for line in sys.stdin:
        message = json.loads(line)
        if "method" in message and "id" in message:
            if MODE == "rubbish":
                print("about to answer", message["method"], flush=True)
            answer(message["id"], message["method"], message.get("params") or {})
        elif message.get("method") == "notifications/cancelled":
            note("cancelled")
    if MODE == "stubborn":
        time.sleep(600)


if __name__ == "__main__":
    main()
