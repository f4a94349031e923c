"""MCP servers as clients and the user's settings name them, in the shape of ACP's `McpServer`.

Only describes and validates them. Environment and headers hold secrets: neither is ever written to a log,
to `meta.json` or into an error.
"""

from __future__ import annotations

import re
from typing import Annotated, Any, Final, Literal
from urllib.parse import urlsplit

from pydantic import (
    AfterValidator,
    BaseModel,
    BeforeValidator,
    ConfigDict,
    Discriminator,
    Field,
    Tag,
)

_HEADER_NAME: Final = re.compile(r"[!#$%&'*+.^_`|~0-9A-Za-z-]+")
_HEADER_VALUE: Final = re.compile(r"[\t\x20-\x7e\x80-\xff]*")


def _pairs(pairs: Any) -> Any:
    """ACP's list of `{name, value}`, or an object, as an object; null and absent are none."""
    if pairs is None:
        return {}
    if not isinstance(pairs, list):
        return pairs
    found: dict[str, Any] = {}
    for pair in pairs:
        if not isinstance(pair, dict) or not isinstance(pair.get("name"), str) or "value" not in pair:
            raise ValueError("must be a list of objects with `name` and `value`")
        found[pair["name"]] = pair["value"]
    return found


def _no_nul(text: str) -> str:
    if "\0" in text:
        raise ValueError("must not hold a NUL")
    return text


def _variables(variables: dict[str, str]) -> dict[str, str]:
    for name, value in variables.items():
        if not name or "=" in name or "\0" in name + value:
            raise ValueError(f"{name[:100]!r} cannot be the name of a variable, or its value holds a NUL")
    return variables


def _headers(headers: dict[str, str]) -> dict[str, str]:
    for name, value in headers.items():
        if not _HEADER_NAME.fullmatch(name) or not _HEADER_VALUE.fullmatch(value):
            raise ValueError(f"{name[:100]!r} is not the name of a header, or its value cannot be sent")
    return headers


def _url(url: str) -> str:
    try:
        parts = urlsplit(url)
        usable = parts.scheme in ("http", "https") and bool(parts.hostname) and (parts.port or 1) > 0
    except ValueError:
        usable = False
    if not usable or not url.isprintable() or " " in url:
        raise ValueError("must be an http or https URL")
    return url


_Text = Annotated[str, AfterValidator(_no_nul)]
_Name = Annotated[str, Field(min_length=1, max_length=200)]


class _Server(BaseModel):
    model_config = ConfigDict(frozen=True, extra="ignore", strict=True)


class StdioServer(_Server):
    """A program that speaks MCP on its stdin and stdout. `env` is added to the environment of tools."""

    type: Literal["stdio"] = "stdio"
    name: _Name
    command: Annotated[_Text, Field(min_length=1)]
    args: Annotated[list[_Text], BeforeValidator(lambda args: [] if args is None else args)] = []
    env: Annotated[dict[str, str], BeforeValidator(_pairs), AfterValidator(_variables)] = Field(
        default={}, repr=False
    )


class RemoteServer(_Server):
    """A server behind a URL: `http` is MCP's Streamable HTTP, `sse` the older transport."""

    type: Literal["http", "sse"] = "http"
    name: _Name
    url: Annotated[str, AfterValidator(_url)] = Field(repr=False)
    headers: Annotated[dict[str, str], BeforeValidator(_pairs), AfterValidator(_headers)] = Field(
        default={}, repr=False
    )


def _transport(server: Any) -> str | None:
    """The model of a server: by its `type`, or by its `url` where it has neither type nor command."""
    if isinstance(server, BaseModel):
        return "stdio" if isinstance(server, StdioServer) else "remote"
    if not isinstance(server, dict):
        return None
    match server.get("type"):
        case "http" | "sse":
            return "remote"
        case None:
            return "remote" if "url" in server and "command" not in server else "stdio"
        case "stdio":
            return "stdio"
        case _:
            return None


McpServer = Annotated[
    Annotated[StdioServer, Tag("stdio")] | Annotated[RemoteServer, Tag("remote")],
    Discriminator(
        _transport,
        custom_error_type="mcp_server",
        custom_error_message="must be an MCP server: `name` and `command`, or `type` http or sse and `url`",
    ),
]


def _listed(servers: Any) -> Any:
    """The standard's array; the reference's object keyed by name; absent or null is none."""
    if servers is None:
        return []
    if isinstance(servers, dict):
        return [
            {"name": name, **server} if isinstance(server, dict) else server
            for name, server in servers.items()
        ]
    return servers


McpServerList = Annotated[list[McpServer], BeforeValidator(_listed)]
