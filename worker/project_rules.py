"""The opened project's own rules, `.iac-code/rules.json`: they may forbid and ask, never allow.

Whoever wrote the project may be anybody, so nothing in the file widens what a session may do; and a file
that cannot be read must not drop what it forbids, so then every call asks.
"""

from __future__ import annotations

import os
import stat
from pathlib import Path
from typing import Final

from pydantic import BaseModel, ConfigDict, Field, ValidationError

from shared.settings import RuleSetting
from worker.rules import Rule, rules_of

FILE: Final = Path(".iac-code", "rules.json")
_LARGEST: Final = 64 * 1024
_MOST: Final = 200


class _ProjectRules(BaseModel):
    model_config = ConfigDict(extra="forbid")

    rules: list[RuleSetting] = Field(max_length=_MOST)


def project_rules(cwd: Path) -> tuple[tuple[Rule, ...], list[str]]:
    """The rules of the project in `cwd`, and what the user should know of them. Blocks: for a thread."""
    path = cwd / FILE
    try:
        text = _read(path)
        if text is None:
            return (), []
        rules = rules_of(_ProjectRules.model_validate_json(text).rules, source=f"the project's {FILE}")
    except ValidationError as e:
        first = e.errors()[0]
        where = ".".join(str(part) for part in first["loc"]) or "the file"
        return _unreadable(f"{where}: {first['msg']}")
    except (OSError, ValueError) as e:
        return _unreadable(getattr(e, "strerror", None) or str(e))
    kept = tuple(rule for rule in rules if rule.effect != "allow")
    if len(kept) == len(rules):
        return kept, []
    ignored = len(rules) - len(kept)
    return kept, [
        f"{ignored} rule{'s' if ignored > 1 else ''} of the project's {FILE} would allow something and "
        f"{'are' if ignored > 1 else 'is'} ignored: only your own settings can allow."
    ]


def _unreadable(why: str) -> tuple[tuple[Rule, ...], list[str]]:
    told = f"The project's {FILE} cannot be used ({why}), so every call asks. Correct or remove it."
    return (Rule("ask", "*", source=f"the project's unreadable {FILE}"),), [told]


def _read(path: Path) -> bytes | None:
    try:
        fd = os.open(path, os.O_RDONLY | os.O_NONBLOCK | os.O_NOCTTY | os.O_CLOEXEC)
    except (FileNotFoundError, NotADirectoryError):
        return None
    try:
        if not stat.S_ISREG(os.fstat(fd).st_mode):
            raise ValueError("it is not a regular file")
        text = os.read(fd, _LARGEST + 1)
    finally:
        os.close(fd)
    if len(text) > _LARGEST:
        raise ValueError(f"it is larger than {_LARGEST // 1024} KiB")
    return text
