"""Modes, models and configOptions say the same, and what is no option or value is told what is."""

from __future__ import annotations

from typing import Any

import pytest

from shared import catalog
from shared.errors import RequestError
from supervisor import options

CATALOG = catalog.load()
DEFAULTS = options.defaults("offline")


@pytest.mark.parametrize("mode", options.MODES)
@pytest.mark.parametrize("thinking", options.THINKING)
@pytest.mark.parametrize("model", ["offline", CATALOG.default, "some-model-of-tomorrow"])
def test_modes_models_and_config_options_agree(mode: str, thinking: str, model: str) -> None:
    fields = options.session_fields(CATALOG, {"mode": mode, "model": model, "thinking": thinking}, bare=False)
    by_id = {option["id"]: option for option in fields["configOptions"]}
    assert by_id["mode"]["currentValue"] == fields["modes"]["currentModeId"] == mode
    assert by_id["model"]["currentValue"] == fields["models"]["currentModelId"] == model
    assert by_id["thinking"]["currentValue"] == thinking
    listed = [entry["value"] for entry in by_id["mode"]["options"]]
    assert listed == [entry["id"] for entry in fields["modes"]["availableModes"]]
    listed = [entry["value"] for entry in by_id["model"]["options"]]
    assert listed == [entry["modelId"] for entry in fields["models"]["availableModels"]]
    for option in fields["configOptions"]:
        assert option["currentValue"] in [entry["value"] for entry in option["options"]]


def test_the_bare_standard_has_no_models() -> None:
    assert set(options.session_fields(CATALOG, DEFAULTS, bare=True)) == {"modes", "configOptions"}


def test_categories_are_the_standards() -> None:
    found = {option["id"]: option["category"] for option in options.config_options(CATALOG, DEFAULTS)}
    assert found == {"mode": "mode", "model": "model", "thinking": "thought_level"}


@pytest.mark.parametrize(
    ("option", "value"),
    [("mode", mode) for mode in options.MODES]
    + [("thinking", level) for level in options.THINKING]
    + [("model", entry.id) for entry in CATALOG.entries],
)
def test_what_is_listed_can_be_set(option: str, value: str) -> None:
    assert options.validated(CATALOG, option, value) == value


@pytest.mark.parametrize("value", ["", "DEFAULT", "ask", 1, None, True, ["default"], {"a": 1}, "x" * 10_000])
def test_a_value_that_is_none_is_told_what_is_allowed(value: Any) -> None:
    for option in options.OPTION_IDS:
        with pytest.raises(RequestError) as raised:
            options.validated(CATALOG, option, value)
        assert raised.value.code == -32602
        details = raised.value.data["details"]
        assert option in details
        assert len(details) < 3000
    for name in options.MODES:
        with pytest.raises(RequestError, match=name):
            options.validated(CATALOG, "mode", value)


@pytest.mark.parametrize("option", ["", "Mode", "temperature", "__class__"])
def test_an_option_that_is_none_is_told_the_options(option: str) -> None:
    with pytest.raises(RequestError) as raised:
        options.validated(CATALOG, option, "default")
    assert all(name in raised.value.data["configId"] for name in options.OPTION_IDS)


@pytest.mark.parametrize(
    ("stored", "expected"),
    [
        ({}, DEFAULTS),
        ({"mode": "plan"}, {**DEFAULTS, "mode": "plan"}),
        ({"mode": "yolo", "thinking": "huge"}, DEFAULTS),
        ({"model": "claude-of-yesterday"}, {**DEFAULTS, "model": "claude-of-yesterday"}),
        ({"colour": "red"}, DEFAULTS),
    ],
)
def test_stored_options_are_completed_and_mended(stored: dict[str, str], expected: dict[str, str]) -> None:
    assert options.complete(stored, "offline") == expected
