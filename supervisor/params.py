"""What clients send, validated: one model a method, in both dialects' shapes."""

from __future__ import annotations

import os
import re
from typing import Annotated, Any, Final, Literal, TypeVar

from pydantic import AfterValidator, BaseModel, ConfigDict, Field, ValidationError, field_validator

from shared.errors import INVALID_PARAMS, RequestError
from shared.mcp_servers import McpServerList


class Params(BaseModel):
    """Unknown members are ignored, as the standard wants it; `_meta` among them."""

    # Built when a method is first called: the first session/new waits for these imports.
    model_config = ConfigDict(frozen=True, extra="ignore", strict=True, defer_build=True)


P = TypeVar("P", bound=Params)
_SNAKE: Final = re.compile(r"(?<=[a-z])_([a-z])")


def _absolute(path: str) -> str:
    if not path.startswith("/") or "\0" in path:
        raise ValueError("must be an absolute path")
    return path


AbsolutePath = Annotated[str, AfterValidator(_absolute)]


class SessionParams(Params):
    """A method on one session."""

    sessionId: str  # noqa: N815


class _Place(Params):
    cwd: AbsolutePath
    additionalDirectories: list[AbsolutePath] = []  # noqa: N815
    mcpServers: McpServerList = []  # noqa: N815

    @field_validator("additionalDirectories", mode="before")
    @classmethod
    def _no_null(cls, directories: Any) -> Any:
        return [] if directories is None else directories


class NewParams(_Place):
    """`session/new`."""


class OpenParams(_Place):
    """`session/load`, `session/resume`, `session/fork`."""

    sessionId: str  # noqa: N815


class ListParams(Params):
    """`session/list` and `sessions/list`; `cwd` is optional, null is absent."""

    cwd: AbsolutePath | None = None
    cursor: str | None = None


class ConfigParams(SessionParams):
    """`session/set_config_option` and `config/set`."""

    configId: str  # noqa: N815
    value: Any


class ModeParams(SessionParams):
    """`session/set_mode`."""

    modeId: str  # noqa: N815


class ModelParams(SessionParams):
    """`session/set_model`."""

    modelId: str  # noqa: N815


class CancelRequestParams(Params):
    """`$/cancel_request`."""

    requestId: str | int | float  # noqa: N815


class _TextBlock(Params):
    type: Literal["text"]
    text: str


class _TextResource(Params):
    uri: str
    text: str
    mimeType: str | None = None  # noqa: N815


class _BlobResource(Params):
    uri: str
    blob: str
    mimeType: str | None = None  # noqa: N815


class _ResourceBlock(Params):
    type: Literal["resource"]
    resource: _TextResource | _BlobResource


class _LinkBlock(Params):
    type: Literal["resource_link"]
    uri: str
    name: str = ""
    title: str | None = None


class _MediaBlock(Params):
    """Only the type of an image or a sound reaches the model; the data is not even kept."""

    type: Literal["image", "audio"]
    mimeType: str | None = None  # noqa: N815


Block = Annotated[_TextBlock | _ResourceBlock | _LinkBlock | _MediaBlock, Field(discriminator="type")]


class PromptParams(SessionParams):
    """`session/prompt`."""

    prompt: Annotated[list[Block], Field(min_length=1)]

    @field_validator("prompt")
    @classmethod
    def _not_blank(cls, blocks: list[Block]) -> list[Block]:
        if all(isinstance(block, _TextBlock) and not block.text.strip() for block in blocks):
            raise ValueError("must hold something: all its text is blank")
        return blocks

    def blocks(self) -> list[dict[str, Any]]:
        """The content blocks as JSON, without what was not sent."""
        return [block.model_dump(exclude_none=True) for block in self.prompt]


def parse(model: type[P], params: Any) -> P:
    """Raises RequestError -32602 whose data names each bad field."""
    try:
        return model.model_validate({} if params is None else _camel_case(params))
    except ValidationError as e:
        raise invalid(e) from None


def _camel_case(params: Any) -> Any:
    """Members by the standard's names: one client in Rust sends some as `session_id`, `config_id`."""
    if not isinstance(params, dict):
        return params
    named = {_SNAKE.sub(lambda found: found[1].upper(), name): name for name in params}
    return {name: params[name if name in params else given] for name, given in named.items()}


def invalid(error: ValidationError) -> RequestError:
    """-32602 with the problem of each field, by its path."""
    fields: dict[str, Any] = {}
    for problem in error.errors(include_url=False, include_input=False)[:20]:
        path = ".".join(str(part) for part in problem["loc"]) or "params"
        # Cut, since some messages repeat what was sent.
        fields.setdefault(path, problem["msg"].removeprefix("Value error, ")[:300])
    told = "; ".join(f"{path}: {message}" for path, message in fields.items())
    return RequestError(INVALID_PARAMS, told, **fields)


def existing_folder(path: str, field: str) -> str:
    """`path` resolved. Raises -32602 if it is not a folder."""
    resolved = os.path.realpath(path)
    if not _is_text(resolved):
        problem = "must have a name in UTF-8, and so must the folders above it"
        raise RequestError(INVALID_PARAMS, f"{field}: {path} {problem}.", **{field: problem})
    if not os.path.isdir(resolved):
        problem = "is not a folder" if os.path.exists(resolved) else "does not exist"
        raise RequestError(INVALID_PARAMS, f"{field}: {path} {problem}.", **{field: problem})
    return resolved


def _is_text(path: str) -> bool:
    """JSON can carry it: a link may lead to a name that is no UTF-8."""
    try:
        path.encode()
    except UnicodeEncodeError:
        return False
    return True
