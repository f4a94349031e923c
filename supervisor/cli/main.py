"""Entry of the command `iac-code`.

`iac-code acp` is what editors start and wait for, so nothing but `sys`, `os` and the front itself may be
imported on its way: argparse and rich together cost more than the front's own start.
"""

from __future__ import annotations

import os
import sys


def main() -> int:
    """Run the command in `sys.argv`; returns the exit code."""
    argv = sys.argv[1:]
    if os.name == "nt":
        print(
            "iac-code: Windows is not supported (it has no fork and no process groups); use it inside WSL.",
            file=sys.stderr,
        )
        return 1
    try:
        if argv[:1] == ["acp"] and not {"-h", "--help", "--login"}.intersection(argv):
            from supervisor.cli.acp import main as acp

            return acp(argv[1:])
        from supervisor.cli.commands import run

        return run(argv)
    except KeyboardInterrupt:
        return 130
    except BrokenPipeError:
        # The reader of our output (`| head`) has gone. What is buffered still goes somewhere at exit.
        os.dup2(os.open(os.devnull, os.O_WRONLY), 1)
        return 1
    except Exception as e:  # noqa: BLE001 - the last line of defence: told in one line, recorded whole
        from supervisor.cli.failure import report

        report(e)
        return 1


if __name__ == "__main__":
    sys.exit(main())
