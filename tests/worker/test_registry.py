"""Tools are found by being there, described the same each time, and never end a turn by failing."""

from __future__ import annotations

import json
import subprocess
import sys
from typing import TYPE_CHECKING, Any, cast

import anyio
import jsonschema
import pytest
from pydantic import Field, ValidationError

from tests.worker.filing import Session
from worker.tools import describe_invalid_input, load_tools, run_tool, specs
from worker.tools.base import Tool, ToolContext, ToolError, ToolInput, ToolOutput

if TYPE_CHECKING:
    from pathlib import Path

REFERENCE = {
    "read_file": ("read", True, {"path", "start_line", "end_line"}, {"path"}),
    "list_files": ("read", True, {"path", "start_entry"}, set()),
    "write_file": ("edit", False, {"path", "content"}, {"path", "content"}),
    "edit_file": (
        "edit",
        False,
        {"path", "old_string", "new_string", "replace_all"},
        {"path", "old_string", "new_string"},
    ),
}


def test_the_file_tools_have_the_references_inputs() -> None:
    tools = load_tools()
    schemas = {spec["name"]: spec["input_schema"] for spec in specs(tools)}
    for name, (kind, read_only, properties, required) in REFERENCE.items():
        assert (tools[name].kind, tools[name].read_only) == (kind, read_only)
        assert set(schemas[name]["properties"]) == properties
        assert set(schemas[name].get("required", ())) == required


def test_definitions_are_valid_sorted_and_without_noise() -> None:
    found = specs(load_tools())
    assert [spec["name"] for spec in found] == sorted(spec["name"] for spec in found)
    for spec in found:
        assert set(spec) == {"name", "description", "input_schema"}
        assert spec["description"]
        jsonschema.Draft202012Validator.check_schema(spec["input_schema"])
        assert spec["input_schema"]["type"] == "object"
        assert '"title":' not in json.dumps(spec["input_schema"])


def test_definitions_are_the_same_bytes_in_each_process() -> None:
    program = "import json; from worker.tools import *; print(json.dumps(specs(load_tools())))"
    outputs = {
        subprocess.run([sys.executable, "-c", program], check=True, capture_output=True).stdout
        for _ in range(2)
    }
    assert outputs == {json.dumps(specs(load_tools())).encode() + b"\n"}


class NestedInput(ToolInput):
    size: int = Field(ge=1)


class OddInput(ToolInput):
    title: str
    nested: tuple[NestedInput, ...] = ()


class Odd(Tool[OddInput]):
    name = "odd"
    kind = "other"
    description = "A tool that does as it is told."
    Input = OddInput

    async def run(self, args: OddInput, context: ToolContext) -> ToolOutput:
        match args.title:
            case "tool error":
                raise ToolError("the disk is full")
            case "bug":
                raise KeyError("x" * 10_000)
            case "recursion":
                raise RecursionError("too deep")
            case "group":
                raise ExceptionGroup("several", [ValueError("one"), OSError("two")])
            case "surrogate":
                return ToolOutput("a\udcffb")
            case "sleep":
                await anyio.sleep_forever()
        return ToolOutput(args.title)


ODD = cast("Tool[ToolInput]", Odd())


def test_a_field_named_title_stays() -> None:
    schema = specs({"odd": ODD})[0]["input_schema"]
    assert set(schema["properties"]) == {"title", "nested"}
    assert schema["$defs"]["NestedInput"]["properties"] == {"size": {"minimum": 1, "type": "integer"}}


@pytest.mark.parametrize(
    ("raw", "told"),
    [
        ({}, ["- title: Field required"]),
        ({"title": 5}, ["- title:", "given: 5"]),
        ({"title": "a", "nested": [{"size": 0}, {"size": "x"}]}, ["- nested.0.size:", "- nested.1.size:"]),
        ({"title": "a", "more": 1}, ["- more:"]),
        ({"title": ["long"] * 1000}, ["…"]),
    ],
)
def test_each_invalid_field_is_named(raw: dict[str, Any], told: list[str]) -> None:
    with pytest.raises(ValidationError) as caught:
        OddInput.model_validate(raw)
    text = describe_invalid_input("odd", caught.value)
    assert text.startswith("odd was not run")
    for part in told:
        assert part in text
    assert len(text) < 1000


async def run(tmp_path: Path, title: str) -> ToolOutput:
    return await run_tool(ODD, OddInput(title=title), Session(tmp_path).context())


@pytest.mark.anyio
@pytest.mark.parametrize(
    ("title", "told"),
    [
        ("tool error", "the disk is full"),
        ("bug", "odd failed by a fault of its own: KeyError"),
        ("recursion", "RecursionError"),
        ("group", "ExceptionGroup"),
    ],
)
async def test_whatever_a_tool_raises_is_a_result(tmp_path: Path, title: str, told: str) -> None:
    output = await run(tmp_path, title)
    assert output.is_error
    assert told in output.text
    assert len(output.text) <= 2000


@pytest.mark.anyio
async def test_a_result_can_always_be_encoded(tmp_path: Path) -> None:
    assert (await run(tmp_path, "surrogate")).text == "a?b"


@pytest.mark.anyio
async def test_a_cancel_is_no_result(tmp_path: Path) -> None:
    with anyio.move_on_after(0.05) as scope:
        await run(tmp_path, "sleep")
    assert scope.cancelled_caught
