"""The tools: one module of this package for each, found by its `TOOL`; and how a call of one is run.

A call always ends in a `ToolOutput`: whatever a tool raises becomes an error that the model reads.
"""

from __future__ import annotations

import importlib
import logging
import pkgutil
from functools import cache
from types import MappingProxyType
from typing import TYPE_CHECKING, Any, cast

from worker.tools.base import Tool, ToolError, ToolInput, ToolOutput

if TYPE_CHECKING:
    from collections.abc import Mapping

    from pydantic import ValidationError

    from worker.tools.base import ToolContext

__all__ = ["describe_invalid_input", "load_tools", "run_tool", "specs"]

_log = logging.getLogger(__name__)


@cache
def load_tools() -> Mapping[str, Tool[ToolInput]]:
    """Every tool of this package by its name, in the order of the names. Looked for once.

    Raises ImportError for a module that cannot be imported, and ValueError for two tools of one name.
    """
    tools: dict[str, Tool[ToolInput]] = {}
    for module in pkgutil.iter_modules(__path__):
        found = getattr(importlib.import_module(f"{__name__}.{module.name}"), "TOOL", None)
        if found is None:
            continue
        if found.name in tools:
            raise ValueError(f"two tools are named {found.name!r}")
        tools[found.name] = cast("Tool[ToolInput]", found)
    return MappingProxyType(dict(sorted(tools.items())))


def specs(tools: Mapping[str, Tool[ToolInput]]) -> list[dict[str, Any]]:
    """Tool definitions of the Anthropic Messages API, sorted by name: the same bytes each time."""
    return [
        {
            "name": name,
            "description": tool.description,
            "input_schema": tool.schema or _schema(tool.Input),
        }
        for name, tool in sorted(tools.items())
    ]


@cache
def _schema(model: type[ToolInput]) -> dict[str, Any]:
    """Costs 20 ms and 2.3 MB for all tools, so it is made once, before workers are forked."""
    return cast("dict[str, Any]", _without_titles(model.model_json_schema()))


def _without_titles(schema: Any, *, names: bool = False) -> Any:
    """A JSON schema without pydantic's titles, which repeat the names. `names`: the keys are fields."""
    if isinstance(schema, list):
        return [_without_titles(item) for item in schema]
    if not isinstance(schema, dict):
        return schema
    return {
        key: _without_titles(value, names=not names and key in ("properties", "$defs"))
        for key, value in schema.items()
        if names or key != "title"
    }


def describe_invalid_input(name: str, error: ValidationError) -> str:
    """What is wrong with a call's input, a line for each field, for the model."""
    lines = [f"{name} was not run, since its input is invalid:"]
    for problem in error.errors(include_url=False, include_context=False):
        where = ".".join(str(part) for part in problem["loc"]) or "input"
        given = "" if problem["type"] == "missing" else f" (given: {_short(problem['input'])})"
        lines.append(f"- {where}: {problem['msg']}{given}")
    return "\n".join(lines)


def _short(value: Any) -> str:
    text = repr(value)
    return text if len(text) <= 100 else f"{text[:100]}…"


async def run_tool(tool: Tool[ToolInput], args: ToolInput, context: ToolContext) -> ToolOutput:
    """Run one call with its validated input. Raises nothing but cancellation."""
    try:
        output = await tool.run(args, context)
    except ToolError as e:
        return _error(str(e))
    except Exception as e:  # noqa: BLE001 - a tool's fault must not end the turn; the model and the log are told
        _log.exception("The tool %s failed", tool.name)
        return _error(f"{tool.name} failed by a fault of its own: {type(e).__name__}: {e}"[:2000])
    if output.text.isascii():
        return output
    return ToolOutput(_encodable(output.text), output.is_error, output.content, output.raw, output.stamps)


def _error(text: str) -> ToolOutput:
    return ToolOutput(_encodable(text), is_error=True)


def _encodable(text: str) -> str:
    """Text without lone surrogates: neither a line to the client nor a request to the model can hold one."""
    return text.encode("utf-8", "replace").decode()
