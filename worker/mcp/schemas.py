"""Input schemas of servers' tools, made such that the model's API takes them. Pure.

One schema that the API refuses fails every request of the session, so what is doubtful is not passed on
as a schema: the model then gets it as text, and the server itself judges the input.
"""

from __future__ import annotations

import json
import re
from typing import Any, Final

from jsonschema import Draft202012Validator
from jsonschema.exceptions import SchemaError

_LARGEST: Final = 64 * 1024
_LONGEST_DESCRIPTION: Final = 4_000
_PROPERTY: Final = re.compile(r"[a-zA-Z0-9_.-]{1,64}")
"""What the Messages API takes as the name of a property."""
_COMBINATIONS: Final = ("oneOf", "anyOf", "allOf")
"""What it refuses at the top of a schema."""


def offered(description: str, schema: Any) -> tuple[str, dict[str, Any]]:
    """The description and the input schema to offer a tool with."""
    text = _as_json(schema)
    usable = schema if text is not None and isinstance(schema, dict) and _is_usable(schema) else None
    if usable is not None:
        return description[:_LONGEST_DESCRIPTION], {k: v for k, v in usable.items() if k != "$schema"}
    if text is not None and text != "{}":
        description += f"\n\nIts input, as a JSON schema: {text}"
    return description[:_LONGEST_DESCRIPTION], {"type": "object", "properties": {}}


def _as_json(schema: Any) -> str | None:
    """None for what is too large or no JSON that can be sent (a lone surrogate, NaN)."""
    try:
        text = json.dumps(schema, ensure_ascii=False, allow_nan=False)
        return text if len(text.encode()) <= _LARGEST else None
    except (ValueError, TypeError, RecursionError):
        return None


def _is_usable(schema: dict[str, Any]) -> bool:
    properties = schema.get("properties", {})
    if schema.get("type") != "object" or any(word in schema for word in _COMBINATIONS):
        return False
    if not isinstance(properties, dict) or not all(_PROPERTY.fullmatch(name) for name in properties):
        return False
    try:
        Draft202012Validator.check_schema(schema)
    except (SchemaError, RecursionError):
        return False
    return True
