"""What a session is held to: its folders, the rules, the sandbox and the audit file. Found when it opens."""

from __future__ import annotations

from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING

from shared.records import AssistantRecord, ToolResultRecord
from worker.audit import Audit
from worker.boundaries import inside, resolve
from worker.project_rules import project_rules
from worker.rules import Rule, rules_of
from worker.sandbox import Sandbox
from worker.scratch import Scratch
from worker.steps import tool_uses

if TYPE_CHECKING:
    from collections.abc import Mapping, Sequence

    from shared.records import Record
    from shared.settings import Settings
    from worker.tools.base import Tool, ToolInput


@dataclass(frozen=True, slots=True)
class Limits:
    """`roots` are resolved: the working directory, the client's folders, then those of the session itself."""

    roots: tuple[Path, ...]
    of_client: tuple[Path, ...]
    """Those of the roots that the client named."""
    rules: tuple[Rule, ...]
    sandbox: Sandbox
    audit: Audit
    notices: list[str]
    """What the user should be told once."""

    def untold(self) -> list[str]:
        """The notices, each of them once."""
        told = list(self.notices)
        self.notices.clear()
        return told


def suspended(turn: Sequence[Record], tools: Mapping[str, Tool[ToolInput]]) -> dict[str, str]:
    """The tools that ask until the turn ends, each with the one whose call was interrupted."""
    explored = {
        call["id"]
        for record in turn
        if isinstance(record, AssistantRecord)
        for call in tool_uses(record)
        if call["name"] == "agent" and call["input"].get("type") == "explore"
    }
    found = {
        record.tool: record.tool
        for record in turn
        if isinstance(record, ToolResultRecord) and record.interrupted and record.call_id not in explored
    }
    if "agent" in found:
        # Nothing on disk tells which tools the sub-agent was using.
        changing = (name for name, tool in tools.items() if not tool.read_only)
        found = dict.fromkeys(changing, "agent") | found
    return found


def find_limits(
    cwd: Path,
    directories: Sequence[Path],
    session_dir: Path,
    epoch: int,
    settings: Settings,
    environment: Mapping[str, str],
) -> Limits:
    """Look at the disk and put them together. Blocks: for a thread. Raises ValueError for a bad path."""
    notices: list[str] = []
    named = [resolve(cwd)]
    for directory in directories:
        found = resolve(directory)
        # A command may put a link in the place of a folder that it may write; not what the user named.
        if inside(Path(directory), (cwd, *named)) and not inside(found, named):
            notices.append(
                f"{directory} lies in the session's folder but leads to {found}, so it counts as outside. "
                f"If that is meant, name {found} itself as additional directory."
            )
        else:
            named.append(found)
    scratch = Scratch(session_dir)
    # Long outputs and temporary files are the session's own: the model is told to read on there.
    roots = (*named, resolve(session_dir / "spill"), scratch.path)
    of_project, told = project_rules(named[0])
    return Limits(
        roots,
        tuple(named),
        (*rules_of(settings.rules), *of_project),
        Sandbox(settings.sandbox, roots, scratch, environment),
        Audit(session_dir / "audit.jsonl", epoch),
        notices + told,
    )
