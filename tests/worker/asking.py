"""The Anthropic model on a double, for its tests."""

from __future__ import annotations

from contextlib import asynccontextmanager
from typing import TYPE_CHECKING, Any

from shared import catalog
from shared.credentials import Credentials
from worker.models.anthropic import AnthropicModel, anthropic_client
from worker.models.base import ModelRequest, Reply, Text
from worker.models.retries import RetryPolicy

if TYPE_CHECKING:
    from collections.abc import AsyncIterator

    from tests.double import Double
    from worker.models.base import StreamItem

QUICK = RetryPolicy(first_delay=0.01)
TOOLS = [
    {"name": name, "description": name, "input_schema": {"type": "object"}} for name in ("read_file", "bash")
]


@asynccontextmanager
async def model(
    double: Double,
    *,
    key: str = "sk-ant-s3cret",
    silence: float = 30,
    policy: RetryPolicy = QUICK,
    base_url: str | None = None,
) -> AsyncIterator[AnthropicModel]:
    client = anthropic_client(Credentials(api_key=key), base_url or double.base_url, silence)
    entry = catalog.load().entry("claude-sonnet-5-5")
    made = AnthropicModel(client, entry, silence=silence, policy=policy, secrets=(key,))
    try:
        yield made
    finally:
        await made.aclose()


def asking(prompt: str, *more: dict[str, Any], **changed: Any) -> ModelRequest:
    messages = [{"role": "user", "content": [{"type": "text", "text": prompt}]}, *more]
    fields: dict[str, Any] = {
        "model": "claude-sonnet-5-5",
        "system": "You are a test.",
        "messages": messages,
        "tools": TOOLS,
        "max_tokens": 8_000,
    }
    return ModelRequest(**(fields | changed))


async def everything(made: AnthropicModel, request: ModelRequest) -> list[StreamItem]:
    return [item async for item in made.stream(request)]


async def whole(made: AnthropicModel, request: ModelRequest) -> Reply:
    items = await everything(made, request)
    assert isinstance(items[-1], Reply)
    return items[-1]


def said(items: list[StreamItem]) -> str:
    return "".join(item.text for item in items if isinstance(item, Text))
