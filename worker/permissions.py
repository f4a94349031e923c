"""The one place that decides whether a call runs, asks or is refused, and says why.

`decide` is pure: the call with its resolved paths, and what is set and granted, give a verdict. What the
user answered is read here too, by protocol.md §6: what is not clearly a yes is a no.
"""

from __future__ import annotations

import glob
import itertools
from dataclasses import dataclass, field
from pathlib import Path
from typing import TYPE_CHECKING, Any, Final, Literal

from worker.boundaries import inside, is_skill, resolve, sensitive
from worker.rules import Rule, allowed_path, applies, rules_of
from worker.shell_reading import Reading, read
from worker.shell_sweeps import guarded_file
from worker.tools.base import Access

if TYPE_CHECKING:
    from collections.abc import Iterator, Mapping

    from worker.tools.base import Tool, ToolInput, ToolKind

__all__ = [
    "Call",
    "Decision",
    "Mode",
    "Policy",
    "Rule",
    "call_of",
    "decide",
    "grant_scope",
    "parse_outcome",
    "permission_options",
    "rules_of",
]

Mode = Literal["default", "accept_edits", "plan", "bypass_permissions"]
Answer = Literal["allow_once", "allow_always", "reject_once", "reject_always"]

DENIED: Final = "Permission denied."
_TOLD: Final = 3
"""Paths that a reason names."""
_MAGIC: Final = 2
"""Parts of a glob pattern that match; more may take for ever."""
_MATCHES: Final = 10_000
"""Paths that a glob pattern may match; about 0.1 s."""
_RESOLVED: Final = 300


@dataclass(frozen=True, slots=True)
class Call:
    """A call as it is judged. `accesses` are resolved."""

    tool: str
    kind: ToolKind
    read_only: bool
    accesses: tuple[Access, ...]
    command: str | None = None
    """Of bash alone."""
    shell: Reading | None = None
    """What can be told of `command`."""
    crosses: str | None = None
    """A boundary that the tool itself names, as a phrase; or why the call's paths cannot be judged."""
    changes_nothing: bool = False
    """Of a tool that is not `read_only`: this call has no side effects."""
    swept: str | None = None
    """A guarded file that a command only reads, and does not name, as a sentence."""
    guarded: Mapping[Access, str] = field(default_factory=dict)
    """Why accesses ask even inside the roots: see `boundaries.sensitive`."""


@dataclass(frozen=True, slots=True)
class Policy:
    """What is set and granted. `roots` are resolved, the working directory first.

    `grants` are the user's "always" answers by `tool` or `tool:scope` (see `grant_scope`): True allows.
    `suspended` tools ask until the turn ends, whatever grants, rules or mode allow; each maps to the tool
    whose call was interrupted.
    """

    mode: Mode
    roots: tuple[Path, ...]
    grants: Mapping[str, bool] = field(default_factory=dict)
    suspended: Mapping[str, str] = field(default_factory=dict)
    rules: tuple[Rule, ...] = ()
    bash_grants: Literal["tool", "prefix"] = "tool"
    dangerously_allow_outside: bool = False
    skills: tuple[Path, ...] = ()
    """Resolved folders of the user's own skills, which may be read."""


@dataclass(frozen=True, slots=True)
class Decision:
    """`reason` is a sentence: for the user where it asks, for the model where it denies."""

    verdict: Literal["allow", "ask", "deny"]
    reason: str
    by: Literal["tool", "mode", "rule", "grant", "boundary", "interrupted"] = "tool"
    """What decided."""


def call_of(tool: Tool[ToolInput], args: ToolInput, cwd: Path) -> Call:
    """The call as `decide` needs it. Follows links and reads folders: for a thread, never on the loop."""
    command = getattr(args, "command", None) if tool.kind == "execute" else None
    shell = read(command, cwd) if isinstance(command, str) else None
    accesses: dict[Access, None] = {}
    crosses: str | None = None
    swept: str | None = None
    try:
        if shell is not None and shell.read_only:
            swept = next(filter(None, (guarded_file(sweep, cwd) for sweep in shell.sweeps)), None)
        for access in itertools.chain(tool.accesses(args, cwd), _named(shell) if shell else ()):
            accesses[Access(resolve(access.path), access.write)] = None
    except (ValueError, OSError) as e:
        crosses = f"it names a path that cannot be judged ({e})"
    return Call(
        tool.name,
        tool.kind,
        tool.read_only,
        tuple(accesses),
        command if shell else None,
        shell,
        crosses,
        tool.changes_nothing(args),
        swept,
        {one: reason for one in accesses if (reason := sensitive(one.path, write=one.write)) is not None},
    )


def _named(shell: Reading) -> Iterator[Access]:
    """The paths that a command names, and what its glob patterns match now."""
    for named in shell.paths:
        if not named.pattern:
            yield Access(Path(named.path), named.write)
        elif sum(glob.has_magic(part) for part in named.path.split("/")) > _MAGIC:
            raise ValueError(f"{named.path} may match too many files to look at")
        else:
            for number, match in enumerate(itertools.islice(glob.iglob(named.path), _MATCHES + 1)):
                if number == _MATCHES:
                    raise ValueError(f"{named.path} matches too many files to look at")
                path = Path(match)
                # To resolve each of thousands would take long, and only links lead elsewhere.
                if number < _RESOLVED or sensitive(path, write=named.write) is not None or path.is_symlink():
                    yield Access(path, named.write)


def decide(call: Call, policy: Policy) -> Decision:
    """Whether the call runs unasked, asks the user, or is refused."""
    granted = _granted(call, policy)
    forbidding = _ruling("deny", call, policy)
    if forbidding is not None:
        reason = f"{DENIED} A rule of {forbidding.source} forbids this call of {call.tool}."
        return Decision("deny", reason, "rule")
    if granted is False:
        return Decision("deny", DENIED, "grant")
    harmless = call.changes_nothing or (call.shell is not None and call.shell.read_only)
    reads = call.read_only or (policy.mode == "plan" and harmless)
    if policy.mode == "plan" and not reads:
        return Decision(
            "deny",
            f"{DENIED} The session is in plan mode, which is read-only, so {call.tool} does not run. "
            "Say what you would do; the user can leave the mode.",
            "mode",
        )
    crossed = _crossed(call, policy)
    if crossed is not None:
        return Decision("ask", crossed, "boundary")
    if call.tool in policy.suspended:
        reason = f"An earlier call of {policy.suspended[call.tool]} in this turn was interrupted and may "
        return Decision("ask", f"{reason}have had effect.", "interrupted")
    asking = _ruling("ask", call, policy)
    if asking is not None:
        return Decision("ask", f"A rule of {asking.source} asks before this call of {call.tool}.", "rule")
    return _inside(call, policy, reads=reads, granted=granted is True)


def _inside(call: Call, policy: Policy, *, reads: bool, granted: bool) -> Decision:
    """The decision on a call that crosses no boundary and that nothing forbids or asks for."""
    if reads:
        return Decision("allow", f"{call.tool} only reads, inside the session's folders.")
    allowing = _ruling("allow", call, policy)
    if allowing is not None:
        return Decision("allow", f"A rule of {allowing.source} allows this call of {call.tool}.", "rule")
    if policy.mode == "bypass_permissions":
        return Decision("allow", "Mode bypass_permissions asks for nothing inside the boundaries.", "mode")
    if policy.mode == "accept_edits" and call.kind == "edit":
        return Decision("allow", "Mode accept_edits allows edits inside the session's folders.", "mode")
    if granted:
        return Decision("allow", "The user allowed this for the whole session.", "grant")
    does = {"edit": "changes files", "execute": "runs programs"}.get(call.kind, "may change something")
    return Decision("ask", f"{call.tool} {does}.")


def _crossed(call: Call, policy: Policy) -> str | None:
    """The boundaries that a call crosses, as sentences. A sensitive file is one in every mode."""
    unbounded = policy.mode == "bypass_permissions" and policy.dangerously_allow_outside
    guarded: list[str] = []
    outside: list[str] = []
    for access in call.accesses:
        if not access.write and is_skill(access.path, policy.skills):
            continue
        verb = "writes to" if access.write else "reads"
        reason = call.guarded.get(access)
        if reason is not None:
            guarded.append(f"{call.tool} {verb} {access.path}, which {reason}.")
        elif (
            not unbounded
            and not inside(access.path, policy.roots)
            and not allowed_path(policy.rules, call.tool, access, policy.roots[0])
        ):
            outside.append(f"{call.tool} {verb} {access.path}, outside the session's folders.")
    told = guarded + outside
    if len(told) > _TOLD:
        told[_TOLD:] = [f"And {len(told) - _TOLD} more such paths."]
    if call.swept is not None and policy.mode == "plan":
        # In other modes the user has allowed the command itself.
        told.append(call.swept)
    if call.crosses is not None:
        told.append(f"{call.tool} crosses a boundary: {call.crosses}.")
    if call.shell is not None and call.shell.unreadable and not unbounded:
        told.append(f"What the command does cannot be told: {call.shell.unreadable}.")
    return " ".join(told) or None


def _ruling(effect: Literal["allow", "ask", "deny"], call: Call, policy: Policy) -> Rule | None:
    """The first rule of this effect that is for the call."""
    for rule in policy.rules:
        if rule.effect == effect and applies(rule, call.tool, call.accesses, call.shell, policy.roots[0]):
            return rule
    return None


def grant_scope(call: Call, policy: Policy) -> str:
    """What an "always" for this call covers: "" the whole tool; for bash, with `prefix`, the same programs.

    Several programs are joined by ` && `. `=` and the command is that command alone, where nothing more
    general can be told. The key of a grant is the tool, or the tool, a colon and the scope.
    """
    if call.shell is None or policy.bash_grants == "tool":
        return ""
    scopes = [scope for scope in call.shell.scopes if scope is not None]
    if call.shell.unreadable or not scopes or len(scopes) < len(call.shell.scopes):
        return f"={call.command}"
    return " && ".join(dict.fromkeys(scopes))


def _granted(call: Call, policy: Policy) -> bool | None:
    """The user's "always" for this call: True allows, False rejects, None is none."""
    whole = policy.grants.get(call.tool)
    if whole is False or call.shell is None:
        return whole
    prefix = f"{call.tool}:"
    scoped = {
        key.removeprefix(prefix): allow for key, allow in policy.grants.items() if key.startswith(prefix)
    }
    exact = scoped.get(f"={call.command}")
    programs = set(call.shell.scopes)
    # A rejected `git add && git push` is that pair; each alone may be wanted.
    if exact is False or any(not allow and set(s.split(" && ")) <= programs for s, allow in scoped.items()):
        return False
    covered = {program for s, allow in scoped.items() if allow for program in s.split(" && ")}
    return True if whole or exact or (programs and programs <= covered) else None


_ANSWERS: Final[tuple[Answer, ...]] = ("allow_once", "allow_always", "reject_once", "reject_always")


def permission_options(scope: str) -> list[dict[str, Any]]:
    """The four options of a permission request; the "always" ones name the scope that they are for."""
    covers = "exactly this command" if scope.startswith("=") else scope
    what = f": {covers}" if covers else ""
    names = ("Allow once", f"Always allow{what}", "Reject once", f"Always reject{what}")
    return [
        {"optionId": answer, "name": name, "kind": answer}
        for answer, name in zip(_ANSWERS, names, strict=True)
    ]


def parse_outcome(result: Any, *, error: bool) -> Answer:
    """What a client answered to a permission request, by the table of protocol.md §6.

    Everything that is not one of its shapes, or has an unknown option, is `reject_once`.
    """
    if error or not isinstance(result, dict):
        return "reject_once"
    outcome = result.get("outcome")
    answer = outcome if isinstance(outcome, dict) else result
    chosen: Any = None
    if answer.get("outcome") == "selected" and answer is outcome:
        chosen = answer.get("optionId")
    elif answer.get("outcome") == "allowed":
        chosen = answer.get("option_id")
        if chosen is None:
            chosen = "allow_once"
    return next((known for known in _ANSWERS if known == chosen), "reject_once")
