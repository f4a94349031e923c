"""A file's change as the lines of a unified diff."""

from __future__ import annotations

import difflib

_COMPARE_AT_MOST = 4000
"""Lines on either side: difflib is quadratic, and nobody reads such a diff on a terminal."""


def diff_lines(path: str, old: str, new: str) -> list[str]:
    """Lines without their ends, a heading with the path first; sizes only where the texts are very long."""
    before, after = old.splitlines(), new.splitlines()
    if max(len(before), len(after)) > _COMPARE_AT_MOST:
        return [f"@ {path}: {len(before)} lines become {len(after)}"]
    changes = list(difflib.unified_diff(before, after, lineterm="", n=2))
    # The two heading lines of difflib name files; there is one file here.
    return [f"@ {path}", *changes[2:]]
