"""What clients send is taken in every shape that they use, and what is wrong is named field by field."""

from __future__ import annotations

import contextlib
from typing import TYPE_CHECKING, Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from shared.errors import RequestError
from supervisor import params
from supervisor.title import LONGEST, title_of

if TYPE_CHECKING:
    from pathlib import Path

TEXT = {"type": "text", "text": "hi"}

json_values = st.recursive(
    st.none() | st.booleans() | st.integers() | st.floats(allow_nan=False) | st.text(max_size=8),
    lambda inner: st.lists(inner, max_size=4) | st.dictionaries(st.text(max_size=8), inner, max_size=4),
    max_leaves=12,
)
MODELS = [
    params.SessionParams,
    params.NewParams,
    params.OpenParams,
    params.ListParams,
    params.ConfigParams,
    params.ModeParams,
    params.ModelParams,
    params.CancelRequestParams,
    params.PromptParams,
]


def refused(model: type[params.Params], given: Any) -> dict[str, Any]:
    with pytest.raises(RequestError) as raised:
        params.parse(model, given)
    assert raised.value.code == -32602
    return raised.value.data


@given(st.sampled_from(MODELS), json_values)
def test_any_json_is_taken_or_refused_by_name(model: type[params.Params], given: Any) -> None:
    with contextlib.suppress(RequestError):
        params.parse(model, given)
        return
    found = refused(model, given)
    assert found["details"]
    assert len(found) > 1


@pytest.mark.parametrize(
    ("servers", "expected"),
    [
        (None, []),
        ([], []),
        ({}, []),
        ([{"name": "a", "command": "/x", "args": [], "env": []}], ["a"]),
        ({"a": {"command": "/x"}}, ["a"]),
    ],
)
def test_servers_are_an_array_an_object_or_absent(servers: Any, expected: list[str]) -> None:
    given = {"cwd": "/", "mcpServers": servers}
    assert [server.name for server in params.parse(params.NewParams, given).mcpServers] == expected
    assert params.parse(params.NewParams, {"cwd": "/"}).mcpServers == []


@pytest.mark.parametrize("cwd", ["", ".", "a/b", "~", "C:\\x", "/a\0b", 1, None, ["/"]])
def test_a_folder_that_is_not_absolute_is_named(cwd: Any) -> None:
    assert "cwd" in refused(params.NewParams, {"cwd": cwd})
    given = {"cwd": "/", "additionalDirectories": [cwd]}
    assert "additionalDirectories.0" in refused(params.NewParams, given)


def test_each_missing_field_is_named() -> None:
    assert {"cwd", "sessionId"} <= set(refused(params.OpenParams, None))
    assert {"configId", "value", "sessionId"} <= set(refused(params.ConfigParams, {}))


@pytest.mark.parametrize("given", [[], "x", 1, True])
def test_params_that_are_no_object_are_named(given: Any) -> None:
    assert "params" in refused(params.SessionParams, given)


def test_null_is_absent_where_a_field_is_optional() -> None:
    listed = params.parse(params.ListParams, {"cwd": None, "cursor": None})
    assert (listed.cwd, listed.cursor) == (None, None)
    assert params.parse(params.ListParams, None).cwd is None
    assert (
        params.parse(params.NewParams, {"cwd": "/", "additionalDirectories": None}).additionalDirectories
        == []
    )


def test_unknown_members_are_ignored() -> None:
    assert params.parse(params.SessionParams, {"sessionId": "s", "_meta": {"a": 1}, "x": 2}).sessionId == "s"


@pytest.mark.parametrize("request_id", [1, "1", 1.5, -7])
def test_a_request_may_be_cancelled_by_any_id_and_it_keeps_its_type(request_id: str | float) -> None:
    found = params.parse(params.CancelRequestParams, {"requestId": request_id}).requestId
    assert found == request_id
    assert type(found) is type(request_id)


@pytest.mark.parametrize("request_id", [None, True, [], {}])
def test_what_cannot_be_an_id_cancels_nothing(request_id: Any) -> None:
    assert any(
        key.startswith("requestId") for key in refused(params.CancelRequestParams, {"requestId": request_id})
    )


# Prompts


def prompt(*blocks: Any) -> params.PromptParams:
    return params.parse(params.PromptParams, {"sessionId": "s", "prompt": list(blocks)})


@pytest.mark.parametrize(
    "block",
    [
        TEXT,
        {"type": "resource", "resource": {"uri": "file:///a", "text": "x"}},
        {"type": "resource", "resource": {"uri": "file:///a", "text": "x", "mimeType": "text/plain"}},
        {"type": "resource", "resource": {"uri": "file:///a", "blob": "AA=="}},
        {"type": "resource_link", "uri": "file:///a", "name": "a"},
        {"type": "resource_link", "uri": "file:///a", "name": "a", "title": "A"},
        {"type": "image", "mimeType": "image/png"},
        {"type": "audio", "mimeType": "audio/wav"},
    ],
)
def test_every_kind_of_content_is_taken_as_it_was_sent(block: dict[str, Any]) -> None:
    extra = {**block, "annotations": {"priority": 1}, "_meta": None}
    assert prompt(extra).blocks() == [block]


def test_the_data_of_an_image_is_not_kept() -> None:
    assert prompt({"type": "image", "mimeType": "image/png", "data": "A" * 10_000}).blocks() == [
        {"type": "image", "mimeType": "image/png"}
    ]


def test_twelve_megabytes_of_text_are_taken() -> None:
    text = "x" * 12_000_000
    assert prompt({"type": "text", "text": text}).blocks() == [{"type": "text", "text": text}]


@pytest.mark.parametrize(
    "blocks",
    [
        [],
        [{"type": "text"}],
        [{"type": "text", "text": None}],
        [{"type": "text", "text": ["a"]}],
        [{"type": "video", "uri": "x"}],
        [{"text": "no type"}],
        ["text"],
        [None],
        [TEXT, {"type": "resource", "resource": {"uri": "x"}}],
        [{"type": "resource_link"}],
        "text",
        None,
        {"0": TEXT},
        [{"type": "text", "text": ""}],
        [{"type": "text", "text": " \n\t"}, {"type": "text", "text": ""}],
    ],
)
def test_a_prompt_that_says_nothing_or_is_malformed_is_refused(blocks: Any) -> None:
    found = refused(params.PromptParams, {"sessionId": "s", "prompt": blocks})
    assert any(key.startswith("prompt") for key in found)


def test_an_error_does_not_repeat_megabytes_of_what_was_sent() -> None:
    found = refused(params.PromptParams, {"sessionId": "s", "prompt": [{"type": "x" * 5_000_000}]})
    assert len(str(found)) < 5_000
    many = [{"type": "text"}] * 10_000
    assert len(str(refused(params.PromptParams, {"sessionId": "s", "prompt": many}))) < 10_000


# Folders


def test_a_folder_is_resolved(tmp_path: Path) -> None:
    (tmp_path / "real").mkdir()
    (tmp_path / "link").symlink_to("real")
    assert params.existing_folder(f"{tmp_path}/link/../link", "cwd") == str((tmp_path / "real").resolve())


def test_what_is_no_folder_is_told_apart_from_what_is_not_there(tmp_path: Path) -> None:
    (tmp_path / "file").touch()
    (tmp_path / "dangling").symlink_to("nowhere")
    with pytest.raises(RequestError, match="is not a folder") as raised:
        params.existing_folder(str(tmp_path / "file"), "cwd")
    assert "cwd" in raised.value.data
    for missing in ("missing", "dangling", "file/below", "x" * 5000):
        with pytest.raises(RequestError, match="does not exist"):
            params.existing_folder(str(tmp_path / missing), "cwd")


# Titles


@pytest.mark.parametrize(
    ("text", "title"),
    [
        ("Fix the bug", "Fix the bug"),
        ("\n\n  Fix\tthe   bug  \nand more", "Fix the bug"),
        ("/compact", None),
        ("  /clear now", None),
        ("//not a command", "//not a command"),
        ("   \n ", None),
    ],
)
def test_a_title_is_the_first_line_that_says_something(text: str, title: str | None) -> None:
    assert title_of([{"type": "image"}, {"type": "text", "text": text}]) == title


def test_blank_text_leaves_the_title_to_the_next_block() -> None:
    assert title_of([{"type": "text", "text": " "}, {"type": "text", "text": "go"}]) == "go"
    assert title_of([{"type": "resource_link", "uri": "x", "name": "y"}]) is None


@given(st.text())
def test_a_title_is_one_short_line(text: str) -> None:
    title = title_of([{"type": "text", "text": text}])
    assert title is None or (
        len(title) <= LONGEST and title.strip() == title and len(title.splitlines()) == 1
    )


def test_a_long_title_is_cut_at_a_word() -> None:
    assert title_of([{"type": "text", "text": "word " * 40}]) == "word " * 14 + "word…"
    assert title_of([{"type": "text", "text": "x" * 500}]) == "x" * (LONGEST - 1) + "…"
