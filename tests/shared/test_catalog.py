"""Which models are offered, and which one a session gets."""

from __future__ import annotations

import subprocess
import sys
from typing import TYPE_CHECKING, Any, get_args

import pytest
from anthropic.types.model import Model

from shared import catalog
from shared.credentials import Credentials, save_login

if TYPE_CHECKING:
    from pathlib import Path


def test_every_listed_model_is_one_of_the_installed_sdk() -> None:
    known = {name for part in get_args(Model) for name in get_args(part)}
    listed = {entry.wire_id for entry in catalog.load().entries if entry.provider == "anthropic"}
    assert listed
    assert listed <= known


def test_the_default_is_a_listed_sonnet_and_offline_is_always_there() -> None:
    built_in = catalog.load()
    assert "sonnet" in built_in.default
    assert built_in.default in built_in
    assert built_in.entry(catalog.OFFLINE).provider == "offline"


def test_the_front_can_read_the_catalog_without_the_sdk() -> None:
    script = "import sys; from shared import catalog; catalog.load(); print('anthropic' in sys.modules)"
    done = subprocess.run([sys.executable, "-c", script], capture_output=True, text=True, check=True)
    assert done.stdout.strip() == "False"


def test_settings_add_a_model_and_change_fields_of_a_listed_one() -> None:
    made = catalog.load(
        [
            {"id": "llama-local", "name": "Llama", "window": 8_000},
            {"id": "claude-opus-5-5", "window": 500_000},
        ]
    )
    assert made.entry("llama-local").window == 8_000
    assert made.entry("claude-opus-5-5").window == 500_000
    assert made.entry("claude-opus-5-5").thinking
    assert made.entries[-1].id == "llama-local"


@pytest.mark.parametrize(
    "broken",
    [
        "claude",
        {"name": "no id"},
        {"id": "a", "window": "wide"},
        {"id": "a", "windw": 5},
        {"id": "a b"},
        {"id": "a", "price": {"input": -1, "output": 1, "cache_read": 0, "cache_write": 0}},
    ],
)
def test_a_broken_entry_of_the_settings_is_named(broken: Any) -> None:
    with pytest.raises(catalog.CatalogError, match=r"model|`models`"):
        catalog.load([broken])


def test_an_unknown_chosen_id_becomes_a_model_of_the_api() -> None:
    made = catalog.load(chosen="my-gateway-model")
    assert "my-gateway-model" in made
    assert made.entry("my-gateway-model").provider == "anthropic"
    assert not made.entry("my-gateway-model").thinking


@pytest.mark.parametrize(
    ("model_id", "provider", "wire_id"),
    [
        ("claude-sonnet-5-5-20260928", "anthropic", "claude-sonnet-5-5-20260928"),
        ("bedrock/us.anthropic.claude-sonnet-5-5-v1:0", "bedrock", "us.anthropic.claude-sonnet-5-5-v1:0"),
        ("vertex/claude-sonnet-5-5", "vertex", "claude-sonnet-5-5"),
    ],
)
def test_a_relative_of_a_listed_model_has_its_limits(model_id: str, provider: str, wire_id: str) -> None:
    entry = catalog.load().entry(model_id)
    listed = catalog.load().entry("claude-sonnet-5-5")
    assert (entry.provider, entry.wire_id) == (provider, wire_id)
    assert (entry.window, entry.thinking_off) == (listed.window, listed.thinking_off)
    assert entry.price is None  # a cloud has prices of its own


def test_the_model_of_the_environment_wins_over_everything(tmp_path: Path) -> None:
    environ = {"IAC_CODE_MODEL": "mine", "ANTHROPIC_API_KEY": "k"}
    assert catalog.default_model(environ, tmp_path, "configured") == "mine"
    assert catalog.default_model({}, tmp_path, "configured") == "configured"


def test_without_credentials_a_session_is_offline_and_with_them_it_has_the_default(tmp_path: Path) -> None:
    assert catalog.default_model({}, tmp_path) == catalog.OFFLINE
    assert catalog.default_model({"ANTHROPIC_API_KEY": " "}, tmp_path) == catalog.OFFLINE
    assert catalog.default_model({"ANTHROPIC_AUTH_TOKEN": "t"}, tmp_path) == catalog.load().default
    save_login(tmp_path, Credentials(api_key="k"))
    assert catalog.default_model({}, tmp_path) == catalog.load().default


def test_a_request_costs_what_its_tokens_cost() -> None:
    price = catalog.Price(input=2, output=10, cache_read=0.1, cache_write=2.5)
    assert price.cost(1_000_000, 100_000) == pytest.approx(3.0)
    assert price.cost(1_000_000, 0, cache_read=900_000, cache_write=100_000) == pytest.approx(0.34)


def test_a_long_prompt_costs_more_where_the_model_says_so() -> None:
    price = catalog.Price(input=1, output=1, cache_read=0, cache_write=1, long_above=100_000, long_factor=5)
    assert price.cost(100_000, 0) == pytest.approx(0.1)
    assert price.cost(100_001, 0) == pytest.approx(0.500005)
