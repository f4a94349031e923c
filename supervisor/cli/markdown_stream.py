"""Markdown that is shown while it streams: whole blocks are printed for good, the last one is live."""

from __future__ import annotations

from typing import TYPE_CHECKING

from rich.live import Live
from rich.markdown import Markdown
from rich.segment import Segment

if TYPE_CHECKING:
    from rich.console import Console, ConsoleOptions, RenderResult

_FRAMES_PER_SECOND = 15


class MarkdownStream:
    """One message. `feed` its text as it comes, then `end`."""

    def __init__(self, console: Console) -> None:
        self._console = console
        self._open = ""
        self._live: Live | None = None

    def feed(self, text: str) -> None:
        """Show more of the message."""
        self._open += text
        cut = whole_blocks(self._open)
        if cut:
            self._stop_live()
            self._console.print(_Block(self._open[:cut]), end="")
            self._console.print()
            self._open = self._open[cut:]
        if self._open.strip() and self._live is None:
            self._live = Live(
                console=self._console,
                get_renderable=lambda: _Block(self._open, max(self._console.height - 2, 1)),
                refresh_per_second=_FRAMES_PER_SECOND,
                transient=True,
            )
            self._live.start()

    def end(self) -> None:
        """Print what is left."""
        self._stop_live()
        if self._open.strip():
            self._console.print(_Block(self._open), end="")
        self._open = ""

    def _stop_live(self) -> None:
        if self._live is not None:
            self._live.stop()
            self._live = None


def whole_blocks(text: str) -> int:
    """The length of the part of `text` that no further text can change: up to the last blank line outside
    a code fence.
    """
    cut = at = 0
    fence = ""
    for line in text.splitlines(keepends=True):
        at += len(line)
        bare = line.strip()
        if fence:
            if bare.startswith(fence) and not bare.strip(fence[0]):
                fence = ""
        elif bare.startswith(("```", "~~~")):
            fence = bare[: len(bare) - len(bare.lstrip(bare[0]))]
        elif not bare and line.endswith("\n") and text[:at].strip():
            cut = at
    return cut


def _markdown(text: str) -> Markdown:
    """Markdown in which a line stays a line, as its author sees it, outside of code."""
    lines: list[str] = []
    fenced = False
    for line in text.strip("\n").split("\n"):
        if line.strip().startswith(("```", "~~~")):
            fenced = not fenced
            lines.append(line)
        else:
            lines.append(line if fenced else line + "  ")
    return Markdown("\n".join(lines))


class _Block:
    """A block without the spaces that rich fills lines with, for its last `at_most` lines if that is set.

    A live block must fit the screen, since what has scrolled away cannot be redrawn, and leaves two columns
    free: the terminal echoes `^C` behind the cursor, and on a full line that would begin another one.
    """

    def __init__(self, text: str, at_most: int | None = None) -> None:
        self._text = text
        self._at_most = at_most

    def __rich_console__(self, console: Console, options: ConsoleOptions) -> RenderResult:
        if self._at_most is not None:
            options = options.update(width=max(options.max_width - 2, 1))
        lines = console.render_lines(_markdown(self._text), options, pad=False)
        shown = lines if self._at_most is None else lines[-self._at_most :]
        for number, line in enumerate(shown):
            yield from _trimmed(line)
            if self._at_most is None or number < len(shown) - 1:
                yield Segment.line()


def _trimmed(line: list[Segment]) -> list[Segment]:
    """The line without trailing spaces that show nothing; those with a background colour do."""
    while line and not (line[-1].style and line[-1].style.bgcolor):
        text, style, control = line[-1]
        if text.strip():
            return [*line[:-1], Segment(text.rstrip(), style, control)]
        line = line[:-1]
    return line
