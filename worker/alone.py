"""A worker as a plain subprocess of the front, `python -m worker.alone FD`, where nothing can be forked.

The spec comes as a line on descriptor FD. Unlike a forked worker this one imports all it needs itself.
"""

from __future__ import annotations

import os
import select
import sys

from shared.frames import WorkerSpec
from shared.processes import die_with_parent


def main() -> None:
    """Become the worker; exits with its code."""
    # The imports take seconds, in which nobody watches the lifeline.
    die_with_parent()
    with os.fdopen(int(sys.argv[1]), "rb") as pipe:
        spec = WorkerSpec.model_validate_json(pipe.read())
    for fd in (spec.lifeline_fd, spec.lock_fd):
        if fd >= 0:
            os.set_inheritable(fd, False)
    if select.select([spec.lifeline_fd], [], [], 0)[0]:
        return  # the front ended before this process could ask to be told
    from worker.main import run

    die_with_parent(0)
    sys.exit(run(spec))


if __name__ == "__main__":
    main()
