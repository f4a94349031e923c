"""What a person sees of updates, on a terminal and in a pipe; and what their answers mean."""

from __future__ import annotations

import io
import re
from typing import TYPE_CHECKING, Any

import pytest
from rich.console import Console

from supervisor.cli import consent
from supervisor.cli.diffs import diff_lines
from supervisor.cli.markdown_stream import MarkdownStream, whole_blocks
from supervisor.cli.terminal import harmless
from supervisor.cli.transcript import Transcript

if TYPE_CHECKING:
    from collections.abc import Iterable


def text(words: str, message_id: str = "m1", kind: str = "agent_message_chunk") -> dict[str, Any]:
    return {"sessionUpdate": kind, "messageId": message_id, "content": {"type": "text", "text": words}}


def call(status: str | None, call_id: str = "c1", **fields: Any) -> dict[str, Any]:
    kind = "tool_call" if "title" in fields else "tool_call_update"
    return {"sessionUpdate": kind, "toolCallId": call_id, **({"status": status} if status else {}), **fields}


def plain(updates: Iterable[dict[str, Any]], capsys: pytest.CaptureFixture[str]) -> str:
    transcript = Transcript(Console(highlight=False, width=200))
    for update in updates:
        transcript.take(update)
    transcript.end()
    return capsys.readouterr().out


def test_in_a_pipe_text_is_exactly_the_models(capsys: pytest.CaptureFixture[str]) -> None:
    assert plain([text("# a\n"), text("b  [c]\x1b"), text(" d")], capsys) == "# a\nb  [c]\x1b d\n"


def test_messages_do_not_run_into_one_another(capsys: pytest.CaptureFixture[str]) -> None:
    assert plain([text("one"), text("two", "m2")], capsys) == "one\ntwo\n"


def test_a_call_is_told_when_its_state_changes_and_not_again(capsys: pytest.CaptureFixture[str]) -> None:
    updates = [
        text("I run it."),
        call("pending", title="bash: make\nso", kind="execute"),
        call("in_progress", rawInput={}),
        call(None, content=[{"type": "content", "content": {"type": "text", "text": "half"}}]),
        call("completed", content=[{"type": "content", "content": {"type": "text", "text": "done\n"}}]),
    ]
    assert (
        plain(updates, capsys) == "I run it.\n… bash: make so\n→ bash: make so\n✓ bash: make so\n    done\n"
    )


def test_what_was_read_is_not_repeated_but_a_failure_is(capsys: pytest.CaptureFixture[str]) -> None:
    content = [{"type": "content", "content": {"type": "text", "text": "words"}}]
    read = [call("in_progress", title="read a", kind="read"), call("completed", content=content)]
    assert "words" not in plain(read, capsys)
    failed = [call("in_progress", title="read a", kind="read"), call("failed", content=content)]
    assert plain(failed, capsys) == "→ read a\n✗ read a\n    words\n"


def test_long_output_is_cut_to_its_end(capsys: pytest.CaptureFixture[str]) -> None:
    lines = "\n".join(str(number) for number in range(100))
    content = [{"type": "content", "content": {"type": "text", "text": lines}}]
    out = plain([call("completed", title="t", kind="execute", content=content)], capsys)
    assert "… 88 lines before" in out
    assert out.endswith("    98\n    99\n")


def test_a_diff_is_shown_once(capsys: pytest.CaptureFixture[str]) -> None:
    diff = [{"type": "diff", "path": "/p/a.tf", "oldText": "a\nb\n", "newText": "a\nc\n"}]
    out = plain(
        [call("pending", title="edit a.tf", kind="edit", content=diff), call("completed", content=diff)],
        capsys,
    )
    assert out == "… edit a.tf\n@ /p/a.tf\n@@ -1,2 +1,2 @@\n a\n-b\n+c\n✓ edit a.tf\n"


def test_updates_that_come_during_a_question_are_shown_after_it(capsys: pytest.CaptureFixture[str]) -> None:
    transcript = Transcript(Console(highlight=False, width=200))
    transcript.take(text("before"))
    transcript.hold()
    transcript.take(text("after", "m2"))
    assert capsys.readouterr().out == "before\n"
    transcript.release()
    transcript.end()
    assert capsys.readouterr().out == "after\n"


@pytest.mark.parametrize(
    "update",
    [
        {"sessionUpdate": "usage_update", "used": 1, "size": 2},
        {"sessionUpdate": "current_mode_update", "currentModeId": "plan"},
        {"sessionUpdate": "something_newer", "x": 1},
        {},
        text("thinking", kind="agent_thought_chunk"),
        {
            "sessionUpdate": "agent_message_chunk",
            "content": {"type": "image", "data": "", "mimeType": "image/png"},
        },
    ],
)
def test_kinds_that_mean_nothing_in_a_pipe_leave_no_trace(
    update: dict[str, Any], capsys: pytest.CaptureFixture[str]
) -> None:
    assert plain([update], capsys) == ""


def test_on_a_terminal_nothing_that_was_said_can_steer_it() -> None:
    screen = io.StringIO()
    transcript = Transcript(Console(file=screen, force_terminal=True, color_system=None, width=80))
    evil = "a\x1b]52;c;AAAA\x07b\x9b2Jc\rd\x00"
    transcript.take(call("pending", title=evil, kind="execute"))
    transcript.take(call("failed", content=[{"type": "content", "content": {"type": "text", "text": evil}}]))
    transcript.take(text(evil))
    transcript.end()
    assert "\x1b]52" not in screen.getvalue()
    assert "\x9b" not in screen.getvalue()
    assert "\x00" not in screen.getvalue()


def test_harmless_keeps_words_lines_and_tabs() -> None:
    assert harmless("ä\t€\n\u200d語") == "ä\t€\n\u200d語"
    assert harmless("".join(map(chr, [*range(32), *range(127, 160)]))) == "\t\n"


@pytest.mark.parametrize(
    ("whole", "rest"),
    [
        ("", "no end yet"),
        ("one\n\n", "two"),
        ("one\n\ntwo\n\n", ""),
        ("", "\n\n"),
        ("", "```\ncode\n\nmore"),
        ("", "~~~~\ncode\n~~~\n\nmore"),
        ("```\ncode\n\nmore\n```\n\n", "after"),
        ("", "````\n```\n\n```\n"),
    ],
)
def test_a_block_is_whole_at_a_blank_line_outside_of_code(whole: str, rest: str) -> None:
    assert whole_blocks(whole + rest) == len(whole)


def test_streamed_markdown_ends_as_if_it_had_come_at_once() -> None:
    words = "# Head\n\nA line\nand another\n\n1. one\n2. two\n\n```python\nx = 1\n\ny = 2\n```\n\nend"
    shown: list[str] = []
    for pieces in ([words], list(words)):
        screen = io.StringIO()
        stream = MarkdownStream(Console(file=screen, width=60, force_terminal=False))
        for piece in pieces:
            stream.feed(piece)
        stream.end()
        shown.append(screen.getvalue())
    assert [line.rstrip() for line in shown[0].splitlines() if line.strip()] == [
        line.rstrip() for line in shown[1].splitlines() if line.strip()
    ]
    assert re.search(r"^A line *\n *and another", shown[0], re.MULTILINE)


@pytest.mark.parametrize("count", [3, 5000])
def test_a_diff_names_its_file_and_stays_readable(count: int) -> None:
    old = "".join(f"{number}\n" for number in range(count))
    lines = diff_lines("/p/f", old, old + "x\n")
    assert lines[0].startswith("@ /p/f")
    assert len(lines) < 10


def test_a_new_file_is_all_additions() -> None:
    assert diff_lines("/p/f", "", "a\n-b\n") == ["@ /p/f", "@@ -0,0 +1,2 @@", "+a", "+-b"]


OPTIONS = [
    {"optionId": f"id-{kind}", "kind": kind, "name": kind}
    for kind in ("allow_once", "allow_always", "reject_once", "reject_always")
]


@pytest.mark.parametrize(
    ("typed", "kind"),
    [
        ("y", "allow_once"),
        (" YES ", "allow_once"),
        ("a", "allow_always"),
        ("n", "reject_once"),
        ("never", "reject_always"),
        ("", None),
        ("ye", None),
        ("allow_once", None),
    ],
)
def test_only_a_clear_word_is_an_answer(typed: str, kind: str | None) -> None:
    assert consent.kind_of(typed, OPTIONS) == kind


def test_an_option_that_is_not_offered_cannot_be_chosen() -> None:
    assert consent.kind_of("a", OPTIONS[:1]) is None
    assert consent.selected(OPTIONS[:1], "allow_always") == consent.CANCELLED
    assert consent.selected(OPTIONS, "reject_once") == {
        "outcome": {"outcome": "selected", "optionId": "id-reject_once"}
    }
