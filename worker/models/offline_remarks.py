"""What the offline model says of a tool's result: one line, from the call and the result's text. Pure."""

from __future__ import annotations

from typing import Any

_LONGEST = 200


def remark(tool: str, args: dict[str, Any], result: str, failed: bool) -> str:
    """One sentence for the user about a call that has ended."""
    lines = [line for line in result.splitlines() if line.strip()]
    if not failed:
        # A line in brackets is the tool's own remark: an empty folder, no output, what was cut.
        lines = [line for line in lines if (line[0], line[-1]) not in (("[", "]"), ("(", ")"))]
    number = len(lines)
    if failed:
        return f"{_attempt(tool, args)} failed: {_short(lines[0] if lines else 'no reason was given')}"
    match tool:
        case "list_files":
            return f"Listed {_count(number, 'entry', 'entries')}."
        case "read_file":
            return f"Read {_count(number, 'line')} of {args['path']}."
        case "write_file":
            return f"Wrote {args['path']}."
        case "edit_file":
            return f"Replaced {args['old_string']!r} with {args['new_string']!r} in {args['path']}."
        case "bash":
            return f"Ran `{_short(args['command'])}`: {_count(number, 'line')} of output."
        case "grep":
            return f"Searched for {args['pattern']}: {_count(number, 'line')} found."
        case "glob":
            return f"Looked for {args['pattern']}: {_count(number, 'path')} found."
        case "web_fetch":
            return f"Fetched {args['url']}: {_count(len(result), 'character')}."
        case "agent":
            return f"The sub-agent answered: {_short(' '.join(lines) or 'nothing')}"
        case _:
            return f"Noted {_count(len(args['entries']), 'step')}."


def _attempt(tool: str, args: dict[str, Any]) -> str:
    target = next((value for value in args.values() if isinstance(value, str)), "")
    return f"{tool} {_short(target)}".strip()


def _count(number: int, one: str, more: str | None = None) -> str:
    return f"{number} {one if number == 1 else more or one + 's'}"


def _short(text: str) -> str:
    return text if len(text) <= _LONGEST else f"{text[:_LONGEST]}…"
