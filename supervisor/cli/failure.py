"""What a person reads when a command fails: one line on stderr; a bug's traceback goes to the log."""

from __future__ import annotations

import logging
import sys


class CommandError(Exception):
    """A command cannot do what was asked; `str()` is the sentence to show."""


def report(error: BaseException) -> None:
    """Print one line for `error`, and log its traceback unless it is an expected kind."""
    from shared.settings import SettingsError

    while isinstance(error, BaseExceptionGroup):
        error = error.exceptions[0]
    if isinstance(error, OSError) and error.strerror:
        named = f"{error.filename}: " if error.filename else ""
        sentence = f"{named}{error.strerror}"
    elif isinstance(error, CommandError | SettingsError):
        sentence = str(error)
    else:
        sentence = f"{type(error).__name__}: {error} ({_logged(error)})"
    print("iac-code: " + " ".join(sentence.split()), file=sys.stderr)


def _logged(error: BaseException) -> str:
    """Log `error` with its traceback; where to find it, as a phrase."""
    from shared import logs, paths

    try:
        if not logging.getLogger().handlers:
            logs.start(logs.open_log(paths.logs_dir()), "cli")
    except OSError as e:
        return f"no log: {e.strerror}"
    logging.getLogger(__name__).critical("the command failed", exc_info=error)
    return "see `iac-code logs`"
